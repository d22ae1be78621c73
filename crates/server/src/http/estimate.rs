//! An estimate of the time left until the scans of a query are done.
//!
//! The time is the number of chunks left at two rates: the rate of the last seconds, and the rate since the start.
//! These two give the lower and the upper end of the estimate. There is no estimate before enough chunks were seen,
//! and none while no chunk is delivered. Work beside the scans, and scans that the query registers later, are not
//! included.

use std::collections::VecDeque;
use std::time::Duration;

/// Time window of the recent rate.
const RECENT: Duration = Duration::from_secs(5);

/// Time and number of chunks before the first estimate.
const SEEN_MIN: Duration = Duration::from_millis(1500);
const CHUNKS_MIN: u64 = 3;

/// Observations of one query.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    /// Time since the query started and chunks done, oldest first.
    seen: VecDeque<(Duration, u64)>,
}

/// The range of the time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Estimate {
    /// Records the query's progress and returns the time left.
    pub(crate) fn note(&mut self, at: Duration, done: u64, wanted: u64) -> Option<Left> {
        self.seen.push_back((at, done));
        while self.seen.get(1).is_some_and(|(then, _)| *then + RECENT <= at) {
            self.seen.pop_front();
        }
        let left = wanted.saturating_sub(done);
        if left == 0 {
            return (wanted > 0).then_some(Left { least: Duration::ZERO, most: Duration::ZERO });
        }
        if at < SEEN_MIN || done < CHUNKS_MIN {
            return None;
        }
        let (then, before) = *self.seen.front()?;
        let recent = time_for(left, done - before.min(done), at.saturating_sub(then))?;
        let overall = time_for(left, done, at)?;
        Some(Left { least: recent.min(overall), most: recent.max(overall) })
    }
}

/// The time that `left` chunks take if `done` chunks took `took`. `None` if no chunk is done.
fn time_for(left: u64, done: u64, took: Duration) -> Option<Duration> {
    (done > 0).then(|| took.mul_f64(left as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_steady_query_is_done_when_it_says() {
        let mut estimate = Estimate::default();
        let mut guess = None;
        for second in 1..=20 {
            guess = estimate.note(SECOND * second, u64::from(second) * 2, 100);
        }
        assert_eq!(guess, Some(Left { least: SECOND * 30, most: SECOND * 30 }));
    }

    #[test]
    fn one_that_became_slow_has_a_wide_range_and_one_that_stands_still_has_none() {
        let mut estimate = Estimate::default();
        for second in 1..=10 {
            estimate.note(SECOND * second, u64::from(second) * 8, 100);
        }
        let slow = (11..=16).map(|second| estimate.note(SECOND * second, u64::from(70 + second), 100));
        let slow = slow.last().flatten().unwrap();
        assert!(slow.most >= slow.least * 3, "{slow:?}");
        let still = (17..=30).map(|second| estimate.note(SECOND * second, 86, 100)).last();
        assert_eq!(still, Some(None));
    }

    #[test]
    fn nothing_is_said_too_early_and_nothing_is_left_at_the_end() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.note(SECOND, 50, 100), None);
        assert_eq!(estimate.note(SECOND * 2, 2, 100), None);
        assert_eq!(estimate.note(SECOND * 2, 0, 0), None);
        let none = Left { least: Duration::ZERO, most: Duration::ZERO };
        assert_eq!(estimate.note(SECOND * 3, 101, 100), Some(none));
    }
}
