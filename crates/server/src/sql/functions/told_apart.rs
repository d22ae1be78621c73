//! `told_apart(value, name)` is the value. Its column has another name than that of the value.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub(crate) const TOLD_APART: &str = "told_apart";

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::from(ToldApart(Signature::any(2, Volatility::Immutable)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToldApart(Signature);

impl ScalarUDFImpl for ToldApart {
    fn name(&self) -> &str {
        TOLD_APART
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the field of the result is known")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
