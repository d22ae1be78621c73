//! Latency behind a device: every completion arrives later than it happened. The delay is drawn from a seeded
//! generator, or is a penalty for every boundary that the request crosses. Delays overlap, so completions may
//! overtake each other.

use std::collections::{BTreeMap, BTreeSet};

use coscan_base::{Instant, Span};

use crate::{Completion, Device, Request, RequestId, SpecError};

/// The delay of completions: evenly distributed, with rare longer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest usual delay.
    pub least: Span,
    /// The longest usual delay.
    pub most: Span,
    /// Requests out of a million that are delayed by [`Delay::rare`] in addition.
    pub rare_per_million: u32,
    /// The additional delay of these.
    pub rare: Span,
}

impl Delay {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.least > self.most {
            return Err(SpecError::Rule("a delay's shortest time is above its longest: swap them"));
        }
        if self.rare_per_million > 1_000_000 {
            return Err(SpecError::Rule(
                "more than a million of a million delays are rare: use at most that",
            ));
        }
        Ok(())
    }

    fn draw(&self, rng: &mut fastrand::Rng) -> Span {
        let usual = rng.u64(self.least.as_nanos()..=self.most.as_nanos());
        let rare = rng.u32(0..1_000_000) < self.rare_per_million;
        Span::from_nanos(usual + if rare { self.rare.as_nanos() } else { 0 })
    }
}

/// Boundaries at equal distances over the whole device, which a request should not cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundaries {
    /// Distance between two boundaries, in bytes.
    pub period_bytes: u64,
    /// Bytes from the start of the device to the first boundary; less than a period.
    pub offset_bytes: u64,
    /// Additional time of a request per boundary that it crosses.
    pub penalty: Span,
}

impl Boundaries {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.period_bytes == 0 || self.offset_bytes >= self.period_bytes {
            return Err(SpecError::Rule(
                "boundaries need a period of at least 1 byte, and an offset below it",
            ));
        }
        Ok(())
    }

    /// The number of boundaries that a request crosses: those between its first byte and its last.
    fn crossed(&self, request: &Request) -> u64 {
        let before = |byte: u64| (byte + self.period_bytes - self.offset_bytes) / self.period_bytes;
        before(request.end().max(1) - 1).saturating_sub(before(request.offset))
    }
}

/// The cause of the delay.
#[derive(Debug)]
pub(crate) enum Lateness {
    Drawn(Delay, fastrand::Rng),
    Crossing(Boundaries),
}

impl Lateness {
    fn of(&mut self, request: &Request) -> Span {
        match self {
            Lateness::Drawn(delay, rng) => delay.draw(rng),
            Lateness::Crossing(boundaries) => {
                let ns = boundaries.penalty.as_nanos().saturating_mul(boundaries.crossed(request));
                Span::from_nanos(ns)
            }
        }
    }
}

/// Delays every completion.
#[derive(Debug)]
pub(crate) struct Delayed {
    lateness: Lateness,
    device: Box<dyn Device>,
    /// Delays are drawn in the order of submission, independent of the device's order of service.
    delays: BTreeMap<RequestId, Span>,
    /// Delayed completions: time of arrival, number, and result.
    late: BTreeSet<(Instant, u64, RequestId, bool)>,
    completed: u64,
}

impl Delayed {
    pub(crate) fn new(lateness: Lateness, device: Box<dyn Device>) -> Self {
        Delayed { lateness, device, delays: BTreeMap::new(), late: BTreeSet::new(), completed: 0 }
    }

    fn catch_up(&mut self, now: Instant) {
        let mut done = Vec::new();
        while let Some(at) = self.device.next_completion().filter(|at| *at <= now) {
            self.device.advance(at, &mut done);
            for Completion { id, ok } in done.drain(..) {
                let delay = self.delays.remove(&id).expect("a delay is drawn for every request");
                self.late.insert((at + delay, self.completed, id, ok));
                self.completed += 1;
            }
        }
        // All steps up to `now` are done; this only tells the device the time.
        self.device.advance(now, &mut done);
    }
}

impl Device for Delayed {
    fn submit(&mut self, now: Instant, request: Request) {
        self.catch_up(now);
        self.delays.insert(request.id, self.lateness.of(&request));
        self.device.submit(now, request);
    }

    fn next_completion(&self) -> Option<Instant> {
        let arriving = self.late.first().map(|(at, ..)| *at);
        arriving.into_iter().chain(self.device.next_completion()).min()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now);
        while self.late.first().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, _, id, ok)) = self.late.pop_first()
        {
            done.push(Completion { id, ok });
        }
    }

    fn busy(&self) -> Span {
        self.device.busy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transfer;

    #[test]
    fn boundaries_are_crossed_by_requests_with_bytes_on_both_sides() {
        let boundaries = Boundaries { period_bytes: 10, offset_bytes: 3, penalty: Span::from_nanos(1) };
        let crossed = |offset, bytes| {
            boundaries.crossed(&Request { id: RequestId(0), offset, bytes, kind: Transfer::Read })
        };
        assert_eq!([crossed(0, 3), crossed(3, 10), crossed(13, 10)], [0, 0, 0]);
        assert_eq!([crossed(0, 4), crossed(2, 11), crossed(2, 12), crossed(12, 2)], [1, 1, 2, 1]);
    }
}
