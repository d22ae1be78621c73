//! Handing chunks to waiting workers, first come first served among those that can be served.

use crate::abm::Abm;
use crate::action::Action;
use crate::ids::{ChunkNo, ScanId, WorkerNo};
use crate::scan::WorkerState;
use crate::sharing::{Need, Target};

/// What became of a waiting worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It was handed a chunk, or told that there is none left.
    Answered,
    /// Nothing it could take is available.
    NothingThere,
    /// Its chunk is available, but its workspace does not fit.
    NoRoom(ChunkNo),
}

impl Abm {
    /// Serves the waiting workers of the scans in `self.dirty`, and those that lacked room before.
    pub(crate) fn serve(&mut self, actions: &mut Vec<Action>) {
        self.dirty.append(&mut self.lacking_room);
        while let Some(id) = self.dirty.pop_first() {
            let Some(scan) = self.state.scans.get(&id).filter(|s| !s.failed()) else { continue };
            let mut waiting: Vec<_> = scan
                .active
                .iter()
                .filter_map(|(worker, state)| match state {
                    WorkerState::Waiting { since, .. } => Some((*since, *worker)),
                    _ => None,
                })
                .collect();
            waiting.sort();
            for (_, worker) in waiting {
                if let Served::NoRoom(_) = self.serve_worker(id, worker, actions) {
                    self.lacking_room.insert(id);
                }
            }
        }
    }

    fn serve_worker(&mut self, id: ScanId, worker: WorkerNo, actions: &mut Vec<Action>) -> Served {
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
        let (table, bytes) = (scan.table, scan.workspace_bytes);
        let target = Some(Target { table, chunk, columns: scan.columns.clone() });
        let need = Need { bytes, scan: Some(id), urgent: true, target };
        if !self.make_room(need, actions) {
            return Served::NoRoom(chunk);
        }
        self.hand_out(id, worker, chunk, actions);
        Served::Answered
    }

    /// Gives an available chunk to a waiting worker whose workspace fits.
    pub(crate) fn hand_out(&mut self, id: ScanId, worker: WorkerNo, chunk: ChunkNo, actions: &mut Vec<Action>) {
        self.state.claim(id, worker, chunk);
        self.policy.on_delivered(&self.state, id, chunk);
        actions.push(Action::Deliver { scan: id, worker, chunk });
        if self.state.scan(id).unclaimed().is_empty() {
            self.dirty.insert(id);
        }
    }
}
