//! The thread that tells the buffer manager when a deadline has passed and nothing else happened.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

/// The next deadline.
#[derive(Default)]
pub(crate) struct Clock {
    face: Mutex<Face>,
    changed: Condvar,
}

#[derive(Default)]
struct Face {
    deadline: Option<Instant>,
    closed: bool,
}

impl Clock {
    fn face(&self) -> MutexGuard<'_, Face> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the deadline.
    pub(crate) fn set(&self, deadline: Option<Instant>) {
        let mut face = self.face();
        if face.deadline != deadline {
            let sooner = deadline.is_some_and(|at| face.deadline.is_none_or(|before| at < before));
            face.deadline = deadline;
            if sooner {
                self.changed.notify_one();
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.face().closed = true;
        self.changed.notify_one();
    }

    /// Waits for the deadline and takes it; false when the clock is closed.
    fn wait(&self) -> bool {
        let mut face = self.face();
        while !face.closed {
            let now = Instant::now();
            face = match face.deadline {
                Some(at) if at <= now => {
                    face.deadline = None;
                    return true;
                }
                Some(at) => {
                    self.changed.wait_timeout(face, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(face).unwrap_or_else(PoisonError::into_inner),
            };
        }
        false
    }

    /// Starts the thread, which calls `ring` on what is left of `host` at every deadline.
    pub(crate) fn start<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        host: Weak<T>,
        ring: fn(&T),
    ) -> std::io::Result<()> {
        let clock = self.clone();
        let run = move || {
            while clock.wait() {
                let Some(host) = host.upgrade() else { return };
                ring(&host);
            }
        };
        thread::Builder::new().name("coscan-clock".into()).spawn(run).map(drop)
    }
}
