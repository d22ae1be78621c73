//! Second requests for slow ones (*hedged requests*: Dean & Barroso, The Tail at Scale, CACM 2013). Pure.
//!
//! Some answers of a store take many times as long as others, and a chunk waits for its slowest request. If a request takes
//! longer than nearly all others, the queue requests its missing bytes again. The first answer counts, and the other request
//! is aborted.
//!
//! A request is compared by its *ratio*: its time over the time of its size on the store's line ([`super::level`]). It is slow
//! beyond the 95th percentile of recent ratios and a margin. Second requests are at most a twentieth of all, so a store that
//! is slow altogether does not get more of them.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of recent ratios, and the number that has to be known.
const RECENT: usize = 128;
const KNOWN: usize = 32;
/// The share of requests that are no slower, and the margin beyond them.
const USUAL: f64 = 0.95;
const MARGIN: f64 = 1.3;
/// A request is not slow before this much time beyond the expected.
const LEAST: Duration = Duration::from_millis(5);
/// The maximum share of second requests, and the number of second requests that may be saved up.
const SHARE: f64 = 0.05;
const SAVED_MAX: f64 = 4.0;

/// The recent requests of one store.
#[derive(Debug)]
pub(super) struct Hedges {
    ratios: VecDeque<f64>,
    slow: Option<f64>,
    /// The second requests that the share allows now.
    allowed: f64,
}

impl Default for Hedges {
    fn default() -> Self {
        Hedges { ratios: VecDeque::with_capacity(RECENT), slow: None, allowed: 1.0 }
    }
}

impl Hedges {
    /// Notes the ratio of an answered request, or of one that is requested again.
    pub(super) fn note(&mut self, ratio: f64) {
        if self.ratios.len() == RECENT {
            self.ratios.pop_front();
        }
        self.ratios.push_back(ratio);
        let mut sorted: Vec<f64> = self.ratios.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() as f64 * USUAL) as usize;
        self.slow = sorted.get(at).filter(|_| sorted.len() >= KNOWN).map(|usual| usual * MARGIN);
    }

    /// Notes that a request begins.
    pub(super) fn begun(&mut self) {
        self.allowed = (self.allowed + SHARE).min(SAVED_MAX);
    }

    /// The time after which a request with this expected time is requested again. `None` if too little is known, or the
    /// share is used up.
    pub(super) fn after(&self, expected_s: f64) -> Option<Duration> {
        let slow = self.slow.filter(|_| self.allowed >= 1.0)?;
        let expected = Duration::try_from_secs_f64(expected_s).ok()?;
        Some(expected.mul_f64(slow).max(expected + LEAST))
    }

    /// Notes a second request.
    pub(super) fn hedged(&mut self) {
        self.allowed -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_slow_beyond_nearly_all_others_and_second_ones_are_few() {
        let mut hedges = Hedges::default();
        assert_eq!(hedges.after(0.1), None);
        for at in 0..RECENT {
            hedges.begun();
            hedges.note(if at % 50 == 0 { 10.0 } else { 1.0 });
        }
        assert_eq!(hedges.after(0.1), Some(Duration::from_millis(130)));
        assert_eq!(hedges.after(0.001), Some(Duration::from_millis(6)));
        let mut second = 0;
        for _ in 0..1000 {
            hedges.begun();
            while hedges.after(0.1).is_some() {
                hedges.hedged();
                second += 1;
            }
        }
        assert!((50..60).contains(&second), "{second}");
        // If all are slow, none is.
        (0..RECENT).for_each(|_| hedges.note(10.0));
        hedges.allowed = 1.0;
        assert_eq!(hedges.after(0.1), Some(Duration::from_millis(1300)));
    }
}
