//! One world from its beginning to its end, and the invariants in it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coscan_core::registry;
use coscan_engine::environment::Audit;
use coscan_engine::{Engine, EngineError};

use crate::consumer::Clients;
use crate::executor::{Executor, TaskId};
use crate::files::content;
use crate::plan::{Control, WorldPlan, read_limit};
use crate::store::STALL;
use crate::world::{SimEnvironment, World};

/// The maximum number of steps of a world.
const STEPS_MAX: u64 = 400_000;

/// The size of the buffer in peace.
const PEACE_BUFFER: u64 = 64 << 20;

/// Counts of one world or of many.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Steps of the executor.
    pub steps: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Virtual time.
    pub time: Duration,
    /// Rows that were compared.
    pub rows: u64,
    /// Queries that succeeded, and queries that ended with an expected error.
    pub queries: [u64; 2],
    /// The number of reads begun.
    pub reads: u64,
    /// The number of comparisons of the ledger with memory.
    pub audits: u64,
    /// The number of times that an idle engine emptied its buffer.
    pub idle_releases: u64,
}

impl Counts {
    /// Adds the counts of another world.
    pub fn add(&mut self, other: Counts) {
        self.steps += other.steps;
        self.time += other.time;
        self.rows += other.rows;
        self.reads += other.reads;
        self.audits += other.audits;
        self.idle_releases += other.idle_releases;
        for (kind, of) in self.queries.iter_mut().zip(other.queries) {
            *kind += of;
        }
        for (fault, times) in other.faults {
            *self.faults.entry(fault).or_default() += times;
        }
    }
}

/// The outcome of a world.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The first violation, if there is one.
    pub violation: Option<String>,
    /// A hash of all steps; the same for the same plan.
    pub hash: u64,
    /// The counts of the world.
    pub counts: Counts,
    /// The log, if it was requested.
    pub log: Vec<String>,
}

/// Plays a world.
pub fn play(plan: &WorldPlan, log: bool) -> Outcome {
    let executor = Executor::new(plan.seed, plan.yields, STEPS_MAX, log);
    let world = World::new(executor.clone(), plan.clone());
    let engine = match Engine::in_environment(plan.config.clone(), Arc::new(SimEnvironment(world.clone()))) {
        Ok(engine) => engine,
        Err(error) => return Outcome { violation: Some(error.to_string()), ..Outcome::default() },
    };
    world.start_alarm();
    let clients = Clients::new(world.clone(), engine);
    (0..plan.consumers.len()).for_each(|number| clients.start(number));
    start_controls(&clients);
    let audits = start_auditor(&world);
    executor.run();
    if executor.violation().is_none() {
        let permits = world.host().and_then(|host| host.audit(true)).map(|audit| audit.free_permits);
        let waiting = executor.waiting_for_engine();
        if waiting.is_empty() {
            check_end(&clients, permits);
        } else {
            executor.violate(|| format!("nobody wakes {}", waiting.join(", ")));
        }
    }
    // After a violation a task may hold the engine's lock forever.
    let engine = clients.engine().filter(|_| executor.violation().is_none());
    let idle_releases = engine.map_or(0, |engine| engine.stats().idle_releases);
    close(&clients);
    if executor.violation().is_none() {
        executor.run();
        let (gone, live) = (world.host().is_none(), world.live_bytes.load(Ordering::Relaxed));
        if !gone || live > 0 {
            executor.violate(|| format!("the engine is gone: {gone}; {live} bytes of parts are left"));
        }
    }
    if !executor.end() {
        executor.violate(|| "tasks do not end".into());
    }
    let (steps, hash) = executor.trace();
    let records = world.records();
    let counts = Counts {
        steps,
        faults: records.faults.clone(),
        time: Duration::from_nanos(executor.now_ns()),
        rows: clients.rows.load(Ordering::Relaxed),
        queries: [0, 1].map(|kind: usize| clients.ended[kind].load(Ordering::Relaxed)),
        reads: world.started.load(Ordering::Relaxed),
        audits: audits.load(Ordering::Relaxed),
        idle_releases,
    };
    Outcome { violation: executor.violation(), hash, counts, log: executor.log() }
}

