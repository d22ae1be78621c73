//! The state of admission: admitted and waiting queries, and their memory. Time is an argument.
//!
//! The charge of an admitted run is its promise or the memory of its operators, whichever is more. The
//! charges of all runs stay within the limit of admission: queries wait, in the order of arrival, until their
//! request fits. A promise is kept, with two exceptions. First, the promise of an unknown plan is corrected
//! every `TRIAL` to its actual need. So a guess does not delay many small queries, and many growing ones
//! are not admitted at once. Second, a query whose reader has not read for [`UNREAD`] loses its unused
//! promise.
//!
//! No query waits forever. An admitted query never waits for memory: a request beyond the available memory is
//! refused. Other queries wait only for runs that make progress and, for a limited time ([`super::run`]), for
//! memory that operators of ended runs still have. A plan that is kept may have such memory as long as it
//! exists. If there are no such runs, the first waiting query is admitted with the remaining memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::run::{About, MemoryRequest, OUTSIDE, PROMISE_MIN, Phase, Refused, Run, RunId, UNREAD};
use super::turn::Turn;

/// An unknown plan is promised 1/N of the limit, so that N of them are admitted at once.
const STRANGERS: u64 = 8;

/// Requests up to this size are not refused. Spilling so little is no help, and some operators fail if they
/// have no memory.
pub(crate) const NEVER_REFUSED: u64 = 1 << 20;

/// Requests up to this size are not refused to an operator that has no memory, such as a sort between
/// repartitions that hold everything: it could not begin. They are not refused to an operator that can spill
/// either: it fails if it has no room for a batch after spilling.
const NEVER_REFUSED_FIRST: u64 = 4 << 20;

/// Small requests are refused above the limit plus 1/N of it, or plus `SMALL_BEYOND_MIN` if that is more.
/// Those of a run that is alone are refused above the limit of merges plus `SMALL_BEYOND_MIN`.
const SMALL_BEYOND: u64 = 4;
const SMALL_BEYOND_MIN: u64 = 32 << 20;

/// Requests up to this size are never refused to operators that cannot spill, even at the end of the
/// process's memory.
const NEVER_REFUSED_AT_THE_END: u64 = 128 << 10;

/// Operators that cannot spill may exceed the limit by 1/N of it, because a refusal fails their query.
const BEYOND_SHARE: u64 = 8;

/// Merges of sorted batches may exceed the limit by 1/N of it: they cannot spill, and their batches exist
/// already. So may runs of which rows were output, because a refusal ends their queries.
const NO_RETURN_SHARE: u64 = 2;

/// Operators larger than 1/N of the limit spill when the process is short of memory.
const SHORT_SHARE: u64 = 32;

/// 1/N of the limit is not offered to the buffer, so that operators can take a little without changing the
/// buffer.
const OFFER_RESERVE: u64 = 4;

/// Limit of the remembered peaks.
const REMEMBERED_MAX: usize = 4096;

/// The state of admission.
#[derive(Debug)]
pub(crate) struct State {
    /// The memory of all queries' operators together, in bytes.
    pub(crate) limit: u64,
    /// The buffer's loan beyond that.
    pub(crate) lent: u64,
    /// The part of the limit that the buffer has while operators do not use it.
    pub(crate) offered: u64,
    next: RunId,
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Peaks by the hash of a plan's text.
    peaks: HashMap<u64, u64>,
}

/// A query that asks for admission.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) about: Arc<About>,
    /// The query's first run, if this is a further one.
    pub(crate) first: Option<RunId>,
    pub(crate) attempt: u32,
    pub(crate) request: MemoryRequest,
    pub(crate) turn: Arc<Turn>,
}

/// The pressure on the process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Enough memory is left.
    None,
    /// Large operators must spill.
    Short,
    /// Queries that came late must give up.
    End,
    /// The request exceeds the process's memory.
    Beyond,
}

/// A request of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) has: u64,
    pub(crate) more: u64,
    /// The bytes that it will copy without a request.
    pub(crate) copies: u64,
    pub(crate) can_spill: bool,
    pub(crate) who: Asker,
}

/// The kind of the requesting operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A merge of sorted batches, which requests memory again that the sort already has.
    Merge,
    Other,
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
    /// The runs that hold the memory for which it waits.
    pub(crate) waits_for: Vec<RunId>,
    pub(crate) for_time: Duration,
    pub(crate) about: Arc<About>,
}

impl Line {
    /// Returns whether waiting queries wait for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self.state, "running" | "ending")
    }
}

impl State {
    pub(crate) fn new(limit: u64, now: Instant) -> Self {
        let about = About { text: "queries without load control".into(), plan: 0, session: String::new() };
        let outside = Run::new(Arc::new(about), OUTSIDE, Phase::Outside, Turn::new(now), now);
        let runs = BTreeMap::from([(OUTSIDE, outside)]);
        State { limit, lent: 0, offered: 0, next: OUTSIDE + 1, runs, peaks: HashMap::new() }
    }

