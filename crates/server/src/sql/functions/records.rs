//! Functions of whole rows. A statement has them until it is planned; then they become expressions over columns.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;

use super::declared::Function;

/// The row as a record.
pub(crate) const WHOLE_ROW: &str = "whole_row";
/// Whether all values of the row are NULL, and whether none is.
pub(crate) const ROW_IS_NULL: &str = "whole_row_is_null";
pub(crate) const ROW_IS_NOT_NULL: &str = "whole_row_is_not_null";

fn all(types: &[DataType]) -> Result<Vec<DataType>> {
    Ok(types.to_vec())
}

fn no_value(_: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    internal_err!("a whole row remains in a plan")
}

pub(super) fn register(context: &SessionContext) {
    let function = |name, gives| Function { name, takes: all, gives, compute: no_value };
    let of_rows: fn(&[DataType]) -> DataType = |types| types.first().cloned().unwrap_or(DataType::Null);
    for (name, gives) in
        [(WHOLE_ROW, of_rows), (ROW_IS_NULL, |_| DataType::Boolean), (ROW_IS_NOT_NULL, |_| DataType::Boolean)]
    {
        context.register_udf(function(name, gives).immutable());
    }
}
