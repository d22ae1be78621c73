//! Limits of a measurement: time, bytes, and the share of the time in which it may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coscan_device::probe::ProbeError;

/// Rests are taken once this much is due, so that sleeping is exact enough.
const REST_MIN: Duration = Duration::from_millis(5);

/// The limits of a measurement.
#[derive(Debug)]
pub struct Budget {
    until: Instant,
    bytes_max: u64,
    bytes: AtomicU64,
    /// The share of the time in which to read, up to 1.
    share: f64,
    owed: Duration,
    /// The longest limit.
    stopped: Arc<AtomicBool>,
}

impl Budget {
    /// `stopped` ends the measurement as a limit does.
    pub fn new(time: Duration, bytes_max: u64, share: f64, stopped: Arc<AtomicBool>) -> Self {
        let until = Instant::now() + time;
        Budget { until, bytes_max, bytes: AtomicU64::new(0), share, owed: Duration::ZERO, stopped }
    }

    /// Before a read of this many bytes.
    pub fn spend(&self, bytes: u64) -> Result<(), ProbeError> {
        let spent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let stopped = self.stopped.load(Ordering::Relaxed);
        if stopped || spent > self.bytes_max || Instant::now() >= self.until {
            Err(ProbeError::LimitReached)
        } else {
            Ok(())
        }
    }

    /// After reads that took this long: rests as long as the share requires.
    pub fn rest(&mut self, busy: Duration) {
        self.owed += busy.mul_f64(1.0 / self.share - 1.0);
        if self.owed >= REST_MIN {
            thread::sleep(self.owed.min(self.until.saturating_duration_since(Instant::now())));
            self.owed = Duration::ZERO;
        }
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Bytes that were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
