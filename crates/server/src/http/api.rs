//! Requests of the page: the user, statements, the policy, the buffer, stopping a query.

use std::sync::Arc;
use std::time::Instant;

use arrow::json::ArrayWriter;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use coscan_engine::{PolicyName, memory_bytes, registry};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Http;
use super::guard::Peer;
use crate::access::{AccessError, User};
use crate::sql::{Protocol, QueryError, Stop, shown};

/// Maximum number of rows and approximate maximum number of characters of a shown result.
const ROWS_SHOWN: usize = 1000;
const LETTERS_SHOWN: usize = 2 << 20;

/// Minimum size of the buffer that the page can set.
const BUFFER_MIN: u64 = 1 << 20;

/// The answer to a refused request.
pub(crate) struct Refusal(StatusCode, Value);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl Refusal {
    fn new(status: StatusCode, why: impl std::fmt::Display) -> Self {
        Refusal(status, json!({ "error": why.to_string() }))
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let status = match &error {
            QueryError::Denied(_) => StatusCode::FORBIDDEN,
            QueryError::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            error if error.met_a_replaced_file() => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let hint = error.hint();
        Refusal(status, json!({ "error": error.to_string(), "code": error.sqlstate(), "hint": hint }))
    }
}

impl From<AccessError> for Refusal {
    fn from(error: AccessError) -> Self {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }
}

/// The user, and the available tables and policies.
pub(crate) async fn about(State(http): State<Arc<Http>>, Extension(user): Extension<User>) -> Json<Value> {
    let tables = http.state.tables().names();
    let policies: Vec<&str> = registry::sharing().map(|name| name.as_str()).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "user": user.name,
        "admin": user.role.admin,
        "policies": policies,
        "memory": memory_bytes(),
        "tables": tables.into_iter().filter(|table| user.role.sees(table)).collect::<Vec<_>>(),
    }))
}

/// The chunks that a query still needs, of tables that the user sees.
pub(crate) async fn needed(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Path(query): Path<u64>,
) -> Json<Value> {
    let names = http.watch.table_names();
    let sees = |table: &u32| names.get(table).is_some_and(|name| user.role.sees(name));
    let runs = http.state.engine().needed_by(query).into_iter().filter(|(table, _)| sees(table));
    let runs = runs.map(|(table, runs)| {
        json!({ "table": table, "runs": runs.iter().map(|run| [run.start, run.end]).collect::<Vec<_>>() })
    });
    Json(runs.collect())
}

/// The table function of a coordinator.
const WORKERS: &str = "coscan_workers";

/// The workers of the cluster, for administrators; null without a cluster.
pub(crate) async fn workers(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
) -> Result<Json<Value>, Refusal> {
    let context = http.state.session_context();
    if !user.role.admin || context.table_function(WORKERS).is_err() {
        return Ok(Json(Value::Null));
    }
    let failed =
        |error: DataFusionError| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.strip_backtrace());
    let frame = coscan_datafusion::sql(context, &format!("SELECT * FROM {WORKERS}()")).await;
    let batches = frame.map_err(failed)?.collect().await.map_err(failed)?;
    let mut writer = ArrayWriter::new(Vec::new());
    let written = batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish());
    written.map_err(|error| failed(error.into()))?;
    let json = serde_json::from_slice(&writer.into_inner());
    Ok(Json(json.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error))?))
}

/// A statement.
#[derive(Deserialize)]
pub(crate) struct Statement {
    sql: String,
}

/// Runs a statement in a new session and returns the first rows of its result as text.
pub(crate) async fn sql(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Extension(Peer(peer)): Extension<Peer>,
    Json(statement): Json<Statement>,
) -> Result<Json<Value>, Refusal> {
    let started = Instant::now();
    let session = http.state.open_session(user, Protocol::Http, Some(peer), None)?;
    let mut results = session.query(statement.sql.trim().trim_end_matches(';')).await?;
    let account = results.query().account().clone();
    let schema = results.schema();
    let column = |field: &Arc<datafusion::arrow::datatypes::Field>| json!({ "name": shown(field.name()), "type": field.data_type().to_string(), "number": field.data_type().is_numeric() });
    let columns: Vec<Value> = schema.fields().iter().map(column).collect();
    let (mut rows, mut letters, mut more) = (Vec::new(), 0, false);
    while let Some(batch) = results.next().await {
        let batch = batch?;
        more = !add_rows(&batch, &mut rows, &mut letters)?;
        if more {
            break;
        }
    }
    let progress = account.progress();
    Ok(Json(json!({
        "columns": columns, "rows": rows, "more": more, "ms": started.elapsed().as_secs_f64() * 1e3,
        "read": progress.done.bytes_loaded, "spared": progress.done.bytes_from_buffer,
    })))
}

