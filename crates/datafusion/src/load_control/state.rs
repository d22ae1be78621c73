//! Who is in, who waits, and what everybody may have: the facts behind the door. Time is an argument.
//!
//! A run that is in is charged what it was promised or what its operators have, whichever is more. The charges of all
//! stay within the limit at the door: who comes waits, in the order of arrival, until its wish fits beside them. A promise
//! is kept, with two exceptions. That of a plan nobody knows yet is, after [`TRIAL`], twice what it turned out to need, so
//! that many small queries are not held up by a guess. And a query whose reader has not read for [`UNREAD`] loses what it
//! does not use.
//!
//! Nobody waits for ever. Whoever is in never waits for memory: who asks for more than there is gets a refusal. Waited for
//! are runs that go on, and for [`ENDING`] what operators of ended runs still have (a plan that somebody keeps may have it
//! for good). When there are none of these, the first one at the door comes in with whatever is left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::turn::Turn;

/// What names a run of a query in errors and in the view.
pub(crate) type RunId = u64;

/// Queries without load control, which nobody waits for.
pub(crate) const OUTSIDE: RunId = 0;

/// The part of the limit that a plan nobody knows is promised: so many are let in at once.
const STRANGERS: u64 = 8;

/// For so long a stranger keeps what it was promised.
pub(crate) const TRIAL: Duration = Duration::from_millis(250);

/// A query that nobody has read for so long is not waited for.
pub(crate) const UNREAD: Duration = Duration::from_secs(5);

/// For so long a run that is over is waited for; its operators end in tasks of their own.
pub(crate) const ENDING: Duration = Duration::from_secs(1);

/// The least that is promised, in bytes.
pub(crate) const PROMISE_MIN: u64 = 4 << 20;

/// An operator is not refused so little: spilling less than that is no help, and some fail if they have nothing at all.
pub(crate) const NEVER_REFUSED: u64 = 1 << 20;

/// Beyond the limit by one part in so many, and by this at the least, so little is refused, too.
const SMALL_BEYOND: u64 = 4;
const SMALL_BEYOND_MIN: u64 = 32 << 20;

/// Operators that cannot spill may have one part in so many beyond the limit: a refusal fails their query.
const BEYOND_SHARE: u64 = 8;

/// Peaks that are remembered.
const REMEMBERED_MAX: usize = 4096;

/// The facts.
#[derive(Debug)]
pub(crate) struct State {
    /// What operators of all queries together may have, in bytes.
    pub(crate) limit: u64,
    /// What the buffer lends them beyond that.
    pub(crate) lent: u64,
    next: RunId,
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Peaks by the hash of a plan's text.
    peaks: HashMap<u64, u64>,
}

/// A query, or a further run of it.
#[derive(Debug)]
pub(crate) struct Run {
    about: Arc<About>,
    attempt: u32,
    /// Who comes first is served first: a further run has the place of the first.
    place: RunId,
    pub(crate) phase: Phase,
    since: Instant,
    turn: Arc<Turn>,
    used: u64,
    peak: u64,
    refused: Option<Refused>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Waiting {
        wish: Wish,
        waker: Option<Waker>,
        /// When its patience ends.
        until: Option<Instant>,
    },
    In {
        promised: u64,
        stranger: bool,
    },
    /// It is over, but its operators have not given everything back.
    Over,
    /// See [`OUTSIDE`].
    Outside,
}

/// What a run wants to have before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// What its plan took before, or, if nobody knows, a part of the limit.
    Usual,
    /// So many bytes.
    Bytes(u64),
    /// Everything: nobody else with operators that need memory is in.
    All,
}

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

/// Somebody who comes to the door.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) about: Arc<About>,
    /// Its first run, if it was here before.
    pub(crate) first: Option<RunId>,
    pub(crate) attempt: u32,
    pub(crate) wish: Wish,
    pub(crate) turn: Arc<Turn>,
}

/// How an operator asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) has: u64,
    pub(crate) more: u64,
    pub(crate) can_spill: bool,
}

/// A line of the view.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) id: RunId,
    pub(crate) state: &'static str,
    pub(crate) attempt: u32,
    pub(crate) wants: u64,
    pub(crate) used: u64,
    pub(crate) peak: u64,
    /// Who holds what it waits for.
    pub(crate) waits_for: Vec<RunId>,
    pub(crate) for_time: Duration,
    pub(crate) about: Arc<About>,
}

impl Line {
    /// Whether those at the door wait for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self.state, "running" | "ending")
    }
}

/// The last time an operator of a run was refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The most that the run has had.
    pub(crate) peak: u64,
    /// The largest wish that was refused.
    pub(crate) more: u64,
    /// Whether the session's own pool refused, not load control.
    pub(crate) by_session: bool,
}

