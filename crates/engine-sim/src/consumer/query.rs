//! One run of a query that scans: its request, its workers, and the check that every chunk comes once and
//! correctly.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use coscan_engine::{
    ChunkRequest, ChunkRows, DeliveryOrder, FileColumns, MatchingChunk, MatchingRequest, Reader, ScanHandle,
    ScanRequest, Worker,
};

use super::{Clients, Opened, some};
use crate::executor::TaskId;
use crate::plan::{ConsumerPlan, Habit};

/// The message of a consumer's panic.
const PANIC: &str = "injected panic of a consumer";

/// One run of a query.
pub(super) struct Query {
    pub(super) clients: Arc<Clients>,
    pub(super) number: usize,
    pub(super) plan: ConsumerPlan,
    pub(super) round: u32,
    pub(super) files: Vec<Opened>,
    /// File and columns of each entry of the request, by position.
    pub(super) chunks: Vec<(usize, ChunkRows)>,
    pub(super) roots: Vec<Vec<usize>>,
    /// The matching chunks: the announced reader, and file and position of each.
    pub(super) matching: Vec<(Reader, Vec<(usize, usize)>)>,
    pub(super) scan: Mutex<Option<Arc<ScanHandle>>>,
    pub(super) taken: Mutex<Vec<u32>>,
    pub(super) struck: Mutex<Vec<usize>>,
    /// The number of running workers.
    pub(super) running: AtomicUsize,
    pub(super) drained: AtomicBool,
    pub(super) failed: AtomicBool,
}

/// The request, the file and rows of each chunk, and the columns of each file.
type Request = (ScanRequest, Vec<(usize, ChunkRows)>, Vec<Vec<usize>>);

pub(super) fn request(plan: &ConsumerPlan, files: &[Opened], random: &mut fastrand::Rng) -> Request {
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
    let matching =
        if random.u8(..3) == 0 { vec![matching(files, chunks.len(), &columns, random)] } else { Vec::new() };
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
        matching,
    };
    let rows = |(at, chunk): (usize, usize)| Some((at, files[at].handle.chunks().nth(chunk)?.clone()));
    (request, chunks.into_iter().filter_map(rows).collect(), roots)
}

/// Announces chunks of these files, in these columns, as matching chunks of random ones of the requested
/// chunks.
fn matching(
    files: &[Opened],
    chunks: usize,
    columns: &[FileColumns],
    random: &mut fastrand::Rng,
) -> MatchingRequest {
    let mut matching = Vec::new();
    for with in (0..chunks as u32).filter(|_| chunks > 0) {
        let columns = random.usize(..files.len());
        let of_file = files[columns].handle.chunks().len();
        let some = some(of_file, random).into_iter().take(3);
        matching.extend(some.map(|chunk| MatchingChunk { with, columns, chunk }));
    }
    MatchingRequest { reader: Reader::default(), chunks: matching, columns: columns.to_vec() }
}

impl Query {
    /// Starts the workers. The first runs on the calling task.
    pub(super) fn start(self: &Arc<Self>, me: TaskId) {
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

    /// Takes chunks until there are no more. The last worker reports the query's result, and begins the next
    /// round.
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

    /// Carries out the habit of the query. Returns whether it continues.
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
                for (reader, matching) in &self.matching {
                    for (file, chunk) in matching.iter().filter(|_| random.bool()) {
                        scan.iter()
                            .for_each(|scan| scan.unneed_matching(reader, &self.files[*file].handle, *chunk));
                    }
                }
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

    /// Checks that every chunk came once, unless there is a reason.
    fn finish(&self) {
        // Other tasks may run while the scan is dropped, so no lock may be held.
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
