//! Notes on a run. Observation does not change the run.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use coscan_core::{Abm, Action, ChunkNo, Event, Instant, ScanId, TableId, WorkerNo};
use coscan_trace::TraceHash;

use crate::operator::Side;

/// Selection of notes beside the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Every event and action as text.
    pub text: bool,
    /// Every delivery, in order: the input of the bounds on replacement.
    pub deliveries: bool,
    /// Recomputes the core's state from scratch after every event and panics on a difference. Slow.
    pub check: bool,
}

/// A chunk that was delivered to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The query, as its position among [`Workload::queries`](crate::workload::Workload::queries).
    pub query: usize,
    /// The side that was read.
    pub side: Side,
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
}

/// Observes a run: the events and actions of the core, and the work of workers and the device.
pub trait Watch: Debug {
    /// A query is about to register a scan. A query that joins has several scans, together or one after the
    /// other.
    fn opened(&mut self, _now: Instant, _scan: ScanId, _query: usize, _table: TableId) {}
    /// An event is about to be handled.
    fn event(&mut self, _now: Instant, _event: &Event) {}
    /// The core returned an action.
    fn action(&mut self, _now: Instant, _action: &Action) {}
    /// The core has handled an event and its actions were shown.
    fn handled(&mut self, _now: Instant, _abm: &Abm) {}
    /// A worker of a scan requests a chunk.
    fn requested(&mut self, _now: Instant, _scan: ScanId) {}
    /// A worker has processed its chunk.
    fn processed(&mut self, _now: Instant, _scan: ScanId, _worker: WorkerNo) {}
    /// A scan ended.
    fn ended(&mut self, _now: Instant, _scan: ScanId) {}
    /// The number of processing workers and of requests in flight changed.
    fn use_of(&mut self, _now: Instant, _processing: usize, _requests: usize) {}
}

/// The notes on a run.
#[derive(Debug)]
pub(super) struct Observed {
    pub hash: u64,
    pub text: Option<String>,
    pub deliveries: Option<Vec<Delivery>>,
}

/// Takes the notes.
#[derive(Debug)]
pub(super) struct Observer<'a> {
    check: bool,
    hash: TraceHash,
    text: Option<String>,
    watch: Option<&'a mut dyn Watch>,
    deliveries: Option<Vec<Delivery>>,
    /// The query, side and table of each scan.
    scans: BTreeMap<ScanId, (usize, Side, TableId)>,
}

impl<'a> Observer<'a> {
    pub fn new(observe: Observe, watch: Option<&'a mut dyn Watch>) -> Self {
        Observer {
            check: observe.check,
            hash: TraceHash::default(),
            text: observe.text.then(String::new),
            watch,
            deliveries: observe.deliveries.then(Vec::new),
            scans: BTreeMap::new(),
        }
    }

    pub fn opened(&mut self, now: Instant, scan: ScanId, query: usize, side: Side, table: TableId) {
        if self.deliveries.is_some() {
            self.scans.insert(scan, (query, side, table));
        }
        if let Some(watch) = &mut self.watch {
            watch.opened(now, scan, query, table);
        }
    }

    pub fn event(&mut self, now: Instant, event: &Event) {
        self.hash.event(now, event);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{now} {event}");
        }
        if let Some(watch) = &mut self.watch {
            watch.event(now, event);
        }
    }

    pub fn action(&mut self, now: Instant, action: &Action) {
        self.hash.action(action);
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "    {action}");
        }
        if let Some(watch) = &mut self.watch {
            watch.action(now, action);
        }
        if let (Some(deliveries), Action::Deliver { scan, chunk, .. }) = (&mut self.deliveries, action) {
            let (query, side, table) = self.scans[scan];
            deliveries.push(Delivery { query, side, table, chunk: *chunk });
        }
    }

    pub fn handled(&mut self, now: Instant, abm: &Abm) {
        if self.check {
            abm.check_invariants();
        }
        if let Some(watch) = &mut self.watch {
            watch.handled(now, abm);
        }
    }

    pub fn requested(&mut self, now: Instant, scan: ScanId) {
        if let Some(watch) = &mut self.watch {
            watch.requested(now, scan);
        }
    }

    pub fn processed(&mut self, now: Instant, scan: ScanId, worker: WorkerNo) {
        if let Some(watch) = &mut self.watch {
            watch.processed(now, scan, worker);
        }
    }

    pub fn ended(&mut self, now: Instant, scan: ScanId) {
        if let Some(watch) = &mut self.watch {
            watch.ended(now, scan);
        }
    }

    pub fn use_of(&mut self, now: Instant, processing: usize, requests: usize) {
        if let Some(watch) = &mut self.watch {
            watch.use_of(now, processing, requests);
        }
    }

    pub fn finish(self) -> Observed {
        Observed { hash: self.hash.value(), text: self.text, deliveries: self.deliveries }
    }
}
