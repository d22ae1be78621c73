//! Which conjuncts of a scan's filter the statistics of a row group decide: those that are true for every row need
//! not be evaluated there, and columns that only they need are not read.
//!
//! That a row group cannot match at all is found in [`crate::pruning`], and so is what a conjunct does to it: the
//! proof that all rows pass is DataFusion's own, by the statistics of the conjunct's negation and the count of
//! nulls. What is decided here is where that proof can be relied on:
//!
//! - conjuncts are comparisons of columns with constants and what is made of those; anything that may fail, cast or
//!   compute stays, and so does what compares with null;
//! - floating-point columns stay: statistics leave NaN out;
//! - bounds that are not in the column's own order are not trusted: INT96, and the deprecated fields of old writers
//!   for all but signed integers. Bounds that are truncated are bounds all the same.
//!
//! In doubt a conjunct stays.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
};
use datafusion::parquet::arrow::parquet_column;
use datafusion::parquet::basic::{SortOrder, Type as PhysicalType};
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{IsNotNullExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::row_filter::cannot_fail;

/// A file as far as statistics are concerned.
pub(crate) struct Statistics<'a> {
    pub(crate) metadata: &'a ParquetMetaData,
    /// The schema that conjuncts are in terms of: all columns of the file.
    pub(crate) schema: &'a SchemaRef,
    pub(crate) metrics: &'a ParquetFileMetrics,
}

impl Statistics<'_> {
    /// For each of these row groups and each conjunct, in this order, whether it is true for all rows.
    pub(crate) fn always_true(
        &self,
        row_groups: &[usize],
        conjuncts: &[Arc<dyn PhysicalExpr>],
    ) -> Vec<Vec<bool>> {
        let mut decided = vec![vec![false; conjuncts.len()]; row_groups.len()];
        for (at, conjunct) in conjuncts.iter().enumerate() {
            for (row_group, true_here) in decided.iter_mut().zip(self.always_true_in(row_groups, conjunct)) {
                row_group[at] = true_here;
            }
        }
        decided
    }

    fn always_true_in(&self, row_groups: &[usize], conjunct: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
        if is_true(conjunct) {
            return vec![true; row_groups.len()];
        }
        let trusted: Vec<usize> = match self.leaves(conjunct) {
            Some(leaves) => row_groups.iter().copied().filter(|&at| self.trusted(at, &leaves)).collect(),
            None => Vec::new(),
        };
        if trusted.is_empty() {
            return vec![false; row_groups.len()];
        }
        let predicate = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(self.schema))
            .build(Arc::clone(conjunct));
        let Some(predicate) = predicate else { return vec![false; row_groups.len()] };
        let mut access = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
        trusted.into_iter().for_each(|row_group| access.scan(row_group));
        let mut filter = RowGroupAccessPlanFilter::new(access);
        let parquet_schema = self.metadata.file_metadata().schema_descr();
        let all = self.metadata.row_groups();
        filter.prune_by_statistics(self.schema, parquet_schema, all, &predicate, self.metrics);
        row_groups.iter().map(|&row_group| filter.is_fully_matched()[row_group]).collect()
    }

    /// The leaf columns of a conjunct that statistics can decide; `None` if they cannot.
    fn leaves(&self, conjunct: &Arc<dyn PhysicalExpr>) -> Option<Vec<usize>> {
        if !cannot_fail(conjunct, self.schema) || mentions_null(conjunct) {
            return None;
        }
        let parquet_schema = self.metadata.file_metadata().schema_descr();
        let asks_for_null_only = conjunct.is::<IsNotNullExpr>();
        let leaf = |column: &datafusion::physical_expr::expressions::Column| {
            let field = self.schema.fields().get(column.index())?;
            let data_type = field.data_type();
            if data_type.is_nested() || (data_type.is_floating() && !asks_for_null_only) {
                return None;
            }
            let (leaf, _) = parquet_column(parquet_schema, self.schema, column.name())?;
            // Of several columns of one name it finds the first.
            (parquet_schema.get_column_root_idx(leaf) == column.index()).then_some(leaf)
        };
        collect_columns(conjunct).iter().map(leaf).collect()
    }

    fn trusted(&self, row_group: usize, leaves: &[usize]) -> bool {
        leaves.iter().all(|&leaf| in_order(self.metadata.row_group(row_group), leaf))
    }
}

/// Whether the bounds of a column are there and in the order in which its values compare.
fn in_order(row_group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = row_group.column(leaf);
    let Some(statistics) = column.statistics() else { return false };
    let integer = matches!(column.column_type(), PhysicalType::INT32 | PhysicalType::INT64);
    match column.column_descr().sort_order() {
        SortOrder::UNDEFINED => false,
        _ if column.column_type() == PhysicalType::INT96 => false,
        SortOrder::SIGNED if integer => true,
        _ => !statistics.is_min_max_deprecated(),
    }
}

fn is_true(conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = conjunct.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}

fn mentions_null(conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let mut found = false;
    let walked = conjunct.apply(|expr| {
        found |= expr.downcast_ref::<Literal>().is_some_and(|literal| literal.value().is_null());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walked.is_err()
}
