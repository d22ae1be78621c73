//! Queries: what they ask, what they do with it, and whether what they get is right.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use coscan_engine::{
    ChunkRequest, ChunkRows, DeliveryOrder, Engine, EngineError, FileColumns, FileHandle, FileSpec,
    PointRequest, ReadError, Scan, ScanRequest, StoreId, Worker,
};
use object_store::ObjectStore;

use crate::executor::TaskId;
use crate::files::Content;
use crate::plan::{ConsumerPlan, Habit};
use crate::store::SimStore;
use crate::world::{LOCAL, World, store_url};

/// What a consumer panics with.
const PANIC: &str = "injected panic of a consumer";

/// What all queries share.
pub struct Clients {
    /// The world.
    pub world: Arc<World>,
    /// The engine, until its last handle is dropped.
    pub engine: Mutex<Option<Engine>>,
    /// The stores, by number.
    pub stores: Vec<Arc<dyn ObjectStore>>,
    /// Rows that were compared.
    pub rows: AtomicU64,
    /// Queries that ended: well, and with an error that was to be expected.
    pub ended: [AtomicU64; 2],
    /// When the last query ended, and the last that reads from no dead store.
    pub last_end_ns: [AtomicU64; 2],
}

/// A file that a query has open.
struct Opened {
    handle: FileHandle,
    file: usize,
    content: Arc<Content>,
}

/// One run of a query.
struct Query {
    clients: Arc<Clients>,
    number: usize,
    plan: ConsumerPlan,
    round: u32,
    files: Vec<Opened>,
    /// File and columns of each entry of the request, by position.
    chunks: Vec<(usize, ChunkRows)>,
    roots: Vec<Vec<usize>>,
    scan: Mutex<Option<Arc<Scan>>>,
    taken: Mutex<Vec<u32>>,
    struck: Mutex<Vec<usize>>,
    /// Workers still at it.
    running: AtomicUsize,
    drained: AtomicBool,
    failed: AtomicBool,
}

impl Clients {
    /// The clients of a world.
    pub fn new(world: Arc<World>, engine: Engine) -> Arc<Self> {
        let store = |store| Arc::new(SimStore { store, world: world.clone() }) as Arc<dyn ObjectStore>;
        let stores = (0..world.plan.stores.len()).map(store).collect();
        Arc::new(Clients {
            world,
            engine: Mutex::new(Some(engine)),
            stores,
            rows: AtomicU64::new(0),
            ended: Default::default(),
            last_end_ns: Default::default(),
        })
    }

    /// The engine, if there is a handle left.
    pub fn engine(&self) -> Option<Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a query.
    pub fn start(self: &Arc<Self>, number: usize) {
        let (clients, plan) = (self.clone(), self.world.plan.consumers[number].clone());
        let executor = self.world.executor.clone();
        executor.spawn(format!("query {number}"), true, move |me| {
            clients.world.executor.sleep(me, Duration::from_millis(plan.at_ms));
            clients.round(me, number, 0);
        });
    }

    fn round(self: &Arc<Self>, me: TaskId, number: usize, round: u32) {
        let plan = self.world.plan.consumers[number].clone();
        if round >= plan.times || self.world.executor.is_ending() {
            return self.note_end(number);
        }
        let Some(engine) = self.engine() else { return self.note_end(number) };
        let mut random = fastrand::Rng::with_seed(plan.seed ^ u64::from(round));
        let files = self.open(&engine, &plan);
        if files.is_empty() {
            return self.note_end(number);
        }
        if plan.workers == 0 {
            self.points(me, &engine, &plan, &files, &mut random);
            drop(engine);
            return self.round(me, number, round + 1);
        }
        let (request, chunks, roots) = request(&plan, &files, &mut random);
        let count = request.chunks.len();
        self.world.executor.note(&format!("query {number}.{round}: {count} chunks of {} files", files.len()));
        let scan = engine.scan(request);
        drop(engine);
        match scan {
            Ok(scan) => {
                let query = Arc::new(Query {
                    clients: self.clone(),
                    number,
                    plan,
                    round,
                    files,
                    chunks,
                    roots,
                    scan: Mutex::new(Some(Arc::new(scan))),
                    taken: Mutex::new(vec![0; count]),
                    struck: Mutex::default(),
                    running: AtomicUsize::new(0),
                    drained: AtomicBool::new(false),
                    failed: AtomicBool::new(false),
                });
                query.start(me);
            }
            Err(error) => {
                self.check_error(&error, &files);
                self.round(me, number, round + 1);
            }
        }
    }

