//! The rows of a running statement.
//!
//! A separate task takes batches from the plan and puts them into a queue of one. A client that does not read
//! therefore delays only its own plan, and for a bounded time. While it does not read, its statement has no turn, so that
//! other statements run. A stop takes effect at once, whether the client reads or not. Chunks that the plan holds are
//! released when it is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coscan_datafusion::Interrupt;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use futures::Stream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::again::Execution;
use super::explain::Explained;
use super::session::{SessionBase, Turned};
use super::size::bytes_of;
use super::work::{OnLane, Task};
use super::{Cancel, QueryError, RunningQuery, SessionEntry, Stop, Tables};

/// Time for which a client may leave a batch unread before its statement gives its turn back.
const UNREAD: Duration = Duration::from_secs(1);

/// The stream of rows. Dropping it stops the statement.
#[derive(Debug)]
pub struct Results {
    schema: SchemaRef,
    query: Arc<RunningQuery>,
    batches: mpsc::Receiver<Result<RecordBatch, QueryError>>,
    pump: AbortHandle,
}

impl Results {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The statement.
    pub fn query(&self) -> &Arc<RunningQuery> {
        &self.query
    }
}

impl Stream for Results {
    type Item = Result<RecordBatch, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(cx)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Records the end of a statement, on every path.
pub(crate) struct Ending {
    base: Arc<SessionBase>,
    session: Arc<SessionEntry>,
    query: Arc<RunningQuery>,
    /// The whole text, for the audit log.
    sql: String,
    /// The time at which the client sent the statement.
    begun: Instant,
    /// The text of the prepared statement, if it is not that of the query.
    prepared: Option<String>,
    noted: bool,
}

impl Ending {
    pub(crate) fn new(
        base: Arc<SessionBase>,
        session: Arc<SessionEntry>,
        query: Arc<RunningQuery>,
        sql: String,
        begun: Instant,
        prepared: Option<String>,
    ) -> Self {
        // The line is written at the end, which no other line of the session replaces.
        session.set_audited();
        Ending { base, session, query, sql, begun, prepared, noted: false }
    }