/// Starts a task that audits the engine from time to time. Invariants that hold only while no task is inside
/// the engine are checked only then.
fn start_auditor(world: &Arc<World>) -> Arc<std::sync::atomic::AtomicU64> {
    let (world, audits) = (world.clone(), Arc::<std::sync::atomic::AtomicU64>::default());
    let (executor, count) = (world.executor.clone(), audits.clone());
    executor.clone().spawn("auditor".into(), false, move |me| {
        while !executor.is_ending() && !executor.stands_still(me) {
            let pause = executor.draw(|random| Duration::from_micros(random.u64(100..20_000)));
            // In long waits frequent audits are useless.
            let pause = pause * executor.draw(|random| [1, 1, 10, 1000][random.usize(..4)]);
            executor.sleep(me, pause);
            let quiet = executor.is_quiet();
            let Some(host) = world.host() else { return };
            let Some(audit) = aside(|| host.audit(quiet)) else { continue };
            count.fetch_add(1, Ordering::Relaxed);
            check(&world, &audit, quiet);
            aside(|| drop(host));
        }
    });
    audits
}

/// Runs `work` without letting other tasks run.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    Executor::aside(work)
}

/// Checks the invariants that hold at any time, and if `quiet`, those that hold while no task is inside the
/// engine.
fn check(world: &World, audit: &Audit, quiet: bool) {
    let usage = audit.usage;
    let live = world.live_bytes.load(Ordering::Relaxed);
    let differs = |what: &str| world.executor.violate(|| format!("{what}: {audit:?}, {live} bytes live"));
    if usage.resident != audit.resident_bytes {
        differs("resident bytes are not what the ledger says");
    }
    if !quiet {
        return;
    }
    if audit.decoded_bytes.is_some_and(|bytes| bytes != usage.decoded) {
        differs("decoded bytes are not what the ledger says");
    }
    // A smaller buffer has a smaller share for point reads, and the same number of blocks. So they may hold
    // more than is booked, by less than a share.
    let smaller = |buffer: &u64| *buffer < world.plan.config.buffer_bytes;
    let shrunk = world.records().lent || world.records().buffers.iter().any(smaller);
    if usage.points < audit.point_bytes && !shrunk {
        differs("point reads hold more than the ledger says");
    }
    if audit.arrived_bytes > usage.loading {
        differs("more has arrived than is being read");
    }
    if live > audit.resident_bytes + audit.arrived_bytes + audit.point_bytes {
        differs("more bytes are in memory than the engine knows of");
    }
    if audit.loads == 0 && usage.loading > 0 {
        differs("bytes are being read by no load");
    }
}

fn start_controls(clients: &Arc<Clients>) {
    let executor = clients.world.executor.clone();
    let clients = clients.clone();
    executor.clone().spawn("controls".into(), false, move |me| {
        let (controls, peace_ms) = (clients.world.plan.controls.clone(), clients.world.plan.peace_ms);
        for (at_ms, control) in controls {
            wait_until(&executor, me, at_ms);
            if executor.is_ending() {
                return;
            }
            apply(&clients, control);
        }
        wait_until(&executor, me, peace_ms);
        executor.note("peace");
        if let Some(engine) = clients.engine() {
            all_well(&clients, Some(engine.set_read_limit(None)));
            all_well(&clients, Some(engine.lend(0).map(drop)));
            set_buffer(&clients, &engine, PEACE_BUFFER);
        }
        clients.world.make_peace();
    });
}

fn wait_until(executor: &Executor, me: TaskId, at_ms: u64) {
    let at = at_ms * 1_000_000;
    while executor.now_ns() < at && !executor.is_ending() {
        executor.sleep_until(me, Some(at));
    }
}

/// Drops the last handle of the engine. Other tasks may run meanwhile, so no lock may be held.
fn close(clients: &Clients) {
    let engine = clients.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(engine);
}

fn set_buffer(clients: &Clients, engine: &Engine, bytes: u64) {
    clients.world.records().buffers.push(bytes);
    all_well(clients, Some(engine.set_buffer(bytes)));
}

