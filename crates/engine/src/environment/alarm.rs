//! The alarm: a thread that tells the engine that a deadline has passed without another event.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real environment")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::Host;
use crate::clock::now;
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
    /// The time at which the thread wakes by itself; `None` if it does not.
    looks_at: Option<Instant>,
    closed: bool,
}

impl Alarm {
    fn timer(&self) -> MutexGuard<'_, Timer> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the deadline. The thread is woken only if it would wake too late: every load has a deadline,
    /// and each would wake the thread otherwise.
    pub(super) fn set(&self, deadline: Option<Instant>) {
        let mut timer = self.timer();
        timer.deadline = deadline;
        if let Some(at) = deadline
            && timer.looks_at.is_none_or(|looks_at| at < looks_at)
        {
            // Callers who set other deadlines before the thread is awake need not wake it again.
            timer.looks_at = Some(at);
            self.changed.notify_one();
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
            timer.looks_at = timer.deadline;
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

    /// Starts the thread, which calls `host`, if it still exists, at every deadline. A panic there is a bug
    /// of the engine, which the engine reports to all waiting tasks; without an alarm they would wait
    /// forever.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_deadline_counts_whatever_was_set_before() {
        // The time of the thread's first wait, and the deadline that counts.
        for (first, last) in [(10_000, 40), (40, 80), (40, 10_000)] {
            // A slow machine may set the last deadline when the first is over. Then all times are made
            // longer.
            let mut tried =
                [1, 4, 16, 64, 256].into_iter().map(|times| was_told(first * times, last * times));
            assert!(tried.any(|in_time| in_time), "until {first}, then {last}: late at any time");
        }
    }

    /// Sets deadlines one after the other, the last of which counts. Returns false if that took until the
    /// first.
    fn was_told(first: u64, last: u64) -> bool {
        let ms = Duration::from_millis;
        let (alarm, start) = (Arc::new(Alarm::default()), now());
        let waiting = {
            let alarm = alarm.clone();
            thread::spawn(move || (alarm.wait(), now()))
        };
        for deadline in [Some(first), None, Some(first), None, Some(last)] {
            thread::sleep(ms(4));
            alarm.set(deadline.map(|deadline| start + ms(deadline)));
        }
        if now() >= start + ms(first) {
            alarm.close();
            let _ = waiting.join();
            return false;
        }
        if last > first && last >= 100 * first {
            // It was not told at the first deadline.
            thread::sleep(ms(2 * first));
            assert!(!waiting.is_finished(), "until {first}, then {last}");
            alarm.close();
            assert!(!waiting.join().unwrap().0, "closed");
            return true;
        }
        let (told, at) = waiting.join().unwrap();
        assert!(told && at >= start + ms(last), "until {first}, then {last}");
        assert!(last > first || at < start + ms(first), "until {first}, then {last}: {:?}", at - start);
        true
    }
}
