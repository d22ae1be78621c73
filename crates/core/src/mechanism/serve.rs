//! Delivery of chunks to waiting workers, as far as their workspaces fit.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Mechanism;
use crate::action::Action;
use crate::eviction::Need;
use crate::ids::{ChunkNo, ScanId, WorkerNo};
use crate::scan::WorkerState;

/// The result for a waiting worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It was handed a chunk, or told that none is left.
    Answered,
    /// No chunk that it could take is available.
    NothingThere,
    /// A chunk is available, but its workspace is above the share of workspaces.
    AboveShare,
    /// A chunk is available, but its workspace does not fit.
    NoRoom,
}

impl Mechanism {
    /// Serves the waiting workers of the scans in `self.dirty`, and those that lacked room before, the most
    /// urgent first. If one lacks room, less urgent workers get nothing either. So the room that becomes free
    /// goes to the most urgent one.
    pub(crate) fn serve(&mut self, actions: &mut Vec<Action>) {
        let mut refused = None;
        self.dirty.append(&mut self.lacking_room);
        while !self.dirty.is_empty() {
            let candidates = std::mem::take(&mut self.dirty);
            for id in self.by_urgency(candidates) {
                for worker in self.waiting_workers(id) {
                    let outcome = self.serve_worker(id, worker, refused, actions);
                    if matches!(outcome, Served::NoRoom | Served::AboveShare) {
                        refused = refused.or(Some(outcome));
                        self.lacking_room.insert(id);
                    }
                }
            }
        }
        self.room_denied = refused == Some(Served::NoRoom);
    }

    fn by_urgency(&self, candidates: BTreeSet<ScanId>) -> Vec<ScanId> {
        let live = |id: &ScanId| self.state.scans.get(id).is_some_and(|s| !s.failed());
        let mut order: Vec<ScanId> = candidates.into_iter().filter(live).collect();
        if order.len() > 1 {
            order.sort_by_cached_key(|id| {
                (Reverse(self.policy.urgency(&self.state, self.state.scan(*id))), *id)
            });
        }
        order
    }

    /// The waiting workers of a scan, longest wait first.
    fn waiting_workers(&self, id: ScanId) -> Vec<WorkerNo> {
        let active = self.state.scan(id).workers_active();
        let mut waiting: Vec<_> = active
            .filter_map(|(worker, state)| match state {
                WorkerState::Waiting { since, .. } => Some((since, worker)),
                _ => None,
            })
            .collect();
        waiting.sort();
        waiting.into_iter().map(|(_, worker)| worker).collect()
    }

    fn serve_worker(
        &mut self,
        id: ScanId,
        worker: WorkerNo,
        refused: Option<Served>,
        actions: &mut Vec<Action>,
    ) -> Served {
        let scan = self.state.scan(id);
        let Some(WorkerState::Waiting { resume, .. }) = scan.active.get(&worker).copied() else {
            return Served::NothingThere;
        };
        let chunk = match resume {
            Some(chunk) => self.state.is_available(scan, chunk).then_some(chunk),
            None if scan.unclaimed().is_empty() => {
                self.state.rest(id, worker);
                actions.push(Action::Wake { scan: id, worker });
                return Served::Answered;
            }
            None if self.state.interest(scan).reach.deliverable == 0 => None,
            None => self.policy.choose_chunk(&self.state, scan),
        };
        let Some(chunk) = chunk else { return Served::NothingThere };
        let bytes = scan.workspace_bytes;
        if let Some(refused) = refused.filter(|_| bytes > 0) {
            return refused;
        }
        if bytes > 0 && !self.within_share(bytes) {
            return Served::AboveShare;
        }
        let target = Some(self.state.target(scan.table, chunk, scan.columns.clone(), &[scan]));
        if !self.make_room(Need { bytes, scan: Some(id), urgent: true, target }, actions) {
            return Served::NoRoom;
        }
        self.hand_out(id, worker, chunk, actions);
        Served::Answered
    }

    /// Returns whether one more workspace is within the share of workspaces, or is the only one.
    fn within_share(&self, bytes: u64) -> bool {
        let used = self.state.usage.workspace;
        used == 0 || used + bytes <= self.workspace_share()
    }

    fn workspace_share(&self) -> u64 {
        self.state.usage.budget / 100 * u64::from(self.state.config.workspace_share_percent)
    }

    /// The room that loads leave for workspaces: one per processor and one more, within their share.
    pub(crate) fn workspace_reserve(&self) -> u64 {
        let (mut largest, mut all) = (0, 0);
        for scan in self.state.scans() {
            largest = largest.max(scan.workspace_bytes);
            all += scan.workspace_bytes * u64::from(scan.workers);
        }
        let at_once = largest * (u64::from(self.state.config.processors) + 1);
        at_once.min(all).min(self.workspace_share()).saturating_sub(self.state.usage.workspace)
    }

    /// Gives an available chunk to a waiting worker whose workspace fits.
    pub(crate) fn hand_out(
        &mut self,
        id: ScanId,
        worker: WorkerNo,
        chunk: ChunkNo,
        actions: &mut Vec<Action>,
    ) {
        self.state.claim(id, worker, chunk);
        self.policy.on_delivered(&self.state, id, chunk);
        actions.push(Action::Deliver { scan: id, worker, chunk });
        if self.state.scan(id).unclaimed().is_empty() {
            self.dirty.insert(id);
        }
    }
}