fn all_well(clients: &Clients, outcome: Option<Result<(), EngineError>>) {
    if let Some(Err(error)) = outcome {
        clients.world.executor.violate(|| error.to_string());
    }
}

fn apply(clients: &Clients, control: Control) {
    let world = &clients.world;
    world.executor.note(&format!("{control:?}"));
    let text = format!("{control:?}");
    let name = text.split('(').next().unwrap_or_default();
    world.records().injected(&format!("{name}Changed"));
    let engine = clients.engine();
    match control {
        Control::Policy(number) => {
            let all: Vec<_> = registry::sharing().collect();
            all_well(clients, engine.map(|engine| engine.set_policy(all[number % all.len()])));
        }
        Control::Buffer(bytes) => engine.iter().for_each(|engine| set_buffer(clients, engine, bytes)),
        Control::Lend(bytes) => {
            world.records().lent |= bytes > 0;
            all_well(clients, engine.map(|engine| engine.lend(bytes).map(drop)));
        }
        Control::Offer(bytes) => {
            // The offer may be taken back.
            world.records().lent |= bytes > 0;
            all_well(clients, engine.map(|engine| engine.offer(bytes).map(drop)));
        }
        Control::Limit(rate) => {
            all_well(clients, engine.map(|engine| engine.set_read_limit(read_limit(rate))));
        }
        Control::Replace(file, number) => {
            *world.records().disturbed.entry(file).or_default() += 1;
            world.files()[file].replace(content(number));
        }
        Control::Cut(file) => {
            *world.records().disturbed.entry(file).or_default() += 1;
            world.files()[file].cut();
        }
        Control::Jump(seconds) => {
            world.records().jumps += 1;
            world.executor.jump(Duration::from_secs(seconds));
        }
        Control::Close => {
            // No further changes are possible, and running queries continue under peace settings.
            if let Some(engine) = &engine {
                all_well(clients, Some(engine.set_read_limit(None)));
                all_well(clients, Some(engine.lend(0).map(drop)));
                set_buffer(clients, engine, PEACE_BUFFER);
            }
            drop(engine);
            close(clients);
        }
    }
}

/// Checks the end, after all queries: nothing is held, nothing is in progress, and it did not take long.
fn check_end(clients: &Clients, permits: Option<usize>) {
    let world = &clients.world;
    let plan = &world.plan;
    let last = |kind: usize| Duration::from_nanos(clients.last_end_ns[kind].load(Ordering::Relaxed));
    let jumped = world.records().jumps > 0;
    // If time passes although a task could continue, the engine may learn of a deadline only after a stall.
    let leap = if plan.yields.jumps > 0 { STALL } else { Duration::ZERO };
    let patience = plan.config.read_deadline * 20 + Duration::from_secs(300) + leap;
    if !jumped && last(0) > Duration::from_millis(plan.peace_ms) + patience {
        world
            .executor
            .violate(|| format!("the last query ended at {:?}, peace was at {} ms", last(0), plan.peace_ms));
    }
    if plan.isolation && last(1) >= plan.config.read_deadline {
        world.executor.violate(|| format!("queries of living stores took {:?}, one store is dead", last(1)));
    }
    let Some(audit) = world.host().and_then(|host| host.audit(true)) else { return };
    check(world, &audit, true);
    let Audit { usage, scans, loads, point_reads, requests, attempts, .. } = audit;
    let left = [scans, loads, point_reads, requests, attempts];
    if left != [0; 5] || usage.workspace > 0 || usage.loading > 0 || usage.total() > usage.budget {
        world.executor.violate(|| format!("all queries are over, but {audit:?}"));
    }
    // Time continues until no task sleeps, including the alarm.
    if !plan.config.idle_release.is_zero() && usage.total() > 0 {
        world.executor.violate(|| format!("an idle engine keeps its memory: {audit:?}"));
    }
    let full = audit.point_permits;
    if permits.is_some_and(|free| free != full) {
        world.executor.violate(|| format!("{permits:?} of {full} permits of point reads are back"));
    }
}
