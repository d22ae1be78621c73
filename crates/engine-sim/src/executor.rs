//! A seeded executor: every task has a thread of its own, and one of them runs at a time.
//!
//! The next task is drawn at every [`step`](Executor::step): at every await, at every sleep, and wherever the
//! engine takes a lock ([`Point`]). So the interleavings of the engine's own threads are a function of the
//! seed. Time is virtual. It mostly stands still while a task can continue, and otherwise jumps to the next
//! event. If no task can continue and none sleeps, control returns to the first thread, which decides what
//! that means.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use coscan_engine::environment::{Point, interleave};

/// A task's identifier: its place in the order of beginning.
pub type TaskId = usize;

/// The first thread.
pub const MAIN: TaskId = 0;

/// The rates at which a task lets another go first, by kind of point: one time in n; zero for never.
#[derive(Clone, Copy, Debug)]
pub struct Yields {
    /// Before a lock.
    pub locking: u32,
    /// After a lock was taken.
    pub locked: u32,
    /// Waking a sleeper before its time although other tasks can continue.
    pub jumps: u32,
    /// Polling a waiting task that was not woken.
    pub spurious: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Waits to be woken.
    Waiting,
    /// Sleeps until that time, or until woken.
    Sleeping(u64),
    Done,
}

struct Task {
    name: String,
    /// True if the engine has to wake it: such a task may not wait forever.
    engine: bool,
    state: State,
    thread: Option<Thread>,
}

struct Schedule {
    random: fastrand::Rng,
    yields: Yields,
    tasks: Vec<Task>,
    /// Tasks that are ready, in an arbitrary but fixed order.
    ready: Vec<TaskId>,
    steps: u64,
    steps_max: u64,
    hash: u64,
    /// The first violation.
    violation: Option<String>,
    /// True if all tasks have to end: waits are over.
    ending: bool,
    log: Option<Vec<String>>,
}

thread_local! {
    /// The task on this thread, and whether its work was aborted.
    static SERVED: RefCell<Option<(TaskId, Arc<AtomicBool>)>> = const { RefCell::new(None) };
}

/// Works on behalf of a task. Its requests to stores end when it is aborted.
pub(crate) async fn serve<T>(task: TaskId, aborted: Arc<AtomicBool>, work: impl Future<Output = T>) -> T {
    SERVED.set(Some((task, aborted)));
    let outcome = work.await;
    SERVED.set(None);
    outcome
}

/// Returns the task that this thread works for, and whether its work was aborted.
pub(crate) fn served() -> Option<(TaskId, Arc<AtomicBool>)> {
    SERVED.with_borrow(Clone::clone)
}

/// The executor of one world.
pub struct Executor {
    schedule: Mutex<Schedule>,
    running: AtomicUsize,
    now_ns: AtomicU64,
}

thread_local! {
    static CURRENT: RefCell<Option<(Arc<Executor>, TaskId)>> = const { RefCell::new(None) };
}

fn current() -> Option<(Arc<Executor>, TaskId)> {
    CURRENT.try_with(|current| current.try_borrow().ok()?.clone()).ok().flatten()
}

impl Executor {
    /// Runs `work` on this thread without letting other tasks run.
    pub fn aside<T>(work: impl FnOnce() -> T) -> T {
        let inside = current().is_some();
        interleave(None);
        let value = work();
        if inside {
            interleave(Some(at_point));
        }
        value
    }
}

fn at_point(point: Point) {
    if let Some((executor, me)) = current() {
        executor.at_point(me, point);
    }
}

