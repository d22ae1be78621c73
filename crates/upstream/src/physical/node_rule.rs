//! Rules that change each node of a physical plan by itself.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

type Plan = Arc<dyn ExecutionPlan>;

/// A rule that applies a function to each node, inputs first. The schema stays.
#[derive(Debug)]
pub(crate) struct NodeRule {
    pub(crate) name: &'static str,
    pub(crate) change: fn(Plan) -> Result<Transformed<Plan>>,
}

impl PhysicalOptimizerRule for NodeRule {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(self.change).data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
