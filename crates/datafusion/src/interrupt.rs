//! Interruption of computations that do not yield.
//!
//! A stopped task ends where it yields. Planning never yields, and an expression over a batch yields only after the
//! batch. Such code calls [`check_interrupt`] between its parts and returns the error. A stopped computation therefore
//! ends with its current part.
//!
//! The interrupt belongs to the thread while it polls an [`Interruptible`] future. Tasks that DataFusion spawns inherit
//! it once [`install_interrupts`] was called.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Rows of the first part of a batch, and the duration of a part to aim at.
const FIRST_ROWS: usize = 256;
const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(20);

/// Time after which a poll leaves its worker to other tasks.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    /// The beginning of the poll of an interruptible future on this thread.
    static POLLED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A request to end a computation. Clones share it.
#[derive(Clone, Default)]
pub struct Interrupt {
    stopped: Arc<AtomicBool>,
    /// Dropped when the last task of the computation has ended.
    _held: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Ends the computation at its next call of [`check_interrupt`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`Interrupt::stop`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The same interrupt for tasks that hold a value: guarded futures, and the tasks that DataFusion spawns for them.
    #[must_use]
    pub fn holding(&self, value: Arc<dyn Any + Send + Sync>) -> Self {
        Interrupt { stopped: Arc::clone(&self.stopped), _held: Some(value) }
    }

    /// A future whose computations this interrupt can end.
    pub fn guard<F: Future>(&self, future: F) -> Interruptible<F> {
        Interruptible { interrupt: self.clone(), future: Box::pin(future) }
    }

    /// Makes this the interrupt of the thread until the returned value is dropped.
    fn enter(&self) -> Entered {
        let polled_at = POLLED_AT.get().or_else(|| Some(Instant::now()));
        Entered(CURRENT.replace(Some(self.clone())), POLLED_AT.replace(polled_at))
    }
}

/// Restores the interrupt that the thread had before, and the beginning of its poll.
struct Entered(Option<Interrupt>, Option<Instant>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
        POLLED_AT.set(self.1.take());
    }
}

/// A future that an [`Interrupt`] can end.
pub struct Interruptible<F> {
    future: Pin<Box<F>>,
    /// Dropped after the future, whose place it may hold.
    interrupt: Interrupt,
}

impl<F: Future> Future for Interruptible<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = self.interrupt.enter();
        self.future.as_mut().poll(cx)
    }
}

/// Returns an error if the computation of this thread was stopped.
///
/// # Errors
///
/// After [`Interrupt::stop`].
pub fn check_interrupt() -> Result<()> {
    let stopped = CURRENT.with_borrow(|current| current.as_ref().is_some_and(Interrupt::is_stopped));
    match stopped {
        true => Err(DataFusionError::Execution("the statement was stopped".to_owned())),
        false => Ok(()),
    }
}

/// Computes a part of a long computation that cannot yield. If the poll of this task has lasted for a while, the part is
/// computed outside of the runtime's workers, and another thread takes this worker's place: other tasks go on beside it.
pub(crate) fn aside<T>(compute: impl FnOnce() -> T) -> T {
    let is_long = POLLED_AT.get().is_some_and(|began| began.elapsed() > PATIENCE);
    let has_workers =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_long && has_workers() { tokio::task::block_in_place(compute) } else { compute() }
}

/// Evaluates `rows` rows in parts, and checks for an interrupt between them. Parts grow while they are fast, so that a
/// fast evaluation has few of them.
///
/// # Errors
///
/// Those of `evaluate`, and after [`Interrupt::stop`].
pub fn in_parts<T>(rows: usize, mut evaluate: impl FnMut(Range<usize>) -> Result<T>) -> Result<Vec<T>> {
    let (mut at, mut part, mut results) = (0, FIRST_ROWS, Vec::new());
    while at < rows {
        check_interrupt()?;
        let (end, begun) = (rows.min(at + part), Instant::now());
        results.push(aside(|| evaluate(at..end))?);
        at = end;
        match begun.elapsed() {
            took if took < SHORT => part *= 32,
            took if took > LONG => part = (part / 4).max(1),
            _ => {}
        }
    }
    Ok(results)
}

/// Makes tasks that DataFusion spawns inherit the interrupt of the task that spawns them. Further calls have no effect.
pub fn install_interrupts() {
    // An error means that another tracer is installed already. Interrupts then end only the first task of a query.
    let _ = set_join_set_tracer(&Inherit);
}

struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(
        &self,
        future: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match CURRENT.with_borrow(Clone::clone) {
            Some(current) => current.guard(future).boxed(),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match CURRENT.with_borrow(Clone::clone) {
            Some(current) => Box::new(move || {
                let _entered = current.enter();
                block()
            }),
            None => block,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stopped_computation_ends_between_parts() {
        let interrupt = Interrupt::default();
        let stops = interrupt.clone();
        let evaluated = interrupt.guard(async {
            let mut seen = 0;
            let parts = in_parts(1_000_000, |rows| {
                seen = rows.end;
                if rows.end > 10_000 {
                    stops.stop();
                }
                Ok(rows.len())
            });
            (parts, seen)
        });
        let (parts, seen) = evaluated.await;
        assert!(parts.is_err() && (10_000..1_000_000).contains(&seen), "{seen}");
        assert!(check_interrupt().is_ok(), "the thread itself was not stopped");
        assert_eq!(in_parts(1_000_000, |rows| Ok(rows.len())).unwrap().iter().sum::<usize>(), 1_000_000);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn spawned_tasks_inherit_the_interrupt() {
        install_interrupts();
        let (interrupt, held) = (Interrupt::default(), Arc::new(()));
        let (go, goes) = tokio::sync::oneshot::channel::<()>();
        interrupt.stop();
        let spawned = interrupt.holding(held.clone()).guard(futures::future::lazy(|_| {
            datafusion::common::runtime::SpawnedTask::spawn(async {
                goes.await.unwrap();
                check_interrupt().is_err()
            })
        }));
        let spawned = spawned.await;
        assert_eq!(Arc::strong_count(&held), 2, "the task holds it");
        go.send(()).unwrap();
        assert!(spawned.join().await.unwrap());
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
