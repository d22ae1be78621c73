//! Puts plans under load control. The session's planner plans, and a plan that needs memory gets a root that
//! requests it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use coscan_engine::Engine;
use coscan_upstream::boxed;
use coscan_upstream::one_input::without;
use datafusion::catalog::{Session, TableFunction};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, exec_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use futures::FutureExt;

use crate::error::panic_text;
use crate::load_control::demand::needs_memory;
use crate::load_control::exec::{Again, LoadControl, Query};
use crate::load_control::run::About;
use crate::load_control::{Lender, lender_of};
use crate::options::CoscanOptions;
use crate::session::queries;
use crate::session::statement::{only_reads, planning};

/// Limit of the plan text that names a query.
const TEXT_MAX: usize = 240;

/// Adds load control to a session under construction, around a planner.
pub(crate) fn with_admission(
    mut builder: SessionStateBuilder,
    engine: Engine,
    inner: Arc<dyn QueryPlanner + Send + Sync>,
) -> SessionStateBuilder {
    let lender = lender_of(&engine, None, coscan_engine::memory_bytes());
    let function = Arc::new(queries::QueriesFunction::new(Arc::clone(&lender)));
    let function = Arc::new(TableFunction::new(queries::NAME.to_owned(), function));
    builder.table_functions().get_or_insert_default().insert(queries::NAME.to_owned(), function);
    builder.with_query_planner(Arc::new(LoadControlPlanner::new(inner, engine, lender)))
}

/// A planner around another.
pub(crate) struct LoadControlPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    engine: Engine,
    lender: Arc<Lender>,
}

impl LoadControlPlanner {
    pub(crate) fn new(
        inner: Arc<dyn QueryPlanner + Send + Sync>,
        engine: Engine,
        lender: Arc<Lender>,
    ) -> Self {
        LoadControlPlanner { inner: Arc::new(StatementPlanner(inner)), engine, lender }
    }
}

impl fmt::Debug for LoadControlPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadControlPlanner").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Plans statements, whose scans have facts in common. A query that runs again is planned by it, too.
#[derive(Debug)]
struct StatementPlanner(Arc<dyn QueryPlanner + Send + Sync>);

impl QueryPlanner for StatementPlanner {
    boxed!(StatementPlanner::plan as create_physical_plan);
}

impl StatementPlanner {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        planning(self.0.create_physical_plan(logical, session)).await
    }
}

impl QueryPlanner for LoadControlPlanner {
    boxed!(LoadControlPlanner::plan as create_physical_plan);
}

impl LoadControlPlanner {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        // Some code that plans by statistics panics on those of corrupt files.
        let planned = self.inner.create_physical_plan(logical, session);
        let planned = AssertUnwindSafe(planned).catch_unwind().await;
        let plan = planned.unwrap_or_else(|panic| {
            let message = panic_text(&*panic);
            exec_err!("planning gave up: {message}; the statistics of a file may be corrupt")
        })?;
        let options = session.config_options().extensions.get::<CoscanOptions>();
        let wanted = options.is_some_and(|options| options.enabled && options.load_control);
        // The plan may contain plans of this planner, from tables that are queries. An inner one that waits
        // for admission would wait for the outer one.
        let plan = without::<LoadControl>(plan)?;
        let endless = plan.boundedness().is_unbounded();
        if !wanted || endless || !needs_memory(&plan) || is_explained(logical) || is_view(logical) {
            return Ok(plan);
        }
        let text = logical.display_indent().to_string();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let seconds = options.map_or(0, |options| options.queue_timeout_s);
        let again = session.as_any().downcast_ref::<SessionState>();
        let again = again.filter(|_| only_reads(logical) && can_be_read_again(&plan));
        let query = Query {
            lender: Arc::clone(&self.lender),
            engine: self.engine.clone(),
            about: Arc::new(About {
                text: shortened(&text),
                plan: hasher.finish(),
                session: session.session_id().to_owned(),
            }),
            again: again.map(|session| Again {
                planner: Arc::clone(&self.inner),
                logical: logical.clone(),
                session: session.clone(),
            }),
            patience: (seconds > 0).then(|| Duration::from_secs(seconds)),
            schema: plan.schema(),
        };
        Ok(LoadControl::exec(plan, Arc::new(query)))
    }
}

fn is_explained(logical: &LogicalPlan) -> bool {
    matches!(logical, LogicalPlan::Explain(_))
}

/// Returns whether the plan's inputs can be read twice, which a stream may not allow.
fn can_be_read_again(plan: &Arc<dyn ExecutionPlan>) -> bool {
    !plan.is::<StreamingTableExec>() && plan.children().into_iter().all(can_be_read_again)
}

/// Returns whether the statement reads the view of waiting queries, which must work when all queries wait.
fn is_view(logical: &LogicalPlan) -> bool {
    let is_scan_of_it = |node: &LogicalPlan| matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table().starts_with(queries::NAME));
    logical.exists(|node| Ok(is_scan_of_it(node))).unwrap_or(false)
}

/// Returns the beginning of a plan's text, on one line.
fn shortened(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(TEXT_MAX) {
        line.truncate(end);
        line.push_str(" ...");
    }
    line
}
