//! Arguments of functions and operators: their types while they are planned, and their values when they run. Values
//! are one per row, or one for all rows.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int64Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{ColumnarValue, Expr};

/// Returns whether this is a parameter without a type.
pub(super) fn is_untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(parameter) if type_of(parameter).is_none())
}

/// The type of a parameter. The query engine gives elements of lists the type of NULL.
pub(super) fn type_of(parameter: &Placeholder) -> Option<&DataType> {
    parameter.field.as_ref().map(|field| field.data_type()).filter(|of| !of.is_null())
}

/// The argument. A parameter of unknown type gets this type.
pub(super) fn bound(argument: &Expr, to: DataType) -> Expr {
    match argument {
        Expr::Placeholder(Placeholder { id, .. }) if is_untyped(argument) => {
            let field = Arc::new(Field::new("", to, true));
            Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(field)))
        }
        argument => argument.clone(),
    }
}

/// Texts, one per row or one for all rows.
pub(super) struct Texts(StringViewArray);

impl Texts {
    pub(super) fn of(arg: &ColumnarValue) -> Result<Self> {
        Ok(Texts(cast(&arg.clone().into_array(1)?, &DataType::Utf8View)?.as_string_view().clone()))
    }

    pub(super) fn get(&self, row: usize) -> Option<&str> {
        let row = if self.0.len() == 1 { 0 } else { row };
        (row < self.0.len() && self.0.is_valid(row)).then(|| self.0.value(row))
    }

    pub(super) fn length(&self, row: usize) -> usize {
        self.get(row).map_or(0, str::len)
    }

    pub(super) fn is_ascii(&self) -> bool {
        self.0.is_ascii()
    }
}

/// Numbers, one per row or one for all rows. Times have their stored numbers.
pub(super) struct Numbers(Int64Array);

impl From<Int64Array> for Numbers {
    fn from(numbers: Int64Array) -> Self {
        Numbers(numbers)
    }
}

impl Numbers {
    pub(super) fn of(arg: &ColumnarValue) -> Result<Self> {
        Ok(Numbers(cast(&arg.clone().into_array(1)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone()))
    }

    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let row = if self.0.len() == 1 { 0 } else { row };
        (row < self.0.len() && self.0.is_valid(row)).then(|| self.0.value(row))
    }

    pub(super) fn count(&self, row: usize) -> usize {
        usize::try_from(self.get(row).unwrap_or(0)).unwrap_or(0)
    }
}