/// Adds rows as text while there is room. Returns false if rows were left out.
fn add_rows(
    batch: &RecordBatch,
    rows: &mut Vec<Vec<Option<String>>>,
    letters: &mut usize,
) -> Result<bool, Refusal> {
    let options = FormatOptions::default().with_display_error(true);
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>();
    let columns = columns.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error))?;
    // A column of nulls alone has no mask of its own.
    let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    for row in 0..batch.num_rows() {
        if rows.len() == ROWS_SHOWN || *letters > LETTERS_SHOWN {
            return Ok(false);
        }
        let text = |(at, column): (usize, &ArrayFormatter<'_>)| {
            let null = nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!null).then(|| column.value(row).to_string())
        };
        let cells: Vec<Option<String>> = columns.iter().enumerate().map(text).collect();
        *letters += cells.iter().flatten().map(String::len).sum::<usize>();
        rows.push(cells);
    }
    Ok(true)
}

/// Stops a query. A user may stop its own queries, and an administrator any.
pub(crate) async fn stop(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Path(query): Path<u64>,
) -> Result<Json<Value>, Refusal> {
    let gone = || Refusal::new(StatusCode::NOT_FOUND, "this query does not run any more");
    let query = http.state.registry().query(query).ok_or_else(gone)?;
    let own = user.owns(&query.user);
    if !own && !user.role.admin {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "only a role with admin = true may stop queries of other users",
        ));
    }
    query.cancel.stop(if own { Stop::User } else { Stop::Administrator });
    http.state.audit().write("stop", &user.name, &[("query", query.id.into())]);
    Ok(Json(json!({ "stopped": query.id })))
}

fn only_admin(user: &User) -> Result<(), Refusal> {
    match user.role.admin {
        true => Ok(()),
        false => {
            Err(Refusal::new(StatusCode::FORBIDDEN, "only a role with admin = true may change the engine"))
        }
    }
}

/// The new policy.
#[derive(Deserialize)]
pub(crate) struct NewPolicy {
    policy: String,
}

/// Switches the policy. Running queries continue under the new one.
pub(crate) async fn policy(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Json(wanted): Json<NewPolicy>,
) -> Result<Json<Value>, Refusal> {
    only_admin(&user)?;
    let refused = |error: &dyn std::fmt::Display| Refusal::new(StatusCode::BAD_REQUEST, error);
    let policy: PolicyName = wanted.policy.parse().map_err(|error| refused(&error))?;
    http.state.engine().set_policy(policy).map_err(|error| refused(&error))?;
    http.state.audit().write("policy", &user.name, &[("policy", policy.as_str().into())]);
    Ok(Json(json!({ "policy": policy.as_str() })))
}

/// The new size of the buffer.
#[derive(Deserialize)]
pub(crate) struct NewBuffer {
    bytes: u64,
}

/// Resizes the buffer. A smaller size is reached as chunks are released.
pub(crate) async fn buffer(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Json(wanted): Json<NewBuffer>,
) -> Result<Json<Value>, Refusal> {
    only_admin(&user)?;
    let refused = |error: &dyn std::fmt::Display| Refusal::new(StatusCode::BAD_REQUEST, error);
    let most = memory_bytes();
    if !(BUFFER_MIN..=most).contains(&wanted.bytes) {
        return Err(refused(&format!("the buffer must have {BUFFER_MIN} to {most} bytes")));
    }
    http.state.engine().set_buffer(wanted.bytes).map_err(|error| refused(&error))?;
    http.state.audit().write("buffer", &user.name, &[("bytes", wanted.bytes.into())]);
    Ok(Json(json!({ "bytes": wanted.bytes })))
}
