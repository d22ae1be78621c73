//! The division of a statement into stages and tasks, or the reason against it.
//!
//! [`Plain`] plans as on one machine, without cooperative scans: workers rewrite their parts themselves. It checks the
//! conditions ([`crate::guard`]) and replaces scans by those that can be divided. Then the planner of `datafusion-distributed`
//! divides the plan.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use coscan_datafusion::{CoscanOptions, only_reads};
use coscan_upstream::{boxed, without_guards};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DesiredTaskCountEvent, DistributedExec, DistributedExt, RouteTasksEvent, ScaleUpLeafNodeEvent,
    SessionStateBuilderExt,
};

use crate::channels::Resolver;
use crate::codec::Codec;
use crate::coordinator::Cluster;
use crate::guard::{self, Reason};
use crate::members::Ready;
use crate::scan::{divided, routed, tasks, with_cluster_scans, with_plain_scans};
use crate::sent::Sent;
use crate::tasks_proof;

/// Plans a statement for the workers that are ready.
pub(crate) async fn distributed(
    cluster: &Arc<Cluster>,
    local: &Arc<dyn QueryPlanner + Send + Sync>,
    logical: &LogicalPlan,
    state: &SessionState,
) -> Result<(Arc<dyn ExecutionPlan>, SessionConfig), Reason> {
    if !only_reads(query_of(logical)) || matches!(logical, LogicalPlan::DescribeTable(_)) {
        return Err(Reason::Writes);
    }
    if cluster.members.ready().is_empty() {
        return Err(Reason::NoWorker);
    }
    let planning = |error: DataFusionError| match Kept::in_error(&error) {
        Some(reason) => reason,
        None => Reason::Planning(error.strip_backtrace()),
    };
    let mut sent = Sent::of(state.config());
    sent.as_it_is = !cluster.division.is_shared;
    let sent = Arc::new(Mutex::new(sent));
    let plain = Plain { cluster: Arc::clone(cluster), local: Arc::clone(local), sent: Arc::clone(&sent) };
    let mut builder = SessionStateBuilder::new()
        .with_config(config(cluster, state.config()).map_err(planning)?)
        .with_query_planner(Arc::new(plain))
        .with_distributed_planner();
    let (planner, config) = (builder.query_planner().take(), builder.config().take());
    let (Some(planner), Some(config)) = (planner, config) else { return Err(Reason::OneTask) };
    let mut state = state.clone();
    *state.config_mut() = config;
    let logical = with_joined_subqueries(logical, &state).map_err(planning)?;
    let plan = planner.create_physical_plan(&logical, &state).await.map_err(planning)?;
    if !plan.exists(|node| Ok(node.is::<DistributedExec>())).unwrap_or(false) {
        return Err(Reason::OneTask);
    }
    tasks_proof::check(&plan)?;
    // The last stage runs on this machine.
    let plan = with_plain_scans(plan).map_err(planning)?;
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).header();
    let mut config = state.config().clone();
    config.set_distributed_passthrough_headers(sent.map_err(planning)?).map_err(planning)?;
    Ok((plan, config))
}

/// The configuration for planning and running a distributed plan.
fn config(cluster: &Arc<Cluster>, config: &SessionConfig) -> Result<SessionConfig> {
    let mut config = config.clone();
    if let Some(options) = config.options_mut().extensions.get_mut::<CoscanOptions>() {
        options.enabled = false;
    }
    // With one partition there are no exchanges, and without them no stages.
    let execution = &mut config.options_mut().execution;
    execution.target_partitions = execution.target_partitions.max(2);
    let task_bytes = cluster.division.task_bytes;
    let (members, busy) = (Arc::clone(&cluster.members), Arc::clone(&cluster.busy));
    config.set_distributed_worker_resolver(Ready(Arc::clone(&members)));
    config.set_distributed_channel_resolver(Resolver(Arc::clone(&cluster.channels)));
    config.set_distributed_user_codec(Codec);
    if !cluster.division.is_shared {
        return Ok(config);
    }
    config.set_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
        tasks(&event, task_bytes)
    });
    let of_leaves = Arc::clone(&members);
    config.set_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent<'_>| {
        divided(&event, &of_leaves, &busy)
    });
    config.set_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| routed(&event, &members));
    // Each task reads its part of each input. Otherwise the inputs of a union would have other workers than their files.
    config.set_distributed_children_isolator_unions(false)?;
    Ok(config)
}

