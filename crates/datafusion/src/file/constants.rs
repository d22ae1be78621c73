//! Columns that are constant throughout a file, which need not be read.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

/// Columns that have one value throughout the file, by exact statistics.
pub(crate) fn constant_columns<'a>(
    statistics: &'a Statistics,
    schema: &'a Schema,
) -> impl Iterator<Item = (String, ScalarValue)> + 'a {
    let rows = match statistics.num_rows {
        Precision::Exact(rows) => Some(rows),
        _ => None,
    };
    schema.fields().iter().zip(&statistics.column_statistics).filter_map(move |(field, column)| {
        Some((field.name().clone(), constant_value(column, rows, field.data_type())?))
    })
}

fn constant_value(
    column: &ColumnStatistics,
    rows: Option<usize>,
    data_type: &DataType,
) -> Option<ScalarValue> {
    let Precision::Exact(nulls) = column.null_count else { return None };
    if let (Precision::Exact(min), Precision::Exact(max)) = (&column.min_value, &column.max_value)
        && min == max
        && !min.is_null()
        && nulls == 0
    {
        return if min.data_type() == *data_type { Some(min.clone()) } else { min.cast_to(data_type).ok() };
    }
    if rows == Some(nulls) { ScalarValue::try_new_null(data_type).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(min: i32, max: i32, nulls: Precision<usize>) -> ColumnStatistics {
        let exact = |value| Precision::Exact(ScalarValue::Int32(Some(value)));
        ColumnStatistics {
            min_value: exact(min),
            max_value: exact(max),
            null_count: nulls,
            ..Default::default()
        }
    }

    #[test]
    fn one_value_and_no_null_is_a_constant() {
        let value = constant_value(&column(7, 7, Precision::Exact(0)), Some(10), &DataType::Int64);
        assert_eq!(value, Some(ScalarValue::Int64(Some(7))));
        assert_eq!(constant_value(&column(7, 7, Precision::Exact(1)), Some(10), &DataType::Int32), None);
        assert_eq!(constant_value(&column(7, 8, Precision::Exact(0)), Some(10), &DataType::Int32), None);
        assert_eq!(constant_value(&column(7, 7, Precision::Absent), Some(10), &DataType::Int32), None);
    }

    #[test]
    fn nothing_but_nulls_is_a_constant() {
        let value = constant_value(&column(0, 1, Precision::Exact(10)), Some(10), &DataType::Int32);
        assert_eq!(value, Some(ScalarValue::Int32(None)));
    }
}
