//! A run of a query: its promise, its memory, and whether waiting queries wait for it.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::turn::Turn;

/// The number of a run in errors and in the view.
pub(crate) type RunId = u64;

/// Queries without load control, for which no query waits.
pub(crate) const OUTSIDE: RunId = 0;

/// The least promise, in bytes.
pub(crate) const PROMISE_MIN: u64 = 4 << 20;

/// Interval of corrections of a stranger's promise. A stranger is a query with an unknown plan.
pub(crate) const TRIAL: Duration = Duration::from_millis(250);

/// A stranger that has not requested memory for this time is assumed to need little.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(1);

/// A stranger is promised so many times its peak while the peak grows, and afterwards.
const GROWING: u64 = 4;
const SETTLED: u64 = 2;

/// Other queries do not wait for a query that has not been read for this time.
pub(crate) const UNREAD: Duration = Duration::from_secs(5);

/// Waiting queries wait this long for a run that is over, because its operators end in tasks of their own.
pub(crate) const ENDING: Duration = Duration::from_secs(1);

/// The same for a further run. No other query has its plan, so its operators return everything, at the latest
/// when the hash table under construction is done.
pub(crate) const ENDING_AGAIN: Duration = Duration::from_secs(30);

/// The description of a query.
#[derive(Debug)]
pub(crate) struct About {
    /// Its name in errors and in the view.
    pub(crate) text: String,
    /// The hash of its plan.
    pub(crate) plan: u64,
    /// Its session.
    pub(crate) session: String,
}

/// A query, or a further run of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) about: Arc<About>,
    pub(super) attempt: u32,
    /// The place in the queue, in the order of arrival. A further run keeps the place of the first.
    pub(super) place: RunId,
    pub(crate) phase: Phase,
    pub(super) since: Instant,
    /// The time of the last correction of its promise, and its peak at that time.
    pub(super) looked: (Instant, u64),
    pub(super) turn: Arc<Turn>,
    pub(super) used: u64,
    pub(super) peak: u64,
    pub(super) refused: Option<Refused>,
    /// Whether rows of it were output. Then it cannot run again.
    pub(super) shown: bool,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Waiting {
        request: MemoryRequest,
        waker: Option<Waker>,
        /// The end of its patience.
        until: Option<Instant>,
    },
    In {
        promised: u64,
        /// The guess, if the promise is one.
        guessed: Option<u64>,
    },
    /// It is over, but its operators have not returned everything.
    Over,
    /// See [`OUTSIDE`].
    Outside,
}

/// The memory that a run requests before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRequest {
    /// The earlier peak of its plan, or, if that is unknown, a part of the limit.
    Usual,
    /// So many bytes.
    Bytes(u64),
    /// Everything: no other query with operators that need memory is admitted.
    All,
}

/// The last refusal to an operator of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The run's peak.
    pub(crate) peak: u64,
    /// The largest refused request.
    pub(crate) more: u64,
    /// Whether the session's own pool refused, not load control.
    pub(crate) by_session: bool,
}

impl Run {
    /// Creates a run that arrives, or the one that represents queries without load control.
    pub(super) fn new(about: Arc<About>, place: RunId, phase: Phase, turn: Arc<Turn>, now: Instant) -> Self {
        let looked = (now, 0);
        Run {
            about,
            attempt: 0,
            place,
            phase,
            since: now,
            looked,
            turn,
            used: 0,
            peak: 0,
            refused: None,
            shown: false,
        }
    }

    /// Its charge for admission.
    pub(crate) fn charge(&self) -> u64 {
        match self.phase {
            Phase::Waiting { .. } => 0,
            Phase::In { promised, .. } => promised.max(self.used),
            Phase::Over | Phase::Outside => self.used,
        }
    }

    /// Returns whether its query survives a refusal.
    pub(super) fn can_run_again(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::In { .. }) && !self.shown
    }

    /// Returns whether waiting queries wait for it.
    pub(super) fn is_waited_for(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Waiting { .. } | Phase::Outside => false,
            Phase::In { .. } => self.turn.unread_for(now) < UNREAD,
            Phase::Over => {
                let ending = if self.attempt > 1 { ENDING_AGAIN } else { ENDING };
                now.saturating_duration_since(self.since) < ending
            }
        }
    }

    /// Adapts the promise of a stranger to its actual need, within the guess and the available room.
    pub(super) fn learn(&mut self, room: u64, now: Instant) {
        let charge = self.charge();
        let Phase::In { promised, guessed: Some(guessed) } = &mut self.phase else { return };
        let unknown = self.peak == 0 && now.saturating_duration_since(self.since) < UNKNOWN;
        if unknown || now.saturating_duration_since(self.looked.0) < TRIAL {
            return;
        }
        let grows = self.peak > self.looked.1.saturating_add(self.looked.1 / 8);
        self.looked = (now, self.peak);
        let times = if grows { GROWING } else { SETTLED };
        let wanted = self.peak.saturating_mul(times).max(PROMISE_MIN).min(*guessed);
        *promised = wanted.min(charge.saturating_add(room));
    }

    pub(super) fn note_refusal(&mut self, more: u64, by_session: bool) {
        let before = self.refused.map_or(0, |refused| refused.more);
        self.refused = Some(Refused { peak: self.peak, more: before.max(more), by_session });
    }
}
