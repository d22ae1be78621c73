//! The choice of plans whose result is shared: those whose rows are few and come at the end.

use std::fmt;
use std::sync::Arc;

use coscan_upstream::PHYSICAL_RULES;
use coscan_upstream::boxed;
use coscan_upstream::one_input::{with_children, without};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::SharedResult;
use super::key::Query;
use super::runs::Runs;
use crate::options::CoscanOptions;
use crate::ordered::OrderedAggregateExec;
use crate::rule::CooperativeScans;

/// A result with a limit of at most so many rows is small.
const ROWS_MAX: usize = 10_000;

/// A planner around another.
pub(crate) struct SharedResultPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    runs: Arc<Runs>,
}

impl SharedResultPlanner {
    pub(crate) fn new(inner: Arc<dyn QueryPlanner + Send + Sync>, runs: Arc<Runs>) -> Self {
        SharedResultPlanner { inner, runs }
    }
}

impl fmt::Debug for SharedResultPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedResultPlanner").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl QueryPlanner for SharedResultPlanner {
    boxed!(SharedResultPlanner::plan as create_physical_plan);
}

impl SharedResultPlanner {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(logical, session).await?;
        // The plan may contain plans of this planner, from tables that are queries.
        let plan = without::<SharedResult>(plan)?;
        let options = session.config_options().extensions.get::<CoscanOptions>();
        let wanted = options.is_some_and(|options| options.enabled && options.share_results);
        if !wanted || !has_known_rules(session) {
            return Ok(plan);
        }
        match logical {
            LogicalPlan::Analyze(analyze) => self.below_analyze(&analyze.input, plan),
            _ => self.shared(logical, plan),
        }
    }
}

impl SharedResultPlanner {
    /// Adds a root that shares the plan's result, if it can be shared.
    fn shared(&self, logical: &LogicalPlan, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let at_the_end = plan.pipeline_behavior() == EmissionType::Final;
        if !at_the_end || plan.boundedness().is_unbounded() || !is_small(&plan) {
            return Ok(plan);
        }
        Ok(match Query::new(logical, &plan)? {
            Some(query) => SharedResult::exec(plan, Arc::new(query), Arc::clone(&self.runs)),
            None => plan,
        })
    }

    fn below_analyze(
        &self,
        logical: &LogicalPlan,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let share = |node: Arc<dyn ExecutionPlan>| {
            if !node.is::<AnalyzeExec>() {
                return Ok(Transformed::no(node));
            }
            let children = node.children().into_iter().map(|child| self.shared(logical, Arc::clone(child)));
            let children = children.collect::<Result<_>>()?;
            Ok(Transformed::new(with_children(node, children)?, true, TreeNodeRecursion::Stop))
        };
        plan.transform_down(share).data()
    }
}

/// Returns whether the result is likely to be small: all rows come from an aggregation or a limit.
fn is_small(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregates = plan.is::<AggregateExec>() || plan.is::<OrderedAggregateExec>();
    if aggregates || plan.fetch().is_some_and(|rows| rows <= ROWS_MAX) {
        return true;
    }
    match plan.children()[..] {
        [child] => is_small(child),
        _ => false,
    }
}

/// Returns whether all rules are known. Another rule may put something into a plan that its logical plan does
/// not show, for this session only.
fn has_known_rules(session: &dyn Session) -> bool {
    let Some(session) = session.as_any().downcast_ref::<SessionState>() else { return false };
    let known = PhysicalOptimizer::new().rules;
    session.physical_optimizers().iter().map(|rule| rule.name()).all(|name| {
        name == CooperativeScans::NAME
            || PHYSICAL_RULES.contains(&name)
            || known.iter().any(|known| known.name() == name)
    })
}
