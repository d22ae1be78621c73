//! DataFusion's own planner, over plans whose repeated subplans are shared.

use std::borrow::Cow;
use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::node::NodePlanner;
use super::repeated::with_shared_subplans;
use crate::options::CoscanOptions;

/// Plans as DataFusion does. Shares repeated subplans if `coscan.share_results` is on.
#[derive(Debug)]
pub(crate) struct SubplanPlanner;

impl QueryPlanner for SubplanPlanner {
    boxed!(SubplanPlanner::plan as create_physical_plan);
}

impl SubplanPlanner {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let config = session.config_options();
        let options = config.extensions.get::<CoscanOptions>();
        // A distributed engine switches work stealing off. Its partitions run in processes that share
        // nothing.
        let wanted = config.execution.enable_file_stream_work_stealing
            && options.is_some_and(|options| options.enabled && options.share_results);
        let logical = if wanted { with_shared_subplans(logical)? } else { Cow::Borrowed(logical) };
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(NodePlanner)])
            .create_physical_plan(&logical, session)
            .await
    }
}
