//! The transitions of pages: loads begin, arrive or fail; parts are evicted; decoded arrays are added and
//! dropped.
//!
//! The ledger is changed only here.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::action::{Action, PartLoad};
use crate::ids::{ChunkNo, ColumnNo, LoadId, PageNo, TableId};
use crate::part::{PartKey, Target};
use crate::set::{ChunkSet, ColumnSet};
use crate::state::{Load, State};
use crate::table::{PageState, runs_of};

impl State {
    /// Begins a load of the absent pages of `columns`, smallest part first (2007, section 6.2).
    pub(crate) fn begin_load(&mut self, table: TableId, chunk: ChunkNo, columns: &ColumnSet) -> Action {
        let load = LoadId(self.next_load);
        self.next_load += 1;
        let t = self.table(table);
        let mut parts: Vec<PartLoad> = Vec::new();
        for column in columns.iter() {
            parts.extend(t.absent_runs(chunk, column).into_iter().map(|pages| PartLoad {
                column,
                first_page: PageNo(pages.start),
                pages: pages.end - pages.start,
                bytes: t.bytes_of(column, pages),
            }));
        }
        parts.sort_by_key(|p| (p.bytes, p.column));
        let mut pending: BTreeMap<ColumnNo, Vec<Range<u32>>> = BTreeMap::new();
        for part in &parts {
            self.usage.loading += part.bytes;
            let pages = part.first_page.0..part.first_page.0 + part.pages;
            pending.entry(part.column).or_default().push(pages.clone());
            self.set_pages(table, part.column, pages, PageState::Loading);
        }
        let depth = self.loads.len() as u32 + 1;
        self.loads.insert(load, Load { table, chunk, pending, issued: self.now, depth });
        self.count_store(table, |store| store.loads += 1);
        self.recount(table);
        Action::Load { load, table, chunk, parts }
    }

    /// Ends columns of a load: they have arrived (`ok`) or failed. Returns the load's table and chunk.
    pub(crate) fn end_load(&mut self, id: LoadId, columns: &ColumnSet, ok: bool) -> (TableId, ChunkNo) {
        let load = self.loads.get_mut(&id).unwrap_or_else(|| panic!("load {id} is not in flight"));
        let (table, chunk) = (load.table, load.chunk);
        let mut arrived: Vec<(ColumnNo, Range<u32>)> = Vec::new();
        for column in columns.iter() {
            let runs = load.pending.remove(&column).unwrap_or_else(|| panic!("load {id} reads no {column}"));
            arrived.extend(runs.into_iter().map(|run| (column, run)));
        }
        let done = load.pending.is_empty();
        for (column, pages) in arrived {
            let bytes = self.table(table).bytes_of(column, pages.clone());
            self.usage.loading -= bytes;
            if ok {
                self.usage.resident += bytes;
            }
            let state = if ok { PageState::Resident } else { PageState::Absent };
            self.set_pages(table, column, pages, state);
        }
        if done {
            let load = self.loads.remove(&id).expect("it is in flight");
            self.count_store(table, |store| store.loads -= 1);
            self.learn_load_time(&load);
        }
        self.recount(table);
        (table, chunk)
    }

    /// Evicts a part, with those of its pages that no other part needs.
    pub(crate) fn evict(&mut self, part: PartKey, actions: &mut Vec<Action>) {
        self.evict_pages(part, self.droppable_pages(part), actions);
    }

    /// Evicts pages of a part, and drops the arrays decoded from it and from the other parts on these pages.
    pub(crate) fn evict_pages(&mut self, part: PartKey, runs: Vec<Range<u32>>, actions: &mut Vec<Action>) {
        let PartKey { table, chunk, column } = part;
        if runs.is_empty() && self.decoded.contains_key(&part) {
            // The part has no page whose eviction would tell the host to drop these arrays.
            actions.push(Action::DropDecoded { table, chunk, column });
        }
        self.forget_decoded(part);
        for pages in runs {
            for neighbour in self.table(table).chunks_on(column, pages.clone()) {
                self.forget_decoded(PartKey { table, chunk: ChunkNo(neighbour), column });
            }
            self.drop_pages(table, chunk, column, pages, actions);
        }
        self.recount(table);
    }

    /// Evicts a page on which no complete part lies.
    pub(crate) fn evict_orphan(&mut self, orphan: (TableId, ColumnNo, u32), actions: &mut Vec<Action>) {
        let (table, column, page) = orphan;
        let chunk = ChunkNo(self.table(table).layout.chunks_of_page(column, PageNo(page)).start);
        self.drop_pages(table, chunk, column, page..page + 1, actions);
        self.recount(table);
    }

    fn drop_pages(
        &mut self,
        table: TableId,
        chunk: ChunkNo,
        column: ColumnNo,
        pages: Range<u32>,
        actions: &mut Vec<Action>,
    ) {
        let bytes = self.table(table).bytes_of(column, pages.clone());
        let (first_page, count) = (PageNo(pages.start), pages.end - pages.start);
        self.usage.resident -= bytes;
        self.set_pages(table, column, pages, PageState::Absent);
        actions.push(Action::Evict { table, chunk, column, first_page, pages: count, bytes });
    }

    /// Evicts a part with its shared pages, as far as their other parts may be evicted too.
    pub(crate) fn evict_shared(&mut self, part: PartKey, target: Option<&Target>, actions: &mut Vec<Action>) {
        let PartKey { table, chunk, column } = part;
        for page in self.shared_pages_to_leave(part, target) {
            for neighbour in self.table(table).chunks_on(column, page..page + 1) {
                self.forget_decoded(PartKey { table, chunk: ChunkNo(neighbour), column });
            }
            self.drop_pages(table, chunk, column, page..page + 1, actions);
        }
        self.recount(table);
    }