    pub(crate) fn note(&mut self, error: Option<&QueryError>) {
        if std::mem::replace(&mut self.noted, true) {
            return;
        }
        let error = error.filter(|error| !matches!(error, QueryError::Stopped(Stop::Enough)));
        let error = error.map(|error| (error.sqlstate(), error.to_string()));
        let finished = self.base.registry().end(&self.session, &self.query, self.begun.into_std(), error);
        let (query, took_ms) = (finished.id, finished.took.as_secs_f64() * 1e3);
        let code = finished.error.as_ref().map_or("00000", |(code, _)| code);
        tracing::info!(query, user = finished.user, took_ms, rows = finished.rows, code, "statement ended");
        self.base.audit().write(
            "statement",
            &finished.user,
            &[
                ("query", query.into()),
                ("session", self.session.id.into()),
                ("protocol", finished.protocol.as_str().into()),
                ("peer", self.session.peer.map(|peer| peer.to_string()).into()),
                ("sql", std::mem::take(&mut self.sql).into()),
                ("prepared", self.prepared.take().into()),
                ("rows", finished.rows.into()),
                ("took_ms", took_ms.into()),
                ("code", code.into()),
            ],
        );
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.note(Some(&QueryError::Stopped(self.query.cancel.reason().unwrap_or(Stop::Disconnected))));
    }
}

/// The limits of a running statement.
pub(crate) struct Bounds {
    pub(crate) deadline: Option<Instant>,
    pub(crate) stalled_after: Duration,
    pub(crate) result_bytes: u64,
    /// The tables whose paths the user may not see.
    pub(crate) hides: Option<Arc<Tables>>,
    /// The form of the rows if they are the text of a plan.
    pub(crate) explained: Option<Explained>,
    /// The statement's turns, released at its end and while the client does not read.
    pub(crate) turns: Turned,
}

/// Starts the statement. Its plan runs on the threads of its user. The task that watches over it runs on the current
/// runtime, where no query computes.
pub(crate) fn start(
    mut execution: Execution,
    lane: OnLane,
    interrupt: &Interrupt,
    mut bounds: Bounds,
    mut ending: Ending,
) -> Results {
    let (schema, query) =
        (bounds.explained.map_or_else(|| execution.schema(), Explained::columns), ending.query.clone());
    let (made, mut batches_made) = mpsc::channel(1);
    let computing = lane.spawn(interrupt, async move {
        while let Some(batch) = execution.next().await {
            if made.send(batch).await.is_err() {
                return;
            }
        }
    });
    let (sender, batches) = mpsc::channel(1);
    let pump = tokio::spawn(async move {
        let query = ending.query.clone();
        let error = pump(&mut batches_made, computing, &mut bounds, &query, &sender).await.err();
        drop(lane);
        bounds.turns.give_back(&query);
        ending.note(error.as_ref());
        if let Some(mut error) = error {
            if let Some(tables) = &bounds.hides {
                error = error.without_paths(tables);
            }
            // A client that has left does not get the error.
            let _ = sender.send(Err(error)).await;
        }
    });
    Results { schema, query, batches, pump: pump.abort_handle() }
}

async fn pump(
    made: &mut mpsc::Receiver<datafusion::common::Result<RecordBatch>>,
    computing: Task<()>,
    bounds: &mut Bounds,
    query: &RunningQuery,
    sender: &mpsc::Sender<Result<RecordBatch, QueryError>>,
) -> Result<(), QueryError> {
    loop {
        let Some(batch) = stoppable(&query.cancel, bounds.deadline, made.recv()).await? else { break };
        let mut batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        if let Some(explained) = bounds.explained {
            batch = explained.rows(&batch)?;
            if let Some(tables) = &bounds.hides {
                batch = without_paths(&batch, tables)?;
            }
        }
        let bytes = batch.columns().iter().map(|column| bytes_of(column) as u64).sum();
        let bytes = query.delivered(batch.num_rows() as u64, bytes);
        if bounds.result_bytes > 0 && bytes > bounds.result_bytes {
            return Err(QueryError::ResultTooLarge { limit: bounds.result_bytes });
        }
        let deadline = bounds.deadline;
        let reads = async {
            if let Ok(place) = tokio::time::timeout(UNREAD, sender.reserve()).await {
                return Ok::<_, QueryError>(place);
            }
            query.stalls();
            bounds.turns.give_back(query);
            let place = tokio::time::timeout(bounds.stalled_after.saturating_sub(UNREAD), sender.reserve());
            let place = place.await.map_err(|_| QueryError::Stopped(Stop::Stalled))?;
            bounds.turns.take_again(query).await?;
            Ok(place)
        };
        match stoppable(&query.cancel, deadline, reads).await?? {
            Ok(place) => place.send(Ok(batch)),
            Err(_) => return Err(QueryError::Stopped(Stop::Disconnected)),
        }
    }
    computing.ended().await.ok_or_else(QueryError::panicked)
}

/// The rows of a plan's text without paths of tables.
fn without_paths(batch: &RecordBatch, tables: &Tables) -> datafusion::common::Result<RecordBatch> {
    let column = |column: &ArrayRef| -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(texts) => {
                let texts = texts.iter().map(|text| text.map(|text| tables.without_paths(text)));
                Arc::new(texts.collect::<StringArray>())
            }
            None => column.clone(),
        }
    };
    Ok(RecordBatch::try_new(batch.schema(), batch.columns().iter().map(column).collect())?)
}

/// Runs `work` unless it is stopped or its deadline passes.
pub(crate) async fn stoppable<F: Future>(
    cancel: &Cancel,
    deadline: Option<Instant>,
    work: F,
) -> Result<F::Output, QueryError> {
    let over = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        stop = cancel.stopped() => Err(QueryError::Stopped(stop)),
        () = over => Err(QueryError::Stopped(Stop::Timeout)),
        output = work => Ok(output),
    }
}
