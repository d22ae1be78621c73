//! How much memory the process really has, beside what anybody accounts for.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A reading holds for so long.
const FRESH: Duration = Duration::from_millis(5);

/// Of the memory of the process, in percent: above, operators have to spill and nobody is let in; below the other, the
/// buffer gets back what it gave.
const HIGH_PERCENT: u64 = 85;
const LOW_PERCENT: u64 = 70;

/// Watches the process.
#[derive(Debug)]
pub(crate) struct Gauge {
    /// What the process may have, in bytes.
    memory: u64,
    read: Mutex<Option<(Instant, u64)>>,
    /// What a test says instead.
    #[cfg(test)]
    said: std::sync::atomic::AtomicU64,
}

impl Gauge {
    /// Of a process that may have so many bytes.
    pub(crate) fn new(memory: u64) -> Self {
        Gauge {
            memory,
            read: Mutex::default(),
            #[cfg(test)]
            said: Default::default(),
        }
    }

    /// From now on the process has so many bytes, if it is not 0.
    #[cfg(test)]
    pub(crate) fn say(&self, bytes: u64) {
        self.said.store(bytes, std::sync::atomic::Ordering::Relaxed);
    }

    /// Whether the process is near its limit.
    pub(crate) fn is_high(&self) -> bool {
        self.bytes() > self.memory / 100 * HIGH_PERCENT
    }

    /// Whether there is ample room again.
    pub(crate) fn is_low(&self) -> bool {
        self.bytes() < self.memory / 100 * LOW_PERCENT
    }

    /// Memory of the process that no file backs, in bytes; nothing where the system does not tell.
    fn bytes(&self) -> u64 {
        #[cfg(test)]
        match self.said.load(std::sync::atomic::Ordering::Relaxed) {
            0 => {}
            said => return said,
        }
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match *read {
            Some((at, bytes)) if now.duration_since(at) < FRESH => bytes,
            _ => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                let bytes = anonymous(&status).unwrap_or(0);
                *read = Some((now, bytes));
                bytes
            }
        }
    }
}

/// `RssAnon` of /proc/self/status, in bytes.
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
        assert!(Gauge::new(1000).is_high() && !Gauge::new(1000).is_low());
        assert!(Gauge::new(1 << 50).is_low() && !Gauge::new(1 << 50).is_high());
    }
}
