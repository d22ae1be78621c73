//! Registration, requests, end and failure of scans.

use super::Mechanism;
use crate::action::{Action, FailReason};
use crate::event::ScanSpec;
use crate::ids::{ChunkNo, ScanId, TableId, WorkerNo};
use crate::scan::WorkerState;
use crate::set::ChunkSet;
use crate::state::State;

impl Mechanism {
    pub(crate) fn register(&mut self, id: ScanId, spec: ScanSpec, actions: &mut Vec<Action>) {
        self.state.register(id, spec);
        self.policy.on_registered(&self.state, id);
        let invalid = self.state.reads_of(self.state.scan(id)).find_map(|(table, chunks)| {
            let invalid = &self.state.table(table).invalid;
            let run = chunks.runs().find_map(|run| invalid.runs_in(run).next())?;
            Some((table, ChunkNo(run.start)))
        });
        match invalid {
            Some(at) => self.fail_scan(id, Some(at), FailReason::ChunkInvalidated, actions),
            None => self.fail_if_oversized(id, actions),
        }
    }

    pub(crate) fn unneed(&mut self, id: ScanId, chunks: &ChunkSet) {
        if !self.is_live(id) {
            return;
        }
        let unneeded = self.state.unneed(id, chunks);
        self.note_satisfied(id, unneeded);
        self.dirty.insert(id);
    }

    pub(crate) fn unneed_matching(&mut self, id: ScanId, at: u32, chunks: &ChunkSet) {
        if self.is_live(id) {
            let unneeded = self.state.unneed_matching(id, at, chunks);
            self.note_satisfied(id, unneeded);
            self.dirty.insert(id);
        }
    }

    /// Notes that the scan stopped needing these chunks of these tables.
    fn note_satisfied(&mut self, id: ScanId, chunks: Vec<(TableId, ChunkSet)>) {
        for (table, chunks) in chunks {
            chunks.iter().for_each(|chunk| self.policy.on_satisfied(table, id, chunk));
        }
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
            let released = self.state.release(id, worker);
            self.note_satisfied(id, released);
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

    /// Returns whether the scan is registered and has not failed. The host may send events of a scan before
    /// it learns that the scan failed; these are ignored.
    pub(crate) fn is_live(&self, id: ScanId) -> bool {
        !self.state.scan(id).failed()
    }

    pub(crate) fn fail_scan(
        &mut self,
        id: ScanId,
        at: Option<(TableId, ChunkNo)>,
        reason: FailReason,
        actions: &mut Vec<Action>,
    ) {
        if self.is_live(id) {
            self.forget_scan(id);
            self.state.withdraw(id);
            let table = at.map_or(self.state.scan(id).table, |(table, _)| table);
            actions.push(Action::Fail { scan: id, table, chunk: at.map(|(_, chunk)| chunk), reason });
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

    /// The budget that the scan's remaining chunks need.
    pub(crate) fn needed_by(&self, id: ScanId) -> u64 {
        let scan = self.state.scan(id);
        let chunks = scan.needed().iter().map(|chunk| self.state.bytes_with_matching(scan, chunk));
        chunks.max().unwrap_or(0).saturating_add(scan.workspace_bytes)
    }
}

/// The bytes of the largest chunk in the scan's columns with its matching chunks, and of one worker's
/// workspace.
pub(crate) fn minimum_buffer(state: &State, spec: &ScanSpec) -> u64 {
    let own = &state.table(spec.table).layout;
    let chunk_bytes = |chunk: ChunkNo| {
        let matching = spec.matching.iter().map(|matching| {
            let layout = &state.table(matching.table).layout;
            let with = matching.chunks.get(&chunk).into_iter().flat_map(ChunkSet::iter);
            with.map(|chunk| layout.chunk_bytes(chunk, &matching.columns)).sum::<u64>()
        });
        own.chunk_bytes(chunk, &spec.columns).saturating_add(matching.sum::<u64>())
    };
    spec.chunks.iter().map(chunk_bytes).max().unwrap_or(0).saturating_add(spec.workspace_bytes)
}
