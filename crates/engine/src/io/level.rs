//! The level of a store: the number of requests that it gets at the same time, found while it is read. Pure.
//!
//! With more requests, a store answers more of them a second, up to its knee. Beyond that each takes longer.
//! The knee depends on the store, the way to it, and its other users. So the level is searched for by its
//! work per second:
//!
//! - **Start.** The level doubles as long as that brings a fifth more.
//! - **Then** a level that is half as high again and one that is a third lower are tried in turn. The higher
//!   one stays if it brings a fifth more, the lower one if it costs 7 % at most. As long as nothing changes,
//!   the rests between two tries become longer.
//! - **Refusals.** A store that answers 429 or 503 gets seven tenths of the requests, once for all that were
//!   in progress. If it refused a try, it gets as many as before the try. The level does not grow for some
//!   seconds.
//!
//! Work is measured by requests of all sizes. Each counts as its time on a line through times and sizes. So a
//! round of small requests compares with one of large ones. A round in which queries wanted fewer requests
//! than the level is ignored.
//!
//! The constants were chosen with simulated stores (`level_tests.rs`), not measured at real ones.

use std::time::{Duration, Instant};

use super::hedge::Hedges;

/// The level at first. A level that is too high costs little, because requests beyond the knee only wait. One
/// that is too low costs rounds of latency.
const START: usize = 32;
const LEAST: usize = 2;
/// The maximum level: each request in progress has a thread.
const MOST: usize = 256;
/// A round has as many requests as the level, and at least this many, because single times vary.
const ROUND: usize = 16;
/// A round counts if on average this share of the level was in progress.
const FULL: f64 = 0.7;
/// The minimum gain in work from level to level at the start.
const START_GAIN: f64 = 1.2;
/// The minimum gain of a level that is half as high again, and the maximum loss of one that is a third lower.
const UP_GAIN: f64 = 1.2;
const DOWN_GAIN: f64 = 0.93;
/// The share of the level that a refusal leaves.
const REFUSED: f64 = 0.7;
/// The longest rest between two tries, in rounds.
const REST_MAX: u32 = 16;
/// The time for which the level of a store that refused requests does not grow. It doubles each time, up to
/// the second value.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);
const AFTER_REFUSALS: Duration = Duration::from_secs(20);
/// The further time for which refused levels are not tried.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The largest gap before anything is known of a store, and the largest at all. The bytes of gaps take
/// memory, and are paid for in some stores.
const GAP_START: u64 = 256 << 10;
const GAP_MAX: u64 = 1 << 20;
/// The factor by which the weight of a request in the line decreases with every later one.
const FADING: f64 = 0.98;

/// The reason for the number of requests that a store gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The number still doubles.
    Starting,
    /// It is the smallest that brings the throughput found.
    Found,
    /// Another number is tried.
    Trying,
    /// The store refused requests.
    Refused,
    /// More requests would not fit into memory.
    Memory,
}

impl Why {
    /// The reason in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Starting => "starting",
            Why::Found => "found",
            Why::Trying => "trying",
            Why::Refused => "refused",
            Why::Memory => "memory",
        }
    }
}

/// The level of one store.
#[derive(Debug)]
pub(super) struct Level {
    limit: usize,
    /// The bytes of the buffer that requests in progress may have.
    room: u64,
    stage: Stage,
    line: Sums,
    hedges: Hedges,
    round: Round,
    /// The time since which the level has been in force. Earlier requests are not evidence about it.
    since: Instant,
    refused: Option<Refused>,
}

/// The last refusal.
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// The level that was too high.
    level: usize,
    /// The time until which the level does not grow, and the length of that wait.
    until: Instant,
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The level doubles. `last` is the previous one, with its round.
    Start { last: Option<(usize, Round)> },
    /// Between two tries: rounds left, the direction of the next try, and the rest before it.
    Rest { left: u32, up: bool, rest: u32 },
    /// A try of another level than `from`, which had the round `before`.
    Try { from: usize, before: Round, up: bool, rest: u32 },
}

/// Observations of some requests.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    requests: f64,
    bytes: f64,
    seconds: f64,
    at_once: f64,
}

