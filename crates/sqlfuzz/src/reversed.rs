//! Reverses conditions: the last conjunct of a filter or a scan is tested first.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::parquet::source::ParquetSource;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

/// Reverses the conditions of filters. If a query fails with one order, it may have an answer with the other.
#[derive(Debug)]
pub(crate) struct Reversed;

impl PhysicalOptimizerRule for Reversed {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if let Some(filter) = node.downcast_ref::<FilterExec>() {
                let filter = FilterExecBuilder::from(filter).with_predicate(reversed(filter.predicate()));
                return Ok(Transformed::yes(Arc::new(filter.build()?) as _));
            }
            let scan = node.downcast_ref::<DataSourceExec>();
            let scan = scan.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>);
            let Some((config, source)) = scan else { return Ok(Transformed::no(node)) };
            let Some(filter) = source.filter() else { return Ok(Transformed::no(node)) };
            let source = Arc::new(source.with_predicate(reversed(&filter)));
            let config = FileScanConfigBuilder::from(config.clone()).with_source(source).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(config) as _))
        })
        .data()
    }

    fn name(&self) -> &str {
        "reversed"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the conjuncts from the last to the first.
fn reversed(filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    conjunction(split_conjunction(filter).into_iter().rev().cloned().collect::<Vec<_>>())
}
