//! The world around an engine: its clock, its alarm, and whoever reads. Everything else in the engine is told the time
//! and never waits.
//!
//! ```text
//! Engine ──────────── now, set_alarm, start, abort ────────────> Environment
//!        <─────────── alarm, arrived, ended (Host) ─────────────
//! ```
//!
//! There is one for real (`threads.rs`) and one that a simulation owns (the crate `coscan-engine-sim`), which decides by
//! a seed what happens next. This module is no part of the stable interface.

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

/// What an engine needs of the world. Calls return at once; none of them may call the host back from within, except
/// that `start` may report that the attempt has ended.
pub trait Environment: Send + Sync + 'static {
    /// The time; it never goes back.
    fn now(&self) -> Instant;

    /// A number to spread retries with.
    fn seed(&self) -> u64;

    /// Whom to call from now on. Called once, before anything else but [`now`](Self::now) and [`seed`](Self::seed).
    ///
    /// # Errors
    /// If the environment cannot be started.
    fn connect(&self, host: Weak<dyn Host>) -> std::io::Result<()>;

    /// Has [`Host::alarm`] called at that time, or never; what was set before does not count any more.
    fn set_alarm(&self, at: Option<Instant>);

    /// Begins to read.
    fn start(&self, attempt: Attempt);

    /// Nobody wants this attempt any more. It still has to end; how soon is up to the environment.
    fn abort(&self, attempt: u64);

    /// The engine is no more: nobody has to be called.
    fn close(&self);

    /// Measures the device under a file for so long, and then tells what was found, if anything was.
    fn measure(&self, source: Arc<Source>, time: Duration, tell: Box<dyn FnOnce(Option<Profile>) + Send>) {
        let _ = (source, time);
        tell(None);
    }
}

/// What the world tells an engine.
pub trait Host: Send + Sync {
    /// The time that the alarm was set to has come. Calls in vain do no harm.
    fn alarm(&self);

    /// A part of an attempt, by its position there, has arrived.
    fn arrived(&self, attempt: u64, part: usize, bytes: Bytes);

    /// Nothing more will come of an attempt. Every attempt ends once.
    fn ended(&self, attempt: u64, outcome: Result<(), ReadError>);

    /// Recomputes everything and compares, then says what the engine holds; `None` if it is in the middle of
    /// something. `quiet` promises that nobody is inside the engine, so that parts may be looked into.
    ///
    /// # Panics
    /// If something is not as it must be.
    fn audit(&self, quiet: bool) -> Option<Audit>;
}

/// One try at reading parts of a file, ascending and disjoint.
#[derive(Debug)]
pub struct Attempt {
    /// Its name, used once.
    pub no: u64,
    /// The file.
    pub source: Arc<Source>,
    /// What to read.
    pub ranges: Vec<Range<u64>>,
}

/// What an engine holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The ledger.
    pub usage: Usage,
    /// Encoded bytes of resident parts, counted anew.
    pub resident_bytes: u64,
    /// Encoded bytes of parts that have arrived in part, counted anew.
    pub arrived_bytes: u64,
    /// Bytes of decoded arrays that are kept for others, counted anew if it was quiet.
    pub decoded_bytes: Option<u64>,
    /// Bytes of point reads and their frames, counted anew.
    pub point_bytes: u64,
    /// Scans that are registered.
    pub scans: usize,
    /// Loads in flight.
    pub loads: usize,
    /// Point reads that have begun and not ended.
    pub point_reads: usize,
    /// Permits for point reads' room that are free, and all there are.
    pub free_permits: usize,
    /// See `free_permits`.
    pub point_permits: usize,
    /// Requests that are not answered yet.
    pub requests: usize,
    /// Attempts that have not ended, those that nobody wants any more included.
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
    /// Says so.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Whether it was said.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Completes when it is said.
    pub async fn cancelled(&self) {
        let mut receiver = self.cancelled.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = receiver.wait_for(|cancelled| *cancelled).await;
    }
}