impl Round {
    fn add(&mut self, bytes: u64, seconds: f64, at_once: f64) {
        self.requests += 1.0;
        self.bytes += bytes as f64;
        self.seconds += seconds;
        self.at_once += at_once;
    }

    fn at_once(&self) -> f64 {
        self.at_once / self.requests.max(1.0)
    }

    /// Work per second: requests at the same time, by the speed of each.
    fn work(&self, line: (f64, f64)) -> f64 {
        let (fixed, per_byte) = line;
        let expected = self.requests * fixed + self.bytes * per_byte;
        self.at_once() * expected / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Sums for a line through times by size.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, x: f64, y: f64) {
        let Sums { weight, x: sx, y: sy, xx, xy } = self;
        for (sum, more) in [(weight, 1.0), (sx, x), (sy, y), (xx, x * x), (xy, x * y)] {
            *sum = *sum * FADING + more;
        }
    }

    /// Seconds for a request, and for each byte.
    fn line(&self) -> (f64, f64) {
        let Sums { weight, x, y, xx, xy } = *self;
        let spread = weight * xx - x * x;
        let slope = if spread > 0.0 { (weight * xy - x * y) / spread } else { 0.0 };
        let fixed = (y - slope * x) / weight.max(1.0);
        match (slope > 0.0, fixed > 0.0) {
            (true, true) => (fixed, slope),
            // Times that do not depend on the size, or on nothing else.
            (false, _) => (y / weight.max(1.0), 0.0),
            (true, false) => (0.0, y / x),
        }
    }
}

impl Level {
    /// The level of a store whose requests in progress may have `room` bytes.
    pub(super) fn new(now: Instant, room: u64) -> Self {
        Level {
            limit: START,
            room,
            stage: Stage::Start { last: None },
            line: Sums::default(),
            hedges: Hedges::default(),
            round: Round::default(),
            since: now,
            refused: None,
        }
    }

    /// The number of requests at the same time.
    pub(super) fn limit(&self) -> usize {
        self.limit.min(self.most())
    }

    /// The reason for this number.
    pub(super) fn why(&self, now: Instant) -> Why {
        match self.stage {
            _ if self.limit > self.most() => Why::Memory,
            _ if self.refused.is_some_and(|last| now < last.until) => Why::Refused,
            Stage::Start { .. } => Why::Starting,
            Stage::Rest { .. } => Why::Found,
            Stage::Try { .. } => Why::Trying,
        }
    }

    /// The largest gap that is read: its bytes take no longer than a further request. Gaps of `least` bytes
    /// are read in any case.
    pub(super) fn gap_bytes(&self, least: u64) -> u64 {
        let (fixed, per_byte) = self.line.line();
        if self.line.weight < ROUND as f64 / 2.0 {
            return GAP_START.max(least);
        }
        let gap = if per_byte > 0.0 { fixed / per_byte } else { f64::INFINITY };
        (gap.min(GAP_MAX as f64) as u64).max(least)
    }

    /// The maximum level for which the bytes leave room, by the size of the requests seen.
    fn most(&self) -> usize {
        let bytes = self.line.x / self.line.weight.max(1.0);
        ((self.room as f64 / bytes.max(1.0)) as usize).clamp(LEAST, MOST)
    }

    /// Notes a request that was answered: its bytes, its begin, and the mean number in progress, including
    /// itself.
    pub(super) fn answered(&mut self, now: Instant, bytes: u64, begun: Instant, at_once: f64) {
        let seconds = now.saturating_duration_since(begun).as_secs_f64();
        self.note_ratio(bytes, seconds);
        self.line.add(bytes as f64, seconds);
        if begun < self.since {
            return;
        }
        self.round.add(bytes, seconds, at_once);
        let wanted = match self.stage {
            Stage::Start { .. } => self.limit() / 2,
            _ => self.limit(),
        };
        if self.round.requests < wanted.max(ROUND) as f64 {
            return;
        }
        let round = std::mem::take(&mut self.round);
        if round.at_once() >= FULL * self.limit() as f64 {
            self.decide(now, round);
        }
    }

