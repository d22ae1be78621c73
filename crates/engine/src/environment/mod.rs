//! The environment of an engine: its clock, its alarm, and its readers. Everything else in the engine gets
//! the time as an argument and never waits.
//!
//! ```text
//! Engine ──────────── now, set_alarm, start, abort ────────────> Environment
//!        <─────────── alarm, arrived, ended (Host) ─────────────
//! ```
//!
//! There is a real environment (`threads.rs`) and a simulated one (the crate `coscan-engine-sim`), in which a
//! seed decides the next step. This module is not part of the stable interface.

mod alarm;
mod measure;
pub(crate) mod threads;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_core::Usage;
use coscan_device::probe::Profile;

pub use crate::io::Attempt;
pub use crate::io::cancel::Cancel;
pub use crate::io::object::request as read_object;
use crate::io::{ReadError, Source};
pub use crate::sync::{Point, interleave};

/// The interface that an engine needs of its environment. Calls return at once. None of them may call the
/// host back, except that `start` may report that the attempt has ended.
pub trait Environment: Send + Sync + 'static {
    /// The current time, which never goes back.
    fn now(&self) -> Instant;

    /// A seed for the jitter of retries.
    fn seed(&self) -> u64;

    /// Sets the host to call. Called once, before anything else except [`now`](Self::now) and
    /// [`seed`](Self::seed).
    ///
    /// # Errors
    /// If the environment cannot be started.
    fn connect(&self, host: Weak<dyn Host>) -> std::io::Result<()>;

    /// Sets or removes the time at which [`Host::alarm`] is called. Replaces the time set before.
    fn set_alarm(&self, at: Option<Instant>);

    /// Begins a read.
    fn start(&self, attempt: Attempt);

    /// Aborts an unwanted attempt. It still has to end; the environment decides how soon.
    fn abort(&self, attempt: u64);

    /// The engine has ended: the host must not be called again.
    fn close(&self);

    /// Measures the device of a file for this long, and then reports the result, if there is one.
    fn measure(&self, source: Arc<Source>, time: Duration, tell: Box<dyn FnOnce(Option<Profile>) + Send>) {
        let _ = (source, time);
        tell(None);
    }
}

/// The reports of the environment to an engine.
pub trait Host: Send + Sync {
    /// The time of the alarm has come. Spurious calls are allowed.
    fn alarm(&self);

    /// A part of an attempt, by its position there, has arrived.
    fn arrived(&self, attempt: u64, part: usize, bytes: Bytes);

    /// A part of an attempt is in the page cache, and was left there because it may stay.
    fn cached(&self, attempt: u64, part: usize);

    /// An attempt has ended. Every attempt ends once.
    fn ended(&self, attempt: u64, outcome: Result<(), ReadError>);

    /// Recomputes everything and compares, then returns the engine's holdings; `None` if a change is in
    /// progress. `quiet` promises that no other task is inside the engine, so that parts may be inspected.
    ///
    /// # Panics
    /// If something is inconsistent.
    fn audit(&self, quiet: bool) -> Option<Audit>;
}

/// The holdings of an engine at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The ledger.
    pub usage: Usage,
    /// Encoded bytes of resident parts, counted independently.
    pub resident_bytes: u64,
    /// Encoded bytes of parts that have arrived partly, counted independently.
    pub arrived_bytes: u64,
    /// Bytes of decoded arrays that are kept for other scans, counted independently if the engine was quiet.
    pub decoded_bytes: Option<u64>,
    /// Bytes of point reads and their frames, counted independently.
    pub point_bytes: u64,
    /// The number of registered scans.
    pub scans: usize,
    /// The number of loads in flight.
    pub loads: usize,
    /// The number of point reads that have begun and not ended.
    pub point_reads: usize,
    /// The free permits for point reads' room.
    pub free_permits: usize,
    /// All permits for point reads' room.
    pub point_permits: usize,
    /// The number of unanswered requests.
    pub requests: usize,
    /// The number of attempts that have not ended, including aborted ones.
    pub attempts: usize,
}
