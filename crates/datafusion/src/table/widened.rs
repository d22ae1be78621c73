//! Columns of a file in the wider type that they have in the table.
//!
//! DataFusion casts them, which is right for most types. It is wrong in three cases. A cast may round, as
//! from integers to floats. Its rewriting of comparisons may drop digits of a constant: for times in
//! different units, DataFusion 55 takes `CAST(ms AS us) = 12.0005 s` for `ms = 12.000 s`. And it lacks casts
//! between structs without a common child, maps of structs, and lists of different kinds.
//!
//! These columns become a [`Widened`], which converts each value or fails. Comparisons with constants that
//! the file's own type has are moved to that type, so that statistics can answer them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray, new_null_array,
};
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use super::intervals;

/// A failed conversion is an error.
const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: datafusion::common::format::DEFAULT_FORMAT_OPTIONS };

/// A column of a file, converted to its type in the table.
#[derive(Clone, Debug)]
pub(crate) struct Widened {
    column: Arc<dyn PhysicalExpr>,
    target: FieldRef,
    /// The files of the column's types, for messages, if values that the target rounds are an error.
    checked: Option<Arc<str>>,
}

impl Widened {
    pub(crate) fn new(column: Arc<dyn PhysicalExpr>, target: FieldRef, checked: Option<Arc<str>>) -> Self {
        Widened { column, target, checked }
    }

    fn converted(&self, array: &ArrayRef) -> Result<ArrayRef> {
        converted(array, self.target.data_type(), self.checked.is_some()).map_err(|error| {
            let (name, target) = (self.target.name(), self.target.data_type());
            let origin = self.checked.as_deref().map_or_else(String::new, |types| format!(" ({types})"));
            DataFusionError::Execution(format!(
                "column {name} cannot be {target}{origin}: {error}. Declare the column in CREATE EXTERNAL TABLE with a type that \
                 holds the values of all files"
            ))
        })
    }
}

impl PartialEq for Widened {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.target == other.target && self.checked == other.checked
    }
}

impl Eq for Widened {}

impl Hash for Widened {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.target.hash(state);
    }
}

impl fmt::Display for Widened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WIDEN({} AS {})", self.column, self.target.data_type())
    }
}

