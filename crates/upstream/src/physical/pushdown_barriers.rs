//! Pushdown barriers: rules of DataFusion 55 stop where they would take one column for another.
//!
//! - DataFusion pushes filters down a second time in the physical plan, where several columns may have the
//!   same name, because a join outputs those of both sides. It looks up a filter's columns by name and may
//!   find a wrong one, so rows are filtered by another column than the query says. Filters that may pass
//!   joins have done so in the logical plan, where names are qualified. So no filter passes a node with
//!   several inputs, or one whose columns share a name. No filter passes a projection with a volatile column
//!   either, because that would have another value below.
//! - A projection that moves below a sort-merge join leaves the join's condition unchanged, although its
//!   columns have moved. So no projection passes such a join. The rule fails above some joins of joins. Then
//!   projections stay where they are.
//! - A projection that moves below a filter computes its expressions for rows that the filter keeps from them
//!   (`guards`). So it stays above, and the filter outputs the columns that it needs.
//! - An aggregation without groups that has only `min` and `max` tells scans which values still matter:
//!   `k < 7 OR k > 90`. A function that has no value yet, or whose argument is no column, has no part in that
//!   condition. So scans skip rows that it needs, for example if a file has only nulls or lacks the column.
//!   DataFusion also takes null for the least value of a typed column. So an aggregation with several
//!   functions sends no such condition. The condition of one function is right
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

use super::guards::{stops_projection, with_embedded_columns};
use crate::one_input::{OneInput, OneInputExec, without};

/// DataFusion's rule that pushes down filters, except those that are filled during execution, for which see
/// `placed_filters`.
const MOVES_FILTERS: &str = "FilterPushdown";

/// DataFusion's rule that pushes down filters that are filled during execution.
const MOVES_DYNAMIC_FILTERS: &str = "FilterPushdown(Post)";

/// DataFusion's rule that pushes down projections.
const MOVES_PROJECTIONS: &str = "ProjectionPushdown";

type Plan = Arc<dyn ExecutionPlan>;
type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Adds barriers to some of the rules.
pub(crate) fn with_stops(optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    let stopped = |rule: Rule| -> Rule {
        match rule.name() {
            MOVES_FILTERS => Arc::new(Stopped { rule, before: same, stops: stops_filters, may_fail: false }),
            MOVES_DYNAMIC_FILTERS => {
                Arc::new(Stopped { rule, before: same, stops: stops_dynamic_filters, may_fail: false })
            }
            MOVES_PROJECTIONS => {
                let (before, stops) = (with_embedded_columns, stops_projections);
                Arc::new(Stopped { rule, before, stops, may_fail: true })
            }
            _ => rule,
        }
    };
    PhysicalOptimizer::with_rules(optimizer.rules.into_iter().map(stopped).collect())
}

/// A rule, and the inputs of nodes above which it stops.
#[derive(Debug)]
struct Stopped {
    rule: Rule,
    /// Changes a node before barriers are put below it.
    before: fn(Plan) -> Result<Transformed<Plan>>,
    /// Tests a node and one of its inputs.
    stops: fn(&Plan, &Plan) -> bool,
    /// Whether the plan stays unchanged if the rule fails.
    may_fail: bool,
}

impl PhysicalOptimizerRule for Stopped {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let stopping = Arc::clone(&plan)
            .transform_up(|node| (self.before)(node)?.transform_data(|node| self.stopping(node)))?;
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
    /// Puts a barrier above each input of the node at which the rule stops.
    fn stopping(&self, node: Plan) -> Result<Transformed<Plan>> {
        let above = Arc::clone(&node);
        node.map_children(|input| {
            let stops = (self.stops)(&above, &input);
            Ok(if stops { Transformed::yes(Stop::exec(input)) } else { Transformed::no(input) })
        })
    }
}

fn same(node: Plan) -> Result<Transformed<Plan>> {
    Ok(Transformed::no(node))
}

fn stops_projections(above: &Plan, node: &Plan) -> bool {
    node.is::<SortMergeJoinExec>() || stops_projection(above, node)
}

fn stops_filters(_above: &Plan, node: &Plan) -> bool {
    node.children().len() > 1 || has_equal_names(&node.schema()) || is_volatile_projection(node)
}

fn stops_dynamic_filters(above: &Plan, _node: &Plan) -> bool {
    let aggregate = above.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|of| !of.dynamic_expressions_produced().is_empty() && of.aggr_expr().len() > 1)
}

/// Below it, a filter would be evaluated with other values than those of the output.
fn is_volatile_projection(node: &Plan) -> bool {
    let projection = node.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| projection.expr().iter().any(|of| is_volatile(&of.expr)))
}

fn has_equal_names(schema: &Schema) -> bool {
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

/// Emits the rows of its input. The rule does not pass it.
struct Stop(Plan);

impl Stop {
    fn exec(input: Plan) -> Plan {
        Arc::new(OneInputExec(Stop(input)))
    }
}

impl OneInput for Stop {
    const NAME: &'static str = "StopExec";

    fn input(&self) -> &Plan {
        &self.0
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Plan) -> Plan {
        Stop::exec(input)
    }
}
