//! One registration of a scan with the engine, and the partitions that take chunks from it.
//!
//! If the order of rows is free, the partitions of an execution ([`crate::scan::execution`]) share one
//! registration, and the first that asks gets the next chunk. Otherwise each partition has its own. A
//! registration begins when its first partition is polled, not when it is opened. Only then do the filters of
//! joins have their values, and no chunk is reserved for a partition that never runs. It ends with the last
//! partition.
//!
//! If a limit wants the first rows of an order, the chunks with these rows are registered before the others.
//! Those may not be needed afterwards; see [`crate::scan::first`].
//!
//! Point reads are not registered; see [`crate::scan::point`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use coscan_engine::{
    ChunkRequest, DeliveryOrder, Engine, FileColumns, FileHandle, MatchingChunk, MatchingRequest,
    QueryAccount, Reader, ScanHandle, ScanRequest, Worker,
};
use datafusion::common::Result;

use crate::error::from_engine;
use crate::file::plan::FilePlanner;
use crate::file::request::FileRequest;
use crate::file::variant::Variant;
use crate::lock::lock;
use crate::made_once::MadeOnce;
use crate::scan::first::WantedFirst;
use crate::scan::metrics::ScanCounters;
use crate::scan::open_chunk::OpenChunk;
use crate::scan::plan::ScanPlan;
use crate::scan::point::PointReader;

/// A scan's registration; see the module's documentation.
pub(crate) struct Registration {
    requests: Arc<[FileRequest]>,
    workers: usize,
    order: DeliveryOrder,
    wanted_first: Option<WantedFirst>,
    /// The reader that the engine sees.
    reader: Reader,
    plan: MadeOnce<Arc<ScanPlan>>,
    /// The matching chunks of other scans, announced before the first partition joins.
    matching: OnceLock<Vec<Matching>>,
    state: Mutex<State>,
}

/// Chunks of another scan's plan that are read together with those of a registration; see
/// [`MatchingRequest`].
pub(crate) struct Matching {
    plan: Arc<ScanPlan>,
    reader: Reader,
    by_pages: bool,
    /// By the position of the registration's chunk.
    with: Vec<Vec<usize>>,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// Scans whose chunks have all been handed out.
    earlier: Vec<Live>,
    /// The chunks that were announced first, until the others are.
    first: Option<Vec<usize>>,
    /// The number of times that the others were announced.
    stage: usize,
    /// By position in [`ScanPlan::chunks`]: whether the chunk was handed out or is not needed.
    settled: Vec<bool>,
    /// No point read is left before this position in the plan.
    points_before: usize,
    members: usize,
}

/// A scan that the engine knows.
struct Live {
    scan: ScanHandle,
    counters: Arc<ScanCounters>,
    /// The first file, whose device the counters show.
    first_file: Option<FileHandle>,
}

impl Registration {
    /// Creates a registration of these files for `workers` partitions.
    pub(crate) fn new(
        requests: Vec<FileRequest>,
        workers: usize,
        order: DeliveryOrder,
        wanted_first: Option<WantedFirst>,
    ) -> Arc<Self> {
        let requests = requests.into();
        let (reader, plan, state) = (Reader::default(), MadeOnce::new(), Mutex::default());
        let matching = OnceLock::new();
        Arc::new(Registration { requests, workers, order, wanted_first, reader, plan, matching, state })
    }

    /// Creates a registration of some chunks of a plan, in any order, for one worker, with the same reader as
    /// this one.
    pub(crate) fn of_chunks(&self, plan: &Arc<ScanPlan>, chunks: &[usize]) -> Arc<Self> {
        let mut settled = vec![true; plan.chunks.len()];
        chunks.iter().for_each(|&chunk| settled[chunk] = false);
        Arc::new(Registration {
            requests: Arc::new([]),
            workers: 1,
            order: DeliveryOrder::Any,
            wanted_first: None,
            reader: self.reader.clone(),
            plan: MadeOnce::made(Arc::clone(plan)),
            matching: OnceLock::new(),
            state: Mutex::new(State { settled, ..State::default() }),
        })
    }

    /// Announces the matching chunks of other scans. Must be called at most once, before a partition joins.
    pub(crate) fn goes_with(&self, matching: Vec<Matching>) {
        let _ = self.matching.set(matching);
    }