    fn note_end(&self, number: usize) {
        let now = self.world.executor.now_ns();
        let (world, plan) = (&self.world, &self.world.plan.consumers[number]);
        self.last_end_ns[0].fetch_max(now, Ordering::Relaxed);
        if !world.plan.reads_from_dead(plan) {
            self.last_end_ns[1].fetch_max(now, Ordering::Relaxed);
        }
        world.executor.note(&format!("query {number} is over"));
    }

    /// Lists and opens the files of a query; sometimes the listing is old.
    fn open(&self, engine: &Engine, plan: &ConsumerPlan) -> Vec<Opened> {
        let mut opened = Vec::new();
        for &file in &plan.files {
            let stale_one_in = self.world.plan.stale_one_in;
            let stale = stale_one_in > 0
                && !self.world.is_peace()
                && self.world.executor.draw(|random| random.u32(..stale_one_in) == 0);
            let (version, store) = {
                let files = self.world.files();
                let known = &files[file].versions;
                let at = known.len() - 1 - usize::from(stale && known.len() > 1);
                (known[at].clone(), files[file].store)
            };
            if stale {
                self.world.records().injected("StaleListing");
            }
            let Some(content) = version.content.clone() else { continue };
            let spec = FileSpec {
                store: self.stores[store].clone(),
                store_url: store_url(store),
                store_id: StoreId::instance(&self.stores[store]),
                local: (store == LOCAL).then(|| version.local(file)),
                meta: version.meta,
                metadata: content.metadata.clone(),
                table_root: format!("t{}", self.world.plan.files[file].table),
            };
            match engine.open_file(spec) {
                Ok(handle) => {
                    self.check_chunks(&handle, &content);
                    opened.push(Opened { handle, file, content });
                }
                Err(error) => {
                    self.check_error(&error, &[]);
                }
            }
        }
        opened
    }

    /// Every row is in one chunk.
    fn check_chunks(&self, handle: &FileHandle, content: &Content) {
        let mut left = content.groups.iter().enumerate().map(|(at, group)| (at, group[0].len()));
        let (mut group, mut row) = (left.next(), 0);
        for chunk in handle.chunks() {
            let follows = group.is_some_and(|(at, rows)| {
                chunk.row_group == at && chunk.rows.start == row && (row..=rows).contains(&chunk.rows.end)
            });
            if !follows {
                return self
                    .world
                    .executor
                    .violate(|| format!("{handle:?}: {chunk:?} comes after row {row}"));
            }
            row = chunk.rows.end;
            if group.is_some_and(|(_, rows)| rows == row) {
                (group, row) = (left.next(), 0);
            }
        }
        if group.is_some() {
            self.world.executor.violate(|| format!("{handle:?}: rows are in no chunk"));
        }
    }