impl PhysicalExpr for Widened {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.target.data_type().clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(self.target.is_nullable())
    }

    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.target))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.column.evaluate(batch)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.converted(&array)?),
            ColumnarValue::Scalar(value) => {
                let array = self.converted(&value.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.pop().unwrap_or_else(|| Arc::clone(&self.column));
        Ok(Arc::new(Widened { column, ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns whether the conversion of a column from one type to the other needs a [`Widened`].
pub(crate) fn needs_care(from: &DataType, to: &DataType, checked: bool) -> bool {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, Struct, Timestamp};
    if from == to {
        return false;
    }
    match (from, to) {
        (Timestamp(a, _), Timestamp(b, _)) => a != b,
        (Struct(from), Struct(to)) => {
            let child = |of: &FieldRef| {
                let own = from.find(of.name());
                own.is_some_and(|(_, own)| needs_care(own.data_type(), of.data_type(), checked))
            };
            !to.iter().any(|of| from.find(of.name()).is_some()) || to.iter().any(child)
        }
        (List(from), List(to)) | (LargeList(from), LargeList(to)) => {
            needs_care(from.data_type(), to.data_type(), checked)
        }
        (Map(..), Map(..)) => true,
        (List(_) | LargeList(_) | FixedSizeList(..), List(_) | LargeList(_) | FixedSizeList(..)) => true,
        (Dictionary(_, from), to) => needs_care(from, to, checked),
        (from, Dictionary(_, to)) => needs_care(from, to, checked),
        (from, to) if *from == intervals::STORED && *to == intervals::SHOWN => true,
        (from, to) => checked && rounds(from, to),
    }
}

/// Returns whether the second type lacks values of the first.
fn rounds(from: &DataType, to: &DataType) -> bool {
    let bits = |of: &DataType| of.primitive_width().unwrap_or(usize::MAX) * 8;
    let exact_bits = match to {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        DataType::Float64 => 53,
        _ => return false,
    };
    from.is_integer() && bits(from) > exact_bits
}

/// Converts the array to another type, each value unchanged. With `checked`, rounded numbers are an error.
fn converted(array: &ArrayRef, to: &DataType, checked: bool) -> Result<ArrayRef, ArrowError> {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    match (from, to) {
        (Struct(_), Struct(fields)) => {
            let array = array.as_struct();
            let columns = children(array, fields, checked)?;
            let converted = StructArray::try_new_with_length(
                fields.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            );
            Ok(Arc::new(converted?))
        }
        (List(_), List(item)) => list::<i32>(array, item, checked),
        (LargeList(_), LargeList(item)) => list::<i64>(array, item, checked),
        (FixedSizeList(_, own), FixedSizeList(item, length)) if own == length => {
            let array = array.as_fixed_size_list();
            let values = converted(array.values(), item.data_type(), checked)?;
            let nulls = array.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *length, values, nulls)?))
        }
        // First another kind of list, then other items.
        (List(item) | FixedSizeList(item, _), LargeList(_)) => {
            converted(&cast_with_options(array, &LargeList(Arc::clone(item)), &STRICT)?, to, checked)
        }
        (FixedSizeList(item, _), List(_)) => {
            converted(&cast_with_options(array, &List(Arc::clone(item)), &STRICT)?, to, checked)
        }
        (Map(..), Map(entry, sorted)) => map(array.as_map(), entry, *sorted, checked),
        _ => leaf(array, to, checked),
    }
}

fn children(array: &StructArray, fields: &Fields, checked: bool) -> Result<Vec<ArrayRef>, ArrowError> {
    let child = |field: &FieldRef| match array.column_by_name(field.name()) {
        Some(own) => converted(own, field.data_type(), checked),
        None => Ok(new_null_array(field.data_type(), array.len())),
    };
    fields.iter().map(child).collect()
}

fn list<O: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &FieldRef,
    checked: bool,
) -> Result<ArrayRef, ArrowError> {
    let array = array.as_list::<O>();
    let values = converted(array.values(), item.data_type(), checked)?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// Keys and values of maps are identified by position, because files name them arbitrarily.
fn map(array: &MapArray, entry: &FieldRef, sorted: bool, checked: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entry.data_type() else {
        return Err(ArrowError::SchemaError(format!("the entries of a map are {}", entry.data_type())));
    };
    let entries = array.entries();
    let columns = entries.columns().iter().zip(fields);
    let columns = columns.map(|(own, field)| converted(own, field.data_type(), checked));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let entries = StructArray::try_new(fields.clone(), columns, entries.nulls().cloned())?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(Arc::new(MapArray::try_new(Arc::clone(entry), offsets, entries, nulls, sorted)?))
}

fn leaf(array: &ArrayRef, to: &DataType, checked: bool) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    if *from == intervals::STORED && *to == intervals::SHOWN {
        return intervals::converted(array);
    }
    let converted = cast_with_options(array, to, &STRICT)?;
    if checked && rounds(from, to) {
        let back = CastOptions { safe: true, ..STRICT };
        let back = cast_with_options(&converted, from, &back)?;
        let changed: BooleanArray = distinct(array, &back)?;
        if let Some(at) = (0..changed.len()).find(|&at| changed.value(at)) {
            let value = ScalarValue::try_from_array(array, at)
                .map_or_else(|_| "a value".to_owned(), |v| v.to_string());
            return Err(ArrowError::CastError(format!("{value} would be rounded")));
        }
    }
    Ok(converted)
}

/// Returns the constant in the type of a file's column, if that has it.
pub(crate) fn exactly(constant: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    if constant.is_null() {
        return None;
    }
    let in_file = constant.cast_to(to).ok().filter(|value| !value.is_null())?;
    let back = in_file.cast_to(&constant.data_type()).ok()?;
    (&back == constant).then_some(in_file)
}
