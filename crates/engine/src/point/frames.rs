//! The frames of point reads: a page-level pool over blocks of files.
//!
//! Pages of Parquet files have any size, frames have one. A frame holds an aligned block of [`BLOCK_BYTES`],
//! and a page is read as the blocks that it touches. The pool is [`coscan_pool`] under DBMIN. Each block that
//! a point read wants is one query of the pool. The query ends as soon as its bytes are copied, so that no
//! read holds frames while it waits for others. Blocks then stay on the free list and are evicted least
//! recently used first.
//!
//! Blocks of a dictionary are different: every point read of its row group wants them again. Once a block was
//! wanted so often that the locality model recommends to keep it, its query stays open, and with it its
//! locality set.
//!
//! This module reads nothing: it returns the blocks to read. It does not know the ledger either, but reports
//! the memory in use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_core::{Instant, Span};
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::set::{DEFAULT_BETA, FileSize, LocalityModel, LocalitySet, Reference};
use coscan_pool::{
    Access, Action, AllocationName, Demand, Event, FileId as PoolFile, FrameNo, InstanceId, PageId, Pool,
    PoolConfig, QueryId,
};

use crate::files::table::File;
use crate::io::BLOCK_BYTES;

/// Dictionaries that are kept have at most 1/n of the frames.
const HOT_SHARE: usize = 4;

/// The number of blocks, per frame, whose references are counted. Beyond it, counting starts again.
const COUNTED_PER_FRAME: usize = 16;

/// A block to read.
pub(crate) struct ToRead {
    pub(crate) frame: FrameNo,
    pub(crate) file: Arc<File>,
    pub(crate) block: u32,
}

/// The result for a block that a read wants.
pub(crate) enum Answer {
    Here { read: u64, block: u32, bytes: Bytes },
    Failed { read: u64, block: u32 },
}

/// The driver's work after a call.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) reads: Vec<ToRead>,
    pub(crate) answers: Vec<Answer>,
    /// Memory to free.
    pub(crate) freed: Vec<Bytes>,
}

/// A block that a point read wants.
pub(crate) struct WantedBlock {
    pub(crate) block: u32,
    /// True if it is part of a dictionary.
    pub(crate) dictionary: bool,
}

/// One query of the pool.
#[derive(Debug)]
struct BlockRequest {
    read: u64,
    file: Arc<File>,
    block: u32,
    set: LocalitySet,
    keep: bool,
    sent: bool,
}

/// The frames of an engine.
#[derive(Debug)]
pub(crate) struct Frames {
    pool: Option<Pool>,
    model: LocalityModel,
    memory: Vec<Option<Bytes>>,
    /// The number of frames that are being read into; their memory counts, too.
    reading: usize,
    requests: BTreeMap<QueryId, BlockRequest>,
    of_read: BTreeMap<u64, Vec<QueryId>>,
    /// Queries that keep a dictionary's block, by block, oldest first.
    hot: VecDeque<(PageId, QueryId)>,
    wanted: BTreeMap<PageId, u64>,
    next_query: u64,
}

