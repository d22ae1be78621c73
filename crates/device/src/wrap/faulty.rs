//! A device whose requests sometimes fail.
//!
//! A failed request takes as long as a successful one. Rules decide at submission which requests fail.

use std::collections::BTreeSet;

use coscan_base::{Instant, Span};

use crate::{Completion, Device, Request, RequestId, SpecError};

/// A rule that selects the requests that fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultRule {
    /// Every nth submitted request.
    EveryNth(u64),
    /// Each with this probability, in millionths.
    Chance {
        /// Out of a million.
        per_million: u32,
    },
    /// Those that touch a range of bytes, such as a defective sector.
    Range {
        /// The first byte.
        from: u64,
        /// The byte behind the last.
        to: u64,
        /// Number of failures before the range works again; `None` for unlimited.
        times: Option<u32>,
    },
    /// Those submitted during an outage.
    Outage {
        /// Its start.
        from: Instant,
        /// Its end.
        until: Instant,
    },
}

impl FaultRule {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let mistake = match self {
            FaultRule::EveryNth(0) => "every 0th request cannot fail: use 1 for all of them",
            FaultRule::Chance { per_million: 1_000_001.. } => {
                "a chance of more than 1,000,000 in a million: use at most that"
            }
            FaultRule::Range { from, to, .. } if from >= to => "a defective range is empty: use from < to",
            FaultRule::Outage { from, until } if from >= until => "an outage is empty: use from < until",
            _ => return Ok(()),
        };
        Err(SpecError::Rule(mistake))
    }

    /// True if the rule selects the request with this number, counted from 1. A rule that draws draws once.
    fn hits(&mut self, now: Instant, number: u64, request: &Request, rng: &mut fastrand::Rng) -> bool {
        match self {
            FaultRule::EveryNth(n) => number.is_multiple_of(*n),
            FaultRule::Chance { per_million } => rng.u32(0..1_000_000) < *per_million,
            FaultRule::Range { from, to, times } => {
                let hits = request.offset < *to && request.end() > *from && *times != Some(0);
                if hits && let Some(times) = times {
                    *times -= 1;
                }
                hits
            }
            FaultRule::Outage { from, until } => (*from..*until).contains(&now),
        }
    }
}

/// Marks the completions of selected requests as failed.
#[derive(Debug)]
pub(crate) struct Faulty {
    rules: Vec<FaultRule>,
    rng: fastrand::Rng,
    device: Box<dyn Device>,
    submitted: u64,
    failing: BTreeSet<RequestId>,
}

impl Faulty {
    pub(crate) fn new(rules: Vec<FaultRule>, rng: fastrand::Rng, device: Box<dyn Device>) -> Self {
        Faulty { rules, rng, device, submitted: 0, failing: BTreeSet::new() }
    }
}

impl Device for Faulty {
    fn submit(&mut self, now: Instant, request: Request) {
        self.submitted += 1;
        let mut fails = false;
        for rule in &mut self.rules {
            fails |= rule.hits(now, self.submitted, &request, &mut self.rng);
        }
        if fails {
            self.failing.insert(request.id);
        }
        self.device.submit(now, request);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.device.next_completion()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let before = done.len();
        self.device.advance(now, done);
        for completion in &mut done[before..] {
            completion.ok &= !self.failing.remove(&completion.id);
        }
    }

    fn busy(&self) -> Span {
        self.device.busy()
    }
}
