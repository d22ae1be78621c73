//! Limits of a measurement: time, bytes, and the share of time for reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coscan_device::probe::ProbeError;

/// A rest is taken once this much is due, because short sleeps are inexact.
const REST_MIN: Duration = Duration::from_millis(5);

/// The limits of a measurement.
#[derive(Debug)]
pub struct Budget {
    until: Instant,
    bytes_max: u64,
    bytes: AtomicU64,
    /// The share of time for reads, at most 1.
    share: f64,
    owed: Duration,
    /// Set by an interrupt, which ends the measurement.
    stopped: Arc<AtomicBool>,
}

impl Budget {
    /// `stopped` ends the measurement like a limit.
    pub fn new(time: Duration, bytes_max: u64, share: f64, stopped: Arc<AtomicBool>) -> Self {
        let until = Instant::now() + time;
        Budget { until, bytes_max, bytes: AtomicU64::new(0), share, owed: Duration::ZERO, stopped }
    }

    /// Counts a read of this many bytes before it starts.
    pub fn spend(&self, bytes: u64) -> Result<(), ProbeError> {
        let spent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let stopped = self.stopped.load(Ordering::Relaxed);
        if stopped || spent > self.bytes_max || Instant::now() >= self.until {
            Err(ProbeError::LimitReached)
        } else {
            Ok(())
        }
    }

    /// Rests after reads that took `busy`, as long as the share requires.
    pub fn rest(&mut self, busy: Duration) {
        self.owed += busy.mul_f64(1.0 / self.share - 1.0);
        if self.owed >= REST_MIN {
            thread::sleep(self.owed.min(self.until.saturating_duration_since(Instant::now())));
            self.owed = Duration::ZERO;
        }
    }

    /// The time left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Bytes requested so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
