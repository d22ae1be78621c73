//! The thread that tells the engine when a deadline has passed and nothing else happened.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real environment")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::Host;
use super::clock::now;
use crate::error::panic_message;

/// The next deadline.
#[derive(Default)]
pub(super) struct Alarm {
    timer: Mutex<Timer>,
    changed: Condvar,
}

#[derive(Default)]
struct Timer {
    deadline: Option<Instant>,
    closed: bool,
}

impl Alarm {
    fn timer(&self) -> MutexGuard<'_, Timer> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the deadline.
    pub(super) fn set(&self, deadline: Option<Instant>) {
        let mut timer = self.timer();
        if timer.deadline != deadline {
            let sooner = deadline.is_some_and(|at| timer.deadline.is_none_or(|before| at < before));
            timer.deadline = deadline;
            if sooner {
                self.changed.notify_one();
            }
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        self.timer().closed = true;
        self.changed.notify_one();
    }

    /// Waits for the deadline and takes it; false when the alarm is closed.
    fn wait(&self) -> bool {
        let mut timer = self.timer();
        while !timer.closed {
            let now = now();
            timer = match timer.deadline {
                Some(at) if at <= now => {
                    timer.deadline = None;
                    return true;
                }
                Some(at) => {
                    self.changed.wait_timeout(timer, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(timer).unwrap_or_else(PoisonError::into_inner),
            };
        }
        false
    }

    /// Starts the thread, which calls `host`, if it still exists, at every deadline. A panic there is a bug of the
    /// engine, which the engine reports to all who wait; without an alarm they would wait forever.
    pub(super) fn start(self: &Arc<Self>, host: Weak<dyn Host>) -> std::io::Result<()> {
        let alarm = self.clone();
        let run = move || {
            while alarm.wait() {
                let Some(host) = host.upgrade() else { return };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.alarm())) {
                    tracing::error!(panic = panic_message(&*panic), "a panic at a deadline");
                }
            }
        };
        thread::Builder::new().name("coscan-clock".into()).spawn(run).map(drop)
    }
}
