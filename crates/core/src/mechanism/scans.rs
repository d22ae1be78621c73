//! Scans register, ask for chunks, end and fail.

use super::Mechanism;
use crate::action::{Action, FailReason};
use crate::event::ScanSpec;
use crate::ids::{ChunkNo, ScanId, WorkerNo};
use crate::layout::TableLayout;
use crate::scan::WorkerState;
use crate::set::{ChunkSet, ColumnSet};
use crate::table::Table;

impl Mechanism {
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec, actions: &mut Vec<Action>) {
        let table = self.state.table(spec.table);
        let invalid = spec.chunks.runs().find_map(|r| table.invalid.runs_in(r).next());
        let needed = minimum_buffer(table, &spec);
        self.state.register(id, spec);
        self.policy.on_registered(&self.state, id);
        if let Some(run) = invalid {
            self.fail_scan(id, Some(ChunkNo(run.start)), FailReason::ChunkInvalidated, actions);
        } else if needed > self.state.usage.budget {
            self.fail_scan(id, None, FailReason::BudgetTooSmall { needed }, actions);
        }
    }

    pub(crate) fn unneed(&mut self, id: ScanId, chunks: &ChunkSet) {
        if !self.is_live(id) {
            return;
        }
        let table = self.state.scan(id).table;
        for chunk in self.state.unneed(id, chunks).iter() {
            self.policy.on_satisfied(table, id, chunk);
        }
        self.dirty.insert(id);
    }

    pub(crate) fn request(&mut self, id: ScanId, worker: WorkerNo) {
        if self.is_live(id) {
            self.resuming.remove(&(id, worker));
            self.state.wait(id, worker);
            let state = self.state.scan(id).active.get(&worker);
            if matches!(state, Some(WorkerState::Waiting { resume: Some(_), .. })) {
                self.resuming.insert((id, worker));
            }
            self.dirty.insert(id);
        }
    }

    pub(crate) fn release(&mut self, id: ScanId, worker: WorkerNo) {
        if self.is_live(id) {
            let chunk = self.state.release(id, worker);
            self.policy.on_satisfied(self.state.scan(id).table, id, chunk);
        }
    }

    pub(crate) fn note_active(&mut self, id: ScanId, worker: WorkerNo) {
        if self.is_live(id) {
            self.state.note_active(id, worker);
        }
    }

    pub(crate) fn suspend(&mut self, id: ScanId, worker: WorkerNo) {
        if self.is_live(id) {
            self.state.suspend(id, worker);
        }
    }

    pub(crate) fn grow_workspace(&mut self, id: ScanId, bytes: u64, actions: &mut Vec<Action>) {
        if self.is_live(id) {
            self.state.grow_workspace(id, bytes);
            self.fail_if_oversized(id, actions);
        }
    }

    pub(crate) fn scan_gone(&mut self, id: ScanId) {
        assert!(self.state.scans.contains_key(&id), "scan {id} is not registered");
        self.forget_scan(id);
        self.state.withdraw(id);
        self.state.scans.remove(&id);
    }

    pub(crate) fn forget_scan(&mut self, id: ScanId) {
        self.policy.on_gone(id);
        self.dirty.remove(&id);
        self.lacking_room.remove(&id);
        self.resuming.retain(|(scan, _)| *scan != id);
    }

    /// Whether the scan is registered and has not failed. The host may send events of a scan before it learns that
    /// the scan failed; these are ignored.
    pub(crate) fn is_live(&self, id: ScanId) -> bool {
        !self.state.scan(id).failed()
    }

    pub(crate) fn fail_scan(
        &mut self,
        id: ScanId,
        chunk: Option<ChunkNo>,
        reason: FailReason,
        actions: &mut Vec<Action>,
    ) {
        if self.is_live(id) {
            self.forget_scan(id);
            self.state.withdraw(id);
            actions.push(Action::Fail { scan: id, chunk, reason });
        }
    }

    /// Changes the budget and fails the scans that cannot progress under it.
    pub(crate) fn change_budget(&mut self, bytes: u64, actions: &mut Vec<Action>) {
        self.state.usage.budget = bytes;
        self.state.config.buffer_bytes = bytes;
        self.state.refresh_ahead();
        let running: Vec<ScanId> = self.state.scans().map(|s| s.id).collect();
        for id in running {
            self.fail_if_oversized(id, actions);
        }
    }

    fn fail_if_oversized(&mut self, id: ScanId, actions: &mut Vec<Action>) {
        let needed = self.needed_by(id);
        if needed > self.state.usage.budget {
            self.fail_scan(id, None, FailReason::BudgetTooSmall { needed }, actions);
        }
    }

    /// The budget that the rest of the scan needs.
    pub(crate) fn needed_by(&self, id: ScanId) -> u64 {
        let scan = self.state.scan(id);
        let layout = &self.state.table(scan.table).layout;
        largest(layout, scan.needed(), &scan.columns).saturating_add(scan.workspace_bytes)
    }
}

/// The largest chunk in the scan's columns, and one worker's workspace.
pub(crate) fn minimum_buffer(table: &Table, spec: &ScanSpec) -> u64 {
    largest(&table.layout, &spec.chunks, &spec.columns).saturating_add(spec.workspace_bytes)
}

fn largest(layout: &TableLayout, chunks: &ChunkSet, columns: &ColumnSet) -> u64 {
    chunks.iter().map(|chunk| layout.chunk_bytes(chunk, columns)).max().unwrap_or(0)
}
