//! The rest of a scan's rows, for the aggregation that takes over.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};

use crate::short_decimals::of_scan;

/// Filters a batch by its marks, as the scan itself would have done.
pub(super) fn unmarked(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let marks = batch.num_columns() - 1;
    let passing = filter_record_batch(batch, batch.column(marks).as_boolean())?;
    let arrays = passing.columns()[..marks]
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| of_scan(array, field.data_type()))
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(passing.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

/// `plan`, a chain of nodes with one input each, with `leaf` in place of its own leaf.
pub(super) fn over(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = match plan.children().as_slice() {
        [] => return Ok(leaf),
        [input] => over(input, leaf)?,
        children => return internal_err!("a chain of nodes, and one has {} inputs", children.len()),
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![input], options)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Decimal64Array, Decimal128Array, Int8Array, Int16Array,
        Int64Array,
    };
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn rows_that_are_handed_over_have_the_types_of_the_scan() {
        let fields = ["packed", "short", "day", "integer"].map(|name| match name {
            "day" => Field::new(name, DataType::Date32, true),
            "integer" => Field::new(name, DataType::Int64, true),
            _ => Field::new(name, DataType::Decimal128(9, 2), true),
        });
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let short = Decimal64Array::from(vec![1, 2, 3]).with_precision_and_scale(9, 2).unwrap();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int16Array::from(vec![Some(-125), Some(7), None])),
            Arc::new(short),
            Arc::new(Int16Array::from(vec![20_000, 2, 3])),
            Arc::new(Int8Array::from(vec![Some(-1), None, None])),
            Arc::new(BooleanArray::from(vec![true, false, true])),
        ];
        let names = ["a", "b", "c", "d", "marks"];
        let batch = RecordBatch::try_from_iter_with_nullable(
            names.into_iter().zip(arrays).map(|(name, array)| (name, array, true)),
        );
        let decimals =
            |values: Vec<Option<i128>>| Decimal128Array::from(values).with_precision_and_scale(9, 2).unwrap();
        let expected: Vec<ArrayRef> = vec![
            Arc::new(decimals(vec![Some(-125), None])),
            Arc::new(decimals(vec![Some(1), Some(3)])),
            Arc::new(Date32Array::from(vec![20_000, 3])),
            Arc::new(Int64Array::from(vec![Some(-1), None])),
        ];
        let rows = unmarked(&batch.unwrap(), &schema).unwrap();
        assert_eq!(rows, RecordBatch::try_new(schema, expected).unwrap());
    }
}