impl Run {
    pub(crate) fn charge(&self) -> u64 {
        match self.phase {
            Phase::Waiting { .. } => 0,
            Phase::In { promised, .. } => promised.max(self.used),
            Phase::Over | Phase::Outside => self.used,
        }
    }

    /// Whether those at the door wait for it.
    fn is_waited_for(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Waiting { .. } | Phase::Outside => false,
            Phase::In { .. } => self.turn.unread_for(now) < UNREAD,
            Phase::Over => now.saturating_duration_since(self.since) < ENDING,
        }
    }
}

impl State {
    pub(crate) fn new(limit: u64, now: Instant) -> Self {
        let about = About { text: "queries without load control".into(), plan: 0, session: String::new() };
        let outside = Run {
            about: Arc::new(about),
            attempt: 0,
            place: OUTSIDE,
            phase: Phase::Outside,
            since: now,
            turn: Turn::new(now),
            used: 0,
            peak: 0,
            refused: None,
        };
        let runs = BTreeMap::from([(OUTSIDE, outside)]);
        State { limit, lent: 0, next: OUTSIDE + 1, runs, peaks: HashMap::new() }
    }

    /// The charges of all but one.
    pub(crate) fn charged(&self, but: Option<RunId>) -> u64 {
        self.runs.iter().filter(|(id, _)| Some(**id) != but).map(|(_, run)| run.charge()).sum()
    }

