//! Partial aggregations over grouping sets say nothing of order.
//!
//! DataFusion lets such an aggregation claim what holds for its input: rows in order of a key, or a key that is the same
//! in all rows. Where a set leaves the key out it is null, so neither holds. The final aggregation believes it and gives a
//! group out as soon as the key changes. That does no harm while the partial one has every group once; but when it is
//! refused memory it passes on what it has, groups come again, and the final one would give them twice. So nothing is
//! claimed here, and the final aggregation keeps its groups to the end.
//!
//! What else DataFusion makes of the claim stays as it is: an order by the key that it left out, for instance.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
