//! The planner of a coordinator's sessions: a statement runs on the cluster ([`Runs`]) or, if it cannot, on this machine.

use std::fmt;
use std::sync::Arc;

use coscan_datafusion::CoscanOptions;
use coscan_upstream::boxed;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::display_plan_ascii;

use crate::coordinator::Cluster;
use crate::division::distributed;
use crate::guard::Reason;
use crate::run::Runs;

/// A planner around that of one machine.
pub(crate) struct ClusterPlanner {
    cluster: Arc<Cluster>,
    local: Arc<dyn QueryPlanner + Send + Sync>,
}

impl fmt::Debug for ClusterPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPlanner").field("local", &self.local).finish_non_exhaustive()
    }
}

impl QueryPlanner for ClusterPlanner {
    boxed!(ClusterPlanner::plan as create_physical_plan);
}

impl ClusterPlanner {
    pub(crate) fn new(cluster: Arc<Cluster>, local: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        ClusterPlanner { cluster, local }
    }

    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let options = session.config_options().extensions.get::<CoscanOptions>();
        let is_wanted = options.is_none_or(|options| options.enabled);
        let state = session.as_any().downcast_ref::<SessionState>().filter(|_| is_wanted);
        let Some(state) = state else { return self.local.create_physical_plan(logical, session).await };
        if let LogicalPlan::Explain(explain) = logical {
            return self.explained(logical, &explain.plan, state).await;
        }
        match self.distributed(logical, state).await {
            Ok((plan, config)) => {
                Ok(Arc::new(Runs::new(plan, config, &self.cluster, &self.local, logical, state)))
            }
            Err(reason) => {
                tracing::debug!(%reason, "a statement runs on this machine");
                self.local.create_physical_plan(logical, session).await
            }
        }
    }

    /// Returns the plan with its stages, and the configuration with which it runs.
    pub(crate) async fn distributed(
        &self,
        logical: &LogicalPlan,
        state: &SessionState,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionConfig), Reason> {
        distributed(&self.cluster, &self.local, logical, state).await
    }

    /// Adds the distributed plan, or the reason against it, to the plans that EXPLAIN shows.
    async fn explained(
        &self,
        explain: &LogicalPlan,
        explained: &LogicalPlan,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let local = self.local.create_physical_plan(explain, state).await?;
        let Some(exec) = local.downcast_ref::<ExplainExec>() else { return Ok(local) };
        let distributed = self.distributed(explained, state).await;
        let texts = exec.stringified_plans().iter().map(|plan| {
            if plan.plan_type != PlanType::FinalPhysicalPlan {
                return plan.clone();
            }
            let text = match &distributed {
                Ok((plan, _)) => display_plan_ascii(plan.as_ref(), false),
                Err(reason) => format!("{}\nruns on this machine: {reason}\n", plan.plan.trim_end()),
            };
            StringifiedPlan::new(PlanType::FinalPhysicalPlan, text)
        });
        Ok(Arc::new(ExplainExec::new(exec.schema(), texts.collect(), exec.verbose())))
    }
}
