//! The world of a simulation: a clock, an alarm and stores that belong to the executor.
//!
//! Every read is a task of its own. Reads of local files are simulated here. Reads of objects go through the
//! engine's own code ([`read_object`]) against a simulated store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_engine::environment::{Attempt, Environment, Host, read_object};
use coscan_engine::{ReadError, Source};

use crate::executor::{Executor, TaskId, serve};
use crate::files::{SimFile, Version, content};
use crate::plan::{Fault, WorldPlan};

/// The beginning of all simulations of a process: only distances from it count.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The number of the local store.
pub const LOCAL: usize = 0;

/// The address of a store.
pub fn store_url(store: usize) -> String {
    if store == LOCAL { "file:///".into() } else { format!("sim{store}://") }
}

/// Records of events, for messages and to explain errors.
#[derive(Debug, Default)]
pub struct Records {
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Files with a failed read, and the number of faults.
    pub broken: BTreeMap<usize, u64>,
    /// Files whose bytes were corrupted.
    pub corrupt: BTreeMap<usize, u64>,
    /// Stores that did not answer in time.
    pub late: BTreeMap<usize, u64>,
    /// Files that were replaced, cut, or listed in an old version.
    pub disturbed: BTreeMap<usize, u64>,
    /// Sizes of the buffer so far.
    pub buffers: Vec<u64>,
    /// True if the buffer has lent memory, or an offer was taken back: it shrinks.
    pub lent: bool,
    /// Jumps of the clock.
    pub jumps: u64,
}

impl Records {
    /// Counts an injected fault of this kind.
    pub fn injected(&mut self, what: &str) {
        *self.faults.entry(what.to_owned()).or_default() += 1;
    }
}

/// A simulated world.
pub struct World {
    /// The owner of the interleaving.
    pub executor: Arc<Executor>,
    /// The plan.
    pub plan: WorldPlan,
    files: Mutex<Vec<SimFile>>,
    records: Mutex<Records>,
    host: OnceLock<Weak<dyn Host>>,
    alarm: OnceLock<TaskId>,
    alarm_at: Mutex<Option<u64>>,
    attempts: Mutex<BTreeMap<u64, (TaskId, Arc<AtomicBool>)>>,
    peace: AtomicBool,
    closed: AtomicBool,
    /// Bytes that were read from local files and are still in memory.
    pub live_bytes: Arc<AtomicU64>,
    /// Attempts that were started.
    pub started: AtomicU64,
}

/// Bytes that are counted as long as they live.
struct Counted {
    bytes: Bytes,
    live: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl World {
    /// The world of a plan.
    pub fn new(executor: Arc<Executor>, plan: WorldPlan) -> Arc<Self> {
        let file = |(at, file): (usize, &crate::plan::FilePlan)| {
            let etag = plan.stores[file.store].etag;
            SimFile::new(file.store, &format!("t{}/f{at}", file.table), etag, content(file.content))
        };
        let files = plan.files.iter().enumerate().map(file).collect();
        let records = Records { buffers: vec![plan.config.buffer_bytes], ..Records::default() };
        Arc::new(World {
            executor,
            plan,
            files: Mutex::new(files),
            records: Mutex::new(records),
            host: OnceLock::new(),
            alarm: OnceLock::new(),
            alarm_at: Mutex::new(None),
            attempts: Mutex::default(),
            peace: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            live_bytes: Arc::default(),
            started: AtomicU64::new(0),
        })
    }

    /// The files.
    pub fn files(&self) -> MutexGuard<'_, Vec<SimFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records.
    pub fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all faults.
    pub fn make_peace(&self) {
        self.executor.stop_jumps();
        self.peace.store(true, Ordering::Relaxed);
    }

    /// Returns whether the faults have ended.
    pub fn is_peace(&self) -> bool {
        self.peace.load(Ordering::Relaxed)
    }

    /// Starts the task that rings the alarm.
    pub fn start_alarm(self: &Arc<Self>) {
        let world = self.clone();
        let id = self.executor.spawn("alarm".into(), false, move |me| world.ring(me));
        let _ = self.alarm.set(id);
    }

    fn alarm_at(&self) -> MutexGuard<'_, Option<u64>> {
        self.alarm_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, me: TaskId) {
        while !self.closed.load(Ordering::Relaxed) && !self.executor.is_ending() {
            let at = *self.alarm_at();
            match at {
                Some(at) if at <= self.executor.now_ns() => {
                    *self.alarm_at() = None;
                    match self.host() {
                        Some(host) => host.alarm(),
                        None => return,
                    }
                }
                at => self.executor.sleep_until(me, at),
            }
        }
    }