    /// The pages of a part that may be evicted: no part on them is held, being completed or a target.
    pub(crate) fn shared_pages_to_leave(&self, part: PartKey, target: Option<&Target>) -> Vec<u32> {
        let PartKey { table, chunk, column } = part;
        let t = self.table(table);
        let free = |c: ChunkNo| {
            let key = &t.class_of(c).key;
            let part = PartKey { table, chunk: c, column };
            let may_leave = || self.may_leave(part, target);
            !target.is_some_and(|t| t.contains(part))
                && !key.arriving.contains(column)
                && (!key.resident.contains(column) || may_leave())
        };
        let resident = |page: &u32| t.pages[column.index()][*page as usize] == PageState::Resident;
        let pages = t.layout.span(chunk, column).filter(resident);
        pages.filter(|page| t.chunks_with_page(column, *page).all(free)).collect()
    }

    /// The runs of pages that evicting the part would free. A page stays if another part on it is arriving or
    /// wanted. Unwanted neighbours are evicted with it.
    fn droppable_pages(&self, part: PartKey) -> Vec<Range<u32>> {
        let PartKey { table, chunk, column } = part;
        let t = self.table(table);
        let kept = |page: u32| {
            t.chunks_with_page(column, page).filter(|c| *c != chunk).any(|c| {
                let class = t.class_of(c);
                class.key.arriving.contains(column) || class.wanted.contains(column)
            })
        };
        runs_of(t.layout.span(chunk, column).filter(|page| t.is_resident(column, *page) && !kept(*page)))
    }

    fn set_pages(&mut self, table: TableId, column: ColumnNo, pages: Range<u32>, state: PageState) {
        let t = self.table_mut(table);
        for page in pages.clone() {
            t.pages[column.index()][page as usize] = state;
        }
        for chunk in t.chunks_on(column, pages.clone()) {
            self.refresh_part(PartKey { table, chunk: ChunkNo(chunk), column });
        }
        self.refresh_orphans(table, column, pages);
    }

    fn refresh_part(&mut self, part: PartKey) {
        let PartKey { table, chunk, column } = part;
        let t = self.table_mut(table);
        if t.layout.span(chunk, column).is_empty() {
            return;
        }
        let complete = t.refresh_part(chunk, column);
        self.refresh_matching_with(table, chunk);
        let t = self.table(table);
        let wanted = t.class_of(chunk).wanted.contains(column);
        match (self.recency.contains(part), complete) {
            (false, true) => {
                self.table_mut(table).touched.insert(chunk);
                self.recency.insert(part, wanted);
            }
            (true, false) => {
                self.recency.remove(part);
                let t = self.table_mut(table);
                let key = &t.class_of(chunk).key;
                if !key.resident.iter().any(|c| !t.layout.span(chunk, c).is_empty()) {
                    t.touched.remove(&chunk);
                }
            }
            _ => {}
        }
    }

    fn refresh_orphans(&mut self, table: TableId, column: ColumnNo, pages: Range<u32>) {
        let t = self.table(table);
        let chunks = t.chunks_on(column, pages.clone());
        let covered = chunks.map(|c| t.layout.span(ChunkNo(c), column)).filter(|s| !s.is_empty());
        let reach = covered.fold(pages, |all, s| all.start.min(s.start)..all.end.max(s.end));
        for page in reach {
            let t = self.table(table);
            let orphan = t.pages[column.index()][page as usize] == PageState::Resident
                && !t.chunks_with_page(column, page).any(|c| t.is_complete(c, column));
            if orphan {
                self.orphans.insert((table, column, page));
            } else {
                self.orphans.remove(&(table, column, page));
            }
        }
    }

    /// Updates, for the resident parts of `chunks`, whether a scan still wants them.
    pub(crate) fn refresh_wanted(&mut self, table: TableId, chunks: &ChunkSet) {
        for run in chunks.runs() {
            let touched: Vec<ChunkNo> = self.table(table).with_data(run).collect();
            for chunk in touched {
                self.refresh_wanted_chunk(table, chunk);
            }
        }
    }

    pub(crate) fn refresh_wanted_chunk(&mut self, table: TableId, chunk: ChunkNo) {
        let class = self.tables[&table].class_of(chunk);
        for column in class.key.resident.iter() {
            let (part, wanted) = (PartKey { table, chunk, column }, class.wanted.contains(column));
            self.recency.set_wanted(part, wanted);
            if self.decoded_recency.set_wanted(part, wanted) {
                let bytes = self.decoded[&part];
                match wanted {
                    true => self.decoded_unwanted -= bytes,
                    false => self.decoded_unwanted += bytes,
                }
            }
        }
    }

    /// Sets the bytes of decoded arrays that the host holds for the part.
    pub(crate) fn set_decoded(&mut self, part: PartKey, bytes: u64) {
        self.forget_decoded(part);
        if bytes > 0 {
            let wanted = self.table(part.table).class_of(part.chunk).wanted.contains(part.column);
            self.decoded.insert(part, bytes);
            self.decoded_recency.insert(part, wanted);
            self.usage.decoded += bytes;
            self.decoded_unwanted += if wanted { 0 } else { bytes };
        }
    }

    /// Removes the part's decoded arrays from the ledger.
    pub(crate) fn forget_decoded(&mut self, part: PartKey) {
        if let Some(bytes) = self.decoded.remove(&part) {
            let wanted = self.decoded_recency.is_wanted(part) == Some(true);
            self.decoded_unwanted -= if wanted { 0 } else { bytes };
            self.decoded_recency.remove(part);
            self.usage.decoded -= bytes;
        }
    }
}
