//! How much memory the process really has in use, whether or not it is accounted for.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::state::Pressure;
use crate::lock::lock;

/// A reading holds for so long: it takes the system some ten microseconds.
const FRESH: Duration = Duration::from_millis(20);

/// Of the memory of the process, in percent: above the first, everybody gives up; above the second, whoever came late does;
/// above the third, operators have to spill and nobody is let in; below the fourth, the buffer gets back what it gave.
const BEYOND_PERCENT: u64 = 97;
const END_PERCENT: u64 = 92;
const HIGH_PERCENT: u64 = 80;
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

    /// How near the process is to its limit if it takes so many bytes more.
    pub(crate) fn pressure(&self, more: u64) -> Pressure {
        match self.bytes().saturating_add(more) {
            bytes if bytes > self.memory / 100 * BEYOND_PERCENT => Pressure::Beyond,
            bytes if bytes > self.memory / 100 * END_PERCENT => Pressure::End,
            bytes if bytes > self.memory / 100 * HIGH_PERCENT => Pressure::Short,
            _ => Pressure::None,
        }
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

/// Memory of this process that no file backs, in bytes; `None` where the system does not tell.
pub fn anonymous_bytes() -> Option<u64> {
    anonymous(&std::fs::read_to_string("/proc/self/status").ok()?)
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
        let (full, empty) = (Gauge::new(1000), Gauge::new(1 << 50));
        assert!(full.pressure(0) == Pressure::Beyond && !full.is_low());
        assert!(empty.is_low() && empty.pressure(0) == Pressure::None);
        full.say(10 * 85);
        let pressures = [0, 80, 130].map(|more| full.pressure(more));
        assert_eq!(pressures, [Pressure::Short, Pressure::End, Pressure::Beyond]);
    }
}