    /// The engine, as long as it lives.
    pub fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.get()?.upgrade()
    }

    /// The number of the file that an address names.
    pub fn file_named(&self, name: &str) -> Option<usize> {
        name.rsplit_once("/f")?.1.parse().ok()
    }

    /// The fault of a read from this store, if it has one.
    pub fn draw_fault(&self, store: usize) -> Option<Fault> {
        let plan = &self.plan.stores[store];
        if self.is_peace() {
            return None;
        }
        let now_ms = self.executor.now_ns() / 1_000_000;
        if plan.dead_from.is_some_and(|from| from <= now_ms) {
            return Some(Fault::Stall);
        }
        if plan.one_in == 0 || plan.faults.is_empty() {
            return None;
        }
        self.executor.draw(|random| {
            (random.u32(..plan.one_in) == 0).then(|| plan.faults[random.usize(..plan.faults.len())])
        })
    }

    /// Records a fault of a file.
    pub fn blame(&self, file: usize, store: usize, fault: Fault) {
        let mut records = self.records();
        records.injected(&format!("{fault:?}"));
        *records.broken.entry(file).or_default() += 1;
        if matches!(fault, Fault::Stall | Fault::Slow) {
            *records.late.entry(store).or_default() += 1;
        }
        if fault == Fault::Corrupt {
            *records.corrupt.entry(file).or_default() += 1;
        }
        drop(records);
        self.executor.note(&format!("fault {fault:?} of f{file} in store {store}"));
    }

    /// A short delay of a device or a network.
    pub fn draw_delay(&self) -> Duration {
        self.executor.draw(|random| Duration::from_micros(random.u64(20..3000)))
    }

    /// Bytes that are counted as long as they live.
    pub fn counted(&self, bytes: Bytes) -> Bytes {
        self.live_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Bytes::from_owner(Counted { bytes, live: self.live_bytes.clone() })
    }

    /// The device's result for a part, whose bytes are sometimes corrupted.
    pub fn corrupted(&self, bytes: &Bytes) -> Bytes {
        let mut wrong = bytes.to_vec();
        if !wrong.is_empty() {
            self.executor.draw(|random| {
                for _ in 0..random.usize(1..8) {
                    let at = random.usize(..wrong.len().min(64).max(wrong.len() / 2));
                    wrong[at] = random.u8(..);
                }
            });
        }
        wrong.into()
    }

    /// Lets time pass for a stalled read, until it is aborted, and sometimes longer.
    fn stall(&self, me: TaskId, aborted: &AtomicBool) {
        while !aborted.load(Ordering::Relaxed) && !self.executor.is_ending() && !self.is_gone() {
            // Wakes from time to time, to see whether the engine is gone.
            self.executor.sleep(me, self.plan.config.read_deadline * 2);
        }
        let more = self.executor.draw(|random| random.bool().then(|| random.u64(..100)));
        if let Some(seconds) = more {
            self.executor.sleep(me, Duration::from_secs(seconds));
        }
    }

    fn is_gone(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn read_local(
        &self,
        me: TaskId,
        attempt: &Attempt,
        aborted: &AtomicBool,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        let Some(file) = self.file_named(&attempt.source.name) else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        };
        self.executor.sleep(me, self.draw_delay());
        let fault = self.draw_fault(LOCAL);
        if let Some(fault) = fault {
            self.blame(file, LOCAL, fault);
        }
        let version = self.files()[file].current().clone();
        check_version(&attempt.source, &version)?;
        let ranges = &attempt.ranges;
        let before_fault = self.executor.draw(|random| random.usize(..=ranges.len()));
        for (at, range) in ranges.iter().enumerate() {
            if at == before_fault {
                match fault {
                    Some(Fault::Transient | Fault::Reset) => {
                        return Err(std::io::Error::other("EIO").into());
                    }
                    Some(Fault::Permanent) => {
                        return Err(std::io::Error::from(std::io::ErrorKind::PermissionDenied).into());
                    }
                    Some(Fault::Short | Fault::WholeBody) => return Ok(()),
                    Some(Fault::Panic) => return Err(ReadError::Panicked("injected".into())),
                    Some(Fault::Stall) => {
                        self.stall(me, aborted);
                        return Err(ReadError::Cancelled);
                    }
                    Some(Fault::Slow) => self.executor.sleep(me, self.plan.config.read_deadline / 3 * 2),
                    Some(Fault::WrongLength) => {
                        let less = range.start..range.end.saturating_sub(1).max(range.start);
                        arrived(at, slice(&version.bytes, &less));
                        return Ok(());
                    }
                    Some(Fault::Corrupt) | None => {}
                }
            }
            let bytes = slice(&version.bytes, range);
            let bytes = if fault == Some(Fault::Corrupt) && at == before_fault {
                self.corrupted(&bytes)
            } else {
                bytes
            };
            arrived(at, self.counted(bytes));
        }
        Ok(())
    }

    fn carry_out(self: &Arc<Self>, me: TaskId, attempt: Attempt, aborted: &Arc<AtomicBool>) {
        let no = attempt.no;
        let mut arrived = |part: usize, bytes: Bytes| {
            if let Some(host) = self.host() {
                host.arrived(no, part, bytes);
            }
        };
        let outcome = if attempt.source.local.is_some() {
            self.read_local(me, &attempt, aborted, &mut arrived)
        } else {
            let read = async {
                // Tells the store its task.
                serve(me, aborted.clone(), read_object(&attempt.source, &attempt.ranges, &mut arrived)).await
            };
            let read = self.executor.block_on(me, read, || aborted.load(Ordering::Relaxed));
            read.unwrap_or(Err(ReadError::Cancelled))
        };
        let kind = match &outcome {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        self.executor.note(&format!("attempt {no}: {kind}"));
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(&no);
        if let Some(host) = self.host() {
            host.ended(no, outcome);
        }
    }
}

