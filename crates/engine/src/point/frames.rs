//! The frames of point reads: a page-level pool over blocks of files.
//!
//! Pages of Parquet files have any size, frames have one: a frame holds an aligned block of [`BLOCK_BYTES`], and a
//! page is read as the blocks it touches. The pool is the core's ([`coscan_core::pool`]) under DBMIN; each block that
//! a point read wants is one query of it, which ends as soon as its bytes are copied, so that no read holds frames
//! while it waits for others. Blocks then stay on the free list, the least recently used first to go. Blocks of a
//! dictionary are another matter: every point read of its row group wants them again. Once a block was wanted so
//! often that the locality model calls it worth keeping, its query stays open, and with it its locality set.
//!
//! Nothing is read here: what is to be read is handed to the driver. It knows nothing of the ledger either, but says
//! how much memory it has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_core::allocation::AllocationName;
use coscan_core::allocation::load_control::LoadControlName;
use coscan_core::locality::set::{DEFAULT_BETA, FileSize, LocalityModel, LocalitySet, Reference};
use coscan_core::pool::{
    Access, Action, Demand, Event, FileId as PoolFile, FrameNo, InstanceId, PageId, Pool, PoolConfig, QueryId,
};
use coscan_core::{Instant, Span};

use crate::table::File;

/// The bytes of a frame. Data pages have tens to hundreds of kilobytes: larger blocks read more beside them, smaller
/// ones make more requests of the pool.
pub(crate) const BLOCK_BYTES: u64 = 32 << 10;

/// Kept dictionaries have at most this share of the frames: one in so many.
const HOT_SHARE: usize = 4;

/// Blocks whose references are counted, per frame; beyond that counting starts anew.
const COUNTED_PER_FRAME: usize = 16;

/// A block to read.
pub(crate) struct ToRead {
    pub(crate) frame: FrameNo,
    pub(crate) file: Arc<File>,
    pub(crate) block: u32,
}

/// What became of a block that a read wants.
pub(crate) enum Answer {
    Here { read: u64, block: u32, bytes: Bytes },
    Failed { read: u64, block: u32 },
}

/// What is to be done after a call.
#[derive(Default)]
pub(crate) struct Todo {
    pub(crate) reads: Vec<ToRead>,
    pub(crate) answers: Vec<Answer>,
    /// Memory to free.
    pub(crate) freed: Vec<Bytes>,
}

/// A block that a point read wants.
pub(crate) struct Wanted {
    pub(crate) block: u32,
    /// Whether a dictionary lies in it.
    pub(crate) dictionary: bool,
}

