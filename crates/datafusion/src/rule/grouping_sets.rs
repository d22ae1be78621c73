//! Partial aggregations over grouping sets say nothing of order.
//!
//! DataFusion lets such an aggregation claim the order of its input: rows in order of a key, or a key that is equal
//! in all rows. If a set leaves the key out it is null, so neither holds. The final aggregation relies on the claim
//! and outputs a group as soon as the key changes. That is harmless while the partial aggregation outputs every group
//! once. If it is refused memory it passes on its groups, groups come again, and the final one would output them
//! twice. So nothing is claimed here, and the final aggregation keeps its groups to the end.
//!
//! Other consequences of the claim in DataFusion's plan stay, for instance a sort by the key that was left out.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::one_input::{OneInput, OneInputExec};

/// The node without what it wrongly claims of its rows, if it is a partial aggregation over grouping sets.
pub(super) fn without_claims(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
    let claims = aggregate.cache().equivalence_properties();
    let is_partial = aggregate.mode().output_mode() == AggregateOutputMode::Partial;
    let claims_something = !claims.oeq_class().is_empty() || !claims.eq_group().is_empty();
    Ok(if is_partial && aggregate.group_expr().has_grouping_set() && claims_something {
        Transformed::yes(Unclaimed::exec(node))
    } else {
        Transformed::no(node)
    })
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
