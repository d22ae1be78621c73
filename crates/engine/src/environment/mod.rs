//! The environment of an engine: its clock, its alarm, and its readers. Everything else in the engine gets the time
//! as an argument and never waits.
//!
//! ```text
//! Engine ──────────── now, set_alarm, start, abort ────────────> Environment
//!        <─────────── alarm, arrived, ended (Host) ─────────────
//! ```
//!
//! There is a real one (`threads.rs`) and a simulated one (the crate `coscan-engine-sim`), in which a seed decides
//! what happens next. This module is not part of the stable interface.

mod alarm;
pub(crate) mod clock;
mod measure;
pub(crate) mod threads;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_core::Usage;
use coscan_device::probe::Profile;
use tokio::sync::watch;

pub use crate::io::object::request as read_object;
use crate::io::{ReadError, Source};
pub use crate::sync::{Point, interleave};

/// What an engine needs of its environment. Calls return at once. None of them may call the host back, except that
/// `start` may report that the attempt has ended.
pub trait Environment: Send + Sync + 'static {
    /// The time; it never goes back.
    fn now(&self) -> Instant;

    /// A seed for the jitter of retries.
    fn seed(&self) -> u64;

    /// The host to call from now on. Called once, before anything else but [`now`](Self::now) and
    /// [`seed`](Self::seed).
    ///
    /// # Errors
    /// If the environment cannot be started.
    fn connect(&self, host: Weak<dyn Host>) -> std::io::Result<()>;

    /// Sets the time at which [`Host::alarm`] is called, or none; replaces the time set before.
    fn set_alarm(&self, at: Option<Instant>);

    /// Begins a read.
    fn start(&self, attempt: Attempt);

    /// Aborts an attempt that no scan wants any more. It still has to end; the environment decides how soon.
    fn abort(&self, attempt: u64);

    /// The engine has ended: the host is not called any more.
    fn close(&self);

    /// Measures the device of a file for this long, and then reports the result, if there is one.
    fn measure(&self, source: Arc<Source>, time: Duration, tell: Box<dyn FnOnce(Option<Profile>) + Send>) {
        let _ = (source, time);
        tell(None);
    }
}

/// What the environment reports to an engine.
pub trait Host: Send + Sync {
    /// The time of the alarm has come. Spurious calls are allowed.
    fn alarm(&self);

    /// A part of an attempt, by its position there, has arrived.
    fn arrived(&self, attempt: u64, part: usize, bytes: Bytes);

    /// A part of an attempt that may stay there is in the page cache.
    fn cached(&self, attempt: u64, part: usize);

    /// An attempt has ended. Every attempt ends once.
    fn ended(&self, attempt: u64, outcome: Result<(), ReadError>);

    /// Recomputes everything and compares, then says what the engine holds; `None` if a change is in progress.
    /// `quiet` promises that no other task is inside the engine, so that parts may be inspected.
    ///
    /// # Panics
    /// If something is inconsistent.
    fn audit(&self, quiet: bool) -> Option<Audit>;
}

/// An attempt to read parts of a file, ascending and disjoint.
#[derive(Debug)]
pub struct Attempt {
    /// Its name, used once.
    pub no: u64,
    /// The file.
    pub source: Arc<Source>,
    /// What to read.
    pub ranges: Vec<Range<u64>>,
    /// True if they may be left in the page cache.
    pub may_stay: bool,
}

/// What an engine holds at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The ledger.
    pub usage: Usage,
    /// Encoded bytes of resident parts, counted again.
    pub resident_bytes: u64,
    /// Encoded bytes of parts that have arrived partly, counted again.
    pub arrived_bytes: u64,
    /// Bytes of decoded arrays that are kept for others, counted again if it was quiet.
    pub decoded_bytes: Option<u64>,
    /// Bytes of point reads and their frames, counted again.
    pub point_bytes: u64,
    /// Scans that are registered.
    pub scans: usize,
    /// Loads in flight.
    pub loads: usize,
    /// Point reads that have begun and not ended.
    pub point_reads: usize,
    /// Free permits for point reads' room, and all permits.
    pub free_permits: usize,
    /// See `free_permits`.
    pub point_permits: usize,
    /// Requests that are not answered yet.
    pub requests: usize,
    /// Attempts that have not ended, aborted ones included.
    pub attempts: usize,
}

/// Tells a reader that nobody waits for it any more.
#[derive(Clone)]
pub struct Cancel {
    cancelled: Arc<watch::Sender<bool>>,
}

impl Default for Cancel {
    fn default() -> Self {
        Cancel { cancelled: Arc::new(watch::Sender::new(false)) }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Cancel {
    /// Cancels.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Returns whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Completes when it is cancelled.
    pub async fn cancelled(&self) {
        let mut receiver = self.cancelled.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = receiver.wait_for(|cancelled| *cancelled).await;
    }
}