    /// Returns the chunks of this registration's plan that match those of another scan, by the position of
    /// the latter.
    pub(crate) fn matching(&self, plan: &Arc<ScanPlan>, with: Vec<Vec<usize>>) -> Matching {
        let by_pages = self.reads_by_pages(plan);
        Matching { plan: Arc::clone(plan), reader: self.reader.clone(), by_pages, with }
    }

    /// Withdraws a chunk of `other`'s plan from all chunks of this plan that no partition has taken.
    pub(crate) fn unneed_matching(&self, other: &Registration, plan: &ScanPlan, chunk: usize) {
        let chunk = &plan.chunks[chunk];
        let state = lock(&self.state);
        for live in state.earlier.iter().chain(&state.live) {
            live.scan.unneed_matching(&other.reader, &plan.handles[chunk.file], chunk.chunk);
        }
    }

    /// Returns the plan. The first call plans the files.
    pub(crate) async fn plan(&self, planner: &Arc<FilePlanner>) -> Result<Arc<ScanPlan>> {
        let plan = self.plan.get(|| {
            let (planner, requests) = (Arc::clone(planner), Arc::clone(&self.requests));
            async move { ScanPlan::new(&planner, &requests).await.map(Arc::new) }
        });
        plan.await
    }

    /// Adds a partition. Plans the files and registers with the engine unless that is done.
    pub(crate) async fn join(
        self: &Arc<Self>,
        planner: &Arc<FilePlanner>,
        engine: &Engine,
        counters: &Arc<ScanCounters>,
    ) -> Result<Member> {
        let plan = self.plan(planner).await?;
        if let Some(file) = plan.handles.first() {
            engine.know_device(file).await.map_err(from_engine)?;
        }
        let by_pages = self.reads_by_pages(&plan);
        let mut state = lock(&self.state);
        state.settled.resize(plan.chunks.len(), false);
        // A filter may have changed while the files were planned, or since the last member left.
        strike_off(&plan, &mut state, counters);
        if state.live.is_none() {
            let mut left_out = left_out(&plan, &state.settled, by_pages);
            state.first = self.wanted_first.as_ref().map(|first| first.chunks(&plan, self.workers));
            if let Some(first) = state.first.as_deref().filter(|first| !first.is_empty()) {
                let others = left_out.iter_mut().enumerate().filter(|(at, _)| !first.contains(at));
                others.for_each(|(_, left_out)| *left_out = true);
            } else {
                state.first = None;
            }
            state.live = self.register(&plan, &left_out, engine, planner.account.as_ref(), counters)?;
        }
        let worker = state.live.as_ref().map(|live| live.scan.worker());
        state.members += 1;
        let stage = state.stage;
        drop(state);
        let points = PointReader::new(engine, by_pages);
        let (registration, counters) = (Arc::clone(self), Arc::clone(counters));
        let (engine, account) = (engine.clone(), planner.account.clone());
        Ok(Member { registration, plan, worker, stage, engine, account, points, in_hand: None, counters })
    }

    /// Returns whether point reads are used. If rows must come in the table's order, they are used only if
    /// all chunks are point reads.
    fn reads_by_pages(&self, plan: &ScanPlan) -> bool {
        self.order == DeliveryOrder::Any || plan.chunks.iter().all(|chunk| chunk.point)
    }

    /// Takes the next point read that no partition has taken.
    fn take_point(&self, plan: &ScanPlan, counters: &ScanCounters) -> Option<usize> {
        let mut state = lock(&self.state);
        strike_off(plan, &mut state, counters);
        let from = state.points_before;
        let mut rest = plan.chunks.iter().zip(&state.settled).skip(from);
        let next = rest.position(|(chunk, settled)| chunk.point && !settled).map(|at| from + at);
        // Settled chunks stay settled, so later searches skip them.
        state.points_before = next.map_or(plan.chunks.len(), |next| next + 1);
        state.settled[next?] = true;
        next
    }

