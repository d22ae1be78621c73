//! Requests of the page: the user, the policy, the buffer, the workers, stopping a query.

use std::net::SocketAddr;
use std::sync::Arc;

use arrow::json::ArrayWriter;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use coscan_engine::{PolicyName, memory_bytes, registry};
use datafusion::common::DataFusionError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Http;
use crate::access::{AccessError, User};
use crate::sql::{QueryError, Stop};

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

    pub(super) fn bad(why: impl std::fmt::Display) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }

    pub(super) fn not_found(why: impl std::fmt::Display) -> Self {
        Refusal::new(StatusCode::NOT_FOUND, why)
    }

    pub(super) fn into_json(self) -> Value {
        self.1
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

/// The user, the addresses of other clients, and the available policies.
pub(crate) async fn about(State(http): State<Arc<Http>>, Extension(user): Extension<User>) -> Json<Value> {
    let config = http.state.config();
    let ports: Vec<u16> = config.listen.iter().map(SocketAddr::port).collect();
    let policies: Vec<&str> = registry::sharing().map(|name| name.as_str()).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "user": user.name,
        "admin": user.role.admin,
        "policies": policies,
        "memory": memory_bytes(),
        "ports": ports,
        "tls": config.tls_cert.is_some(),
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

/// Stops a query. A user may stop its own queries, and an administrator any.
pub(crate) async fn stop(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Path(query): Path<u64>,
) -> Result<Json<Value>, Refusal> {
    let gone = || Refusal::not_found("this query does not run any more");
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
    let policy: PolicyName = wanted.policy.parse().map_err(Refusal::bad)?;
    http.state.engine().set_policy(policy).map_err(Refusal::bad)?;
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
    let most = memory_bytes();
    if !(BUFFER_MIN..=most).contains(&wanted.bytes) {
        return Err(Refusal::bad(format!("the buffer must have {BUFFER_MIN} to {most} bytes")));
    }
    http.state.engine().set_buffer(wanted.bytes).map_err(Refusal::bad)?;
    http.state.audit().write("buffer", &user.name, &[("bytes", wanted.bytes.into())]);
    Ok(Json(json!({ "bytes": wanted.bytes })))
}
