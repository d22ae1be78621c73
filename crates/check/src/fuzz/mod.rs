//! Deterministic simulation testing: thousands of small worlds with all kinds of trouble.
//!
//! A seed is drawn into a [`World`] (`draw.rs`): settings, tables, scans, and the decisions of a host. The
//! host lets loads finish in any order or fail, cancels scans, changes the budget, forgets consumers,
//! replaces chunks, switches policies and has a bad clock. The world is played against the real core
//! (`host.rs`). After every event the core is checked by its own recount and by the host's books
//! (`books.rs`). Then the faults stop and everything must end. A failing world is shrunk (`shrink.rs`) to a
//! readable one, to be committed under `tests/regressions/`.
//!
//! The fuzzer knows no policy and repairs nothing: errors are fixed in the core.

mod books;
mod draw;
mod host;
mod shrink;
mod simpler;
mod step;
mod violation;
mod world;

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use coscan_core::{Abm, PolicyName};

pub use host::Player;
pub use step::{Step, StepError};
pub use violation::{Kind, Violation};
pub use world::{Addition, Config, World, WorldError, WorldMatching, WorldScan};

pub(crate) use books::{Progress, ScanBook, Worker};
pub(crate) use violation::catching;

/// After this many seeds the recorded world is played again and must run the same.
const REPEAT_EVERY: u64 = 8;

/// Number of draws for a step that does not apply.
const DRAWS_PER_STEP: usize = 4;

/// The results of a range of seeds.
#[derive(Clone, Debug, Default)]
pub struct FuzzReport {
    /// The seeds tried.
    pub seeds: u64,
    /// The events the core handled.
    pub events: u64,
    /// A hash over the runs of all seeds, independent of their order and of the threads.
    pub hash: u64,
    /// The failures, by seed.
    pub failures: Vec<Failure>,
}

/// A seed that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The invariant, as the shrunk world breaks it.
    pub violation: Violation,
    /// The world after shrinking, ready to be written with [`World::to_toml`].
    pub world: World,
}

/// The constructor of a manager for a world. Tests insert their own policies here.
pub type Build<'a> = &'a (dyn Fn(&World) -> Result<Abm, WorldError> + Sync);

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// The events the core handled.
    pub events: u64,
    /// The hash of all events and actions.
    pub hash: u64,
}

/// Tries all seeds on `threads` threads. `sink` receives every failure, shrunk, as soon as it is found. The
/// report is independent of `threads`.
pub fn run(seeds: Range<u64>, threads: usize, sink: &(dyn Fn(&Failure) + Sync)) -> FuzzReport {
    run_with(seeds, threads, &Player::manager, sink)
}

/// Runs as [`run`] does, under one policy instead of the drawn ones.
pub fn run_policy(
    seeds: Range<u64>,
    threads: usize,
    policy: PolicyName,
    sink: &(dyn Fn(&Failure) + Sync),
) -> FuzzReport {
    let build = |world: &World| Ok(Abm::new(world.abm_config(), policy)?);
    run_with(seeds, threads, &build, sink)
}

/// Runs as [`run`] does, with managers made by `build`.
pub fn run_with(
    seeds: Range<u64>,
    threads: usize,
    build: Build<'_>,
    sink: &(dyn Fn(&Failure) + Sync),
) -> FuzzReport {
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(FuzzReport::default());
    let work = || {
        let mut own = FuzzReport::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            own.seeds += 1;
            match seed_with(seed, build) {
                Ok(played) => {
                    own.events += played.events;
                    own.hash = own.hash.wrapping_add(played.hash);
                }
                Err(failure) => {
                    sink(&failure);
                    own.failures.push(*failure);
                }
            }
        }
        report.lock().expect("no thread panics").add(own);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut report = report.into_inner().expect("no thread panics");
    report.failures.sort_by_key(|failure| failure.seed);
    report
}

impl FuzzReport {
    fn add(&mut self, other: FuzzReport) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.hash = self.hash.wrapping_add(other.hash);
        self.failures.extend(other.failures);
    }
}

/// Draws and plays the world of a seed; shrinks it if it fails.
fn seed_with(seed: u64, build: Build<'_>) -> Result<Played, Box<Failure>> {
    let (mut world, temper, mut rng) = draw::world(seed);
    let mut steps = Vec::new();
    let result = catching(|| {
        let mut player = Player::new(&world, build(&world).expect("drawn worlds are possible"))?;
        for _ in 0..DRAWS_PER_STEP * temper.steps() {
            if steps.len() == temper.steps() {
                break;
            }
            let step = temper.step(&mut rng, &world, &player);
            steps.push(step.clone());
            if !player.apply(&step)? {
                steps.pop();
            }
        }
        player.run_out()?;
        Ok(Played { events: player.events(), hash: player.hash() })
    });
    world.steps = steps;
    let result = result.and_then(|first| {
        if !seed.is_multiple_of(REPEAT_EVERY) {
            return Ok(first);
        }
        let again = play(&world, build)?;
        let text = || format!("{first:?} at first, then {again:?}");
        violation::check(first == again, Kind::Repeat, text).map(|()| first)
    });
    result.map_err(|violation| {
        let (mut world, violation) = shrink::shrink(world, violation, build);
        world.failure = Some(violation.to_string());
        Box::new(Failure { seed, violation, world })
    })
}

/// Plays a world from its first step until everything has ended.
///
/// # Errors
/// The first violation.
pub fn play(world: &World, build: Build<'_>) -> Result<Played, Violation> {
    catching(|| {
        let abm = build(world).map_err(|e| Violation::new(Kind::Panic, e.to_string()))?;
        let mut player = Player::new(world, abm)?;
        for step in &world.steps {
            player.apply(step)?;
        }
        player.run_out()?;
        Ok(Played { events: player.events(), hash: player.hash() })
    })
}

/// Reads a world from a file and plays it. The outer error is one of the file, the inner one of the core.
///
/// # Errors
/// If the file is not a world; inside, the first violation.
pub fn replay(file: &Path) -> Result<Result<Played, Violation>, WorldError> {
    let path = || file.to_owned();
    let text = std::fs::read_to_string(file).map_err(|source| WorldError::Read { path: path(), source })?;
    Ok(play(&World::parse(&text)?, &Player::manager))
}
