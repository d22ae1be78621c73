//! Statements of the page: the first rows of a result, what the operators of a statement did, and samples that run
//! together.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::{Extension, Json};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Field;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::Refusal;
use super::guard::Peer;
use super::{Http, operators, samples, tables};
use crate::access::User;
use crate::sql::{Protocol, RunningQuery, Session, Stop, shown, type_shown};
use crate::values::shown_values;

/// Maximum number of rows and approximate maximum number of characters of a shown result.
const ROWS_SHOWN: usize = 1000;
const LETTERS_SHOWN: usize = 2 << 20;

/// A statement.
#[derive(Deserialize)]
pub(crate) struct Statement {
    sql: String,
    /// If false, the statement shares nothing with others.
    #[serde(default = "yes")]
    shared: bool,
}

fn yes() -> bool {
    true
}

/// Runs a statement in a new session and returns the first rows of its result as text.
pub(crate) async fn sql(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Extension(peer): Extension<Peer>,
    Json(statement): Json<Statement>,
) -> Result<Json<Value>, Refusal> {
    let started = Instant::now();
    let session = http.session(user, peer)?;
    if !statement.shared {
        session.share_nothing()?;
    }
    let mut results = session.query(statement.text()).await?;
    let query = results.query().clone();
    let column = |field: &Arc<Field>| {
        let number = field.data_type().is_numeric();
        let time = field.data_type().is_temporal();
        json!({ "name": shown(field.name()), "type": type_shown(field), "number": number, "time": time })
    };
    let columns: Vec<Value> = results.schema().fields().iter().map(column).collect();
    let (mut rows, mut letters, mut more) = (Vec::new(), 0, false);
    while let Some(batch) = results.next().await {
        more = !add_rows(&batch?, &mut rows, &mut letters)?;
        if more {
            query.cancel.stop(Stop::Enough);
            break;
        }
    }
    let done = query.account().progress().done;
    let read = match statement.shared {
        true => done.bytes_loaded,
        false => query.plan().map_or(0, operators::scanned),
    };
    Ok(Json(json!({
        "columns": columns, "rows": rows, "more": more, "ms": millis(started),
        "read": read, "spared": done.bytes_from_buffer,
    })))
}

impl Statement {
    fn text(&self) -> &str {
        self.sql.trim().trim_end_matches(';')
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

impl Http {
    /// A new session.
    fn session(&self, user: User, peer: Peer) -> Result<Session, Refusal> {
        Ok(self.state.open_session(user, Protocol::Http, Some(peer.0), None)?)
    }

    /// Runs a statement in a new session to its end, and drops its rows.
    async fn ran(&self, user: User, peer: Peer, sql: &str) -> Result<Arc<RunningQuery>, Refusal> {
        let session = self.session(user, peer)?;
        let mut results = session.query(sql).await?;
        while let Some(batch) = results.next().await {
            batch?;
        }
        Ok(results.query().clone())
    }
}

/// Runs a statement to its end and returns what its operators did.
pub(crate) async fn plan(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Extension(peer): Extension<Peer>,
    Json(statement): Json<Statement>,
) -> Result<Json<Value>, Refusal> {
    let started = Instant::now();
    let all = user.role.admin;
    let query = http.ran(user, peer, statement.text()).await?;
    let (tables, names) = (http.state.tables(), http.watch.names());
    let shown = |text: &str| if all { text.to_owned() } else { tables.without_paths(text) };
    let operators = query.plan().map(|plan| operators::listed(plan, shown, |file| names.of(file)));
    Ok(Json(
        json!({ "operators": operators.unwrap_or_default(), "ms": millis(started), "rows": query.rows() }),
    ))
}

/// The table of samples. By default, the largest one.
#[derive(Deserialize)]
pub(crate) struct Samples {
    table: Option<String>,
}

/// Runs samples over a table at the same time.
pub(crate) async fn run_samples(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
    Extension(peer): Extension<Peer>,
    Json(wanted): Json<Samples>,
) -> Result<Json<Value>, Refusal> {
    let known = tables::of_user(&http, &user).await;
    let table = match &wanted.table {
        Some(name) => known.iter().find(|table| table.name == *name),
        None => known.iter().max_by_key(|table| table.bytes),
    };
    let Some(table) = table else { return Err(Refusal::not_found("there is no such table")) };
    let started = Instant::now();
    let each = samples::over(table).into_iter().map(|sql| {
        let (http, user) = (http.clone(), user.clone());
        async move {
            let bytes = |query: Arc<RunningQuery>| {
                let done = query.account().progress().done;
                json!({ "read": done.bytes_loaded, "spared": done.bytes_from_buffer })
            };
            let outcome = http.ran(user, peer, &sql).await.map_or_else(Refusal::into_json, bytes);
            json!({ "sql": sql, "ms": millis(started), "outcome": outcome })
        }
    });
    let statements = futures::future::join_all(each).await;
    Ok(Json(json!({ "table": table.name, "ms": millis(started), "statements": statements })))
}

/// Adds rows as text while there is room. Returns false if rows were left out.
fn add_rows(
    batch: &RecordBatch,
    rows: &mut Vec<Vec<Option<String>>>,
    letters: &mut usize,
) -> Result<bool, Refusal> {
    let batch = batch.slice(0, batch.num_rows().min(ROWS_SHOWN - rows.len() + 1));
    let columns = batch.columns().iter().map(shown_values).collect::<Result<Vec<_>, _>>();
    let columns = columns.map_err(Refusal::bad)?;
    for row in 0..batch.num_rows() {
        if rows.len() == ROWS_SHOWN || *letters > LETTERS_SHOWN {
            return Ok(false);
        }
        let cells: Vec<Option<String>> = columns.iter().map(|column| column[row].clone()).collect();
        *letters += cells.iter().flatten().map(String::len).sum::<usize>();
        rows.push(cells);
    }
    Ok(true)
}
