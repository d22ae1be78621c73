//! The sequence of runs of a query.

use super::frugal::FrugalJoins;
use super::run::{MemoryRequest, Refused};

/// A run of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// With its expected memory, beside others.
    First,
    /// With half of the memory.
    Half,
    /// Without other queries.
    Alone,
    /// Without other queries, and with operators that spill instead of faster ones that cannot.
    Frugal,
    /// Beside others, with operators that spill. The session's own pool refused, so the end of other queries
    /// does not help.
    Within,
    /// Without other queries, with hash joins and otherwise frugal settings, because joins that spill failed.
    /// This is the last run.
    FrugalHash,
}

impl Attempt {
    pub(crate) fn request(self, limit: u64) -> MemoryRequest {
        match self {
            Attempt::First | Attempt::Within => MemoryRequest::Usual,
            Attempt::Half => MemoryRequest::Bytes(limit / 2),
            Attempt::Alone | Attempt::Frugal | Attempt::FrugalHash => MemoryRequest::All,
        }
    }

    /// Returns the joins of its plan if they differ from the session's.
    pub(crate) fn frugal_joins(self) -> Option<FrugalJoins> {
        match self {
            Attempt::First | Attempt::Half | Attempt::Alone => None,
            Attempt::Frugal | Attempt::Within => Some(FrugalJoins::Spilling),
            Attempt::FrugalHash => Some(FrugalJoins::Hash),
        }
    }

    /// Returns the next run of a query that failed for another reason than memory.
    pub(crate) fn after_failure(self) -> Option<Self> {
        (self.frugal_joins() == Some(FrugalJoins::Spilling)).then_some(Attempt::FrugalHash)
    }

    /// Returns the next run of a query that was refused memory. There are at most five runs.
    pub(crate) fn after(self, refused: Refused, limit: u64) -> Option<Self> {
        match self {
            Attempt::FrugalHash => None,
            Attempt::Frugal => Some(Attempt::FrugalHash),
            Attempt::Within if refused.by_session => None,
            Attempt::Within => Some(Attempt::Frugal),
            Attempt::Alone => Some(Attempt::Frugal),
            Attempt::First | Attempt::Half if refused.by_session => Some(Attempt::Within),
            Attempt::First if refused.peak < limit / 4 => Some(Attempt::Half),
            Attempt::First | Attempt::Half => Some(Attempt::Alone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_runs_a_few_times_at_most() {
        for first in [Attempt::First, Attempt::Within] {
            for refusals in 0..1 << 6 {
                let mut attempt = first;
                let mut runs = 1;
                for bit in 0..6u32 {
                    if refusals >> (5 - bit) & 1 == 1
                        && let Some(next) = attempt.after_failure()
                    {
                        (attempt, runs) = (next, runs + 1);
                        continue;
                    }
                    let by_session = refusals >> bit & 1 == 1;
                    let refused = Refused { peak: u64::from(bit) * 100, more: 1, by_session };
                    match attempt.after(refused, 1000) {
                        Some(next) => (attempt, runs) = (next, runs + 1),
                        None => break,
                    }
                }
                assert!(runs <= 5, "{runs} runs, {refusals:b}");
            }
        }
    }
}
