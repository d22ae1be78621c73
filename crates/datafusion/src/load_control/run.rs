//! A run of a query: what it is promised, what it has, and whether waiting queries wait for it.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::turn::Turn;

/// What names a run of a query in errors and in the view.
pub(crate) type RunId = u64;

/// Queries without load control, which nobody waits for.
pub(crate) const OUTSIDE: RunId = 0;

/// The least that is promised, in bytes.
pub(crate) const PROMISE_MIN: u64 = 4 << 20;

/// How often a stranger's promise is corrected.
pub(crate) const TRIAL: Duration = Duration::from_millis(250);

/// A stranger that has not asked for memory for so long is taken for one that needs little.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(1);

/// A stranger is promised so many times its peak while that grows, and afterwards.
const GROWING: u64 = 4;
const SETTLED: u64 = 2;

/// A query that nobody has read for so long is not waited for.
pub(crate) const UNREAD: Duration = Duration::from_secs(5);

/// For so long a run that is over is waited for; its operators end in tasks of their own.
pub(crate) const ENDING: Duration = Duration::from_secs(1);

/// A further run has a plan that nobody else has: its operators give everything back, at the latest when a hash table that they
/// are making is done.
pub(crate) const ENDING_AGAIN: Duration = Duration::from_secs(30);

/// What is known of a query.
#[derive(Debug)]
pub(crate) struct About {
    /// What it is called in errors and in the view.
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
    /// Who comes first is served first: a further run has the place of the first.
    pub(super) place: RunId,
    pub(crate) phase: Phase,
    pub(super) since: Instant,
    /// When its promise was corrected last, and its peak then.
    pub(super) looked: (Instant, u64),
    pub(super) turn: Arc<Turn>,
    pub(super) used: u64,
    pub(super) peak: u64,
    pub(super) refused: Option<Refused>,
    /// Whether rows of it were output: it cannot run again.
    pub(super) shown: bool,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Waiting {
        request: MemoryRequest,
        waker: Option<Waker>,
        /// When its patience ends.
        until: Option<Instant>,
    },
    In {
        promised: u64,
        /// Whether that is a guess, and what was guessed.
        guessed: Option<u64>,
    },
    /// It is over, but its operators have not given everything back.
    Over,
    /// See [`OUTSIDE`].
    Outside,
}

/// What a run wants to have before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRequest {
    /// What its plan took before, or, if nobody knows, a part of the limit.
    Usual,
    /// So many bytes.
    Bytes(u64),
    /// Everything: nobody else with operators that need memory is in.
    All,
}

/// The last time an operator of a run was refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The most that the run has had.
    pub(crate) peak: u64,
    /// The largest request that was refused.
    pub(crate) more: u64,
    /// Whether the session's own pool refused, not load control.
    pub(crate) by_session: bool,
}

impl Run {
    /// One that arrives, or that stands for those who never do.
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

    /// Whether a refusal does not end its query.
    pub(super) fn can_run_again(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::In { .. }) && !self.shown
    }

    /// Whether waiting queries wait for it.
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

    /// The promise of a stranger follows what it turns out to need, within what was guessed and the room there is.
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