impl Executor {
    /// An executor of this seed, for the calling thread.
    pub fn new(seed: u64, yields: Yields, steps_max: u64, log: bool) -> Arc<Self> {
        let main = Task {
            name: "main".into(),
            engine: false,
            state: State::Waiting,
            thread: Some(thread::current()),
        };
        let schedule = Schedule {
            random: fastrand::Rng::with_seed(seed),
            yields,
            tasks: vec![main],
            ready: Vec::new(),
            steps: 0,
            steps_max,
            hash: 0xcbf2_9ce4_8422_2325,
            violation: None,
            ending: false,
            log: log.then(Vec::new),
        };
        let (running, now_ns) = (AtomicUsize::new(MAIN), AtomicU64::new(0));
        Arc::new(Executor { schedule: Mutex::new(schedule), running, now_ns })
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Draws a value.
    pub fn draw<T>(&self, of: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        of(&mut self.schedule().random)
    }

    /// Notes a violation, if it is the first, and makes all tasks end.
    pub fn violate(&self, what: impl FnOnce() -> String) {
        let mut schedule = self.schedule();
        if schedule.violation.is_none() && !schedule.ending {
            let what = what();
            schedule.note(self.now_ns(), &format!("VIOLATION {what}"));
            schedule.violation = Some(what);
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<String> {
        self.schedule().violation.clone()
    }

    /// The number of steps so far, and a hash of their effects.
    pub fn trace(&self) -> (u64, u64) {
        let schedule = self.schedule();
        (schedule.steps, schedule.hash)
    }

    /// Writes a line into the log, and into the hash.
    pub fn note(&self, line: &str) {
        let now = self.now_ns();
        self.schedule().note(now, line);
    }

    /// The log, if it is kept.
    pub fn log(&self) -> Vec<String> {
        self.schedule().log.clone().unwrap_or_default()
    }

    /// Returns whether all tasks have to end.
    pub fn is_ending(&self) -> bool {
        self.schedule().ending
    }

    /// The names of tasks that wait for the engine.
    pub fn waiting_for_engine(&self) -> Vec<String> {
        let schedule = self.schedule();
        let waiting = schedule.tasks.iter().filter(|task| task.engine && task.state == State::Waiting);
        waiting.map(|task| task.name.clone()).collect()
    }

    /// The number of tasks that are not done.
    pub fn alive(&self) -> usize {
        self.schedule().tasks.iter().skip(1).filter(|task| task.state != State::Done).count()
    }

    /// Returns whether no task except the calling one could continue: all others wait or sleep.
    pub fn is_quiet(&self) -> bool {
        self.schedule().ready.len() <= 1
    }

    /// Returns whether no task except the calling one will ever continue by itself: all others wait.
    pub fn stands_still(&self, me: TaskId) -> bool {
        let schedule = self.schedule();
        let moves = |state| matches!(state, State::Ready | State::Sleeping(_));
        !schedule.tasks.iter().enumerate().any(|(id, task)| id != me && moves(task.state))
    }

    /// Begins a task. `engine` is true if only the engine can end its waits.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub fn spawn(
        self: &Arc<Self>,
        name: String,
        engine: bool,
        work: impl FnOnce(TaskId) + Send + 'static,
    ) -> TaskId {
        let id = {
            let mut schedule = self.schedule();
            let id = schedule.tasks.len();
            schedule.tasks.push(Task { name: name.clone(), engine, state: State::Ready, thread: None });
            schedule.ready.push(id);
            id
        };
        let executor = self.clone();
        let run = move || {
            executor.wait_for_turn(id);
            CURRENT.set(Some((executor.clone(), id)));
            interleave(Some(at_point));
            let outcome = catch_unwind(AssertUnwindSafe(|| work(id)));
            interleave(None);
            CURRENT.set(None);
            if let Err(panic) = outcome {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                executor.violate(|| format!("panic in {name}: {text}"));
            }
            executor.leave(id);
        };
        let spawned = thread::Builder::new().name(format!("sim-{id}")).stack_size(2 << 20).spawn(run);
        let thread = spawned.expect("a thread can be started").thread().clone();
        self.schedule().tasks[id].thread = Some(thread);
        id
    }

    fn wait_for_turn(&self, me: TaskId) {
        while self.running.load(Ordering::Acquire) != me {
            thread::park();
        }
    }

    /// Gives control to the drawn task, and returns when it comes back.
    fn switch(&self, me: TaskId, mut schedule: MutexGuard<'_, Schedule>) {
        let next = self.choose(&mut schedule);
        if next == me {
            return;
        }
        self.hand_over(next, schedule);
        self.wait_for_turn(me);
    }

    fn hand_over(&self, next: TaskId, schedule: MutexGuard<'_, Schedule>) {
        let thread = schedule.tasks[next].thread.clone();
        drop(schedule);
        self.running.store(next, Ordering::Release);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    fn choose(&self, schedule: &mut Schedule) -> TaskId {
        schedule.steps += 1;
        if schedule.steps > schedule.steps_max && !schedule.ending {
            let what = format!("it does not come to an end within {} steps", schedule.steps_max);
            schedule.violation.get_or_insert(what);
        }
        if schedule.violation.is_some() && !schedule.ending {
            return MAIN;
        }
        let jump = one_in(&mut schedule.random, schedule.yields.jumps);
        if schedule.ready.is_empty() || jump {
            self.pass_time(schedule);
        }
        if one_in(&mut schedule.random, schedule.yields.spurious) {
            let waiting: Vec<TaskId> =
                (1..schedule.tasks.len()).filter(|id| schedule.tasks[*id].state == State::Waiting).collect();
            if !waiting.is_empty() {
                let id = waiting[schedule.random.usize(..waiting.len())];
                schedule.make_ready(id);
            }
        }
        if schedule.ready.is_empty() {
            return MAIN;
        }
        let at = schedule.random.usize(..schedule.ready.len());
        let next = schedule.ready[at];
        schedule.mix(next as u64);
        next
    }

    /// Wakes the tasks that sleep until the earliest time.
    fn pass_time(&self, schedule: &mut Schedule) {
        let sleepers = schedule.tasks.iter().enumerate().filter_map(|(id, task)| match task.state {
            State::Sleeping(until) => Some((until, id)),
            _ => None,
        });
        let Some(earliest) = sleepers.clone().map(|(until, _)| until).min() else { return };
        let due: Vec<TaskId> = sleepers.filter(|(until, _)| *until <= earliest).map(|(_, id)| id).collect();
        self.now_ns.fetch_max(earliest, Ordering::Relaxed);
        schedule.mix(earliest);
        due.into_iter().for_each(|id| schedule.make_ready(id));
    }

    /// From this call on, time passes only while no task can continue, so that no read misses a deadline
    /// because it does not run.
    pub fn stop_jumps(&self) {
        self.schedule().yields.jumps = 0;
    }

    /// Lets time pass without waking tasks: the next sleepers wake late.
    pub fn jump(&self, by: Duration) {
        self.now_ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        let mut schedule = self.schedule();
        schedule.mix(by.as_nanos() as u64);
    }

    fn at_point(&self, me: TaskId, point: Point) {
        let mut schedule = self.schedule();
        let yields = schedule.yields;
        let goes_on = match point {
            Point::Locking => !one_in(&mut schedule.random, yields.locking),
            Point::Locked => !one_in(&mut schedule.random, yields.locked),
            Point::Contended => false,
        };
        if !goes_on {
            self.switch(me, schedule);
        }
    }

    /// Runs the other tasks until none can continue and none sleeps, or there is a violation.
    pub fn run(&self) {
        let schedule = self.schedule();
        self.switch(MAIN, schedule);
    }

    /// Makes all tasks end: waits and sleeps are over. Returns whether all ended.
    pub fn end(&self) -> bool {
        for _ in 0..50 {
            let mut schedule = self.schedule();
            schedule.ending = true;
            schedule.yields = Yields { locking: 0, locked: 0, jumps: 0, spurious: 0 };
            let alive: Vec<TaskId> =
                (1..schedule.tasks.len()).filter(|id| schedule.tasks[*id].state != State::Done).collect();
            if alive.is_empty() {
                return true;
            }
            alive.into_iter().for_each(|id| schedule.make_ready(id));
            self.switch(MAIN, schedule);
        }
        false
    }

    fn leave(&self, me: TaskId) {
        let mut schedule = self.schedule();
        schedule.tasks[me].state = State::Done;
        schedule.ready.retain(|id| *id != me);
        let next = self.choose(&mut schedule);
        self.hand_over(next, schedule);
    }

    /// Wakes the task of this identifier from a sleep or wait.
    pub fn wake(&self, id: TaskId) {
        self.schedule().make_ready(id);
    }

    /// Makes a sleeping or waiting task sleep until that time, or wait forever.
    pub fn reschedule(&self, id: TaskId, until: Option<u64>) {
        let mut schedule = self.schedule();
        let ready = schedule.tasks[id].state == State::Ready;
        if !ready && schedule.tasks[id].state != State::Done {
            schedule.tasks[id].state = until.map_or(State::Waiting, State::Sleeping);
        }
    }

    fn suspend(&self, me: TaskId, state: State) {
        let mut schedule = self.schedule();
        if schedule.ending {
            return self.switch(me, schedule);
        }
        schedule.tasks[me].state = state;
        schedule.ready.retain(|id| *id != me);
        self.switch(me, schedule);
    }

    /// Sleeps in virtual time.
    pub fn sleep(&self, me: TaskId, time: Duration) {
        self.suspend(me, State::Sleeping(self.now_ns() + time.as_nanos() as u64));
    }

    /// Sleeps until that time, or until woken.
    pub fn sleep_until(&self, me: TaskId, until: Option<u64>) {
        self.suspend(me, until.map_or(State::Waiting, State::Sleeping));
    }

    /// Lets other tasks go first.
    pub fn step(&self, me: TaskId) {
        let schedule = self.schedule();
        self.switch(me, schedule);
    }

    /// Polls a future to its end. `None` if it was dropped, because all tasks have to end, or because
    /// `cancel` returned true at an await.
    pub fn block_on<T>(
        self: &Arc<Self>,
        me: TaskId,
        future: impl Future<Output = T>,
        mut cancel: impl FnMut() -> bool,
    ) -> Option<T> {
        let woken = Arc::new(Woken { executor: self.clone(), task: me, again: AtomicBool::new(false) });
        let waker = Waker::from(woken.clone());
        let mut future = pin!(future);
        loop {
            woken.again.store(false, Ordering::Relaxed);
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(value);
            }
            if cancel() || self.is_ending() {
                return None;
            }
            if woken.again.load(Ordering::Relaxed) {
                self.step(me);
            } else {
                self.suspend(me, State::Waiting);
            }
        }
    }
}

fn one_in(random: &mut fastrand::Rng, n: u32) -> bool {
    n > 0 && random.u32(..n) == 0
}

impl Schedule {
    fn make_ready(&mut self, id: TaskId) {
        if !matches!(self.tasks[id].state, State::Ready | State::Done) && id != MAIN {
            self.tasks[id].state = State::Ready;
            self.ready.push(id);
        }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    }

    fn note(&mut self, now_ns: u64, line: &str) {
        line.bytes().for_each(|byte| self.mix(u64::from(byte)));
        let steps = self.steps;
        if let Some(log) = &mut self.log {
            log.push(format!("{:>12.3} ms  step {steps:>6}  {line}", now_ns as f64 / 1e6));
        }
    }
}

/// Wakes a task.
struct Woken {
    executor: Arc<Executor>,
    task: TaskId,
    /// True if it was woken since it was polled.
    again: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.again.store(true, Ordering::Relaxed);
        self.executor.wake(self.task);
    }
}
