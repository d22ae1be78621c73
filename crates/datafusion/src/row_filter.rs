//! Filters that the scan has promised to apply (`parquet.pushdown_filters`): every row is evaluated.
//!
//! One conjunct after the other, each on the rows the earlier ones left, so that a conjunct that guards
//! the next (`b <> 0 AND a / b > 1`) still does. The shared arrays are copied only when rows drop out.

use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

/// The conjuncts of a filter in terms of the scan's batches.
pub(crate) struct RowFilter {
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

impl RowFilter {
    pub(crate) fn new(
        conjuncts: impl Iterator<Item = Arc<dyn PhysicalExpr>>,
        batch_schema: &SchemaRef,
    ) -> Result<Self> {
        let conjuncts =
            conjuncts.map(|expr| reassign_expr_columns(expr, batch_schema)).collect::<Result<_>>()?;
        Ok(RowFilter { conjuncts })
    }

    pub(crate) fn apply(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for conjunct in &self.conjuncts {
            if batch.num_rows() == 0 {
                break;
            }
            let matches = conjunct.evaluate(&batch)?.into_array(batch.num_rows())?;
            let matches = as_boolean_array(&matches)?;
            if matches.true_count() == batch.num_rows() {
                continue;
            }
            batch = match matches.nulls() {
                Some(_) => filter_record_batch(&batch, &prep_null_mask_filter(matches))?,
                None => filter_record_batch(&batch, matches)?,
            };
        }
        Ok(batch)
    }
}