impl Frames {
    /// This many frames. With zero, nothing can be read.
    pub(crate) fn new(frames: u32) -> Self {
        Frames {
            pool: pool(frames),
            model: LocalityModel::with_frames(frames),
            memory: vec![None; frames as usize],
            reading: 0,
            requests: BTreeMap::new(),
            of_read: BTreeMap::new(),
            hot: VecDeque::new(),
            wanted: BTreeMap::new(),
            next_query: 0,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Bytes in frames, including those being read.
    pub(crate) fn bytes(&self) -> u64 {
        (self.memory.iter().flatten().count() + self.reading) as u64 * BLOCK_BYTES
    }

    /// Requests these blocks of a file for a point read, whose number is used once.
    pub(crate) fn want(
        &mut self,
        now: Instant,
        read: u64,
        file: &Arc<File>,
        blocks: &[WantedBlock],
        effects: &mut Effects,
    ) {
        for WantedBlock { block, dictionary } in blocks {
            let page = PageId { file: PoolFile(file.id.0 as u32), number: *block };
            let accesses = if *dictionary { self.count_reference(page) } else { 1 };
            let (set, keep) = self.locality(accesses);
            let query = QueryId(self.next_query);
            self.next_query += 1;
            let keep = keep && !self.hot.iter().any(|(hot, _)| *hot == page);
            self.requests.insert(
                query,
                BlockRequest { read, file: file.clone(), block: *block, set, keep, sent: false },
            );
            self.of_read.entry(read).or_default().push(query);
            let demand = Demand { hot_set_pages: set.pages, working_set_window: Span::ZERO };
            self.send(now, Event::QueryStarted { query, demand }, effects);
        }
    }

    /// The locality set of a block that is wanted for the nth time, and whether to keep it. The model is a
    /// file of one page in independent random references (section 3.2).
    fn locality(&self, accesses: u64) -> (LocalitySet, bool) {
        let file = FileSize { records: accesses, pages: 1 };
        let set = self.model.set(&Reference::IndependentRandom { file, accesses });
        // The residual value of a page wanted k times is k - 1.
        (set, accesses.saturating_sub(1) as f64 > DEFAULT_BETA)
    }

    fn count_reference(&mut self, page: PageId) -> u64 {
        if self.wanted.len() >= self.memory.len() * COUNTED_PER_FRAME && !self.wanted.contains_key(&page) {
            self.wanted.clear();
        }
        let times = self.wanted.entry(page).or_default();
        *times += 1;
        *times
    }

    /// Handles a block that was read.
    pub(crate) fn arrived(&mut self, now: Instant, frame: FrameNo, bytes: Bytes, effects: &mut Effects) {
        self.reading -= 1;
        self.memory[frame.0 as usize] = Some(bytes);
        self.send(now, Event::ReadDone { frame }, effects);
        self.forget_empty(frame, effects);
    }

    /// Handles a block that could not be read.
    pub(crate) fn failed(&mut self, now: Instant, frame: FrameNo, effects: &mut Effects) {
        self.reading -= 1;
        self.send(now, Event::ReadFailed { frame }, effects);
        self.forget_empty(frame, effects);
    }

    /// Ends a read, which wants no further blocks.
    pub(crate) fn end(&mut self, now: Instant, read: u64, effects: &mut Effects) {
        for query in self.of_read.remove(&read).unwrap_or_default() {
            if self.requests.remove(&query).is_some() {
                self.send(now, Event::QueryEnded { query }, effects);
            }
        }
    }

    /// Frees the frames of blocks that no read wants.
    pub(crate) fn clear(&mut self, now: Instant, effects: &mut Effects) {
        for (_, query) in std::mem::take(&mut self.hot) {
            self.send(now, Event::QueryEnded { query }, effects);
        }
        self.wanted.clear();
        let Some(pool) = &self.pool else { return };
        let open: BTreeSet<PoolFile> =
            self.requests.values().map(|request| PoolFile(request.file.id.0 as u32)).collect();
        let held: BTreeSet<PoolFile> =
            pool.state().frames.iter().filter_map(|(_, f)| Some(f.page()?.file)).collect();
        for file in held.difference(&open) {
            self.send(now, Event::FileDropped { file: *file }, effects);
        }
        for frame in 0..self.memory.len() as u32 {
            self.forget_empty(FrameNo(frame), effects);
        }
    }

    fn send(&mut self, now: Instant, event: Event, effects: &mut Effects) {
        let mut actions = VecDeque::new();
        self.tell(now, event, &mut actions);
        while let Some(action) = actions.pop_front() {
            for event in self.carry_out(now, action, &mut actions, effects) {
                self.tell(now, event, &mut actions);
            }
        }
    }

    fn tell(&mut self, now: Instant, event: Event, actions: &mut VecDeque<Action>) {
        let mut more = Vec::new();
        if let Some(pool) = &mut self.pool {
            pool.handle(now, event, &mut more);
        }
        actions.extend(more);
    }

    /// Opens an admitted query's file. If its locality set does not fit beside those of the other queries,
    /// the query waits until it is reactivated.
    fn open(&mut self, now: Instant, query: QueryId, actions: &mut VecDeque<Action>) -> Vec<Event> {
        let Some(request) = self.requests.get(&query) else { return Vec::new() };
        let (file, instance) = (PoolFile(request.file.id.0 as u32), InstanceId(query.0));
        let LocalitySet { pattern, pages: set_pages, replacement } = request.set;
        let opened = Event::FileOpened { query, instance, file, pattern, set_pages, replacement };
        let before = actions.len();
        self.tell(now, opened, actions);
        let stopped = actions.iter().skip(before).any(|action| *action == Action::Deactivate { query });
        if stopped { Vec::new() } else { self.request(query) }
    }

    /// The request of a running query, unless it was already made.
    fn request(&mut self, query: QueryId) -> Vec<Event> {
        let Some(request) = self.requests.get_mut(&query).filter(|request| !request.sent) else {
            return Vec::new();
        };
        request.sent = true;
        let (instance, number) = (InstanceId(query.0), request.block);
        vec![Event::PageRequested { query, instance, number, access: Access::Read, cpu: Span::ZERO }]
    }

    /// Carries out the pool's actions. Returns the events that follow.
    fn carry_out(
        &mut self,
        now: Instant,
        action: Action,
        actions: &mut VecDeque<Action>,
        effects: &mut Effects,
    ) -> Vec<Event> {
        match action {
            Action::Admit { query } => self.open(now, query, actions),
            Action::Reactivate { query } => self.request(query),
            Action::Read { frame, query, .. } => {
                effects.freed.extend(self.memory[frame.0 as usize].take());
                self.reading += 1;
                if let Some(request) = self.requests.get(&query) {
                    effects.reads.push(ToRead { frame, file: request.file.clone(), block: request.block });
                }
                Vec::new()
            }
            Action::Grant { query, page, frame } => {
                let Some(request) = self.requests.remove(&query) else { return Vec::new() };
                if let Some(bytes) = &self.memory[frame.0 as usize] {
                    effects.answers.push(Answer::Here {
                        read: request.read,
                        block: request.block,
                        bytes: bytes.clone(),
                    });
                }
                if request.keep { self.keep(page, query) } else { vec![Event::QueryEnded { query }] }
            }
            Action::Fail { query, .. } => {
                if let Some(request) = self.requests.remove(&query) {
                    effects.answers.push(Answer::Failed { read: request.read, block: request.block });
                }
                vec![Event::QueryEnded { query }]
            }
            // Blocks are never changed, and a query that has to wait is told when the wait ends.
            Action::Write { .. } | Action::Wait { .. } | Action::Deactivate { .. } => Vec::new(),
        }
    }

    /// Leaves the query of a dictionary's block open. Ends the oldest ones if there are too many.
    fn keep(&mut self, page: PageId, query: QueryId) -> Vec<Event> {
        if self.hot.iter().any(|(hot, _)| *hot == page) {
            return vec![Event::QueryEnded { query }];
        }
        self.hot.push_back((page, query));
        let surplus = self.hot.len().saturating_sub(self.memory.len() / HOT_SHARE);
        self.hot.drain(..surplus).map(|(_, query)| Event::QueryEnded { query }).collect()
    }

    /// Frees a block of a read that has ended before the block came into a frame.
    fn forget_empty(&mut self, frame: FrameNo, effects: &mut Effects) {
        let Some(pool) = &self.pool else { return };
        let f = pool.state().frames.get(frame);
        if f.page().is_none() {
            effects.freed.extend(self.memory[frame.0 as usize].take());
        }
    }
}

fn pool(frames: u32) -> Option<Pool> {
    let (allocation, load_control) = (AllocationName::Dbmin, LoadControlName::Predicted);
    // Fails only without frames.
    Pool::new(PoolConfig { frames, allocation, load_control, seed: 0 }).ok()
}

/// These blocks, each with a mark if a dictionary's range touches it.
pub(crate) fn wanted(blocks: &[u32], dictionaries: &[Range<u64>]) -> Vec<WantedBlock> {
    let of_dictionary = |block: u32| {
        let start = u64::from(block) * BLOCK_BYTES;
        dictionaries.iter().any(|range| range.start < start + BLOCK_BYTES && start < range.end)
    };
    blocks.iter().map(|&block| WantedBlock { block, dictionary: of_dictionary(block) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::catalog::Catalog;
    use crate::files::chunks::{bundles, chunks};
    use crate::files::table::FileSpec;
    use crate::io::identity::StoreId;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt, path::Path};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderMetadata;

    async fn file() -> Arc<File> {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let bytes = Bytes::from(writer.into_inner().unwrap());
        let metadata = ArrowReaderMetadata::load(&bytes, Default::default()).unwrap().metadata().clone();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let location = Path::from("data");
        store.put(&location, bytes.into()).await.unwrap();
        let meta = store.head(&location).await.unwrap();
        let (store_url, store_id) = ("memory://".into(), StoreId::instance(&store));
        let table_root = "".into();
        let spec = FileSpec { store, store_url, store_id, local: None, meta, metadata, table_root };
        let chunks = chunks(&spec, 0).unwrap();
        let bundles = bundles(&chunks, 0);
        Catalog::default().add(spec, chunks, bundles).unwrap().handle.file().clone()
    }

    struct Host {
        frames: Frames,
        file: Arc<File>,
        reads: u64,
    }

    impl Host {
        async fn new(frames: u32) -> Self {
            Host { frames: Frames::new(frames), file: file().await, reads: 0 }
        }

        /// Requests blocks for a new read, reads the missing ones, and ends it. Returns the number of blocks
        /// read.
        fn read(&mut self, blocks: &[u32], dictionary: bool) -> usize {
            let blocks: Vec<_> = blocks.iter().map(|&block| WantedBlock { block, dictionary }).collect();
            let mut effects = Effects::default();
            self.reads += 1;
            self.frames.want(Instant::ZERO, self.reads, &self.file, &blocks, &mut effects);
            let (mut read, mut here) = (0, 0);
            loop {
                here += effects.answers.drain(..).filter(|a| matches!(a, Answer::Here { .. })).count();
                let Some(ToRead { frame, .. }) = effects.reads.pop() else { break };
                read += 1;
                self.frames.arrived(Instant::ZERO, frame, Bytes::from_static(b"block"), &mut effects);
            }
            assert_eq!(here, blocks.len(), "each wanted block is handed on once");
            self.frames.end(Instant::ZERO, self.reads, &mut effects);
            read
        }
    }

    #[tokio::test]
    async fn blocks_stay_until_others_need_their_frames() {
        let mut host = Host::new(8).await;
        assert_eq!(host.read(&[0, 1, 2], false), 3);
        assert_eq!(host.read(&[2, 1, 3], false), 1);
        assert_eq!(host.frames.bytes(), 4 * BLOCK_BYTES);
        assert_eq!(host.read(&(10..40).collect::<Vec<_>>(), false), 30, "more than there are frames");
        assert_eq!(host.frames.bytes(), 8 * BLOCK_BYTES);
        assert_eq!(host.read(&[1], false), 1, "it had to go");
    }

    #[tokio::test]
    async fn dictionaries_that_are_wanted_again_and_again_stay() {
        let mut host = Host::new(8).await;
        let others: Vec<u32> = (100..130).collect();
        assert_eq!(host.read(&[5], true), 1);
        host.read(&others, false);
        assert_eq!(host.read(&[5], true), 1, "wanted twice: as any other block");
        (0..10).for_each(|_| assert_eq!(host.read(&[5], true), 0));
        host.read(&others, false);
        assert_eq!(host.read(&[5], true), 0, "its residual value is above the threshold");
        (0..12).for_each(|_| {
            host.read(&[6], true);
            host.read(&[7], true);
        });
        host.read(&others, false);
        assert_eq!(
            (host.read(&[7], true), host.read(&[5], true)),
            (0, 1),
            "a quarter of the frames, the latest"
        );
    }

    #[tokio::test]
    async fn whoever_is_gone_gets_nothing_and_frames_are_given_back() {
        let mut host = Host::new(4).await;
        let mut effects = Effects::default();
        let blocks: Vec<_> = (0..2).map(|block| WantedBlock { block, dictionary: false }).collect();
        host.frames.want(Instant::ZERO, 77, &host.file, &blocks, &mut effects);
        assert_eq!((effects.reads.len(), host.frames.bytes()), (2, 2 * BLOCK_BYTES));
        host.frames.end(Instant::ZERO, 77, &mut effects);
        for ToRead { frame, .. } in std::mem::take(&mut effects.reads) {
            host.frames.arrived(Instant::ZERO, frame, Bytes::from_static(b"late"), &mut effects);
        }
        assert!(effects.answers.is_empty());
        assert_eq!((effects.freed.len(), host.frames.bytes()), (2, 0));
        for _ in 0..20 {
            host.read(&[3], true);
        }
        host.frames.clear(Instant::ZERO, &mut Effects::default());
        assert_eq!(host.frames.bytes(), 0, "kept dictionaries go, too");
        assert_eq!(host.read(&[3], true), 1);
    }

    #[tokio::test]
    async fn a_block_that_cannot_be_read_is_reported_to_all_who_want_it() {
        let mut host = Host::new(4).await;
        let mut effects = Effects::default();
        for read in [1, 2] {
            host.frames.want(Instant::ZERO, read, &host.file, &wanted(&[9], &[]), &mut effects);
        }
        assert_eq!(effects.reads.len(), 1, "no block is read twice at the same time");
        host.frames.failed(Instant::ZERO, effects.reads[0].frame, &mut effects);
        let failed: Vec<u64> = effects
            .answers
            .iter()
            .filter_map(|answer| match answer {
                Answer::Failed { read, block: 9 } => Some(*read),
                _ => None,
            })
            .collect();
        assert_eq!((failed, host.frames.bytes()), (vec![1, 2], 0));
    }
}
