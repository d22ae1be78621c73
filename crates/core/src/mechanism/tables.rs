//! Tables: opening, growth, dropping, and loss of chunks.

use super::Mechanism;
use crate::action::{Action, FailReason};
use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::layout::TableLayout;
use crate::part::PartKey;
use crate::set::{ChunkSet, ColumnSet};
use crate::table::Table;

impl Mechanism {
    pub(crate) fn open_table(&mut self, table: TableId, layout: TableLayout) {
        let known = self.state.tables.insert(table, Table::new(layout));
        assert!(known.is_none(), "table {table} is opened twice");
    }

    pub(crate) fn drop_table(&mut self, table: TableId, actions: &mut Vec<Action>) {
        let all = self.state.table(table).layout.all_chunks();
        self.invalidate(table, &all, FailReason::TableDropped, actions);
        let scans: Vec<ScanId> = self.state.scans().filter(|s| s.reads(table)).map(|s| s.id).collect();
        for scan in scans {
            self.fail_scan(scan, None, FailReason::TableDropped, actions);
        }
        self.dropped.insert(table);
        self.forget_dropped(table);
    }

    /// Forgets a dropped table once nothing is being read from it.
    pub(crate) fn forget_dropped(&mut self, table: TableId) {
        if self.dropped.contains(&table) && !self.state.loads.values().any(|l| l.table == table) {
            self.dropped.remove(&table);
            self.state.tables.remove(&table);
            self.policy.on_dropped(table);
            self.state.points_waiting.retain(|(waiting, _), _| *waiting != table);
        }
    }

    pub(crate) fn invalidate(
        &mut self,
        table: TableId,
        gone: &ChunkSet,
        reason: FailReason,
        actions: &mut Vec<Action>,
    ) {
        let concerned: Vec<(ScanId, ChunkNo)> = self
            .state
            .scans()
            .filter(|s| s.reads(table))
            .filter_map(|s| {
                let mut read = self.state.reads_of(s).filter(|(read, _)| *read == table);
                let hit = read.find_map(|(_, chunks)| {
                    gone.runs().find_map(|run| chunks.runs_in(run).next().map(|hit| hit.start))
                });
                Some((s.id, ChunkNo(hit?)))
            })
            .collect();
        for (scan, chunk) in concerned {
            self.fail_scan(scan, Some((table, chunk)), reason, actions);
        }
        let t = self.state.table_mut(table);
        t.invalid = t.invalid.runs().chain(gone.runs()).collect();
        self.evict_invalid(table, gone, actions);
    }

    /// The chunks that share pages with a chunk in some columns, including the chunk itself.
    pub(crate) fn on_pages_of(&self, table: TableId, chunk: ChunkNo, columns: &ColumnSet) -> ChunkSet {
        let t = self.state.table(table);
        columns.iter().map(|column| t.chunks_on(column, t.layout.span(chunk, column))).collect()
    }

    /// Drops the resident data of invalidated `chunks`, except data that a load in flight still keeps. Cost:
    /// linear in the runs of `chunks` and in their resident parts.
    pub(crate) fn evict_invalid(&mut self, table: TableId, chunks: &ChunkSet, actions: &mut Vec<Action>) {
        let t = self.state.table(table);
        let gone: ChunkSet = chunks.runs().flat_map(|run| t.invalid.runs_in(run)).collect();
        if gone.is_empty() {
            return;
        }
        let parts: Vec<PartKey> = gone
            .runs()
            .flat_map(|run| t.with_data(run))
            .flat_map(|chunk| t.class_of(chunk).key.resident.iter().map(move |c| (chunk, c)))
            .map(|(chunk, column)| PartKey { table, chunk, column })
            .collect();
        for part in parts {
            self.state.evict(part, actions);
        }
        let t = self.state.table(table);
        let gone = |(_, column, page): &(TableId, ColumnNo, u32)| {
            let mut chunks = t.chunks_with_page(*column, *page);
            chunks.all(|c| t.invalid.contains(c) && !t.class_of(c).key.arriving.contains(*column))
        };
        let of_table = self.state.orphans.iter().filter(|(id, ..)| *id == table);
        let orphans: Vec<_> = of_table.filter(|orphan| gone(orphan)).copied().collect();
        for orphan in orphans {
            self.state.evict_orphan(orphan, actions);
        }
    }
}
