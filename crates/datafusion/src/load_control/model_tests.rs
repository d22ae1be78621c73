//! Random worlds of queries under admission. They have demands, refusals and further runs, cancellations and
//! panics at every point, readers that stop, plans that are kept, and a changing limit, buffer and process.
//! Time is simulated, and one seed decides.
//!
//! At every step the accounts equal the memory of operators. Grants stay within limit, loans and the stated
//! excess. Operators and the offer to the buffer together stay within the limit as long as operators do. When
//! the faults stop, every query ends except those whose readers have stopped. Then these end too, and nothing
//! is left: no run, no byte, no loan. Faults planted in the host must be found.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::task::{ArcWake, waker};

use super::attempt::Attempt;
use super::gauge::Gauge;
use super::lender::{Buffer, Lender};
use super::run::{About, OUTSIDE, PROMISE_MIN, RunId};
use super::state::{Arrival, Asker, Asking};
use super::turn::Turn;

const MIB: u64 = 1 << 20;

/// The memory of the process.
const MEMORY: u64 = 1 << 40;

/// More ticks than any world needs after its faults have stopped.
const ENDS_WITHIN: usize = 20_000;

/// An omission of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Does not poll a query that was woken.
    WakeUp,
    /// Does not check admission while time passes.
    Look,
    /// Does not settle the loans when a query ends.
    Loan,
    /// Does not take back the offer to the buffer.
    Offer,
    /// Does not leave when it is cancelled.
    Leave,
    /// Does not return the memory of a cancelled query's operators.
    GiveBack,
    /// Does not report that rows were output.
    Shown,
}

/// The buffer, of which scans hold a part.
struct Pretended {
    bytes: Cell<u64>,
    held: Cell<u64>,
    lent: Cell<u64>,
    offered: Cell<u64>,
}

impl Buffer for Pretended {
    fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn lend(&self, bytes: u64) -> Option<u64> {
        self.lent.set(bytes);
        Some(self.bytes.get().saturating_sub(self.held.get()).min(bytes))
    }

    fn offer(&self, bytes: u64) -> Option<u64> {
        self.offered.set(bytes);
        Some(bytes)
    }
}

/// The waker of a query.
struct Reader {
    turn: Arc<Turn>,
    woken: AtomicBool,
    clock: Arc<AtomicU64>,
    began: Instant,
}

impl ArcWake for Reader {
    fn wake_by_ref(reader: &Arc<Self>) {
        reader.turn.of_reader(reader.began + Duration::from_millis(reader.clock.load(Ordering::Relaxed)));
        reader.woken.store(true, Ordering::Relaxed);
    }
}

/// A query.
struct Query {
    reader: Arc<Reader>,
    about: Arc<About>,
    attempt: Attempt,
    runs: u32,
    first: Option<RunId>,
    /// The run, waiting or admitted.
    run: Option<RunId>,
    inside: bool,
    has: u64,
    /// Whether rows were output, so that it cannot run again.
    shown: bool,
    steps: u32,
    stopped: bool,
    over: bool,
}

