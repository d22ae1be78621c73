//! An engine, its session and its threads; or a connection to a shared engine, and threads for it.
//!
//! Work runs on these threads. The caller waits for it without holding the interpreter, and looks for
//! Ctrl-C meanwhile. A process that was forked from the engine's has none of its threads, so that every use of the
//! engine there is an error.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coscan_datafusion::{CoscanContext, Interrupt, install_interrupts};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::{FutureExt, StreamExt};
use pyo3::prelude::*;
use tokio::runtime::{Handle, Runtime};
use tokio::task::AbortHandle;

use crate::errors;
use crate::session::Start;
use crate::shared::client::Client;

/// Stack size of a thread, of which only the used part takes memory. Plans of deep statements are dropped
/// recursively.
const STACK_BYTES: usize = 64 << 20;

/// Interval at which a waiting caller looks for signals.
pub(crate) const SIGNALS: Duration = Duration::from_millis(50);

/// Batches that a stream holds before its reader takes them.
const AHEAD: usize = 2;

/// The batches of a stream, then nothing, or an error.
pub(crate) type Batches = flume::Receiver<Result<Option<RecordBatch>>>;

/// Where statements run. Clones are of the same session.
#[derive(Clone)]
pub(crate) enum Source {
    /// In this process.
    Own(CoscanContext),
    /// In the process of a shared engine.
    Shared(Client),
}

/// See the module's documentation.
pub(crate) struct Core {
    /// Always there until the drop.
    parts: Option<(Source, Runtime)>,
    /// The process that has the threads.
    process: u32,
}

impl Core {
    /// Starts threads, and opens an engine on them.
    pub(crate) fn start(threads: usize, open: impl FnOnce() -> Result<Source>) -> PyResult<Arc<Core>> {
        let runtime = runtime(threads)?;
        let entered = runtime.enter();
        let source = open().map_err(|error| errors::raised(&error))?;
        drop(entered);
        Ok(Core::of(source, runtime))
    }

    /// Starts a thread and connects to the shared engine at this socket; `None` if there is none.
    pub(crate) fn connect(socket: &Path, start: Start, folder: PathBuf) -> PyResult<Option<Arc<Core>>> {
        let runtime = runtime(1)?;
        let client = runtime.block_on(Client::connect(socket, start, folder));
        let client = client.map_err(|error| errors::raised(&error))?;
        Ok(client.map(|client| Core::of(Source::Shared(client), runtime)))
    }

    fn of(source: Source, runtime: Runtime) -> Arc<Core> {
        Arc::new(Core { parts: Some((source, runtime)), process: std::process::id() })
    }

    /// The engine and its session, or the connection to a shared one.
    ///
    /// # Errors
    /// In a process that was forked from the one that has the threads.
    pub(crate) fn source(&self) -> PyResult<&Source> {
        Ok(&self.parts()?.0)
    }

    /// The engine of this process and its session.
    ///
    /// # Errors
    /// As [`Self::source`], and if the engine is a shared one.
    pub(crate) fn coscan(&self) -> PyResult<&CoscanContext> {
        match self.source()? {
            Source::Own(coscan) => Ok(coscan),
            Source::Shared(_) => Err(errors::not_supported(
                "the connection is one to a shared engine, and this needs an engine in the process itself",
            )),
        }
    }

    fn parts(&self) -> PyResult<&(Source, Runtime)> {
        if self.process != std::process::id() {
            return Err(errors::forked());
        }
        self.parts.as_ref().ok_or_else(errors::closed)
    }

    /// The engine's threads.
    pub(crate) fn handle(&self) -> PyResult<Handle> {
        Ok(self.parts()?.1.handle().clone())
    }

    /// Begins work on the engine's threads. It ends when the returned value is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> PyResult<Running> {
        let interrupt = Interrupt::default();
        let task = self.parts()?.1.spawn(interrupt.guard(work)).abort_handle();
        Ok(Running { interrupt, task })
    }

    /// Runs a stream on the engine's threads. It waits while its reader has not taken some batches.
    pub(crate) fn stream(
        &self,
        opening: impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
    ) -> PyResult<(Batches, Running)> {
        let (sender, receiver) = flume::bounded(AHEAD);
        let running = self.spawn(async move {
            let sent = &sender;
            let all = caught(async move {
                let mut batches = opening.await?;
                while let Some(batch) = batches.next().await.transpose()? {
                    if sent.send_async(Ok(Some(batch))).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            // The reader may be gone. Without this last message it would take an end for the end of the rows.
            let last = all.await.map(|()| None);
            let _ = sender.send_async(last).await;
        })?;
        Ok((receiver, running))
    }

    /// Runs a future on the engine's threads, and sends its value.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PyResult<(flume::Receiver<Result<T>>, Running)> {
        let (sender, receiver) = flume::bounded(1);
        let running = self.spawn(async move {
            // The caller may be gone.
            let _ = sender.send_async(caught(future).await).await;
        })?;
        Ok((receiver, running))
    }

    /// Runs a future on the engine's threads and waits for its value.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PyResult<T> {
        let (receiver, _running) = self.begin(future)?;
        received(py, &receiver, None)?.map_err(|error| errors::raised(&error))
    }
}

fn runtime(threads: usize) -> PyResult<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name("coscan").thread_stack_size(STACK_BYTES).enable_all();
    install_interrupts();
    builder.build().map_err(|error| errors::operational(&format!("cannot start threads: {error}")))
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let Some((source, runtime)) = self.parts.take() else { return };
        if self.process == std::process::id() {
            drop(source);
            // A query may be in a long loop.
            runtime.shutdown_background();
        } else {
            // Locks may be held forever by threads that this process does not have.
            std::mem::forget((source, runtime));
        }
    }
}

/// Work on the engine's threads, which ends when this is dropped.
pub(crate) struct Running {
    interrupt: Interrupt,
    task: AbortHandle,
}

impl Running {
    /// Ends the work.
    pub(crate) fn stop(&self) {
        self.interrupt.stop();
        self.task.abort();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A future whose panics are errors. Parsers of broken files may panic.
async fn caught<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(future).catch_unwind().await.unwrap_or_else(|panic| Err(errors::panicked(&*panic)))
}

/// Waits for a value without holding the interpreter, and ends the wait on a signal whose handler raises. Calls `watched`
/// now and then.
pub(crate) fn received<T: Send>(
    py: Python<'_>,
    receiver: &flume::Receiver<T>,
    watched: Option<&Bound<'_, PyAny>>,
) -> PyResult<T> {
    loop {
        match py.detach(|| receiver.recv_timeout(SIGNALS)) {
            Ok(value) => return Ok(value),
            Err(flume::RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                if let Some(watched) = watched {
                    watched.call0()?;
                }
            }
            Err(flume::RecvTimeoutError::Disconnected) => return Err(errors::cancelled()),
        }
    }
}
