//! The driver owns the buffer manager: it sends events and carries out actions.
//!
//! One lock covers the manager, the catalog and the store. So the parts that are resident here are always
//! those that the manager believes to be resident. The I/O queue is under the lock, too: a load that no scan
//! wants is cancelled before a scan can want it again. Under the lock nothing is read, decoded, freed or
//! woken: reads go to the environment, the rest is done after unlocking.
//!
//! This file has the lock. `events` has the loop of events and actions. The other modules do the work for
//! loads and files (`loads`), scans (`scans`), an idle engine (`idle`), and point reads
//! ([`crate::driver::point_reads`]).

mod events;
mod idle;
mod loads;
mod neighbours;
pub(crate) mod point_reads;
pub(crate) mod point_room;
pub(crate) mod registered;
mod scans;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use bytes::Bytes;
use coscan_core::{Abm, AbmConfig, Action, ChunkNo, ColumnNo, Event, LoadId, PartKey, Phases, ScanId, Span};
use tokio::sync::{Notify, Semaphore};

use coscan_trace::{Record, Recorder};

use crate::buffer::budget::Budget;
use crate::buffer::evicted::Evicted;
use crate::buffer::extensions::Companions;
use crate::config::EngineConfig;
use crate::decode::store::{Part, Store};
use crate::driver::registered::{Deferred, RegisteredSegment};
use crate::environment::{Attempt, Audit, Environment, Host};
use crate::error::{EngineError, panic_message};
use crate::files::catalog::Catalog;
use crate::files::footer::Footers;
use crate::files::table::File;
use crate::io::encoded::Piece;
use crate::io::identity::LocalFile;
use crate::io::limit::{LimitListener, TokenBucket};
use crate::io::queue::{self, IoCounters, Queue, Request};
use crate::io::shape::Shapes;
use crate::io::usage::{DeviceUse, StoreUse};
use crate::io::{ReadError, Source};
use crate::monitor::load_log::LoadLog;
use crate::monitor::stats::{EngineStats, WorkCounters};
use crate::point::patience::Patience;
use crate::point::reads::{BlockContext, Points, permits};
use crate::sync::Mutex;
use neighbours::Copies;

/// The context of a load's request, which the I/O queue returns with the bytes.
pub(crate) struct LoadContext {
    load: LoadId,
    file: Arc<File>,
    chunk: ChunkNo,
    /// For each of the request's ranges: a column of the table, and its position in the file.
    columns: Vec<(ColumnNo, usize)>,
    /// The start of each range.
    starts: Vec<u64>,
}

/// A part that is being loaded.
struct Arriving {
    /// Those of its ranges that are in memory.
    pieces: Vec<Piece>,
    /// The number of its ranges.
    ranges: usize,
    /// The begin of the read, if the part is read again.
    again: Option<Again>,
}

/// A part that was evicted and is read again.
#[derive(Clone, Copy)]
struct Again {
    since: Instant,
    /// The bytes of all parts of the load.
    of_bytes: u64,
}

/// The purpose of a request.
pub(crate) enum IoContext {
    Load(LoadContext),
    Blocks(BlockContext),
}

/// The driver of one engine.
pub(crate) struct Driver {
    pub(crate) config: EngineConfig,
    pub(crate) work: WorkCounters,
    pub(crate) bucket: Arc<TokenBucket>,
    environment: Arc<dyn Environment>,
    /// One device is measured at a time; other scans that need it wait.
    measuring: Semaphore,
    pub(crate) footers: Footers,
    pub(crate) companions: Companions,
    /// True if half of the buffer is free, and nothing of it is lent.
    pub(crate) is_roomy: AtomicBool,
    /// The time of repeated reading and decoding since the last growth of the buffer, in nanoseconds.
    /// Decoders add to it without the lock.
    pub(crate) lost_ns: AtomicU64,
    started: Instant,
    state: Mutex<State>,
    /// Room of point reads in addition to their frames; point reads wait for it here.
    pub(crate) point_room: Semaphore,
    /// Notified whenever something is released that may be room for a point read.
    pub(crate) room_freed: Arc<Notify>,
    point_permits: usize,
}

