//! The threads of statements, separate from those of connections.
//!
//! An operator may compute for seconds before it yields. On the threads of connections this would delay logins,
//! timers and cancel requests. Planning may also compute for seconds, and never yields. Every statement is therefore
//! planned on a thread of its own, so that it delays no other planning.

use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion::common::{DataFusionError, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

/// Stack size of a thread, of which only the used part takes memory. It is enough for the deepest statement that
/// `nesting` accepts.
const STACK_BYTES: usize = 256 << 20;

/// The threads. When this is dropped, they end by themselves.
pub(crate) struct Work(Option<Runtime>);

impl Work {
    /// Starts this number of threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_name("coscan-query").thread_stack_size(STACK_BYTES);
        builder.enable_all();
        let runtime = builder.build().map_err(DataFusionError::IoError)?;
        Ok(Work(Some(runtime)))
    }

    /// Runs a future on these threads.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime().spawn(future)
    }

    /// Runs planning on these threads. If the caller drops this future, planning is cancelled at its next yield.
    /// `None` if it panicked.
    pub(crate) async fn plan<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let threads = self.runtime().handle().clone();
        let planning = async move {
            tokio::select! {
                biased;
                _ = unwanted => None,
                output = future => Some(output),
            }
        };
        self.runtime().spawn_blocking(move || threads.block_on(planning)).await.ok().flatten()
    }

    fn runtime(&self) -> &Runtime {
        match &self.0 {
            Some(runtime) => runtime,
            None => unreachable!("the threads are there until they are dropped"),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that is cancelled when this handle is dropped.
pub(crate) struct Unfinished<T>(pub(crate) JoinHandle<T>);

impl<T> Future for Unfinished<T> {
    type Output = std::result::Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Unfinished<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