    /// Whether the world explains an error; if not, it is a fault of the engine.
    fn check_error(&self, error: &EngineError, files: &[Opened]) {
        let records = self.world.records();
        let of = |name: &str| self.world.file_named(name);
        let mine = |file: &str| of(file).filter(|at| files.is_empty() || files.iter().any(|f| f.file == *at));
        let explained = match error {
            EngineError::FileReplaced { file, .. } => {
                mine(file).is_some_and(|at| records.disturbed.contains_key(&at))
            }
            EngineError::Read { file, source, .. } => mine(file).is_some_and(|at| {
                let late = records.late.contains_key(&self.world.plan.files[at].store);
                match source.downcast_ref::<ReadError>() {
                    Some(ReadError::TimedOut { .. }) => {
                        late || records.jumps > 0 || self.world.plan.yields.jumps > 0
                    }
                    Some(ReadError::Cancelled) => false,
                    _ => records.broken.contains_key(&at),
                }
            }),
            EngineError::Corrupt { file, .. } => {
                mine(file).is_some_and(|at| records.corrupt.contains_key(&at))
            }
            EngineError::BufferTooSmall { needed, budget, .. } => {
                // Running scans may have kept a larger one in force.
                needed > budget && records.buffers.iter().any(|known| known <= budget)
            }
            _ => false,
        };
        drop(records);
        let ending = self.world.executor.is_ending();
        self.world.executor.note(&format!("error: {error}"));
        if !explained && !ending {
            self.world.executor.violate(|| format!("an error that nothing explains: {error}"));
        }
        self.ended[1].fetch_add(1, Ordering::Relaxed);
    }

    fn compare(&self, got: &ArrayRef, expected: &ArrayRef, file: usize, what: impl FnOnce() -> String) {
        self.rows.fetch_add(got.len() as u64, Ordering::Relaxed);
        let same = got.as_ref() == expected.as_ref();
        if !same && !self.world.records().corrupt.contains_key(&file) {
            self.world.executor.violate(|| format!("wrong rows: {}", what()));
        }
    }

    fn points(
        self: &Arc<Self>,
        me: TaskId,
        engine: &Engine,
        plan: &ConsumerPlan,
        files: &[Opened],
        random: &mut fastrand::Rng,
    ) {
        for _ in 0..random.usize(1..12) {
            let opened = &files[random.usize(..files.len())];
            let content = &opened.content;
            let row_group = random.usize(..content.groups.len());
            let arrays = &content.groups[row_group];
            let roots = some(arrays.len(), random);
            let rows = ranges(arrays[0].len(), random);
            if roots.is_empty() || rows.is_empty() {
                continue;
            }
            let waits = random.bool();
            let request = PointRequest {
                file: opened.handle.clone(),
                wait_for_room: waits,
                row_group,
                rows: rows.clone().into(),
                roots: roots.clone(),
                schema: content.schema.clone(),
                metadata: content.metadata.clone(),
            };
            let executor = &self.world.executor;
            let outcome = executor.block_on(me, engine.point_read(&request), || self.cancels(plan));
            match outcome {
                Some(Ok(Some(batches))) => {
                    for (at, root) in roots.iter().enumerate() {
                        let got: Vec<&dyn Array> =
                            batches.batches.iter().map(|batch| batch[at].as_ref()).collect();
                        let slices: Vec<ArrayRef> =
                            rows.iter().map(|r| arrays[*root].slice(r.start, r.len())).collect();
                        let expected: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
                        let (Ok(got), Ok(expected)) = (concat(&got), concat(&expected)) else {
                            executor.violate(|| "batches of different types".into());
                            continue;
                        };
                        let what =
                            || format!("point read of f{}, {row_group}, c{root}, {rows:?}", opened.file);
                        self.compare(&got, &expected, opened.file, what);
                    }
                    self.ended[0].fetch_add(1, Ordering::Relaxed);
                }
                Some(Err(error)) => self.check_error(&error, files),
                Some(Ok(None)) | None => {}
            }
            if plan.think_ms > 0 {
                executor.sleep(me, Duration::from_millis(random.u64(..plan.think_ms)));
            }
            if executor.is_ending() {
                return;
            }
        }
    }

    /// Whether a future is to be dropped at this await.
    fn cancels(&self, plan: &ConsumerPlan) -> bool {
        let Habit::Cancels(one_in) = plan.habit else { return false };
        let cancels = !self.world.is_peace() && self.world.executor.draw(|random| random.u32(..one_in) == 0);
        if cancels {
            self.world.records().injected("Cancellation");
        }
        cancels
    }
}

