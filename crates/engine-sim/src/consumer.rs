//! Queries: the files they open, their repetitions, and the errors and rows that are right.
//!
//! One run is a scan (`query.rs`) or a series of point reads (`points.rs`).

mod points;
mod query;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use coscan_engine::{Engine, EngineError, FileHandle, FileSpec, ReadError, StoreId};
use object_store::ObjectStore;

use self::query::{Query, request};
use crate::executor::TaskId;
use crate::files::Content;
use crate::plan::{ConsumerPlan, Habit};
use crate::store::SimStore;
use crate::world::{LOCAL, World, store_url};

/// The state that all queries share.
pub struct Clients {
    /// The world.
    pub world: Arc<World>,
    /// The engine, until its last handle is dropped.
    pub engine: Mutex<Option<Engine>>,
    /// The stores, by number.
    pub stores: Vec<Arc<dyn ObjectStore>>,
    /// The number of rows compared.
    pub rows: AtomicU64,
    /// The number of queries that succeeded, and of those that ended with an expected error.
    pub ended: [AtomicU64; 2],
    /// The end of the last query, and of the last query that reads from no dead store.
    pub last_end_ns: [AtomicU64; 2],
}

/// A file that a query has open.
struct Opened {
    handle: FileHandle,
    file: usize,
    content: Arc<Content>,
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
        let matching = request.matching.iter().map(|matching| {
            let chunks = matching.chunks.iter().map(|matching| (matching.columns, matching.chunk));
            (matching.reader.clone(), chunks.collect())
        });
        let matching = matching.collect();
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
                    matching,
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

    /// Lists and opens the files of a query. Some listings are old.
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

    /// Checks that every row is in one chunk.
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

    /// Checks that the world explains an error; otherwise it is a fault of the engine.
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
                // Running scans may have kept a larger buffer in force.
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

    /// Returns whether to drop a future at this await.
    fn cancels(&self, plan: &ConsumerPlan) -> bool {
        let Habit::Cancels(one_in) = plan.habit else { return false };
        let cancels = !self.world.is_peace() && self.world.executor.draw(|random| random.u32(..one_in) == 0);
        if cancels {
            self.world.records().injected("Cancellation");
        }
        cancels
    }
}

/// A random subset of this many numbers.
fn some(of: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let one_in = random.u32(1..4);
    (0..of).filter(|_| random.u32(..one_in) == 0).collect()
}
