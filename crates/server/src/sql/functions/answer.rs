//! Functions that answer the same whatever they are asked.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// A function with one answer, for any number of arguments of any type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Answer {
    name: String,
    value: ScalarValue,
    signature: Signature,
}

impl Answer {
    pub(super) fn udf(name: &str, value: ScalarValue) -> ScalarUDF {
        ScalarUDF::from(Answer { name: name.to_owned(), value, signature: anything() })
    }
}

/// Any number of arguments of any type.
pub(super) fn anything() -> Signature {
    Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable)
}

impl ScalarUDFImpl for Answer {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
