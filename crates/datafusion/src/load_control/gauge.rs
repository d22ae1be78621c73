//! The memory of the process in use, accounted for or not.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::state::Pressure;
use crate::lock::lock;

/// Lifetime of a reading. Each takes the system about ten microseconds.
const FRESH: Duration = Duration::from_millis(20);

/// Thresholds in percent of the process's memory. Above the first, all queries give up. Above the second,
/// queries that came late give up. Above the third, operators must spill and no query is admitted. Below the
/// fourth, the buffer gets back its share.
const BEYOND_PERCENT: u64 = 97;
const END_PERCENT: u64 = 92;
const HIGH_PERCENT: u64 = 80;
const LOW_PERCENT: u64 = 70;

/// Watches the process.
#[derive(Debug)]
pub(crate) struct Gauge {
    /// The memory that the process may have, in bytes.
    memory: u64,
    read: Mutex<Option<(Instant, u64)>>,
    /// The value that a test sets instead.
    #[cfg(test)]
    said: std::sync::atomic::AtomicU64,
}

impl Gauge {
    /// Creates the gauge of a process that may have `memory` bytes.
    pub(crate) fn new(memory: u64) -> Self {
        Gauge {
            memory,
            read: Mutex::default(),
            #[cfg(test)]
            said: Default::default(),
        }
    }

    /// Sets the bytes of the process, unless `bytes` is 0.
    #[cfg(test)]
    pub(crate) fn say(&self, bytes: u64) {
        self.said.store(bytes, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the pressure on the process's memory if it takes `more` bytes.
    pub(crate) fn pressure(&self, more: u64) -> Pressure {
        match self.bytes().saturating_add(more) {
            bytes if bytes > self.memory / 100 * BEYOND_PERCENT => Pressure::Beyond,
            bytes if bytes > self.memory / 100 * END_PERCENT => Pressure::End,
            bytes if bytes > self.memory / 100 * HIGH_PERCENT => Pressure::Short,
            _ => Pressure::None,
        }
    }

    /// Returns whether there is ample room again.
    pub(crate) fn is_low(&self) -> bool {
        self.bytes() < self.memory / 100 * LOW_PERCENT
    }

    /// Returns the anonymous memory of the process in bytes; 0 if the system does not report it.
    fn bytes(&self) -> u64 {
        #[cfg(test)]
        match self.said.load(std::sync::atomic::Ordering::Relaxed) {
            0 => {}
            said => return said,
        }
        let mut read = lock(&self.read);
        let now = Instant::now();
        match *read {
            Some((at, bytes)) if now.duration_since(at) < FRESH => bytes,
            _ => {
                let bytes = anonymous_bytes().unwrap_or(0);
                *read = Some((now, bytes));
                bytes
            }
        }
    }
}

/// Returns the memory of this process that is not backed by files, in bytes; `None` if the system does not
/// report it.
pub fn anonymous_bytes() -> Option<u64> {
    anonymous(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Parses `RssAnon` of /proc/self/status, in bytes.
fn anonymous(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_backs_is_read() {
        assert_eq!(anonymous("VmRSS:\t 9 kB\nRssAnon:\t  2048 kB\n"), Some(2 << 20));
        assert_eq!(anonymous("VmRSS: 9 kB"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_high_or_low_by_what_it_may_have() {
        let (full, empty) = (Gauge::new(1000), Gauge::new(1 << 50));
        assert!(full.pressure(0) == Pressure::Beyond && !full.is_low());
        assert!(empty.is_low() && empty.pressure(0) == Pressure::None);
        full.say(10 * 85);
        let pressures = [0, 80, 130].map(|more| full.pressure(more));
        assert_eq!(pressures, [Pressure::Short, Pressure::End, Pressure::Beyond]);
    }
}