/// Some of this many numbers.
fn some(of: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let one_in = random.u32(1..4);
    (0..of).filter(|_| random.u32(..one_in) == 0).collect()
}

/// Some rows of this many, as ascending ranges.
fn ranges(rows: usize, random: &mut fastrand::Rng) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for _ in 0..random.usize(1..5) {
        let start = at + random.usize(..=rows / 2);
        let end = start + random.usize(1..=rows / 3 + 1);
        if end > rows {
            break;
        }
        ranges.push(start..end);
        at = end;
    }
    ranges
}

type Request = (ScanRequest, Vec<(usize, ChunkRows)>, Vec<Vec<usize>>);

fn request(plan: &ConsumerPlan, files: &[Opened], random: &mut fastrand::Rng) -> Request {
    let mut chunks = Vec::new();
    let (mut columns, mut roots) = (Vec::new(), Vec::new());
    for (at, opened) in files.iter().enumerate() {
        let groups = &opened.content.groups;
        let chosen = some(groups[0].len(), random);
        columns.push(FileColumns {
            file: opened.handle.clone(),
            roots: chosen.clone(),
            schema: opened.content.schema.clone(),
        });
        roots.push(chosen);
        let of_file = opened.handle.chunks().len();
        chunks.extend(some(of_file, random).into_iter().map(|chunk| (at, chunk)));
    }
    if random.u8(..8) == 0 {
        random.shuffle(&mut chunks);
        chunks.extend(chunks.first().copied());
    }
    let request = ScanRequest {
        chunks: chunks
            .iter()
            .enumerate()
            .map(|(key, (columns, chunk))| ChunkRequest { columns: *columns, chunk: *chunk, key: key as u32 })
            .collect(),
        columns,
        workers: plan.workers,
        order: if plan.in_order { DeliveryOrder::Table } else { DeliveryOrder::Any },
        weight: random.u32(1..4),
        reader: None,
    };
    let rows = |(at, chunk): (usize, usize)| Some((at, files[at].handle.chunks().nth(chunk)?.clone()));
    (request, chunks.into_iter().filter_map(rows).collect(), roots)
}