    /// Returns the charges of all runs but one.
    pub(crate) fn charged(&self, but: Option<RunId>) -> u64 {
        self.runs.iter().filter(|(id, _)| Some(**id) != but).map(|(_, run)| run.charge()).sum()
    }

    /// Returns the memory of all runs' operators.
    fn used_by_all(&self) -> u64 {
        self.runs.values().map(|run| run.used).sum()
    }

    /// Returns whether operators have no memory.
    pub(crate) fn is_unused(&self) -> bool {
        self.used_by_all() == 0
    }

    /// Returns the memory that operators leave for the buffer.
    pub(crate) fn left(&self) -> u64 {
        (self.limit - self.limit / OFFER_RESERVE).saturating_sub(self.used_by_all())
    }

    /// Returns whether operators need the memory that the buffer is offered.
    pub(crate) fn is_crowded(&self) -> bool {
        self.offered > 0 && self.used_by_all().saturating_add(self.offered) > self.limit
    }

    /// Returns the charges of all other runs that cannot run again.
    fn charged_for_good(&self, but: RunId) -> u64 {
        let runs = self.runs.iter().filter(|(id, run)| **id != but && !run.can_run_again());
        runs.map(|(_, run)| run.charge()).sum()
    }

    /// Returns whether a query waits for admission.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.runs.values().any(|run| matches!(run.phase, Phase::Waiting { .. }))
    }

    pub(crate) fn arrive(&mut self, arrival: Arrival, now: Instant) -> RunId {
        let Arrival { about, first, attempt, request, turn } = arrival;
        let id = self.next;
        self.next += 1;
        let (place, phase) = (first.unwrap_or(id), Phase::Waiting { request, waker: None, until: None });
        self.runs.insert(id, Run { attempt, ..Run::new(about, place, phase, turn, now) });
        id
    }

    /// Returns the promise of a run if it is admitted at once, and the guess if the promise is one.
    fn promise(&self, run: &Run, request: MemoryRequest) -> (u64, Option<u64>) {
        let usual = (self.limit / STRANGERS).max(PROMISE_MIN);
        let (bytes, guess) = match request {
            MemoryRequest::All => (self.limit, false),
            MemoryRequest::Bytes(bytes) => (bytes, false),
            MemoryRequest::Usual => match self.peaks.get(&run.about.plan) {
                Some(peak) => (peak.saturating_add(peak / 4), false),
                None => (usual, true),
            },
        };
        let bytes = bytes.max(PROMISE_MIN).min(self.limit);
        (bytes, guess.then_some(bytes))
    }

    /// Corrects promises, and takes back those of queries that are not read.
    fn correct(&mut self, now: Instant) {
        let mut room = self.limit.saturating_sub(self.charged(None));
        for run in self.runs.values_mut() {
            let before = run.charge();
            run.learn(room, now);
            if let Phase::In { promised, .. } = &mut run.phase
                && run.turn.unread_for(now) >= UNREAD
            {
                *promised = run.used.min(*promised);
            }
            room = room.saturating_add(before).saturating_sub(run.charge());
        }
    }

    /// Admits the queries that fit, in the order of arrival. Returns the tasks to wake, including those whose
    /// patience has ended. While the process is short of memory, a query is admitted only if there is no run
    /// for which it could wait.
    pub(crate) fn admit(&mut self, short: bool, now: Instant) -> Vec<Waker> {
        if !self.somebody_waits() {
            return Vec::new();
        }
        self.correct(now);
        let waiting = self.runs.iter().filter(|(_, run)| matches!(run.phase, Phase::Waiting { .. }));
        let mut waiting: Vec<(RunId, RunId)> = waiting.map(|(id, run)| (run.place, *id)).collect();
        waiting.sort_unstable();
        let mut woken = self.out_of_patience(now);
        for (_, id) in waiting {
            let room = self.limit.saturating_sub(self.charged(None));
            let nobody_goes_on = !self.runs.values().any(|run| run.is_waited_for(now));
            let Some(run) = self.runs.get(&id) else { continue };
            let Phase::Waiting { request, .. } = run.phase else { continue };
            let (promised, guessed) = self.promise(run, request);
            let promised = match promised <= room {
                true if !short || nobody_goes_on => promised,
                false if nobody_goes_on => room.max(PROMISE_MIN).min(promised),
                _ => break,
            };
            if let Some(run) = self.runs.get_mut(&id) {
                let before = std::mem::replace(&mut run.phase, Phase::In { promised, guessed });
                (run.since, run.looked) = (now, (now, 0));
                if let Phase::Waiting { waker, .. } = before {
                    woken.extend(waker);
                }
            }
        }
        woken
    }

    /// Returns the tasks to wake because their patience has ended.
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

    /// Returns whether a run that arrived before this one is admitted.
    fn has_elders(&self, run: &Run) -> bool {
        let inside = |other: &&Run| matches!(other.phase, Phase::In { .. });
        self.runs.values().filter(inside).any(|other| other.place < run.place)
    }

    /// Returns whether no other run is admitted.
    fn is_alone(&self, id: RunId) -> bool {
        !self.runs.iter().any(|(other, run)| *other != id && matches!(run.phase, Phase::In { .. }))
    }

    /// Returns whether a run must manage with its memory when the process is at the end of its own. The
    /// admitted run that arrived first is exempt, unless it is alone and no other run could give up instead.
    fn gives_up(&self, id: RunId) -> bool {
        let Some(run) = self.runs.get(&id) else { return false };
        matches!(run.phase, Phase::In { .. }) && (self.is_alone(id) || self.has_elders(run))
    }

    /// Grants an operator more memory. The error is the missing number of bytes.
    pub(crate) fn try_take(&mut self, id: RunId, asking: Asking, pressure: Pressure) -> Result<(), u64> {
        let Asking { has, more, copies, can_spill, who } = asking;
        let all = has.saturating_add(more);
        let is_large = can_spill && all > 4 * NEVER_REFUSED && all > self.limit / SHORT_SHARE;
        let gives_up = pressure == Pressure::Beyond || (pressure == Pressure::End && self.gives_up(id));
        let short = gives_up || (pressure >= Pressure::Short && is_large);
        let never_refused = match has {
            _ if gives_up && !can_spill => NEVER_REFUSED_AT_THE_END,
            _ if gives_up => NEVER_REFUSED,
            0 => NEVER_REFUSED_FIRST,
            _ if can_spill => NEVER_REFUSED_FIRST,
            _ => NEVER_REFUSED,
        };
        let others = self.charged(Some(id));
        let limit = self.limit.saturating_add(self.lent);
        let no_return_limit = limit.saturating_add(limit / NO_RETURN_SHARE);
        let small_limit = match self.is_alone(id) {
            // The memory of its merges leaves room for its sorts, because no other run could give way.
            true => no_return_limit.saturating_add(SMALL_BEYOND_MIN),
            false => limit.saturating_add((limit / SMALL_BEYOND).max(SMALL_BEYOND_MIN)),
        };
        let limit = if can_spill { limit } else { limit.saturating_add(limit / BEYOND_SHARE) };
        let for_good = self.charged_for_good(id);
        let Some(run) = self.runs.get_mut(&id) else { return Ok(()) };
        let own = run.used.saturating_add(more).saturating_add(copies);
        let wanted = others.saturating_add(own);
        let within_promise = match run.phase {
            Phase::In { promised, .. } => own <= promised,
            _ => false,
        };
        let small = all <= never_refused && wanted <= small_limit;
        let no_return = match who {
            // Runs that can run again are refused their next requests, and make room.
            _ if run.shown && !can_spill => for_good.saturating_add(own) <= no_return_limit,
            Asker::Merge => wanted <= no_return_limit,
            Asker::Other => false,
        };
        if small || ((no_return || within_promise || wanted <= limit) && !short) {
            self.take(id, more);
            return Ok(());
        }
        tracing::debug!(
            id,
            has,
            more,
            copies,
            can_spill,
            ?who,
            used = run.used,
            others,
            limit,
            ?pressure,
            "refused"
        );
        run.note_refusal(more, false);
        Err(wanted.saturating_sub(limit))
    }

    pub(crate) fn take(&mut self, id: RunId, bytes: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.used = run.used.saturating_add(bytes);
            run.peak = run.peak.max(run.used);
        }
    }

    /// Records that rows of a run were output.
    pub(crate) fn note_shown(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.shown = true;
        }
    }

    /// Records that the session's pool refused `more` bytes.
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

    /// Returns memory of a run. The result says whether it was the last of a run that is over.
    pub(crate) fn give_back(&mut self, id: RunId, bytes: u64) -> bool {
        let Some(run) = self.runs.get_mut(&id) else { return false };
        run.used = run.used.saturating_sub(bytes);
        let gone = run.used == 0 && matches!(run.phase, Phase::Over);
        if gone {
            self.runs.remove(&id);
        }
        gone
    }

    /// Returns all runs, in the order of arrival.
    pub(crate) fn view(&self, now: Instant) -> Vec<Line> {
        let holders = self.runs.iter().filter(|(_, run)| run.charge() > 0 && run.is_waited_for(now));
        let holders: Vec<RunId> = holders.map(|(id, _)| *id).collect();
        let line = |(id, run): (&RunId, &Run)| {
            let (state, wants, waits_for) = match run.phase {
                Phase::Waiting { request, .. } => ("waiting", self.promise(run, request).0, holders.clone()),
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

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