    /// The time on the line of a request of this many bytes, in seconds.
    fn expected(&self, bytes: u64) -> f64 {
        let (fixed, per_byte) = self.line.line();
        fixed + per_byte * bytes as f64
    }

    fn note_ratio(&mut self, bytes: u64, seconds: f64) {
        let expected = self.expected(bytes);
        if expected > 0.0 {
            self.hedges.note(seconds / expected);
        }
    }

    /// Notes that a request begins.
    pub(super) fn begun(&mut self) {
        self.hedges.begun();
    }

    /// The time after which the missing bytes of a request are requested again, if they may be.
    pub(super) fn slow_after(&self, bytes: u64) -> Option<Duration> {
        self.hedges.after(self.expected(bytes))
    }

    /// Notes that a request that takes this long is requested again.
    pub(super) fn hedged(&mut self, bytes: u64, taken: Duration) {
        self.note_ratio(bytes, taken.as_secs_f64());
        self.hedges.hedged();
    }

    /// Notes that the store temporarily refused a request that had begun at that time.
    pub(super) fn refuse(&mut self, now: Instant, begun: Instant) {
        if begun < self.since {
            return;
        }
        let limit = match self.stage {
            Stage::Try { from, up: true, .. } => from,
            _ => (self.limit as f64 * REFUSED) as usize,
        };
        let again = self.refused.filter(|last| now < last.until + REMEMBERED);
        let pause = again.map_or(AFTER_REFUSAL, |last| (last.pause * 2).min(AFTER_REFUSALS));
        self.refused = Some(Refused { level: self.limit, until: now + pause, pause });
        self.stage = Stage::Rest { left: 1, up: true, rest: 1 };
        self.set(now, limit);
    }

    /// The next higher level. It is at most the middle between this one and one that was refused lately.
    fn above(&self, now: Instant) -> usize {
        let next = (self.limit + self.limit.div_ceil(2)).min(MOST);
        let lately = self.refused.filter(|last| now < last.until + REMEMBERED && last.level > self.limit);
        lately.map_or(next, |last| next.min((self.limit + last.level) / 2))
    }

    fn set(&mut self, now: Instant, limit: usize) {
        self.limit = limit.clamp(LEAST, MOST);
        (self.since, self.round) = (now, Round::default());
    }

    fn decide(&mut self, now: Instant, round: Round) {
        let line = self.line.line();
        let gain = |before: &Round| round.work(line) / before.work(line);
        let may_grow = self.limit < self.most() && self.refused.is_none_or(|last| now >= last.until);
        match self.stage {
            Stage::Start { last } => {
                let gain = last.as_ref().map_or(f64::INFINITY, |(_, before)| gain(before));
                if gain >= START_GAIN && may_grow {
                    self.stage = Stage::Start { last: Some((self.limit, round)) };
                    return self.set(now, self.limit * 2);
                }
                self.stage = Stage::Rest { left: 1, up: false, rest: 1 };
                if let Some((last, _)) = last.filter(|_| gain < UP_GAIN) {
                    self.set(now, last);
                }
            }
            Stage::Rest { left, up, rest } if left > 1 => {
                self.stage = Stage::Rest { left: left - 1, up, rest }
            }
            Stage::Rest { up, rest, .. } => {
                let up = up && may_grow;
                let next = if up { self.above(now) } else { (self.limit - self.limit / 3).max(LEAST) };
                if next == self.limit {
                    self.stage = Stage::Rest { left: rest, up: !up, rest };
                    return;
                }
                self.stage = Stage::Try { from: self.limit, before: round, up, rest };
                self.set(now, next);
            }
            Stage::Try { from, before, up, rest } => {
                if gain(&before) >= if up { UP_GAIN } else { DOWN_GAIN } {
                    // Continue in the same direction.
                    self.stage = Stage::Rest { left: 1, up, rest: 1 };
                } else {
                    let rest = (rest * 2).min(REST_MAX);
                    self.stage = Stage::Rest { left: rest, up: !up, rest };
                    self.set(now, from);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "level_tests.rs"]
mod tests;