    /// Announces all chunks that are not settled; `None` if there are none.
    fn register(
        &self,
        plan: &ScanPlan,
        settled: &[bool],
        engine: &Engine,
        account: Option<&Arc<QueryAccount>>,
        counters: &Arc<ScanCounters>,
    ) -> Result<Option<Live>> {
        let mut columns = ColumnsOfFiles::of(plan);
        let wanted = plan.chunks.iter().enumerate().filter(|(index, _)| !settled[*index]);
        let chunks = wanted.map(|(index, chunk)| ChunkRequest {
            columns: columns.for_chunk(index),
            chunk: chunk.chunk,
            key: index as u32,
        });
        let chunks: Vec<ChunkRequest> = chunks.collect();
        let columns = columns.columns;
        if chunks.is_empty() {
            return Ok(None);
        }
        let (workers, order, reader) = (self.workers, self.order, Some(self.reader.clone()));
        let matching = self.matching.get().into_iter().flatten().map(|matching| matching.request(settled));
        let matching = matching.collect();
        let request = ScanRequest { chunks, columns, workers, order, weight: 1, reader, matching };
        let first_file = request.columns.first().map(|columns| columns.file.clone());
        let scan = begin(engine, account, request)?;
        Ok(Some(Live { scan, counters: Arc::clone(counters), first_file }))
    }
}

impl Matching {
    /// Returns the matching chunks of the chunks that are not settled. Point reads are left out: the engine
    /// does not need them in advance.
    fn request(&self, settled: &[bool]) -> MatchingRequest {
        let mut columns = ColumnsOfFiles::of(&self.plan);
        let mut chunks = Vec::new();
        for (own, with) in self.with.iter().enumerate().filter(|(own, _)| !settled[*own]) {
            for &index in with {
                let chunk = &self.plan.chunks[index];
                if !(self.by_pages && chunk.point) {
                    let columns = columns.for_chunk(index);
                    chunks.push(MatchingChunk { with: own as u32, columns, chunk: chunk.chunk });
                }
            }
        }
        MatchingRequest { reader: self.reader.clone(), chunks, columns: columns.columns }
    }
}

/// The columns of files in which the chunks of a plan are read.
struct ColumnsOfFiles<'a> {
    plan: &'a ScanPlan,
    columns: Vec<FileColumns>,
    known: HashMap<(usize, *const Variant), usize>,
}

impl<'a> ColumnsOfFiles<'a> {
    fn of(plan: &'a ScanPlan) -> Self {
        ColumnsOfFiles { plan, columns: Vec::new(), known: HashMap::new() }
    }

    /// The position of a chunk's columns.
    fn for_chunk(&mut self, index: usize) -> usize {
        let chunk = &self.plan.chunks[index];
        *self.known.entry((chunk.file, Arc::as_ptr(&chunk.variant))).or_insert_with(|| {
            let file = self.plan.handles[chunk.file].clone();
            let schema = Arc::clone(&self.plan.files[chunk.file].decoding_schema);
            self.columns.push(FileColumns { file, roots: chunk.variant.roots.clone(), schema });
            self.columns.len() - 1
        })
    }
}

/// Begins a scan, with the weight of the query's account if it has one.
pub(super) fn begin(
    engine: &Engine,
    account: Option<&Arc<QueryAccount>>,
    request: ScanRequest,
) -> Result<ScanHandle> {
    let scan = match account {
        Some(account) => {
            let request = ScanRequest { weight: account.weight(), ..request };
            engine.scan_for(Arc::clone(account), request)
        }
        None => engine.scan(request),
    };
    scan.map_err(from_engine)
}

/// Marks the chunks that are not announced: settled ones, and point reads, which the engine does not need in
/// advance.
fn left_out(plan: &ScanPlan, settled: &[bool], by_pages: bool) -> Vec<bool> {
    let chunk = |(at, settled): (usize, &bool)| *settled || (by_pages && plan.chunks[at].point);
    settled.iter().enumerate().map(chunk).collect()
}

/// Prunes the chunks that dynamic filters rule out at this moment.
fn strike_off(plan: &ScanPlan, state: &mut State, counters: &ScanCounters) {
    let State { live, settled, .. } = state;
    let ruled_out = plan.ruled_out(settled);
    if ruled_out.is_empty() {
        return;
    }
    counters.unneeded_by_dynamic_filter.add(ruled_out.len());
    for &chunk in &ruled_out {
        settled[chunk] = true;
    }
    if let Some(live) = live {
        let keys: Vec<u32> = ruled_out.iter().map(|&chunk| chunk as u32).collect();
        live.scan.unneed(&keys);
    }
}

