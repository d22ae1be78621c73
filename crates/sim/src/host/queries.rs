//! Queries in a run: execution of their consumers' steps, and accounting of operators' memory.

use coscan_core::{ChunkSet, DeliveryOrder, Event, ScanId, WorkerNo};

use super::consumer::{Ask, Consumer};
use super::{Due, Ending, Scan, Simulation, Step};
use crate::cpu::Job;
use crate::operator::Side;
use crate::workload::OperatorMemory;

impl<'a> Simulation<'a> {
    /// Calls the query's consumer and schedules its steps next.
    pub(super) fn ask(&mut self, query: usize, tell: impl FnOnce(&mut Consumer<'a>, &mut Vec<Ask>)) {
        let mut asks = std::mem::take(&mut self.asks);
        let running = &mut self.queries[query];
        let before = running.consumer.kept().bytes;
        tell(&mut running.consumer, &mut asks);
        let kept = running.consumer.kept();
        running.kept_max.bytes = running.kept_max.bytes.max(kept.bytes);
        running.kept_max.count = running.kept_max.count.max(kept.count);
        running.kept_max.output = kept.output;
        self.steps.extend(asks.drain(..).map(|ask| Step::Ask(query, ask)));
        self.asks = asks;
        self.keep(before, kept.bytes);
    }

    /// Replaces an operator's kept bytes in the account.
    fn keep(&mut self, before: u64, now: u64) {
        if before == now {
            return;
        }
        self.kept_bytes = self.kept_bytes - before + now;
        self.kept_bytes_max = self.kept_bytes_max.max(self.kept_bytes);
        if self.operator_memory == OperatorMemory::OfBuffer {
            self.steps.push_back(Step::Budget);
        }
    }

    pub(super) fn send_budget(&mut self) {
        let bytes = match self.operator_memory {
            OperatorMemory::Beside => self.buffer,
            OperatorMemory::OfBuffer => self.buffer.saturating_sub(self.kept_bytes).max(self.buffer / 4),
        };
        self.send(Event::BudgetChanged { bytes });
    }

    pub(super) fn begin(&mut self, query: usize) {
        let running = &mut self.queries[query];
        running.start = Some(self.now);
        if let Some(after) = running.query.cancel_after {
            self.plan(self.now + after, Due::Cancel(query));
        }
        // Its reads are announced before other events.
        let mut asks = Vec::new();
        self.queries[query].consumer.begin(&mut asks);
        let mut asks = asks.into_iter();
        let first = asks.next();
        self.steps.extend(asks.map(|ask| Step::Ask(query, ask)));
        if let Some(first) = first {
            self.carry(query, first);
        }
    }

    /// Executes a step of a query.
    pub(super) fn carry(&mut self, query: usize, ask: Ask) {
        let open = |side: Side| self.queries[query].open[side as usize];
        match ask {
            Ask::Open(side, chunks, order) => self.open(query, side, chunks, order),
            Ask::Request(side, worker) => {
                let scan = open(side).expect("a query asks for chunks of an open scan");
                self.observer.requested(self.now, scan);
                self.send(Event::ChunkRequested { scan, worker });
            }
            Ask::Strike(chunks) => {
                let scan = open(Side::Own).expect("a query strikes chunks off an open scan");
                self.send(Event::ChunksUnneeded { scan, chunks });
            }
            Ask::StrikeMatching(chunks) => {
                let scan = open(Side::Own).expect("a query strikes chunks off an open scan");
                // The operator's matching chunks follow those of the query.
                let at = self.queries[query].query.matching.len() as u32;
                self.send(Event::MatchingUnneeded { scan, at, chunks });
            }
            Ask::Close(side) => self.close(query, side),
            Ask::Finish => self.end(query, Ending::Finished),
        }
    }

    fn open(&mut self, query: usize, side: Side, chunks: ChunkSet, order: DeliveryOrder) {
        let running = &mut self.queries[query];
        let spec = running.query.spec(side, chunks, order);
        let opened = Scan { query, side, is_open: true, workers_left: spec.workers };
        let scan = if running.opened {
            self.scans.push(opened);
            ScanId(self.scans.len() as u64 - 1)
        } else {
            self.scans[query] = opened;
            ScanId(query as u64)
        };
        running.opened = true;
        running.open[side as usize] = Some(scan);
        self.observer.opened(self.now, scan, query, side, spec.table);
        self.send(Event::ScanRegistered { scan, spec });
    }

    fn close(&mut self, query: usize, side: Side) {
        let Some(scan) = self.queries[query].open[side as usize].take() else { return };
        self.scans[scan.0 as usize].is_open = false;
        for worker in (0..self.queries[query].query.workers).map(WorkerNo) {
            if self.held.remove(&(scan, worker)).is_some() {
                self.cpu.cancel(self.now, Job::Chunk(scan, worker));
                self.observer.processed(self.now, scan, worker);
            }
        }
        self.observer.ended(self.now, scan);
        self.send(Event::ScanGone { scan });
    }

    pub(super) fn end(&mut self, query: usize, ending: Ending) {
        let running = &mut self.queries[query];
        running.end = Some((self.now, ending));
        let (followed, kept) = (running.followed, running.consumer.kept().bytes);
        self.close(query, Side::Own);
        self.close(query, Side::Input);
        self.keep(kept, 0);
        if followed {
            self.steps.push_back(Step::Begin(query + 1));
        }
    }
}
