//! The rows of a running statement.
//!
//! A separate task takes batches from the plan and puts them into a queue of one. A client that does not read
//! therefore delays only its own plan, and for a bounded time. A stop takes effect at once, whether the client reads
//! or not. Chunks that the plan holds are released when it is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::again::Execution;
use super::session::SessionBase;
use super::size::bytes_of;
use super::work::{Unfinished, Work};
use super::{Cancel, QueryError, RunningQuery, SessionEntry, Stop};

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
    noted: bool,
}

impl Ending {
    pub(crate) fn new(base: Arc<SessionBase>, session: Arc<SessionEntry>, query: Arc<RunningQuery>) -> Self {
        Ending { base, session, query, noted: false }
    }

    pub(crate) fn note(&mut self, error: Option<&QueryError>) {
        if std::mem::replace(&mut self.noted, true) {
            return;
        }
        let error = error.map(|error| (error.sqlstate(), error.to_string()));
        let finished = self.base.registry().end(&self.query, error);
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
                ("sql", finished.sql.into()),
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
    /// The statement's turns, released at its end.
    pub(crate) turns: Vec<OwnedSemaphorePermit>,
}

/// Starts the statement. Its plan runs on the threads of queries. The task that watches over it runs on the current
/// runtime, where no query computes.
pub(crate) fn start(mut execution: Execution, work: &Work, bounds: Bounds, mut ending: Ending) -> Results {
    let (schema, query) = (execution.schema(), ending.query.clone());
    let (made, mut batches_made) = mpsc::channel(1);
    let computing = Unfinished(work.spawn(async move {
        while let Some(batch) = execution.next().await {
            if made.send(batch).await.is_err() {
                return;
            }
        }
    }));
    let (sender, batches) = mpsc::channel(1);
    let pump = tokio::spawn(async move {
        let query = ending.query.clone();
        let error = pump(&mut batches_made, computing, &bounds, &query, &sender).await.err();
        drop(bounds.turns);
        ending.note(error.as_ref());
        if let Some(error) = error {
            // A client that has left does not get the error.
            let _ = sender.send(Err(error)).await;
        }
    });
    Results { schema, query, batches, pump: pump.abort_handle() }
}

async fn pump(
    made: &mut mpsc::Receiver<datafusion::common::Result<RecordBatch>>,
    computing: Unfinished<()>,
    bounds: &Bounds,
    query: &RunningQuery,
    sender: &mpsc::Sender<Result<RecordBatch, QueryError>>,
) -> Result<(), QueryError> {
    loop {
        let Some(batch) = stoppable(&query.cancel, bounds.deadline, made.recv()).await? else { break };
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        let bytes = batch.columns().iter().map(|column| bytes_of(column) as u64).sum();
        let bytes = query.delivered(batch.num_rows() as u64, bytes);
        if bounds.result_bytes > 0 && bytes > bounds.result_bytes {
            return Err(QueryError::ResultTooLarge { limit: bounds.result_bytes });
        }
        let sent = tokio::time::timeout(bounds.stalled_after, sender.send(Ok(batch)));
        match stoppable(&query.cancel, bounds.deadline, sent).await? {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(QueryError::Stopped(Stop::Disconnected)),
            Err(_) => return Err(QueryError::Stopped(Stop::Stalled)),
        }
    }
    computing.await.map_err(|_| QueryError::panicked())
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
