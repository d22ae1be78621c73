//! Steps between a scan and the operator that reads its chunks: filters and projections, batch by batch.

use std::sync::Arc;

use coscan_upstream::predicates_in_turn;
use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

/// One node between scan and operator.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The rows that pass these predicates, one after the other, in these columns.
    Filter(Vec<Arc<dyn PhysicalExpr>>, Option<Vec<usize>>),
    /// The columns, and their schema.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

impl Step {
    /// Converts the node to a step, if its type is known here.
    pub(crate) fn of(node: &Arc<dyn ExecutionPlan>) -> Option<(Step, &Arc<dyn ExecutionPlan>)> {
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let kept = filter.projection().as_ref().map(|kept| kept.to_vec());
            let predicates = predicates_in_turn(filter.predicate(), &filter.input().schema()).ok()?;
            let step = Step::Filter(predicates, kept);
            return filter.fetch().is_none().then_some((step, filter.input()));
        }
        let projection = node.downcast_ref::<ProjectionExec>()?;
        let columns = projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect();
        Some((Step::Project(columns, projection.schema()), projection.input()))
    }

    /// Returns the position in the step's input of a column of its output, if the column is passed on
    /// unchanged.
    pub(crate) fn source(&self, column: usize) -> Option<usize> {
        match self {
            Step::Filter(_, None) => Some(column),
            Step::Filter(_, Some(kept)) => kept.get(column).copied(),
            Step::Project(columns, _) => columns.get(column)?.downcast_ref::<Column>().map(Column::index),
        }
    }

    /// Returns the expressions that are evaluated.
    pub(crate) fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        match self {
            Step::Filter(expressions, _) | Step::Project(expressions, _) => expressions.iter().collect(),
        }
    }

    /// Applies the step to a batch.
    pub(crate) fn apply(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        match self {
            Step::Filter(predicates, kept) => {
                let Some((last, others)) = predicates.split_last() else { return Ok(batch) };
                for predicate in others {
                    batch = filter_record_batch(&batch, &passing(predicate, &batch)?)?;
                }
                let passes = passing(last, &batch)?;
                if let Some(kept) = kept {
                    batch = batch.project(kept)?;
                }
                Ok(filter_record_batch(&batch, &passes)?)
            }
            Step::Project(columns, schema) => {
                let arrays = columns.iter().map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()));
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
            }
        }
    }
}

/// Returns the rows that pass. A predicate is not evaluated for no rows: `1 / 0 = a` would fail.
fn passing(predicate: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    if batch.num_rows() == 0 {
        return Ok(BooleanArray::new_null(0));
    }
    Ok(predicate.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean().clone())
}
