//! Conditions the other way round: of what a filter has to hold, the last is tested first.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::{conjunction, split_conjunction};
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
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            let conjuncts =
                split_conjunction(filter.predicate()).into_iter().rev().cloned().collect::<Vec<_>>();
            let reversed = FilterExecBuilder::from(filter).with_predicate(conjunction(conjuncts)).build()?;
            Ok(Transformed::yes(Arc::new(reversed) as _))
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
