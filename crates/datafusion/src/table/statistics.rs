//! Statistics of a file in the types of its table.
//!
//! DataFusion 55 makes them directly in the table's types. If the file has another type, their bounds become
//! NULL, marked as exact.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::widened::exactly;

/// Returns the table's columns with their types in the file.
pub(crate) fn in_types_of_file(table: &SchemaRef, file: &Schema) -> SchemaRef {
    let differs = |at: usize, column: &Field| {
        let in_place = file.fields().get(at).filter(|own| own.name() == column.name());
        let own = in_place.or_else(|| file.fields().find(column.name()).map(|(_, own)| own));
        own.filter(|own| own.data_type() != column.data_type()).map(|own| own.data_type().clone())
    };
    let other_types = table.fields().iter().enumerate();
    let other_types: Vec<Option<DataType>> = other_types.map(|(at, column)| differs(at, column)).collect();
    if other_types.iter().all(Option::is_none) {
        return Arc::clone(table);
    }
    let columns = table.fields().iter().zip(other_types);
    let columns = columns.map(|(column, other)| match other {
        Some(other) => Arc::new(column.as_ref().clone().with_data_type(other)),
        None => Arc::clone(column),
    });
    Arc::new(Schema::new_with_metadata(columns.collect::<Vec<_>>(), table.metadata().clone()))
}

/// Converts statistics from the types of `file` to those of `table`.
pub(crate) fn in_types_of(table: &Schema, file: &Schema, mut statistics: Statistics) -> Statistics {
    let types = table.fields().iter().zip(file.fields());
    for (column, (to, from)) in statistics.column_statistics.iter_mut().zip(types) {
        if to.data_type() != from.data_type() {
            converted(column, to.data_type());
        }
    }
    statistics
}

/// Converts the bounds. Casts preserve the order of values, so bounds before a cast become bounds of its
/// result.
fn converted(column: &mut ColumnStatistics, to: &DataType) {
    for bound in [&mut column.min_value, &mut column.max_value] {
        *bound = match &*bound {
            Precision::Exact(value) => exact_bound(value, to).map_or(Precision::Absent, Precision::Exact),
            Precision::Inexact(value) => exact_bound(value, to).map_or(Precision::Absent, Precision::Inexact),
            Precision::Absent => Precision::Absent,
        };
    }
    column.sum_value = Precision::Absent;
    column.byte_size = column.byte_size.to_inexact();
}

fn exact_bound(value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    if to.is_nested() {
        return None;
    }
    match to {
        // Rounded as the values are.
        DataType::Float16 | DataType::Float32 | DataType::Float64 if value.data_type().is_decimal() => {
            value.cast_to(to).ok().filter(|value| !value.is_null())
        }
        _ => exactly(value, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(
        min: ScalarValue,
        max: ScalarValue,
        to: &DataType,
    ) -> (Precision<ScalarValue>, Precision<ScalarValue>) {
        let mut column = ColumnStatistics::new_unknown();
        column.min_value = Precision::Exact(min);
        column.max_value = Precision::Inexact(max);
        converted(&mut column, to);
        (column.min_value, column.max_value)
    }

    #[test]
    fn bounds_have_the_type_of_the_table() {
        let (min, max) =
            bounds(ScalarValue::Int32(Some(-3)), ScalarValue::Int32(Some(7)), &DataType::Float64);
        assert_eq!(min, Precision::Exact(ScalarValue::Float64(Some(-3.0))));
        assert_eq!(max, Precision::Inexact(ScalarValue::Float64(Some(7.0))));
    }

    #[test]
    fn bounds_that_cannot_be_known_are_absent() {
        let big = ScalarValue::Int64(Some((1 << 53) + 1));
        let (min, max) = bounds(ScalarValue::Int64(None), big, &DataType::Float64);
        assert_eq!((min, max), (Precision::Absent, Precision::Absent));
    }
}
