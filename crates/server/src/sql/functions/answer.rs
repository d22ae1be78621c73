//! Functions with a constant result.

use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, TypeSignature, Volatility};
use datafusion::scalar::ScalarValue;

use super::declared::holding;

/// A function with a constant result, for any number of arguments of any type.
pub(super) fn udf(name: &str, value: ScalarValue) -> ScalarUDF {
    holding(name, anything(), value.data_type(), move |_| Ok(ColumnarValue::Scalar(value.clone())))
}

/// Any number of arguments of any type.
pub(super) fn anything() -> Signature {
    Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable)
}
