//! Which plans get a root that shares their result: those whose rows come at the end and are few.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
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
use crate::one_input::{with_children, without};
use crate::one_nan::OneNanScans;
use crate::ordered::OrderedAggregateExec;
use crate::rule::CooperativeScans;
use crate::rule::build_sides::BuildSides;
use crate::rule::claims::TrueClaims;
use crate::rule::sorted_inputs::SortedInputs;
use crate::session::options::CoscanOptions;

/// A result with a limit is small if that is at most so many rows.
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

#[async_trait]
impl QueryPlanner for SharedResultPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(logical, session).await?;
        // It may have been made with plans of this planner in it, as tables that are queries are.
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
    /// The plan with a root that shares its result, if it can be shared.
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

/// Whether the result is likely to be small: an aggregation or a limit is all that rows come from.
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

/// A rule of somebody else may put something into a plan that its logical plan does not say, for this session only.
fn has_known_rules(session: &dyn Session) -> bool {
    let Some(session) = session.as_any().downcast_ref::<SessionState>() else { return false };
    let known = PhysicalOptimizer::new().rules;
    let own =
        [CooperativeScans::NAME, BuildSides::NAME, TrueClaims::NAME, SortedInputs::NAME, OneNanScans::NAME];
    session
        .physical_optimizers()
        .iter()
        .map(|rule| rule.name())
        .all(|name| own.contains(&name) || known.iter().any(|known| known.name() == name))
}
