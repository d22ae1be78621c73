//! The engine's protocols between tasks and threads (`crates/engine/src/protocol`) under loom, which runs small programs
//! in every order in which their threads can take turns, up to a bound on preemptions, and reports what gets stuck.
//!
//! The protocols' sources are included here with loom's lock in the place of the standard library's. Beside the right
//! protocols stand wrong ones that once were, or might have been: the check has to find them.
#![cfg(test)]

#[path = "../../src/protocol/mod.rs"]
#[allow(dead_code, reason = "the engine uses more of it")]
mod protocol;

mod sync {
    //! The lock of the model.
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

mod exclusive;
mod handoff;
mod worker_slots;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

/// Tries every order of turns with at most this many preemptions.
fn check(preemptions: usize, program: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(program);
}

/// Runs a task to its end on this thread.
fn run<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loom::future::block_on(poll_fn(|cx| poll(cx)))
}

/// A task that was polled once.
struct Once {
    ready: bool,
    woken: Arc<Woken>,
}

/// True if a task was woken. It is none of loom's, so that it may be dropped when a check fails.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Once {
    fn poll(poll: impl FnOnce(&mut Context<'_>) -> Poll<()>) -> Self {
        let woken = Arc::<Woken>::default();
        let ready = poll(&mut Context::from_waker(&woken.clone().into())).is_ready();
        Once { ready, woken }
    }

    /// Nobody else runs any more: the task must be done or know that it has to look again.
    fn goes_on(&self) {
        assert!(self.ready || self.woken.0.load(Ordering::SeqCst), "a lost wake-up");
    }
}
