//! Reads of restored fragments, and the user of a query.

use std::fmt;
use std::sync::Arc;

use coscan_datafusion::{CoscanOptions, rewrite_plan};
use coscan_engine::Engine;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

/// The user of a query, for `coscan tier status`. It is set as an extension of the session's configuration. Without
/// it, the session's number is shown.
#[derive(Clone, Debug)]
pub struct TierUser(pub String);

/// The name of the query's user.
pub(crate) fn user_of(context: &TaskContext) -> String {
    match context.session_config().get_extension::<TierUser>() {
        Some(user) => user.0.clone(),
        None => format!("session {}", context.session_id().chars().take(8).collect::<String>()),
    }
}

/// The engine that reads restored fragments. `None`: DataFusion reads them.
#[derive(Clone)]
pub(crate) struct Reads(pub(crate) Option<Engine>);

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "cooperatively" } else { "by DataFusion" })
    }
}

impl Reads {
    /// The plan over some fragments, with cooperative scans. The table's bytes decide whether sharing is worthwhile,
    /// not the bytes of these fragments.
    pub(crate) fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        table_bytes: u64,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(engine) = &self.0 else { return Ok(plan) };
        let mut options = options.clone();
        let mut coscan = options.extensions.get::<CoscanOptions>().cloned().unwrap_or_default();
        if table_bytes >= coscan.small_table_bytes {
            coscan.small_table_bytes = 0;
        }
        options.extensions.insert(coscan);
        rewrite_plan(plan, engine, &options)
    }
}