/// Makes joins of subqueries that are values: the value would stay in the process that computes it.
fn with_joined_subqueries(logical: &LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let is_value = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_)));
    let has_values = |plan: &LogicalPlan| {
        plan.exists(|node| {
            let mut found = false;
            node.apply_expressions(|expr| {
                found |= expr.exists(is_value)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(found)
        })
    };
    if !has_values(logical)? {
        return Ok(logical.clone());
    }
    // A join has all rows of a subquery, where the value of one row is expected.
    if has_values_of_rows(logical)? {
        return Err(DataFusionError::External(Box::new(Kept(Reason::Subquery))));
    }
    let mut options = state.config_options().as_ref().clone();
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    let context = OptimizerContext::new_with_config_options(Arc::new(options)).with_skip_failing_rules(false);
    let optimizer = Optimizer::with_rules(vec![Arc::new(ScalarSubqueryToJoin::new())]);
    let joined = optimizer.optimize(logical.clone(), &context, |_, _| {})?;
    if has_values(&joined)? {
        return Err(DataFusionError::External(Box::new(Kept(Reason::Subquery))));
    }
    Ok(joined)
}

/// Returns whether a subquery that is a value may have several rows.
fn has_values_of_rows(logical: &LogicalPlan) -> Result<bool> {
    let has_rows = |of: &Subquery| of.subquery.max_rows().is_none_or(|rows| rows > 1);
    let mut found = false;
    logical.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(of) if has_rows(of))))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Plans as on one machine, checks the conditions, and replaces scans.
struct Plain {
    cluster: Arc<Cluster>,
    local: Arc<dyn QueryPlanner + Send + Sync>,
    sent: Arc<Mutex<Sent>>,
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("local", &self.local).finish_non_exhaustive()
    }
}

impl QueryPlanner for Plain {
    boxed!(Plain::plan as create_physical_plan);
}

impl Plain {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a plan for a cluster needs a session");
        };
        // Workers guard conditions again.
        let plan = without_guards(self.local.create_physical_plan(logical, session).await?)?;
        let functions = &self.cluster.functions;
        let kept = |reason: Reason| DataFusionError::External(Box::new(Kept(reason)));
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The root stays on this machine.
        let has_own_root = matches!(logical, LogicalPlan::Analyze(_) | LogicalPlan::Copy(_));
        let inner = plan.children().first().map(|input| Arc::clone(input)).filter(|_| has_own_root);
        let sent = guard::check(inner.as_ref().unwrap_or(&plan), functions, sent).map_err(kept)?;
        let plan_of_scans = match self.cluster.division.is_shared {
            true => with_cluster_scans(Arc::clone(&plan), state).await?,
            false => plan,
        };
        let checked = match &inner {
            Some(_) => plan_of_scans.children().first().map(|input| Arc::clone(input)),
            None => Some(Arc::clone(&plan_of_scans)),
        };
        if let Some(checked) = checked {
            guard::same_when_decoded(&checked, functions, &sent, state).map_err(kept)?;
        }
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        Ok(plan_of_scans)
    }
}

/// A reason as an error, on its way through the planner of distributed plans.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Kept(Reason);

impl Kept {
    fn in_error(error: &DataFusionError) -> Option<Reason> {
        match error.find_root() {
            DataFusionError::External(error) => error.downcast_ref::<Kept>().map(|kept| kept.0.clone()),
            _ => None,
        }
    }
}

/// Returns the query of a statement that workers may run: that of COPY, or the statement.
fn query_of(logical: &LogicalPlan) -> &LogicalPlan {
    match logical {
        LogicalPlan::Copy(copy) => &copy.input,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use coscan_upstream::PlainSql;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn values_of_several_rows_are_not_joined() {
        let session = SessionContext::new();
        let t = "(VALUES (1), (2)) t(v)";
        for (sql, several) in [
            (format!("SELECT v FROM {t} WHERE v = (SELECT v FROM {t})"), true),
            (format!("SELECT (SELECT v FROM {t} WHERE v = (SELECT v FROM {t} LIMIT 1)) AS w"), true),
            (format!("SELECT v FROM {t} WHERE v = (SELECT max(v) + 1 FROM {t} WHERE v < 5)"), false),
            (format!("SELECT v FROM {t} WHERE v = (SELECT v FROM {t} ORDER BY v LIMIT 1)"), false),
        ] {
            let plan = session.plain_sql(&sql).await.expect(&sql).into_optimized_plan().expect(&sql);
            assert_eq!(has_values_of_rows(&plan).expect(&sql), several, "{sql}");
        }
    }
}
