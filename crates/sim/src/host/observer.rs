//! What is noted while a run goes on. Observing changes nothing in the run.

use std::fmt::Write;

use coscan_core::{Abm, Action, ChunkNo, Event, Instant, PolicyName, ScanId, TableId, WorkerNo};

use super::timeline::Recorder;
use super::trace::TraceHash;
use crate::figure::timeline::Timeline;
use crate::workload::{Workload, World};

/// What to note beside the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Every event and action as text.
    pub text: bool,
    /// What a figure of the run shows.
    pub timeline: bool,
    /// Every delivery, in order: the references that replacement could at best have foreseen.
    pub deliveries: bool,
    /// Recomputes the core's state from scratch after every event and panics where it differs. Slow.
    pub check: bool,
}

/// A chunk that was handed to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The query, as its position among [`Workload::queries`].
    pub query: usize,
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
}

/// What was noted in a run.
#[derive(Debug)]
pub(super) struct Observed {
    pub hash: u64,
    pub text: Option<String>,
    pub timeline: Option<Timeline>,
    pub deliveries: Option<Vec<Delivery>>,
}

/// Takes the notes.
#[derive(Debug)]
pub(super) struct Observer {
    check: bool,
    hash: TraceHash,
    text: Option<String>,
    timeline: Option<Recorder>,
    deliveries: Option<Vec<Delivery>>,
    /// The table of every query.
    tables: Vec<TableId>,
}

impl Observer {
    pub fn new(observe: Observe, policy: PolicyName, world: &World, workload: &Workload) -> Self {
        Observer {
            check: observe.check,
            hash: TraceHash::default(),
            text: observe.text.then(String::new),
            timeline: observe.timeline.then(|| Recorder::new(policy, world, workload)),
            deliveries: observe.deliveries.then(Vec::new),
            tables: workload.queries().map(|(_, query)| query.table).collect(),
        }
    }

    pub fn event(&mut self, now: Instant, event: &Event) {
        self.hash.event(now, event);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{now} {event}");
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.event(now, event);
        }
    }

    pub fn action(&mut self, now: Instant, action: &Action) {
        self.hash.action(action);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "    {action}");
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.action(now, action);
        }
        if let (Some(deliveries), Action::Deliver { scan, chunk, .. }) = (&mut self.deliveries, action) {
            let query = scan.0 as usize;
            deliveries.push(Delivery { query, table: self.tables[query], chunk: *chunk });
        }
    }

    /// The core has handled an event and its actions are noted.
    pub fn handled(&mut self, now: Instant, abm: &Abm) {
        if self.check {
            abm.check_invariants();
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.handled(now, abm);
        }
    }

    pub fn requested(&mut self, now: Instant, scan: ScanId) {
        if let Some(timeline) = &mut self.timeline {
            timeline.requested(now, scan);
        }
    }

    pub fn processed(&mut self, now: Instant, scan: ScanId, worker: WorkerNo) {
        if let Some(timeline) = &mut self.timeline {
            timeline.processed(now, scan, worker);
        }
    }

    pub fn ended(&mut self, now: Instant, scan: ScanId) {
        if let Some(timeline) = &mut self.timeline {
            timeline.ended(now, scan);
        }
    }

    /// From now on so many workers are processing and so many requests are in flight.
    pub fn use_of(&mut self, now: Instant, processing: usize, requests: usize) {
        if let Some(timeline) = &mut self.timeline {
            timeline.use_of(now, processing, requests);
        }
    }

    pub fn finish(self, now: Instant) -> Observed {
        Observed {
            hash: self.hash.value(),
            text: self.text,
            timeline: self.timeline.map(|t| t.finish(now)),
            deliveries: self.deliveries,
        }
    }
}
