//! Plans in which rules of DataFusion 55 stop where they would take one column for another.
//!
//! - Filters are moved towards scans a second time in the physical plan, where several columns may have the same name: a join
//!   gives those of both sides. The columns of a filter are looked for by name, the first or that of the other side is taken, and
//!   rows are filtered by another column than the query says. What may pass joins has done so in the logical plan, where names
//!   are qualified. So here no filter passes a node with several inputs, or one whose columns share a name, or a projection
//!   with a volatile column, which would have another value above than where the filter is tested.
//! - A projection that is moved below a join by sorting leaves the join's condition as it was, about columns that have moved. So
//!   no projection passes such a join. And where the rule fails, as it does above some joins of joins, projections stay where they
//!   are.
//! - An aggregation without groups that has only `min` and `max` tells scans which values still matter: `k < 7 OR k > 90`. A function
//!   that has no value yet, or whose argument is no column, has no part in that condition, and scans skip the rows that it needs:
//!   of a file with nulls only, or without the column. Null is also taken for the least of a typed column. So no such condition
//!   leaves an aggregation with several functions; that of one function is right
//!   ([25147](https://github.com/apache/datafusion/issues/25147)).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::one_input::{OneInput, OneInputExec, without};

/// DataFusion's rule that moves filters, but for those that it fills while the query runs. `placed_filters` is about these.
const MOVES_FILTERS: &str = "FilterPushdown";

/// DataFusion's rule that moves filters which it fills while the query runs.
const MOVES_DYNAMIC_FILTERS: &str = "FilterPushdown(Post)";

/// DataFusion's rule that moves projections.
const MOVES_PROJECTIONS: &str = "ProjectionPushdown";

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules, of which some stop.
pub(crate) fn with_stops(optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    let stopped = |rule: Rule| -> Rule {
        match rule.name() {
            MOVES_FILTERS => Arc::new(Stopped { rule, stops: stops_filters, may_fail: false }),
            MOVES_DYNAMIC_FILTERS => {
                Arc::new(Stopped { rule, stops: stops_dynamic_filters, may_fail: false })
            }
            MOVES_PROJECTIONS => Arc::new(Stopped { rule, stops: stops_projections, may_fail: true }),
            _ => rule,
        }
    };
    PhysicalOptimizer::with_rules(optimizer.rules.into_iter().map(stopped).collect())
}

/// A rule, and the inputs of nodes that it stops above.
#[derive(Debug)]
struct Stopped {
    rule: Rule,
    /// Asked of a node and one of its inputs.
    stops: fn(&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) -> bool,
    /// Whether the plan stays as it is if the rule fails.
    may_fail: bool,
}

impl PhysicalOptimizerRule for Stopped {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stopping = Arc::clone(&plan).transform_up(|node| self.stopping(node))?;
        match self.rule.optimize(stopping.data, config) {
            Ok(plan) if stopping.transformed => without::<Stop>(plan),
            Err(error) if self.may_fail => {
                tracing::debug!(%error, rule = self.name(), "the plan stays as it is");
                Ok(plan)
            }
            optimized => optimized,
        }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

impl Stopped {
    /// The node with stops above those of its inputs that the rule stops at.
    fn stopping(&self, node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let above = Arc::clone(&node);
        node.map_children(|input| {
            let stops = (self.stops)(&above, &input);
            Ok(if stops { Transformed::yes(Stop::exec(input)) } else { Transformed::no(input) })
        })
    }
}

fn stops_projections(_above: &Arc<dyn ExecutionPlan>, node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<SortMergeJoinExec>()
}

fn stops_filters(_above: &Arc<dyn ExecutionPlan>, node: &Arc<dyn ExecutionPlan>) -> bool {
    node.children().len() > 1 || has_equal_names(&node.schema()) || is_volatile_projection(node)
}

fn stops_dynamic_filters(above: &Arc<dyn ExecutionPlan>, _node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = above.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|of| !of.dynamic_expressions_produced().is_empty() && of.aggr_expr().len() > 1)
}

/// Below it, a filter would be tested with other values than those that it gives.
fn is_volatile_projection(node: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = node.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| projection.expr().iter().any(|of| is_volatile(&of.expr)))
}

fn has_equal_names(schema: &Schema) -> bool {
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// Gives the rows of its input. The rule does not pass it.
struct Stop(Arc<dyn ExecutionPlan>);

impl Stop {
    fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(OneInputExec(Stop(input)))
    }
}

impl OneInput for Stop {
    const NAME: &'static str = "StopExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Stop::exec(input)
    }
}
