//! `single_row(value, rows)`: the value of a scalar subquery, or an error if it has more than one row.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the value, or the error.
pub(crate) fn single_row(value: Expr, rows: Expr) -> Expr {
    function().call(vec![value, rows])
}

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(SingleRow { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), args.arg_fields[0].data_type().clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let several = match &args.args[1] {
            ColumnarValue::Scalar(ScalarValue::Int64(rows)) => rows.is_some_and(|rows| rows > 1),
            ColumnarValue::Scalar(_) => false,
            ColumnarValue::Array(rows) => rows
                .as_primitive_opt::<Int64Type>()
                .is_some_and(|rows| rows.iter().flatten().any(|rows| rows > 1)),
        };
        if several {
            return exec_err!("Scalar subquery returned more than one row");
        }
        Ok(args.args[0].clone())
    }
}
