//! The newest loads, for monitoring: a log of fixed length.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of loads kept: some minutes of a busy engine, 300 KB.
const REMEMBERED: usize = 8192;

/// A load, at the time when it was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSeen {
    /// The time since the engine started.
    pub at: Duration,
    /// The table, by its number in [`Observation::tables`](crate::Observation::tables).
    pub table: u32,
    /// The chunk's number in its table.
    pub chunk: u32,
    /// The number of columns read.
    pub columns: u32,
}

/// The answer of [`Engine::loads_since`](crate::Engine::loads_since).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecentLoads {
    /// The number of the first of `loads`; loads are numbered from zero.
    pub first: u64,
    /// The loads, oldest first.
    pub loads: Vec<LoadSeen>,
}

impl RecentLoads {
    /// The number with which to continue.
    pub fn next(&self) -> u64 {
        self.first + self.loads.len() as u64
    }
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct LoadLog {
    /// The number of the oldest load in the log.
    first: u64,
    loads: VecDeque<LoadSeen>,
}

impl LoadLog {
    pub(crate) fn push(&mut self, load: LoadSeen) {
        if self.loads.len() == REMEMBERED {
            self.loads.pop_front();
            self.first += 1;
        }
        self.loads.push_back(load);
    }

    pub(crate) fn since(&self, from: u64) -> RecentLoads {
        let end = self.first + self.loads.len() as u64;
        let first = from.clamp(self.first, end);
        RecentLoads { first, loads: self.loads.range((first - self.first) as usize..).copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_watcher_misses_the_oldest_and_sees_it() {
        let mut log = LoadLog::default();
        let load = |chunk| LoadSeen { at: Duration::ZERO, table: 0, chunk, columns: 1 };
        (0..REMEMBERED as u32 + 10).for_each(|chunk| log.push(load(chunk)));
        let all = log.since(0);
        assert_eq!((all.first, all.loads.len(), all.loads[0].chunk), (10, REMEMBERED, 10));
        assert_eq!(log.since(all.next()), RecentLoads { first: all.next(), loads: vec![] });
        assert_eq!(log.since(all.next() - 2).loads.len(), 2);
        assert_eq!(log.since(u64::MAX).next(), all.next(), "numbers of another engine do no harm");
    }
}
