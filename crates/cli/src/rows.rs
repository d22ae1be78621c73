//! Query results as rows of JSON values, for workload results and comparisons.
//!
//! Integers and floats become numbers, decimals exact text, and null null. Every other value becomes the text that
//! Arrow prints (dates as 1998-09-02). Types are not included.

use arrow::array::RecordBatch;
use arrow::array::cast::AsArray;
use arrow::array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;

/// A row in the order of the SELECT list.
pub type Row = Vec<Value>;

/// The rows of `batches`.
pub fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>, ArrowError> {
    let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let first = rows.len();
        rows.extend((0..batch.num_rows()).map(|_| Row::with_capacity(batch.num_columns())));
        for column in batch.columns() {
            let value = reader(column)?;
            for (at, row) in rows[first..].iter_mut().enumerate() {
                row.push(if column.is_null(at) { Value::Null } else { value(at)? });
            }
        }
    }
    Ok(rows)
}

type Reader<'a> = Box<dyn Fn(usize) -> Result<Value, ArrowError> + 'a>;

/// Returns a reader of the column's non-null cells.
fn reader(column: &dyn arrow::array::Array) -> Result<Reader<'_>, ArrowError> {
    Ok(match column.data_type() {
        DataType::Boolean => {
            let column = column.as_boolean();
            Box::new(|at| Ok(Value::Bool(column.value(at))))
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            let wide = cast(column, &DataType::UInt64)?;
            Box::new(move |at| Ok(wide.as_primitive::<UInt64Type>().value(at).into()))
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let wide = cast(column, &DataType::Int64)?;
            Box::new(move |at| Ok(wide.as_primitive::<Int64Type>().value(at).into()))
        }
        DataType::Float32 => {
            let column = column.as_primitive::<Float32Type>();
            Box::new(|at| Ok(float(f64::from(column.value(at)))))
        }
        DataType::Float64 => {
            let column = column.as_primitive::<Float64Type>();
            Box::new(|at| Ok(float(column.value(at))))
        }
        _ => {
            let text = ArrayFormatter::try_new(column, &FormatOptions::default().with_display_error(false))?;
            Box::new(move |at| Ok(Value::String(text.value(at).try_to_string()?)))
        }
    })
}

/// JSON has no infinities and no NaN; they become text.
fn float(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

/// The first difference of two results as text. `None` if they are equal. Floats may differ in the last digits,
/// because sums in another order round differently.
pub fn difference(left: &[Row], right: &[Row]) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} rows against {}", left.len(), right.len()));
    }
    for (number, (a, b)) in left.iter().zip(right).enumerate() {
        if a.len() != b.len() {
            return Some(format!("{} columns against {}", a.len(), b.len()));
        }
        if let Some(at) = a.iter().zip(b).position(|(x, y)| !same(x, y)) {
            return Some(format!("row {}, column {}: {} against {}", number + 1, at + 1, a[at], b[at]));
        }
    }
    None
}

const FLOAT_TOLERANCE: f64 = 1e-9;

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() && y.is_f64() => {
            let (x, y) = (x.as_f64().unwrap_or(f64::NAN), y.as_f64().unwrap_or(f64::NAN));
            (x - y).abs() <= FLOAT_TOLERANCE * x.abs().max(y.abs())
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, StringArray};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn cells_become_the_json_the_contract_names() {
        let decimals =
            Decimal128Array::from(vec![Some(3_773_410_700)]).with_precision_and_scale(15, 2).unwrap();
        let columns: [(&str, ArrayRef); 6] = [
            ("flag", Arc::new(StringArray::from(vec!["A"]))),
            ("sum", Arc::new(decimals)),
            ("count", Arc::new(Int32Array::from(vec![1478493]))),
            ("date", Arc::new(Date32Array::from(vec![10471]))),
            ("none", Arc::new(Int32Array::from(vec![None]))),
            ("nan", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap();
        let rows = rows_of(&[batch]).unwrap();
        assert_eq!(
            rows,
            [vec![
                json!("A"),
                json!("37734107.00"),
                json!(1478493),
                json!("1998-09-02"),
                json!(null),
                json!("NaN")
            ]]
        );
    }

    #[test]
    fn differences_are_named_and_rounding_is_none() {
        let row = |a: f64, b: &str| vec![json!(a), json!(b)];
        assert_eq!(difference(&[row(1.0, "x")], &[row(1.0 + 1e-12, "x")]), None);
        let other = difference(&[row(1.0, "x")], &[row(1.0, "y")]).unwrap();
        assert_eq!(other, "row 1, column 2: \"x\" against \"y\"");
        assert_eq!(difference(&[], &[row(1.0, "x")]).unwrap(), "0 rows against 1");
    }
}