/// One query of the pool.
#[derive(Debug)]
struct Lane {
    read: u64,
    file: Arc<File>,
    block: u32,
    set: LocalitySet,
    keep: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Frames {
    pool: Option<Pool>,
    model: LocalityModel,
    memory: Vec<Option<Bytes>>,
    /// Frames that are being read into; their memory counts, too.
    reading: usize,
    lanes: BTreeMap<QueryId, Lane>,
    of_read: BTreeMap<u64, Vec<QueryId>>,
    /// Queries that keep a dictionary's block, by block; the first was kept first.
    hot: VecDeque<(PageId, QueryId)>,
    wanted: BTreeMap<PageId, u64>,
    next_query: u64,
}

impl Frames {
    /// So many frames; with none, nothing can be read.
    pub(crate) fn new(frames: u32) -> Self {
        Frames {
            pool: pool(frames),
            model: LocalityModel::with_frames(frames),
            memory: vec![None; frames as usize],
            reading: 0,
            lanes: BTreeMap::new(),
            of_read: BTreeMap::new(),
            hot: VecDeque::new(),
            wanted: BTreeMap::new(),
            next_query: 0,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Bytes in frames, those on their way included.
    pub(crate) fn bytes(&self) -> u64 {
        (self.memory.iter().flatten().count() + self.reading) as u64 * BLOCK_BYTES
    }

    /// Has these blocks of a file brought for a point read, whose name is used once.
    pub(crate) fn want(
        &mut self,
        now: Instant,
        read: u64,
        file: &Arc<File>,
        blocks: &[Wanted],
        todo: &mut Todo,
    ) {
        for Wanted { block, dictionary } in blocks {
            let page = PageId { file: PoolFile(file.id.0 as u32), number: *block };
            let accesses = if *dictionary { self.count_reference(page) } else { 1 };
            let (set, keep) = self.locality(accesses);
            let query = QueryId(self.next_query);
            self.next_query += 1;
            let keep = keep && !self.hot.iter().any(|(hot, _)| *hot == page);
            self.lanes.insert(query, Lane { read, file: file.clone(), block: *block, set, keep });
            self.of_read.entry(read).or_default().push(query);
            let demand = Demand { hot_set_pages: set.pages, working_set_window: Span::ZERO };
            self.send(now, Event::QueryStarted { query, demand }, todo);
        }
    }

    /// The locality set of a block that is wanted for the nth time, and whether it is worth keeping: a file of one
    /// page in independent random references (section 3.2).
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

    /// A block was read.
    pub(crate) fn arrived(&mut self, now: Instant, frame: FrameNo, bytes: Bytes, todo: &mut Todo) {
        self.reading -= 1;
        self.memory[frame.0 as usize] = Some(bytes);
        self.send(now, Event::ReadDone { frame }, todo);
        self.forget_empty(frame, todo);
    }

    /// A block could not be read.
    pub(crate) fn failed(&mut self, now: Instant, frame: FrameNo, todo: &mut Todo) {
        self.reading -= 1;
        self.send(now, Event::ReadFailed { frame }, todo);
        self.forget_empty(frame, todo);
    }

    /// A read is over: it wants nothing any more.
    pub(crate) fn end(&mut self, now: Instant, read: u64, todo: &mut Todo) {
        for query in self.of_read.remove(&read).unwrap_or_default() {
            if self.lanes.remove(&query).is_some() {
                self.send(now, Event::QueryEnded { query }, todo);
            }
        }
    }

    /// Gives back the memory of the frames of all files that no read wants blocks of.
    pub(crate) fn clear(&mut self, now: Instant, todo: &mut Todo) {
        for (_, query) in std::mem::take(&mut self.hot) {
            self.send(now, Event::QueryEnded { query }, todo);
        }
        self.wanted.clear();
        let Some(pool) = &self.pool else { return };
        let open: BTreeSet<PoolFile> =
            self.lanes.values().map(|lane| PoolFile(lane.file.id.0 as u32)).collect();
        let held: BTreeSet<PoolFile> =
            pool.state().frames.iter().filter_map(|(_, f)| Some(f.page()?.file)).collect();
        for file in held.difference(&open) {
            self.send(now, Event::FileDropped { file: *file }, todo);
        }
        for frame in 0..self.memory.len() as u32 {
            self.forget_empty(FrameNo(frame), todo);
        }
    }

    fn send(&mut self, now: Instant, event: Event, todo: &mut Todo) {
        let Some(pool) = &mut self.pool else { return };
        let mut actions = Vec::new();
        pool.handle(now, event, &mut actions);
        let mut actions: VecDeque<Action> = actions.into();
        while let Some(action) = actions.pop_front() {
            let follow_ups = self.carry_out(action, todo);
            let Some(pool) = &mut self.pool else { return };
            for event in follow_ups {
                let mut more = Vec::new();
                pool.handle(now, event, &mut more);
                actions.extend(more);
            }
        }
    }

    /// Does what the pool wants; returns what it is to be told.
    fn carry_out(&mut self, action: Action, todo: &mut Todo) -> Vec<Event> {
        match action {
            Action::Admit { query } => {
                let Some(lane) = self.lanes.get(&query) else { return Vec::new() };
                let (file, instance) = (PoolFile(lane.file.id.0 as u32), InstanceId(query.0));
                let LocalitySet { pattern, pages: set_pages, replacement } = lane.set;
                vec![
                    Event::FileOpened { query, instance, file, pattern, set_pages, replacement },
                    Event::PageRequested {
                        query,
                        instance,
                        number: lane.block,
                        access: Access::Read,
                        cpu: Span::ZERO,
                    },
                ]
            }
            Action::Read { frame, query, .. } => {
                todo.freed.extend(self.memory[frame.0 as usize].take());
                self.reading += 1;
                if let Some(lane) = self.lanes.get(&query) {
                    todo.reads.push(ToRead { frame, file: lane.file.clone(), block: lane.block });
                }
                Vec::new()
            }
            Action::Grant { query, page, frame } => {
                let Some(lane) = self.lanes.remove(&query) else { return Vec::new() };
                if let Some(bytes) = &self.memory[frame.0 as usize] {
                    todo.answers.push(Answer::Here {
                        read: lane.read,
                        block: lane.block,
                        bytes: bytes.clone(),
                    });
                }
                if lane.keep { self.keep(page, query) } else { vec![Event::QueryEnded { query }] }
            }
            Action::Fail { query, .. } => {
                if let Some(lane) = self.lanes.remove(&query) {
                    todo.answers.push(Answer::Failed { read: lane.read, block: lane.block });
                }
                vec![Event::QueryEnded { query }]
            }
            // Nothing is ever changed here, and whoever has to wait is told when the wait is over.
            Action::Write { .. }
            | Action::Wait { .. }
            | Action::Deactivate { .. }
            | Action::Reactivate { .. } => Vec::new(),
        }
    }

    /// Leaves the query open that holds a dictionary's block; ends the ones kept longest if there are too many.
    fn keep(&mut self, page: PageId, query: QueryId) -> Vec<Event> {
        if self.hot.iter().any(|(hot, _)| *hot == page) {
            return vec![Event::QueryEnded { query }];
        }
        self.hot.push_back((page, query));
        let surplus = self.hot.len().saturating_sub(self.memory.len() / HOT_SHARE);
        self.hot.drain(..surplus).map(|(_, query)| Event::QueryEnded { query }).collect()
    }

    /// What was read for a read that is gone is in no frame.
    fn forget_empty(&mut self, frame: FrameNo, todo: &mut Todo) {
        let Some(pool) = &self.pool else { return };
        let f = pool.state().frames.get(frame);
        if f.page().is_none() {
            todo.freed.extend(self.memory[frame.0 as usize].take());
        }
    }

    #[cfg(test)]
    fn kept(&self) -> Vec<u32> {
        self.hot.iter().map(|(page, _)| page.number).collect()
    }
}

fn pool(frames: u32) -> Option<Pool> {
    let (allocation, load_control) = (AllocationName::Dbmin, LoadControlName::Predicted);
    // Fails only without frames.
    Pool::new(PoolConfig { frames, allocation, load_control, seed: 0 }).ok()
}

/// The blocks that these ranges touch, ascending, and whether a dictionary lies in each.
pub(crate) fn wanted(blocks: &[u32], dictionaries: &[Range<u64>]) -> Vec<Wanted> {
    let of_dictionary = |block: u32| {
        let start = u64::from(block) * BLOCK_BYTES;
        dictionaries.iter().any(|range| range.start < start + BLOCK_BYTES && start < range.end)
    };
    blocks.iter().map(|&block| Wanted { block, dictionary: of_dictionary(block) }).collect()
}
