//! The room that is needed, and the parts that a policy chose to evict for it.
//!
//! A policy adds parts to [`Victims`], least valuable first. Parts that may not be evicted are ignored here.
//! This module evicts nothing itself.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::part::{PartKey, Target};
use crate::state::State;
use crate::table::runs_of;

/// Room that is needed in the buffer.
#[derive(Clone, Debug)]
pub struct Need {
    /// The bytes to free.
    pub bytes: u64,
    /// The scan that needs the room; `None` if the budget shrank.
    pub scan: Option<ScanId>,
    /// True if a worker waits for the chunk or workspace that needs the room. Reading ahead may not evict
    /// chunks that were read ahead and not yet used: two loads could take the same room from each other
    /// forever.
    pub urgent: bool,
    /// The parts for which the room is made. They must not be evicted.
    pub target: Option<Target>,
}

/// A part to evict.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub part: PartKey,
    /// The pages that are evicted with it.
    pub pages: Vec<Range<u32>>,
    /// The bytes of these pages.
    pub bytes: u64,
}

/// Parts to evict, gathered until they free the needed bytes.
#[derive(Debug)]
pub struct Victims<'a> {
    state: &'a State,
    need: Need,
    /// The parts in the order of eviction, with the pages of each.
    pub(crate) parts: Vec<Victim>,
    seen: BTreeSet<PartKey>,
    /// Pages under several parts that are evicted with one of them.
    shared_pages: BTreeSet<(TableId, ColumnNo, u32)>,
    pub(crate) bytes: u64,
}

impl<'a> Victims<'a> {
    pub(crate) fn new(state: &'a State, need: Need) -> Self {
        Victims {
            state,
            need,
            parts: Vec::new(),
            seen: BTreeSet::new(),
            shared_pages: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Returns whether the gathered parts suffice.
    pub fn enough(&self) -> bool {
        self.bytes >= self.need.bytes
    }

    /// The needed room.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Adds a part if the mechanism allows its eviction. Returns whether the gathered parts suffice.
    pub fn add(&mut self, part: PartKey) -> bool {
        let fresh = !self.need.urgent && self.state.recency().is_fresh(part);
        let may_leave = self.state.may_leave(part, self.need.target.as_ref());
        if !self.enough() && !fresh && may_leave && self.seen.insert(part) {
            let pages = self.pages_leaving_with(part);
            let bytes =
                pages.iter().map(|run| self.state.table(part.table).bytes_of(part.column, run.clone()));
            let bytes: u64 = bytes.sum();
            if bytes > 0 {
                self.bytes += bytes;
                self.parts.push(Victim { part, pages, bytes });
            }
        }
        self.enough()
    }

    /// The pages that are evicted with the part. A page under several complete parts is evicted with the last
    /// of them, unless the others are unwanted.
    fn pages_leaving_with(&mut self, part: PartKey) -> Vec<Range<u32>> {
        let PartKey { table, chunk, column } = part;
        let t = self.state.table(table);
        let mut leaving: Vec<u32> = Vec::new();
        for page in t.layout().span(chunk, column) {
            let neighbours = || t.chunks_with_page(column, page).filter(|c| *c != chunk);
            let stays = |c: ChunkNo| {
                let class = t.class_of(c);
                let wanted = class.key.resident.contains(column) && class.wanted.contains(column);
                let neighbour = PartKey { table, chunk: c, column };
                let targeted = self.need.target.as_ref().is_some_and(|t| t.contains(neighbour));
                let leaves_too = || self.seen.contains(&neighbour);
                targeted || class.key.arriving.contains(column) || (wanted && !leaves_too())
            };
            let key = (table, column, page);
            if !t.is_resident(column, page) || self.shared_pages.contains(&key) || neighbours().any(stays) {
                continue;
            }
            if neighbours().next().is_some() {
                self.shared_pages.insert(key);
            }
            leaving.push(page);
        }
        runs_of(leaving)
    }

    /// Adds parts in the given order until they suffice. Returns whether they do.
    pub fn add_all(&mut self, parts: impl IntoIterator<Item = PartKey>) -> bool {
        self.enough() || parts.into_iter().any(|part| self.add(part))
    }
}
