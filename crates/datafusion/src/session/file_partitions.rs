//! Files in the folders of a key are no partitions by its hash.
//!
//! With `datafusion.optimizer.preserve_file_partitions` a table in such folders (`p=1/`, `p=2/`) claims to be partitioned by the
//! hash of `p`, while each partition of it has some of the folders. That serves groups and windows by `p`. DataFusion 55 also
//! believes it where rows of another input have to meet in the same partition, and there they do not: joins by sorting or of hash
//! partitions lose rows, and groups above a UNION come more than once. So statements in which inputs meet are planned without
//! the setting.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

/// A planner around another.
#[derive(Debug)]
pub(super) struct FilePartitions {
    pub(super) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

#[async_trait]
impl QueryPlanner for FilePartitions {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let preserved = session.config_options().optimizer.preserve_file_partitions > 0;
        let session_state = session.as_any().downcast_ref::<SessionState>();
        match session_state.filter(|_| preserved) {
            Some(state) if inputs_meet(logical)? => {
                let mut state = state.clone();
                state.config_mut().options_mut().optimizer.preserve_file_partitions = 0;
                self.inner.create_physical_plan(logical, &state).await
            }
            _ => self.inner.create_physical_plan(logical, session).await,
        }
    }
}

/// Whether a node of the plan has several inputs.
fn inputs_meet(plan: &LogicalPlan) -> Result<bool> {
    let mut meet = false;
    plan.apply_with_subqueries(|node| {
        meet |= node.inputs().len() > 1;
        Ok(if meet { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(meet)
}
