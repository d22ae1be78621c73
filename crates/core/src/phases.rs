//! Alternation of bulk reads and point reads.
//!
//! Loads of whole chunks and reads of single pages share one device. A page read that is queued behind
//! megabytes of bulk reads takes as long as they do, so page reads go first. If they still miss their target,
//! phases alternate. In a bulk phase both kinds of reads start. In a point phase only point reads start.
//!
//! Source: Zukowski, Boncz & Kersten 2004, section 4.2, which names the two phases but not their lengths.
//! **Choice:** a point phase begins when the oldest point read has waited for longer than the target. It ends
//! when that condition ends, or after [`LENGTH`] targets. **Choice:** a bulk phase lasts at least as long as
//! the point phase before it, times `share / (100 - share)`. So bulk reads may start for at least `share`
//! percent of the time of any two phases. Reads that have started are never interrupted.
//!
//! This module queues nothing and reads no clock: the host asks before it starts a bulk read. Cost: constant.

use coscan_base::{Instant, Span};

use crate::error::ConfigError;

/// The maximum length of a point phase, in targets.
pub const LENGTH: u64 = 4;

/// The phases of bulk reads and point reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    target: Span,
    bulk_share_percent: u8,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Bulk reads may start, and no point phase may begin before `owed_until`.
    Bulk { owed_until: Instant },
    /// No bulk read may start.
    Point { since: Instant },
}

impl Phases {
    /// Phases for a target latency. With a target of zero there are no phases, and bulk reads may always
    /// start.
    ///
    /// # Errors
    /// If the share is not a percentage.
    pub fn new(target: Span, bulk_share_percent: u8) -> Result<Self, ConfigError> {
        if bulk_share_percent > 100 {
            return Err(ConfigError::Percent { setting: "bulk_share", value: bulk_share_percent });
        }
        Ok(Phases { target, bulk_share_percent, phase: Phase::Bulk { owed_until: Instant::ZERO } })
    }

    /// The same phases with another target. Call this before the first [`Phases::bulk_may_start`].
    pub fn with_target(self, target: Span) -> Self {
        Phases { target, ..self }
    }

    /// Asks at `now` whether a bulk read may start. `oldest` is the time of the oldest unanswered point read.
    ///
    /// # Errors
    /// The time at which to ask again, if no bulk read may start yet. The host asks earlier if a point read
    /// is answered.
    pub fn bulk_may_start(&mut self, now: Instant, oldest: Option<Instant>) -> Result<(), Instant> {
        let missed = self.target > Span::ZERO && oldest.is_some_and(|asked| now.since(asked) > self.target);
        match self.phase {
            Phase::Bulk { owed_until } if missed && now >= owed_until && self.bulk_share_percent < 100 => {
                self.phase = Phase::Point { since: now };
                Err(now + self.longest())
            }
            Phase::Bulk { .. } => Ok(()),
            Phase::Point { since } if missed && now.since(since) < self.longest() => {
                Err(since + self.longest())
            }
            Phase::Point { since } => {
                // The host may not have asked for some time: a period longer than the longest phase was no
                // phase.
                let lasted = now.since(since).as_nanos().min(self.longest().as_nanos());
                let (share, rest) =
                    (u64::from(self.bulk_share_percent), 100 - u64::from(self.bulk_share_percent));
                let owed = lasted.saturating_mul(share) / rest.max(1);
                self.phase = Phase::Bulk { owed_until: now + Span::from_nanos(owed) };
                Ok(())
            }
        }
    }

    fn longest(&self) -> Span {
        Span::from_nanos(self.target.as_nanos().saturating_mul(LENGTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn bulk_reads_are_held_back_once_a_point_read_misses_the_target() {
        let mut phases = Phases::new(Span::from_millis(10), 50).unwrap();
        assert_eq!(phases.bulk_may_start(at(100), None), Ok(()));
        assert_eq!(phases.bulk_may_start(at(110), Some(at(100))), Ok(()), "ten milliseconds are on target");
        assert_eq!(phases.bulk_may_start(at(111), Some(at(100))), Err(at(151)));
        assert_eq!(phases.bulk_may_start(at(120), Some(at(105))), Err(at(151)), "another one is late now");
        assert_eq!(phases.bulk_may_start(at(125), Some(at(120))), Ok(()), "the late ones are answered");
        // The point phase took 14 ms. Half of the time belongs to scans, so they have as long.
        assert_eq!(phases.bulk_may_start(at(138), Some(at(120))), Ok(()));
        assert_eq!(phases.bulk_may_start(at(139), Some(at(120))), Err(at(179)));
        assert_eq!(phases.bulk_may_start(at(179), Some(at(120))), Ok(()), "a point phase ends");
    }

    #[test]
    fn scans_keep_their_share_however_late_point_reads_are() {
        for share in [25, 50, 75, 100] {
            let mut phases = Phases::new(Span::from_millis(5), share).unwrap();
            let open =
                (0..10_000).filter(|ms| phases.bulk_may_start(at(*ms), Some(Instant::ZERO)).is_ok()).count();
            let wanted = 100 * usize::from(share);
            assert!(open >= wanted, "{share} %: {open} of 10000 ms");
            assert!(open <= wanted + 500, "{share} %: point reads get the rest, bulk reads had {open} ms");
        }
    }

    #[test]
    fn without_a_target_there_are_no_phases() {
        let mut phases = Phases::new(Span::ZERO, 0).unwrap();
        assert!((0..100).all(|ms| phases.bulk_may_start(at(ms), Some(Instant::ZERO)).is_ok()));
        assert!(Phases::new(Span::ZERO, 101).is_err());
    }
}
