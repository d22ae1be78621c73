//! Filters that look for their columns by name.
//!
//! DataFusion 55 moves filters towards scans a second time in the physical plan, where several columns may have the same name: a
//! join gives those of both sides. It looks for the columns of a filter by name, takes the first or that of the other side,
//! and rows are filtered by another column than the query says. What may pass joins has done so in the logical plan, where names
//! are qualified. So here no filter passes a node with several inputs, or one whose columns share a name, or a projection
//! with a volatile column, which would have another value above than where the filter is tested.

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
use datafusion::physical_plan::projection::ProjectionExec;

use crate::one_input::{OneInput, OneInputExec, with_children, without};

/// DataFusion's rule that moves filters, but for those that it fills while the query runs. `placed_filters` is about these.
const MOVES_FILTERS: &str = "FilterPushdown";

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules, with the one that moves filters over plans in which it takes no column for another.
pub(crate) fn with_clear_names(optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    let clear = |rule: Rule| match rule.name() {
        MOVES_FILTERS => Arc::new(ClearNames(rule)),
        _ => rule,
    };
    PhysicalOptimizer::with_rules(optimizer.rules.into_iter().map(clear).collect())
}

/// The rule over a plan in which filters stop where names are not clear.
#[derive(Debug)]
struct ClearNames(Rule);

impl PhysicalOptimizerRule for ClearNames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stopping = plan.transform_up(stopping)?;
        let plan = self.0.optimize(stopping.data, config)?;
        if stopping.transformed { without::<Stop>(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The node with stops above those of its inputs which filters must not pass.
fn stopping(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut stops = false;
    let stopped = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        if !is_unclear(input) {
            return Arc::clone(input);
        }
        stops = true;
        Arc::new(OneInputExec(Stop(Arc::clone(input))))
    };
    let inputs = node.children().into_iter().map(stopped).collect();
    if stops { with_children(node, inputs).map(Transformed::yes) } else { Ok(Transformed::no(node)) }
}

fn is_unclear(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.children().len() > 1 || has_equal_names(&node.schema()) || is_volatile_projection(node)
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

/// Gives the rows of its input. No filter passes it.
struct Stop(Arc<dyn ExecutionPlan>);

impl OneInput for Stop {
    const NAME: &'static str = "StopExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(OneInputExec(Stop(input)))
    }
}