/// A partition that pulls chunks from a registration. Dropping it at any time releases what it holds.
pub(crate) struct Member {
    registration: Arc<Registration>,
    pub(crate) plan: Arc<ScanPlan>,
    worker: Option<Worker>,
    /// The stage of the registration's state when the worker was made.
    stage: usize,
    engine: Engine,
    account: Option<Arc<QueryAccount>>,
    points: PointReader,
    /// The current chunk, by its position in the plan. No other partition gets it.
    in_hand: Option<usize>,
    counters: Arc<ScanCounters>,
}

impl Member {
    /// The chunk that was handed out last, until the next one is asked for. No other partition gets it, even
    /// if the future of [`Self::next`] was dropped before it returned.
    pub(crate) fn in_hand(&self) -> Option<usize> {
        self.in_hand
    }

    /// Marks the current chunk as consumed.
    pub(crate) fn put_down(&mut self) {
        self.in_hand = None;
    }

    /// Returns the next chunk; `None` when none is left. Releases the previous chunk.
    pub(crate) async fn next(&mut self) -> Result<Option<OpenChunk>> {
        self.points.release();
        self.in_hand = None;
        while self.points.enabled
            && let Some(index) = self.registration.take_point(&self.plan, &self.counters)
        {
            self.in_hand = Some(index);
            if let Some(open) = self.points.read(&self.plan, index, &self.counters).await? {
                self.counters.add_decided(&self.plan, &self.plan.chunks[index]);
                return Ok(Some(open));
            }
        }
        self.in_hand = None;
        loop {
            strike_off(&self.plan, &mut lock(&self.registration.state), &self.counters);
            let next = match &mut self.worker {
                Some(worker) => worker.next().await.map_err(from_engine)?,
                None => None,
            };
            let Some(chunk) = next else {
                if self.goes_on()? {
                    continue;
                }
                return Ok(None);
            };
            let index = chunk.key as usize;
            let mut state = lock(&self.registration.state);
            // The wait may have been long. Check the filters again before decoding.
            strike_off(&self.plan, &mut state, &self.counters);
            if std::mem::replace(&mut state.settled[index], true) {
                continue;
            }
            self.in_hand = Some(index);
            self.counters.add_decided(&self.plan, &self.plan.chunks[index]);
            return Ok(Some(OpenChunk::of(chunk, index, &self.plan, self.engine.config().slice_rows)));
        }
    }
}

impl Member {
    /// Returns whether chunks remain beside those that were announced first, and announces them unless that
    /// is done.
    fn goes_on(&mut self) -> Result<bool> {
        let (registration, plan) = (&self.registration, &self.plan);
        let mut state = lock(&registration.state);
        if let Some(first) = state.first.take() {
            let mut left_out = left_out(plan, &state.settled, self.points.enabled);
            // Some of them may be on their way to a partition.
            first.iter().for_each(|&chunk| left_out[chunk] = true);
            let live = registration.register(
                plan,
                &left_out,
                &self.engine,
                self.account.as_ref(),
                &self.counters,
            )?;
            let before = std::mem::replace(&mut state.live, live);
            state.earlier.extend(before);
            state.stage += 1;
        }
        if self.stage == state.stage {
            return Ok(false);
        }
        self.stage = state.stage;
        self.worker = state.live.as_ref().map(|live| live.scan.worker());
        Ok(self.worker.is_some())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.worker = None;
        self.points.release();
        let mut state = lock(&self.registration.state);
        state.members -= 1;
        if state.members == 0 {
            let engine = &self.engine;
            let live = state.live.take();
            for live in state.earlier.drain(..).chain(live) {
                live.counters.add(&live.scan.metrics());
                if let Some(file) = live.first_file {
                    engine.device_of(&file).iter().for_each(|device| live.counters.read_from(device));
                    engine.store_of(&file).iter().for_each(|store| live.counters.read_from_store(store));
                }
            }
        }
    }
}