impl Query {
    /// Starts the workers; the first runs on the calling task.
    fn start(self: &Arc<Self>, me: TaskId) {
        let workers: Vec<Worker> = {
            let scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner);
            scan.iter().flat_map(|scan| (0..self.plan.workers).map(|_| scan.worker())).collect()
        };
        self.running.store(workers.len(), Ordering::Relaxed);
        let executor = &self.clients.world.executor;
        let mut workers = workers.into_iter();
        let first = workers.next();
        for (at, worker) in workers.enumerate() {
            let query = self.clone();
            let name = format!("query {}.{} worker {}", self.number, self.round, at + 1);
            executor.spawn(name, true, move |me| query.work(me, worker));
        }
        if let Some(worker) = first {
            self.clone().work(me, worker);
        }
    }

    /// Takes chunks until there are no more; whoever is last says how the query went, and begins the next round.
    fn work(self: Arc<Self>, me: TaskId, worker: Worker) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.take_chunks(me, worker)));
        if let Err(panic) = outcome {
            if panic.downcast_ref::<&str>() != Some(&PANIC) {
                resume_unwind(panic);
            }
            self.clients.world.records().injected("ConsumerPanic");
        }
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish();
            let (clients, number, round) = (self.clients.clone(), self.number, self.round);
            drop(self);
            clients.round(me, number, round + 1);
        }
    }

    fn take_chunks(&self, me: TaskId, mut worker: Worker) {
        let (clients, executor) = (&self.clients, &self.clients.world.executor);
        let mut random = executor.draw(fastrand::Rng::fork);
        let acts_at = random.usize(..6);
        for taken in 0.. {
            let next = loop {
                match executor.block_on(me, worker.next(), || clients.cancels(&self.plan)) {
                    Some(next) => break next,
                    None if executor.is_ending() => return,
                    None => {}
                }
            };
            let mut chunk = match next {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return self.drained.store(true, Ordering::Relaxed),
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return clients.check_error(&error, &self.files);
                }
            };
            self.taken.lock().unwrap_or_else(PoisonError::into_inner)[chunk.key as usize] += 1;
            for slice in 0..chunk.slices() {
                if taken == acts_at && slice == chunk.slices() / 2 && !self.act(me, &mut random) {
                    return;
                }
                let arrays = loop {
                    match executor.block_on(me, chunk.slice(slice), || clients.cancels(&self.plan)) {
                        Some(arrays) => break arrays,
                        None if executor.is_ending() => return,
                        None => {}
                    }
                };
                match arrays {
                    Ok(arrays) => self.check(chunk.key as usize, slice, &arrays),
                    Err(error) => {
                        self.failed.store(true, Ordering::Relaxed);
                        return clients.check_error(&error, &self.files);
                    }
                }
                if self.plan.think_ms > 0 {
                    executor.sleep(me, Duration::from_millis(random.u64(..self.plan.think_ms)));
                }
            }
        }
    }

    /// The habit of the query; returns whether it goes on.
    fn act(&self, me: TaskId, random: &mut fastrand::Rng) -> bool {
        let world = &self.clients.world;
        match self.plan.habit {
            Habit::Reads | Habit::Cancels(_) => true,
            Habit::Stops => {
                world.records().injected("ConsumerStops");
                while !world.is_peace() && !world.executor.is_ending() {
                    let left = world.plan.peace_ms * 1_000_000 + 1;
                    world.executor.sleep_until(me, Some(left.max(world.executor.now_ns() + 1)));
                }
                true
            }
            Habit::Panics => std::panic::panic_any(PANIC),
            Habit::Leaves => {
                world.records().injected("ConsumerLeaves");
                false
            }
            Habit::Unneeds => {
                let count = self.chunks.len();
                let struck: Vec<u32> = (0..count as u32).filter(|_| random.bool()).collect();
                let places = struck.iter().map(|&key| key as usize);
                self.struck.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
                let scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner).clone();
                scan.iter().for_each(|scan| scan.unneed(&struck));
                true
            }
        }
    }

    fn check(&self, index: usize, slice: usize, arrays: &[ArrayRef]) {
        let (at, ChunkRows { row_group: group, rows: of_group }) = self.chunks[index].clone();
        let opened = &self.files[at];
        let rows = self.clients.world.plan.config.slice_rows;
        for (array, root) in arrays.iter().zip(&self.roots[at]) {
            let whole = opened.content.groups[group][*root].slice(of_group.start, of_group.len());
            let from = (slice * rows).min(whole.len());
            let expected = whole.slice(from, rows.min(whole.len() - from));
            let what = || {
                format!(
                    "query {} chunk {index}: f{}, {group}, rows {of_group:?}, c{root}, slice {slice}",
                    self.number, opened.file
                )
            };
            self.clients.compare(array, &expected, opened.file, what);
        }
        if arrays.len() != self.roots[at].len() {
            self.clients.world.executor.violate(|| format!("query {}: columns are missing", self.number));
        }
    }

    /// Every chunk came once, unless there is a reason.
    fn finish(&self) {
        // Others may come to run while the scan is dropped: no lock may be held.
        let scan = self.scan.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(scan);
        let executor = &self.clients.world.executor;
        if executor.is_ending() {
            return;
        }
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.drained.load(Ordering::Relaxed) && !self.failed.load(Ordering::Relaxed);
        for (index, times) in taken.iter().enumerate() {
            let wrong = *times > 1 || (all && *times == 0 && !struck.contains(&index));
            if wrong {
                executor.violate(|| format!("query {}: chunk {index} came {times} times", self.number));
            }
        }
        if all {
            self.clients.ended[0].fetch_add(1, Ordering::Relaxed);
        }
    }
}