    /// Whether somebody is at the door.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.runs.values().any(|run| matches!(run.phase, Phase::Waiting { .. }))
    }

    pub(crate) fn arrive(&mut self, arrival: Arrival, now: Instant) -> RunId {
        let Arrival { about, first, attempt, wish, turn } = arrival;
        let id = self.next;
        self.next += 1;
        let (place, phase) = (first.unwrap_or(id), Phase::Waiting { wish, waker: None, until: None });
        let run = Run { about, attempt, place, phase, since: now, turn, used: 0, peak: 0, refused: None };
        self.runs.insert(id, run);
        id
    }

    /// What a run is promised if it comes in now, and whether that is a guess.
    fn promise(&self, run: &Run, wish: Wish) -> (u64, bool) {
        let usual = (self.limit / STRANGERS).max(PROMISE_MIN);
        let (bytes, guess) = match wish {
            Wish::All => (self.limit, false),
            Wish::Bytes(bytes) => (bytes, false),
            Wish::Usual => match self.peaks.get(&run.about.plan) {
                Some(peak) => (peak.saturating_add(peak / 4), false),
                None => (usual, true),
            },
        };
        (bytes.max(PROMISE_MIN).min(self.limit), guess)
    }

    /// Takes back promises that are not kept any longer.
    fn reclaim(&mut self, now: Instant) {
        for run in self.runs.values_mut() {
            let unread = run.turn.unread_for(now) >= UNREAD;
            let tried = now.saturating_duration_since(run.since) >= TRIAL;
            if let Phase::In { promised, stranger } = &mut run.phase {
                if *stranger && tried {
                    *promised = (run.peak.saturating_mul(2)).max(PROMISE_MIN).min(*promised);
                }
                if unread {
                    *promised = run.used.min(*promised);
                }
            }
        }
    }

    /// Lets in whoever fits, first come first served; returns whom to wake, with those whose patience has ended. While the
    /// process is short of memory, only those come in who have nobody to wait for.
    pub(crate) fn admit(&mut self, short: bool, now: Instant) -> Vec<Waker> {
        if !self.somebody_waits() {
            return Vec::new();
        }
        self.reclaim(now);
        let waiting = self.runs.iter().filter(|(_, run)| matches!(run.phase, Phase::Waiting { .. }));
        let mut waiting: Vec<(RunId, RunId)> = waiting.map(|(id, run)| (run.place, *id)).collect();
        waiting.sort_unstable();
        let mut woken = self.out_of_patience(now);
        for (_, id) in waiting {
            let room = self.limit.saturating_sub(self.charged(None));
            let nobody_goes_on = !self.runs.values().any(|run| run.is_waited_for(now));
            let Some(run) = self.runs.get(&id) else { continue };
            let Phase::Waiting { wish, .. } = run.phase else { continue };
            let (promised, stranger) = self.promise(run, wish);
            let promised = match promised <= room {
                true if !short || nobody_goes_on => promised,
                false if nobody_goes_on => room.max(PROMISE_MIN).min(promised),
                _ => break,
            };
            if let Some(run) = self.runs.get_mut(&id) {
                let before = std::mem::replace(&mut run.phase, Phase::In { promised, stranger });
                run.since = now;
                if let Phase::Waiting { waker, .. } = before {
                    woken.extend(waker);
                }
            }
        }
        woken
    }

    /// Whom to wake to hear that it waited too long.
    fn out_of_patience(&mut self, now: Instant) -> Vec<Waker> {
        let late = |run: &mut Run| match &mut run.phase {
            Phase::Waiting { waker, until: Some(until), .. } if *until <= now => waker.take(),
            _ => None,
        };
        self.runs.values_mut().filter_map(late).collect()
    }

    pub(crate) fn leave(&mut self, id: RunId, remember: bool, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let (plan, peak) = (run.about.plan, run.peak);
        (run.phase, run.since) = (Phase::Over, now);
        if run.used == 0 {
            self.runs.remove(&id);
        }
        if remember {
            if self.peaks.len() >= REMEMBERED_MAX {
                self.peaks.clear();
            }
            self.peaks.insert(plan, peak);
        }
    }

    /// An operator wants more; the error is what is missing.
    pub(crate) fn try_take(&mut self, id: RunId, asking: Asking, short: bool) -> Result<(), u64> {
        let Asking { has, more, can_spill } = asking;
        let others = self.charged(Some(id));
        let limit = self.limit.saturating_add(self.lent);
        let small_limit = limit.saturating_add((limit / SMALL_BEYOND).max(SMALL_BEYOND_MIN));
        let limit = if can_spill { limit } else { limit.saturating_add(limit / BEYOND_SHARE) };
        let Some(run) = self.runs.get_mut(&id) else { return Ok(()) };
        let wanted = others.saturating_add(run.used).saturating_add(more);
        let within_promise = match run.phase {
            Phase::In { promised, .. } => run.used.saturating_add(more) <= promised,
            _ => false,
        };
        let small = has.saturating_add(more) <= NEVER_REFUSED && wanted <= small_limit;
        if small || ((within_promise || wanted <= limit) && !short) {
            self.take(id, more);
            return Ok(());
        }
        run.note_refusal(more, false);
        Err(wanted.saturating_sub(limit))
    }

    pub(crate) fn take(&mut self, id: RunId, bytes: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.used = run.used.saturating_add(bytes);
            run.peak = run.peak.max(run.used);
        }
    }

    /// The session's pool refused an operator so much.
    pub(crate) fn note_refusal(&mut self, id: RunId, more: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.note_refusal(more, true);
        }
    }

    pub(crate) fn refused(&self, id: RunId) -> Option<Refused> {
        let run = self.runs.get(&id)?;
        Some(Refused { peak: run.peak, ..run.refused? })
    }

    pub(crate) fn used(&self, id: RunId) -> u64 {
        self.runs.get(&id).map_or(0, |run| run.used)
    }

    /// Whether that was the last of a run that is over.
    pub(crate) fn give_back(&mut self, id: RunId, bytes: u64) -> bool {
        let Some(run) = self.runs.get_mut(&id) else { return false };
        run.used = run.used.saturating_sub(bytes);
        let gone = run.used == 0 && matches!(run.phase, Phase::Over);
        if gone {
            self.runs.remove(&id);
        }
        gone
    }

    /// Everybody, in the order of arrival.
    pub(crate) fn view(&self, now: Instant) -> Vec<Line> {
        let holders = self.runs.iter().filter(|(_, run)| run.charge() > 0 && run.is_waited_for(now));
        let holders: Vec<RunId> = holders.map(|(id, _)| *id).collect();
        let line = |(id, run): (&RunId, &Run)| {
            let (state, wants, waits_for) = match run.phase {
                Phase::Waiting { wish, .. } => ("waiting", self.promise(run, wish).0, holders.clone()),
                Phase::In { promised, .. } if run.is_waited_for(now) => ("running", promised, Vec::new()),
                Phase::In { promised, .. } => ("unread", promised, Vec::new()),
                Phase::Over if run.is_waited_for(now) => ("ending", 0, Vec::new()),
                Phase::Over => ("kept", 0, Vec::new()),
                Phase::Outside => ("outside", 0, Vec::new()),
            };
            let for_time = now.saturating_duration_since(run.since);
            let (attempt, used, peak, about) = (run.attempt, run.used, run.peak, Arc::clone(&run.about));
            Line { id: *id, state, attempt, wants, used, peak, waits_for, for_time, about }
        };
        self.runs.iter().filter(|(id, run)| **id != OUTSIDE || run.used > 0).map(line).collect()
    }
}

impl Run {
    fn note_refusal(&mut self, more: u64, by_session: bool) {
        let before = self.refused.map_or(0, |refused| refused.more);
        self.refused = Some(Refused { peak: self.peak, more: before.max(more), by_session });
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