/// Everything under the lock.
pub(crate) struct State {
    pub(crate) abm: Abm,
    pub(crate) catalog: Catalog,
    pub(crate) store: Store,
    pub(crate) points: Points,
    queue: Queue<IoContext>,
    /// The parts that are being loaded.
    arriving: HashMap<(LoadId, ColumnNo), Arriving>,
    pub(crate) scans: BTreeMap<ScanId, Arc<RegisteredSegment>>,
    next_scan: u64,
    pub(crate) recent_loads: LoadLog,
    pub(crate) stats: EngineStats,
    actions: Vec<Action>,
    /// The recorder of events, if they are recorded.
    recorder: Option<Recorder>,
    patience: Patience,
    pub(crate) budget: Budget,
    evicted: Evicted,
    idle: idle::Idle,
    /// Set after a panic under the lock, which ends all work.
    broken: Option<EngineError>,
}

impl State {
    /// The error of a panic under the lock.
    pub(crate) fn broken(&self) -> Option<&EngineError> {
        self.broken.as_ref()
    }
}

/// Work after the lock is released: memory to free and to copy, tasks to wake, reads to start.
#[derive(Default)]
pub(crate) struct AfterUnlock {
    parts: Vec<Arc<Part>>,
    arrays: Vec<ArrayRef>,
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) deferred: Deferred,
    attempts: Vec<Attempt>,
    aborted: Vec<u64>,
    copies: Vec<Copies>,
}

/// The lock, and the work after it.
pub(crate) struct LockedDriver<'a> {
    driver: &'a Driver,
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) after: AfterUnlock,
    /// Requests for the I/O queue.
    pub(crate) requests: Vec<Request<IoContext>>,
    io: Vec<queue::Action<IoContext>>,
    /// True if a scan needs less than before. Loads in flight may have become unwanted.
    less_wanted: bool,
    /// Events that follow from actions.
    pub(crate) follow_ups: Vec<Event>,
    /// True if something was released that may be room for a point read.
    pub(crate) freed: bool,
}

