//! `pg_stat_activity`: sessions and their current statements, as far as the user may see them.
//!
//! Users see their own sessions, administrators see all. The columns are those of PostgreSQL 16. Columns without a
//! meaning here, such as those about transactions, are NULL.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use coscan_upstream::boxed;
use datafusion::arrow::array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use super::{Registry, RunningQuery, SessionEntry};

/// The name of the table.
pub(super) const ACTIVITY: &str = "pg_stat_activity";

/// The user of a session, in the session's settings.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) user: String,
    pub(super) admin: bool,
}

impl Viewer {
    /// Returns true if this viewer may see and stop the session's work.
    pub(super) fn may_see(&self, session: &SessionEntry) -> bool {
        self.admin || session.user.name == self.user
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Activity {
    registry: Arc<Registry>,
    schema: SchemaRef,
}

impl Activity {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        let time = || DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let columns = [
            ("datid", DataType::Int32),
            ("datname", DataType::Utf8),
            ("pid", DataType::Int32),
            ("leader_pid", DataType::Int32),
            ("usesysid", DataType::Int32),
            ("usename", DataType::Utf8),
            ("application_name", DataType::Utf8),
            ("client_addr", DataType::Utf8),
            ("client_hostname", DataType::Utf8),
            ("client_port", DataType::Int32),
            ("backend_start", time()),
            ("xact_start", time()),
            ("query_start", time()),
            ("state_change", time()),
            ("wait_event_type", DataType::Utf8),
            ("wait_event", DataType::Utf8),
            ("state", DataType::Utf8),
            ("backend_xid", DataType::Int32),
            ("backend_xmin", DataType::Int32),
            ("query_id", DataType::Int64),
            ("query", DataType::Utf8),
            ("backend_type", DataType::Utf8),
        ];
        let fields: Vec<Field> = columns.into_iter().map(|(name, of)| Field::new(name, of, true)).collect();
        Activity { registry, schema: Arc::new(Schema::new(fields)) }
    }

    fn rows(&self, viewer: Option<&Viewer>) -> Result<RecordBatch> {
        let sessions = self.registry.sessions();
        let may_see = |session: &SessionEntry| viewer.is_some_and(|viewer| viewer.may_see(session));
        let seen: Vec<&SessionEntry> =
            sessions.iter().map(|session| &**session).filter(|session| may_see(session)).collect();
        let queries = self.registry.queries();
        // The latest statement of each session.
        let latest: HashMap<u64, &RunningQuery> =
            queries.iter().map(|query| (query.session, query.as_ref())).collect();
        let running: Vec<Option<&RunningQuery>> = seen.iter().map(|s| latest.get(&s.id).copied()).collect();
        let text = |of: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
            Arc::new((0..seen.len()).map(of).collect::<StringArray>())
        };
        let time = |of: &dyn Fn(usize) -> Option<SystemTime>| -> ArrayRef {
            let micros = |at: SystemTime| {
                at.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_micros()).ok())
            };
            let times: TimestampMicrosecondArray =
                (0..seen.len()).map(|row| of(row).and_then(micros)).collect();
            Arc::new(times.with_timezone("+00:00"))
        };
        // A statement that does not run waits for its turn.
        let waits = |row: usize| running[row].filter(|query| !query.is_running());
        let columns = self.schema.fields().iter().map(|field| -> ArrayRef {
            match field.name().as_str() {
                "datname" => text(&|row| Some(seen[row].database.clone())),
                "pid" => Arc::new(Int32Array::from_iter(seen.iter().map(|s| Some(s.number())))),
                "usename" => text(&|row| Some(seen[row].user.name.clone())),
                "application_name" => text(&|row| Some(seen[row].application())),
                "client_addr" => text(&|row| seen[row].peer.map(|peer| peer.ip().to_string())),
                "client_port" => {
                    Arc::new(Int32Array::from_iter(seen.iter().map(|s| s.peer.map(|p| i32::from(p.port())))))
                }
                "backend_start" => time(&|row| Some(seen[row].started)),
                "query_start" | "state_change" => time(&|row| running[row].map(|query| query.started_at)),
                "wait_event_type" => text(&|row| waits(row).map(|_| "Lock".to_owned())),
                "wait_event" => text(&|row| waits(row).map(|_| "turn".to_owned())),
                "state" => {
                    text(&|row| Some(if running[row].is_some() { "active" } else { "idle" }.to_owned()))
                }
                "query_id" => Arc::new(Int64Array::from_iter(
                    running.iter().map(|query| query.and_then(|query| i64::try_from(query.id).ok())),
                )),
                "query" => {
                    text(&|row| Some(running[row].map_or_else(String::new, |query| query.sql.clone())))
                }
                "backend_type" => text(&|_| Some("client backend".to_owned())),
                _ => new_null_array(field.data_type(), seen.len()),
            }
        });
        Ok(RecordBatch::try_new(self.schema.clone(), columns.collect())?)
    }
}

impl TableProvider for Activity {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    boxed!(Activity::plan as scan);
}

impl Activity {
    async fn plan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let viewer = session.config().get_extension::<Viewer>();
        let rows = self.rows(viewer.as_deref())?;
        let table = MemTable::try_new(self.schema.clone(), vec![vec![rows]])?;
        table.scan(session, projection, filters, limit).await
    }
}
