//! The engine's protocols between tasks and threads (`crates/engine/src/protocol`) under loom. Loom runs
//! small programs in every order of their threads' turns, up to a bound on preemptions, and reports tasks
//! that never end.
//!
//! The protocols' sources are included here with loom's lock in place of the standard library's. Next to the
//! right protocols are wrong ones, which the check has to find.
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

/// A waker that records whether it was woken. It does not use loom's types, so that it may be dropped when a
/// check fails.
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

    /// All other threads have ended: the task must be done, or must have been woken to look again.
    fn goes_on(&self) {
        assert!(self.ready || self.woken.0.load(Ordering::SeqCst), "a lost wake-up");
    }
}