/// The bytes of a range, as far as there are any.
pub fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    let clip = |at: u64| (at as usize).min(bytes.len());
    bytes.slice(clip(range.start)..clip(range.end))
}

fn check_version(source: &Source, version: &Version) -> Result<(), ReadError> {
    let same =
        source.meta.size == version.meta.size && source.meta.last_modified == version.meta.last_modified;
    if same { Ok(()) } else { Err(ReadError::Replaced("modified since it was opened".into())) }
}

/// The environment of one simulated engine.
pub struct SimEnvironment(pub Arc<World>);

impl Environment for SimEnvironment {
    fn now(&self) -> Instant {
        *BEGINNING + Duration::from_nanos(self.0.executor.now_ns())
    }

    fn seed(&self) -> u64 {
        self.0.plan.seed
    }

    fn connect(&self, host: Weak<dyn Host>) -> std::io::Result<()> {
        let _ = self.0.host.set(host);
        Ok(())
    }

    fn set_alarm(&self, at: Option<Instant>) {
        let at = at.map(|at| at.saturating_duration_since(*BEGINNING).as_nanos() as u64);
        *self.0.alarm_at() = at;
        if let Some(alarm) = self.0.alarm.get() {
            self.0.executor.reschedule(*alarm, at);
        }
    }

    fn start(&self, attempt: Attempt) {
        let (world, no) = (self.0.clone(), attempt.no);
        world.started.fetch_add(1, Ordering::Relaxed);
        world.executor.note(&format!("attempt {no}: {} {:?}", attempt.source.name, attempt.ranges));
        let aborted = Arc::<AtomicBool>::default();
        let (flag, run) = (aborted.clone(), world.clone());
        let spawned =
            world.executor.spawn(format!("read {no}"), false, move |me| run.carry_out(me, attempt, &flag));
        world.attempts.lock().unwrap_or_else(PoisonError::into_inner).insert(no, (spawned, aborted));
    }

    fn abort(&self, attempt: u64) {
        self.0.executor.note(&format!("abort {attempt}"));
        let known = self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner).get(&attempt).cloned();
        if let Some((task, aborted)) = known {
            aborted.store(true, Ordering::Relaxed);
            self.0.executor.wake(task);
        }
    }

    fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        let attempts: Vec<_> = {
            let attempts = self.0.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            attempts.values().cloned().collect()
        };
        for (task, aborted) in attempts {
            aborted.store(true, Ordering::Relaxed);
            self.0.executor.wake(task);
        }
        if let Some(alarm) = self.0.alarm.get() {
            self.0.executor.wake(*alarm);
        }
    }
}
