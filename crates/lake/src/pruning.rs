//! The files of a snapshot that may have rows for a query, by their constants and bounds.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::snapshot::{Bounds, Snapshot};

/// Returns the positions of the files that may have rows for which these filters hold.
pub(crate) fn files_for(state: &dyn Session, snapshot: &Snapshot, filters: &[Expr]) -> Result<Vec<usize>> {
    let all = 0..snapshot.files.len();
    let Some(filter) = conjunction(filters.iter().cloned()).filter(|_| !all.is_empty()) else {
        return Ok(all.collect());
    };
    let schema = DFSchema::try_from(Arc::clone(&snapshot.schema))?;
    let filter = state.create_physical_expr(filter, &schema)?;
    let predicate =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(&snapshot.schema)).build(filter);
    let Some(predicate) = predicate else { return Ok(all.collect()) };
    let kept = predicate.prune(snapshot)?;
    Ok(all.zip(kept).filter(|(_, kept)| *kept).map(|(at, _)| at).collect())
}

impl Snapshot {
    fn bounds_of(&self, column: &Column) -> Option<&Bounds> {
        self.bounds.get(self.schema.index_of(column.name()).ok()?)
    }
}

impl PruningStatistics for Snapshot {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds_of(column)?.min.clone()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds_of(column)?.max.clone()
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let nulls = self.bounds_of(column)?.nulls.clone()?;
        Some(Arc::new(nulls))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows: UInt64Array = self.files.iter().map(|file| file.rows).collect();
        Some(Arc::new(rows))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
