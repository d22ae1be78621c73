//! Aggregations over grouping sets say nothing of order.
//!
//! DataFusion 55 lets such an aggregation claim the order of its input: rows in order of a key, or a key that is equal in all
//! rows. Where a set leaves the key out it is null, so neither holds. A sort by the key is then left out, and the final
//! aggregation outputs a group as soon as the key changes, which gives groups twice if the partial one is refused memory and
//! passes on what it has. So nothing is claimed, before anything is planned by it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::one_input::{OneInput, OneInputExec};

/// The rules, with one before all others that takes wrong claims away.
pub(crate) fn with_unclaimed_sets(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    optimizer.rules.insert(0, Arc::new(UnclaimedSets));
    optimizer
}

#[derive(Debug)]
pub(crate) struct UnclaimedSets;

impl UnclaimedSets {
    pub(crate) const NAME: &'static str = "unclaimed_sets";
}

impl PhysicalOptimizerRule for UnclaimedSets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(without_claims).data()
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The node without what it wrongly claims of its rows, if it is an aggregation over grouping sets.
fn without_claims(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    let makes_groups = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    Ok(if makes_groups && leaves_keys_out(aggregate.group_expr()) {
        Transformed::yes(Unclaimed::exec(node))
    } else {
        Transformed::no(node)
    })
}

/// Whether a key is null in a set for all rows.
fn leaves_keys_out(groups: &PhysicalGroupBy) -> bool {
    groups.groups().iter().flatten().any(|is_null| *is_null)
}

/// Gives the rows of its input, of which nothing is known.
struct Unclaimed {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Unclaimed {
    fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<OneInputExec<Self>> {
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(nothing);
        Arc::new(OneInputExec(Unclaimed { input, properties: Arc::new(properties) }))
    }
}

impl OneInput for Unclaimed {
    const NAME: &'static str = "UnclaimedExec";
    const KEEPS_ORDER: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Unclaimed::exec(input)
    }
}
