//! Possible decisions of a host in a state of the model.
//!
//! Decisions without effect are left out: events of a failed scan, and empty steps.

use crate::fuzz::{Player, Progress, ScanBook, Step, Worker};

use super::ModelConfig;

/// The trouble so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) load_failures: u32,
    pub(super) cancels: u32,
    pub(super) budgets: u32,
    pub(super) stalls: u32,
}

/// A decision, and whether it is trouble. Everything must be able to end without trouble.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) step: Step,
    pub(super) after: Trouble,
    pub(super) fair: bool,
}

/// All decisions of the host; none when all scans have ended and nothing is being read.
pub(super) fn moves(config: &ModelConfig, player: &Player<'_>, so_far: Trouble) -> Vec<Move> {
    let mut found = Vec::new();
    let books = player.books();
    let gone = |scan: &Option<ScanBook>| scan.as_ref().is_some_and(|s| s.progress == Progress::Gone);
    if books.scans.iter().all(gone) && books.loads.is_empty() {
        return found;
    }
    let mut add = |step, after, fair| found.push(Move { step, after, fair });
    for (at, scan) in books.scans.iter().enumerate() {
        let Some(scan) = scan else {
            add(Step::Register(at), so_far, true);
            continue;
        };
        match scan.progress {
            Progress::Gone => {}
            Progress::Failed => add(Step::Gone(at), so_far, true),
            Progress::Running if scan.finished() => add(Step::Gone(at), so_far, true),
            Progress::Running => {
                for (no, worker) in (0..).zip(&scan.workers) {
                    worker_moves(at, no, *worker).into_iter().for_each(|step| add(step, so_far, true));
                }
                if so_far.cancels < config.cancels_max {
                    add(Step::Gone(at), Trouble { cancels: so_far.cancels + 1, ..so_far }, false);
                }
            }
        }
    }
    for (at, load) in books.loads.iter().enumerate() {
        let columns: Vec<u32> = load.pending.iter().map(|part| part.column.0).collect();
        for column in &columns {
            add(Step::Finish(at, vec![*column]), so_far, true);
        }
        if so_far.load_failures < config.load_failures_max {
            let after = Trouble { load_failures: so_far.load_failures + 1, ..so_far };
            add(Step::Fail(at, columns), after, false);
        }
    }
    if let Some(bytes) = config.budgets.get(so_far.budgets as usize) {
        add(Step::Budget(*bytes), Trouble { budgets: so_far.budgets + 1, ..so_far }, false);
    }
    if player.abm().next_deadline().is_some() && so_far.stalls < config.stalls_max {
        add(Step::Deadline, Trouble { stalls: so_far.stalls + 1, ..so_far }, true);
    }
    found
}

fn worker_moves(scan: usize, no: u32, worker: Worker) -> Vec<Step> {
    match worker {
        Worker::Waiting { .. } | Worker::Done => Vec::new(),
        Worker::Idle | Worker::Holding { asked: false, .. } => vec![Step::Work(scan, no)],
        Worker::Holding { asked: true, .. } => vec![Step::Work(scan, no), Step::Suspend(scan, no)],
        Worker::Suspended { .. } => vec![Step::Work(scan, no), Step::Discard(scan, no)],
    }
}