impl Driver {
    pub(crate) fn start(
        config: EngineConfig,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<Self>, EngineError> {
        let shapes = Shapes::new(&config)?;
        let budget = Budget::new(&config);
        // Every request belongs to a load.
        let profiled = if config.by_profile.requests { shapes.profiled_requests_max() } else { 0 };
        let settings = AbmConfig {
            loads_in_flight_max: config.loads_in_flight.max(profiled) as u32,
            stall_after: Span::from_nanos(config.stall_after.as_nanos() as u64),
            ahead_bytes: config.chunk_bytes / AHEAD_SHARE,
            processors: config.processors as u32,
            decoded_share_percent: budget.decoded_share_percent(config.decoded_share_percent),
            decoded_bytes_max: config.decoded_bytes_max,
            ..AbmConfig::new(budget.in_force().min(config.buffer_bytes))
        };
        let abm = Abm::new(settings, config.policy.clone())?;
        let clock = {
            let environment = environment.clone();
            Box::new(move || environment.now())
        };
        let bucket = Arc::new(TokenBucket::with_clock(config.read_limit, clock));
        let target = Span::from_nanos(config.point_latency.as_nanos() as u64);
        let settings = queue::Settings {
            deadline: config.read_deadline.min(DEADLINE_MAX),
            retry: config.retry,
            phases: Phases::new(target, BULK_SHARE_PERCENT)?,
            page_cache_bytes: config.page_cache_bytes,
        };
        let started = environment.now();
        let share = point_share(&config);
        let point_permits = (permits(Points::read_bytes_max(share)) as usize).min(Semaphore::MAX_PERMITS);
        let state = State {
            abm,
            catalog: Catalog::default(),
            store: Store::default(),
            points: Points::new(share, started),
            arriving: HashMap::new(),
            queue: Queue::new(started, settings, shapes, bucket.clone(), environment.seed()),
            scans: BTreeMap::new(),
            next_scan: 0,
            recent_loads: LoadLog::default(),
            stats: EngineStats::default(),
            actions: Vec::new(),
            recorder: None,
            patience: Patience::default(),
            budget,
            evicted: Evicted::default(),
            idle: idle::Idle::default(),
            broken: None,
        };
        let (work, state) = (WorkCounters::default(), Mutex::new(state));
        let (point_room, room_freed) = (Semaphore::new(point_permits), Arc::default());
        let footers = Footers::default();
        let driver = Driver {
            config,
            work,
            bucket,
            environment,
            measuring: Semaphore::new(1),
            footers,
            companions: Companions::default(),
            is_roomy: AtomicBool::new(false),
            lost_ns: AtomicU64::new(0),
            started,
            state,
            point_room,
            room_freed,
            point_permits,
        };
        let driver = Arc::new(driver);
        let host: Arc<dyn Host> = driver.clone();
        let listener: Arc<dyn LimitListener> = driver.clone();
        driver.bucket.listen(Arc::downgrade(&listener));
        let connected = driver.environment.connect(Arc::downgrade(&host));
        connected.map_err(|error| EngineError::Start(Arc::new(error)))?;
        Ok(driver)
    }

    /// The current time.
    pub(crate) fn now(&self) -> Instant {
        self.environment.now()
    }

    /// The time since the engine started.
    pub(crate) fn since_start(&self) -> Duration {
        self.now() - self.started
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` under the lock, and its consequences after the lock.
    ///
    /// # Errors
    /// [`EngineError::Broken`], if `work` panics or an earlier call did. The state under the lock cannot be
    /// trusted then and is not used again.
    pub(crate) fn locked<R>(&self, work: impl FnOnce(&mut LockedDriver<'_>) -> R) -> Result<R, EngineError> {
        let (outcome, mut copies) = self.locked_once(work)?;
        while !copies.is_empty() {
            let copied: Vec<Copies> = copies.into_iter().map(Copies::copied).collect();
            let arrive = |locked: &mut LockedDriver<'_>| {
                copied.into_iter().for_each(|copies| locked.copied(copies));
            };
            // A broken engine tells the next caller.
            copies = self.locked_once(arrive).map_or(Vec::new(), |((), more)| more);
        }
        Ok(outcome)
    }

    /// As [`Self::locked`], but returns the copies that remain to be made of data in memory.
    fn locked_once<R>(
        &self,
        work: impl FnOnce(&mut LockedDriver<'_>) -> R,
    ) -> Result<(R, Vec<Copies>), EngineError> {
        let state = self.lock();
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        let mut locked = LockedDriver {
            driver: self,
            state,
            after: AfterUnlock::default(),
            requests: Vec::new(),
            io: Vec::new(),
            less_wanted: false,
            follow_ups: Vec::new(),
            freed: false,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let result = work(&mut locked);
            locked.finish();
            result
        }));
        let outcome = outcome.map_err(|panic| locked.break_down(panic_message(&*panic)));
        let LockedDriver { state, after, freed, .. } = locked;
        drop(state);
        let AfterUnlock { deferred, attempts, aborted, copies, .. } = after;
        match &outcome {
            Ok(_) => {
                attempts.into_iter().for_each(|attempt| self.environment.start(attempt));
                aborted.into_iter().for_each(|attempt| self.environment.abort(attempt));
            }
            Err(_) => self.close(),
        }
        if freed {
            self.room_freed.notify_waiters();
        }
        deferred.wakers.into_iter().for_each(|waker| waker.wake());
        outcome.map(|result| (result, copies))
    }

    /// As [`Self::locked`], for releases and reports, which have no effect with a broken engine.
    pub(crate) fn note(&self, work: impl FnOnce(&mut LockedDriver<'_>)) {
        let _broken = self.locked(work);
    }

    /// Reads the state under the lock, broken or not.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&State) -> R) -> R {
        at(&self.lock())
    }

    /// Ends the threads and all waits for room.
    fn close(&self) {
        self.environment.close();
        self.point_room.close();
        self.room_freed.notify_waiters();
    }

    /// Sends an event of a scan, if the scan is still registered.
    pub(crate) fn scan_event(&self, scan: ScanId, event: Event) {
        self.note(|locked| locked.scan_event(scan, event));
    }

    /// Reports the kept decoded bytes of these parts.
    pub(crate) fn decoded<'a>(&self, parts: impl Iterator<Item = &'a Arc<Part>>) {
        self.note(|locked| {
            for part in parts {
                if locked.state.store.holds(part) {
                    let PartKey { table, chunk, column } = part.key;
                    let bytes = part.decoded_bytes();
                    locked.event(Event::Decoded { table, chunk, column, bytes });
                } else {
                    // It was evicted meanwhile: its decoded arrays are in no ledger.
                    locked.after.arrays.append(&mut part.take_decoded());
                }
            }
        });
    }

    /// Starts to record every event, after a line for each open table, or stops recording. Returns the
    /// previous recorder.
    pub(crate) fn record(&self, recorder: Option<Recorder>) -> Option<Recorder> {
        let mut state = self.lock();
        if let Some(recorder) = &recorder {
            let now = (self.now() - self.started).as_nanos() as u64;
            for (table, open) in state.abm.state().tables() {
                let layout = open.layout().into();
                recorder.record(now, Record::TableOpened { table: table.0, layout });
            }
        }
        std::mem::replace(&mut state.recorder, recorder)
    }

    /// The devices with profiles.
    pub(crate) fn devices(&self) -> Vec<DeviceUse> {
        self.look(|state| state.queue.shapes().uses(self.bucket.limit()))
    }

    /// The stores whose level is found, or only that of a file.
    pub(crate) fn stores(&self, of: Option<&Source>) -> Vec<StoreUse> {
        let now = self.now();
        self.look(|state| state.queue.stores(now, of))
    }

    /// The target size of a file's chunks, and the size of the ranges into which its parts are cut, if they
    /// are.
    pub(crate) fn fit(&self, name: &str, local: Option<&LocalFile>) -> (u64, Option<u64>) {
        self.look(|state| {
            let shapes = state.queue.shapes();
            (shapes.chunk_bytes(name, local), shapes.range_bytes(name, local))
        })
    }

    /// Measures the device of a file if it has no profile, was not measured before, and measuring is allowed.
    pub(crate) async fn know_device(&self, source: &Arc<Source>) -> Result<(), EngineError> {
        let time = self.config.device_probe;
        if time.is_zero() || self.device_of(source).is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.measuring.acquire().await;
        let first = self.locked(|locked| locked.state.queue.shapes_mut().first_use(source))?;
        let Some(id) = first else { return Ok(()) };
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = Box::new(move |profile| drop(tell.send(profile)));
        self.environment.measure(source.clone(), time, tell);
        let Ok(Some(profile)) = told.await else { return Ok(()) };
        self.locked(|locked| {
            let shapes = locked.state.queue.shapes_mut();
            shapes.measured(id, profile);
            let requests = shapes.profiled_requests_max().max(self.config.loads_in_flight);
            if let Some(most) = NonZeroU32::new(requests as u32).filter(|_| self.config.by_profile.requests) {
                locked.state.abm.set_loads_in_flight_max(most);
            }
        })
    }

    /// The device of a file, if it has a profile.
    pub(crate) fn device_of(&self, source: &Source) -> Option<DeviceUse> {
        self.look(|state| {
            let shapes = state.queue.shapes();
            shapes
                .of(source)
                .checked_sub(1)
                .and_then(|at| shapes.uses(self.bucket.limit()).into_iter().nth(at))
        })
    }

    pub(crate) fn io_counters(&self) -> IoCounters {
        self.look(|state| state.queue.counters())
    }
}

/// Longer deadlines count as none: about thirty years.
const DEADLINE_MAX: Duration = Duration::from_secs(1_000_000_000);

/// The share of the time in which loads may start even if point reads are late.
const BULK_SHARE_PERCENT: u8 = 50;

/// The divisor of a chunk's target bytes that limits the small chunks a scan may have ahead. A smaller limit
/// would not keep a device busy on which every request has a long latency. With a larger one, queries that
/// end early would read more in vain.
const AHEAD_SHARE: u64 = 4;

fn point_share(config: &EngineConfig) -> u64 {
    config.buffer_bytes / 100 * u64::from(config.point_share_percent)
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.environment.close();
    }
}

impl LimitListener for Driver {
    fn limit_changed(&self) {
        self.alarm();
    }
}

impl Host for Driver {
    fn alarm(&self) {
        self.note(|locked| {
            let due = locked.state.abm.next_deadline().is_some_and(|at| at <= locked.now());
            if due {
                locked.event(Event::TimePassed);
            }
            locked.io(queue::Event::TimePassed);
            locked.look_after_patience();
        });
    }

    fn arrived(&self, attempt: u64, part: usize, bytes: Bytes) {
        self.note(|locked| locked.io(queue::Event::Arrived { attempt, part, bytes: bytes.into() }));
    }

    fn cached(&self, attempt: u64, part: usize) {
        self.note(|locked| locked.io(queue::Event::Cached { attempt, part }));
    }

    fn ended(&self, attempt: u64, outcome: Result<(), ReadError>) {
        self.note(|locked| locked.io(queue::Event::Ended { attempt, outcome }));
    }

    fn audit(&self, quiet: bool) -> Option<Audit> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        state.abm.check_invariants();
        let (requests, attempts) = state.queue.under_way();
        Some(Audit {
            usage: state.abm.usage(),
            resident_bytes: state.store.bytes(),
            arrived_bytes: state
                .arriving
                .values()
                .flat_map(|part| &part.pieces)
                .map(|(_, bytes)| bytes.len())
                .sum(),
            decoded_bytes: quiet.then(|| state.store.decoded_bytes()),
            point_bytes: state.points.held(),
            scans: state.scans.len(),
            loads: state.abm.loads_in_flight(),
            point_reads: state.points.count(),
            free_permits: self.point_room.available_permits(),
            point_permits: self.point_permits,
            requests,
            attempts,
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests live in the real world")]
mod tests;
