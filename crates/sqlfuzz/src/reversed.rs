//! Conditions the other way round: of what a filter or a scan has to hold, the last is tested first.

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

/// Turns the conditions of filters round. A session in which they fail in one order may have an answer in the other.
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

/// The conjuncts from the last to the first.
fn reversed(filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    conjunction(split_conjunction(filter).into_iter().rev().cloned().collect::<Vec<_>>())
}