struct World {
    rng: fastrand::Rng,
    lender: Lender,
    buffer: Pretended,
    clock: Arc<AtomicU64>,
    began: Instant,
    queries: Vec<Query>,
    /// Memory that operators of ended runs have not returned, and whether a plan keeps it.
    ending: Vec<(RunId, u64, bool)>,
    outside: u64,
    limit_max: u64,
    /// Grants beyond the rules, to requests that must not be refused.
    forced: u64,
    fault: Fault,
}

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let limit = rng.u64(8..2000) * MIB;
        let buffer = rng.u64(8..2000) * MIB;
        let began = Instant::now();
        let clock = Arc::new(AtomicU64::new(0));
        let lender = Lender::new(limit, limit, Gauge::new(MEMORY));
        lender.control.say(1);
        let (bytes, held) = (Cell::new(buffer), Cell::new(buffer / 3));
        let buffer = Pretended { bytes, held, lent: Cell::new(0), offered: Cell::new(0) };
        lender.settle(&buffer);
        let queries = (0..rng.usize(1..12))
            .map(|_| {
                let turn = Turn::new(began);
                let (woken, clock) = (AtomicBool::new(true), Arc::clone(&clock));
                Query {
                    reader: Arc::new(Reader { turn, woken, clock, began }),
                    about: Arc::new(About {
                        text: String::new(),
                        plan: rng.u64(0..6),
                        session: String::new(),
                    }),
                    attempt: Attempt::First,
                    runs: 0,
                    first: None,
                    run: None,
                    inside: false,
                    has: 0,
                    shown: false,
                    steps: rng.u32(1..40),
                    stopped: false,
                    over: false,
                }
            })
            .collect();
        let (ending, outside, forced) = (Vec::new(), 0, 0);
        World { rng, lender, buffer, clock, began, queries, ending, outside, limit_max: limit, forced, fault }
    }

    fn now(&self) -> Instant {
        self.began + Duration::from_millis(self.clock.load(Ordering::Relaxed))
    }

    /// Returns, with low probability, whether the host makes this omission.
    fn forgets(&mut self, fault: Fault) -> bool {
        self.fault == fault && self.rng.u8(0..4) == 0
    }

    /// Polls a query that was woken.
    fn poll(&mut self, at: usize) {
        if self.forgets(Fault::WakeUp) {
            self.queries[at].reader.woken.store(false, Ordering::Relaxed);
            return;
        }
        let now = self.now();
        let query = &mut self.queries[at];
        query.reader.woken.store(false, Ordering::Relaxed);
        query.reader.turn.of_query();
        if query.run.is_none() {
            query.runs += 1;
            assert!(query.runs <= 5, "a query runs again and again");
            let request = query.attempt.request(self.lender.control.limit());
            let (about, turn) = (Arc::clone(&query.about), Arc::clone(&query.reader.turn));
            let arrival = Arrival { about, first: query.first, attempt: query.runs, request, turn };
            let id = self.lender.control.arrive(arrival, now);
            query.first.get_or_insert(id);
            query.run = Some(id);
        }
        let Some(id) = query.run else { return };
        if !query.inside {
            let polled = self.lender.control.poll_in(id, &waker(Arc::clone(&query.reader)), None, now);
            let Poll::Ready(Ok(())) = polled else { return };
            query.inside = true;
        }
        self.work(at, id);
        let query = &self.queries[at];
        if query.run.is_some() || !query.over {
            // It yields, or its reader has rows and comes back.
            ArcWake::wake_by_ref(&query.reader);
        }
    }

    /// One step of a query's operators.
    fn work(&mut self, at: usize, id: RunId) {
        let limit = self.lender.control.limit();
        if self.queries[at].steps == 0 {
            self.end(at, true);
            return;
        }
        self.queries[at].steps -= 1;
        let has = self.queries[at].has;
        match self.rng.u8(0..8) {
            0..5 => {
                let more = self.rng.u64(0..(limit / 2).max(2));
                let (can_spill, who) = match self.rng.u8(0..8) {
                    0 => (false, Asker::Merge),
                    n => (n % 2 == 0, Asker::Other),
                };
                let asking = Asking { has, more, copies: 0, can_spill, who };
                if self.asks(id, asking) {
                    self.queries[at].has += more;
                } else if !asking.can_spill {
                    self.has_to_be_refused(at, asking);
                    self.fails(at, id);
                } else {
                    self.gives_back(id, has);
                    self.queries[at].has = 0;
                }
            }
            5 if self.rng.bool() => {
                self.queries[at].shown = true;
                if self.fault != Fault::Shown {
                    self.lender.control.note_shown(id);
                }
            }
            5 => {
                let more = self.rng.u64(0..MIB);
                self.lender.take(&self.buffer, id, more);
                self.queries[at].has += more;
                self.forced += more;
            }
            _ => {
                let less = self.rng.u64(0..=has);
                self.gives_back(id, less);
                self.queries[at].has -= less;
            }
        }
    }

    /// Requests memory as a query's pool does.
    fn asks(&mut self, id: RunId, asking: Asking) -> bool {
        let granted = match self.forgets(Fault::Offer) {
            true => self.lender.control.try_take(id, asking).is_ok(),
            false => self.lender.try_take(&self.buffer, id, asking, self.now()),
        };
        if granted {
            let control = &self.lender.control;
            let used: u64 = control.view().iter().map(|line| line.used).sum();
            let most = self.limit_max + self.buffer.bytes();
            // Queries that cannot run again get their grants beside the memory of the others.
            let no_return = self.queries.iter().any(|query| query.shown) as u64 * (most + most / 2);
            let excess = most / 2 + 32 * MIB + PROMISE_MIN + self.forced + self.outside + no_return;
            assert!(used <= most + excess, "{used} bytes were granted of {most}");
        }
        granted
    }

    /// A query that cannot run again is refused only if similar queries and ended runs leave no room.
    fn has_to_be_refused(&self, at: usize, asking: Asking) {
        let query = &self.queries[at];
        if !query.shown || self.lender.control.is_short() {
            return;
        }
        let limit = self.lender.control.limit();
        let shown = self.queries.iter().filter(|query| query.shown);
        let charged = shown.map(|query| query.has.max(self.promised(query))).sum::<u64>();
        let left: u64 = self.ending.iter().map(|(_, has, _)| *has).sum();
        let wanted = charged.max(query.has) + left + self.outside + asking.more;
        assert!(wanted > limit + limit / 2, "{} more of {limit} were refused for nothing", asking.more);
    }

    fn promised(&self, query: &Query) -> u64 {
        let line = self.lender.control.view().into_iter().find(|line| Some(line.id) == query.run);
        line.map_or(0, |line| line.wants)
    }

    fn gives_back(&self, id: RunId, bytes: u64) {
        match self.fault {
            Fault::Loan => _ = self.lender.control.give_back(id, bytes, self.now()),
            _ => self.lender.give_back(&self.buffer, id, bytes, self.now()),
        }
    }

    fn fails(&mut self, at: usize, id: RunId) {
        let Some(refused) = self.lender.control.refused(id) else { panic!("nothing was refused") };
        let next = self.queries[at].attempt.after(refused, self.lender.control.limit());
        self.end(at, false);
        if let Some(next) = next.filter(|_| !self.queries[at].shown) {
            let query = &mut self.queries[at];
            (query.attempt, query.over) = (next, false);
        }
    }

    /// Ends the run: it leaves, and its operators end a little later, or a plan keeps their memory.
    fn end(&mut self, at: usize, well: bool) {
        let query = &mut self.queries[at];
        (query.over, query.inside) = (true, false);
        let has = std::mem::take(&mut query.has);
        let Some(id) = query.run.take() else { return };
        if self.fault != Fault::Leave || well {
            self.lender.control.leave(id, well, self.now());
        }
        if self.fault != Fault::Loan {
            self.lender.settle(&self.buffer);
        }
        let keeps = self.rng.u8(0..4) == 0;
        if self.fault != Fault::GiveBack || well {
            self.ending.push((id, has, keeps));
        }
    }

    fn operators_end(&mut self, kept: bool) {
        let ending = std::mem::take(&mut self.ending);
        let (ends, stay): (Vec<_>, Vec<_>) = ending.into_iter().partition(|(_, _, keeps)| kept || !keeps);
        self.ending = stay;
        // Runs without memory return nothing.
        for (id, has, _) in ends.into_iter().filter(|(_, has, _)| *has > 0) {
            self.gives_back(id, has);
        }
    }

    fn pass(&mut self, millis: u64) {
        self.clock.fetch_add(millis, Ordering::Relaxed);
        if self.fault != Fault::Look {
            self.lender.control.open(self.now());
        }
    }

    /// Takes one random step.
    fn step(&mut self) {
        let at = self.rng.usize(0..self.queries.len());
        match self.rng.u8(0..32) {
            0..20 => _ = self.poll_somebody(),
            20..24 => {
                let millis = self.rng.u64(0..100);
                self.pass(millis);
            }
            24 => {
                let millis = self.rng.u64(0..8000);
                self.pass(millis);
            }
            // Cancelled, or in a panic: the stream is dropped in any state.
            25 if self.rng.u8(0..3) == 0 => self.end(at, false),
            26 => self.queries[at].stopped = self.rng.u8(0..4) == 0,
            27 if self.rng.bool() => {
                let limit = self.rng.u64(8..2000) * MIB;
                self.limit_max = self.limit_max.max(limit);
                self.lender.set_limit(&self.buffer, limit);
            }
            28 => {
                let bytes = [1, MEMORY / 100 * 80, MEMORY][self.rng.usize(0..3)];
                self.lender.control.say(bytes);
            }
            29 => self.buffer.held.set(self.rng.u64(0..=self.buffer.bytes())),
            30 => {
                let more = self.rng.u64(0..MIB);
                self.lender.take(&self.buffer, OUTSIDE, more);
                self.outside += more;
            }
            _ => self.operators_end(false),
        }
        self.check();
    }

    fn poll_somebody(&mut self) -> bool {
        let ready: Vec<usize> = (0..self.queries.len())
            .filter(|at| {
                let query = &self.queries[*at];
                !query.over && !query.stopped && query.reader.woken.load(Ordering::Relaxed)
            })
            .collect();
        match self.rng.choice(&ready) {
            Some(at) => {
                self.poll(*at);
                true
            }
            None => false,
        }
    }

    /// Checks the accounts.
    fn check(&self) {
        let known = self.queries.iter().filter(|query| query.run.is_some()).map(|query| query.has);
        let left = self.ending.iter().map(|(_, has, _)| *has);
        let used: u64 = known.chain(left).sum::<u64>() + self.outside;
        let booked: u64 = self.lender.control.view().iter().map(|line| line.used).sum();
        assert_eq!(booked, used, "what is booked is not what operators have");
        let (offered, limit) = (self.buffer.offered.get(), self.lender.control.limit());
        assert!(offered == 0 || used + offered <= limit, "{used} and {offered} are more than {limit}");
        assert!(offered == 0 || self.buffer.lent.get() == 0, "it lends what it is offered");
    }

    /// Runs the world without further faults until every query with a reader ends.
    fn ends(&mut self) {
        self.lender.control.say(1);
        for _ in 0..ENDS_WITHIN {
            if self.queries.iter().all(|query| query.over || query.stopped) {
                return;
            }
            if !self.poll_somebody() {
                self.pass(50);
            }
            self.operators_end(false);
            self.check();
        }
        let waiting = self.lender.control.view();
        panic!("somebody waits for ever: {waiting:?}");
    }

    fn nothing_is_left(&mut self) {
        self.operators_end(true);
        self.lender.control.give_back(OUTSIDE, self.outside, self.now());
        self.outside = 0;
        if self.fault != Fault::Loan {
            (0..12).for_each(|_| self.lender.settle(&self.buffer));
        }
        let view = self.lender.control.view();
        assert!(view.is_empty(), "somebody was forgotten: {view:?}");
        assert_eq!(self.buffer.lent.get(), 0, "the buffer did not get everything back");
        let (offered, limit) = (self.buffer.offered.get(), self.lender.control.limit());
        let most = (limit - limit / 4).min(self.lender.default_limit);
        assert_eq!(offered, most, "of {limit}, all that the buffer can be offered");
    }
}

fn play(seed: u64, fault: Fault) {
    let mut world = World::new(seed, fault);
    for _ in 0..world.rng.usize(50..400) {
        world.step();
    }
    world.ends();
    // Readers that had stopped continue.
    world.queries.iter_mut().for_each(|query| query.stopped = false);
    world.ends();
    world.nothing_is_left();
}

#[test]
fn whatever_happens_everybody_ends_and_nothing_is_left() {
    for seed in 0..3000 {
        let played = std::panic::catch_unwind(|| play(seed, Fault::None));
        assert!(played.is_ok(), "seed {seed}");
    }
}

#[test]
fn planted_faults_are_found() {
    let found = |fault| (0..300).find(|seed| std::panic::catch_unwind(|| play(*seed, fault)).is_err());
    let faults =
        [Fault::WakeUp, Fault::Look, Fault::Loan, Fault::Offer, Fault::Leave, Fault::GiveBack, Fault::Shown];
    let found = faults.map(|fault| (fault, found(fault)));
    for (fault, seed) in found {
        assert!(seed.is_some(), "{fault:?} was not found");
    }
}
