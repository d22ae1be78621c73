//! Estimates that fail.
//!
//! DataFusion 55 estimates from the bounds of columns how many rows pass a filter. For casts of times to dates, and for
//! differences of dates, the range after the filter may be larger than the one before, which is an error that refuses the
//! statement. Such statements are planned without statistics.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use crate::boxed;

/// The beginning of the error.
const FAILED: &str = "Selectivity is out of limit";

/// A planner around another.
#[derive(Debug)]
pub(crate) struct Estimates {
    pub(crate) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl QueryPlanner for Estimates {
    boxed!(Estimates::plan as create_physical_plan);
}

impl Estimates {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = self.inner.create_physical_plan(logical, session).await;
        match (&planned, session.as_any().downcast_ref::<SessionState>()) {
            (Err(error), Some(state)) if error.to_string().contains(FAILED) => {
                let mut state = state.clone();
                state.config_mut().options_mut().execution.collect_statistics = false;
                self.inner.create_physical_plan(logical, &state).await
            }
            _ => planned,
        }
    }
}
