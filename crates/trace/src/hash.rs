//! Hash of a run, so that two runs can be compared.
//!
//! The hash covers the numbers in events and actions, not their text or layout in memory. So it is the same
//! on every platform and with every version of the compiler.

use coscan_core::{Action, ChunkSet, ColumnSet, Event, FailReason, Instant};

/// A running 64-bit hash of a run: FNV-1a, a word of 64 bits at a time, folded after every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash(0xcbf2_9ce4_8422_2325)
    }
}

impl TraceHash {
    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }

    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.word(*word));
    }

    fn columns(&mut self, columns: &ColumnSet) {
        self.word(u64::from(columns.len()));
        columns.iter().for_each(|column| self.word(u64::from(column.0)));
    }

    fn chunks(&mut self, chunks: &ChunkSet) {
        self.word(chunks.runs().count() as u64);
        chunks.runs().for_each(|run| self.words(&[u64::from(run.start), u64::from(run.end)]));
    }

    /// Adds an event.
    pub fn event(&mut self, now: Instant, event: &Event) {
        self.word(now.as_nanos());
        match event {
            Event::TableOpened { table, layout } => {
                self.words(&[1, u64::from(table.0), u64::from(layout.chunk_count())]);
            }
            Event::TableGrown { table, layout } => {
                self.words(&[2, u64::from(table.0), u64::from(layout.chunk_count())]);
            }
            Event::ChunksInvalidated { table, chunks } => {
                self.words(&[3, u64::from(table.0)]);
                self.chunks(chunks);
            }
            Event::TableDropped { table } => self.words(&[4, u64::from(table.0)]),
            Event::ScanRegistered { scan, spec } => {
                self.words(&[5, scan.0, u64::from(spec.table.0), u64::from(spec.workers)]);
                self.columns(&spec.columns);
                self.chunks(&spec.chunks);
                for matching in &spec.matching {
                    self.words(&[20, u64::from(matching.table.0)]);
                    self.columns(&matching.columns);
                    for (own, with) in &matching.chunks {
                        self.word(u64::from(own.0));
                        self.chunks(with);
                    }
                }
            }
            Event::MatchingUnneeded { scan, at, chunks } => {
                self.words(&[21, scan.0, u64::from(*at)]);
                self.chunks(chunks);
            }
            Event::ChunksUnneeded { scan, chunks } => {
                self.words(&[6, scan.0]);
                self.chunks(chunks);
            }
            Event::ChunkRequested { scan, worker } => self.words(&[7, scan.0, u64::from(worker.0)]),
            Event::ChunkReleased { scan, worker } => self.words(&[8, scan.0, u64::from(worker.0)]),
            Event::WorkerActive { scan, worker } => self.words(&[9, scan.0, u64::from(worker.0)]),
            Event::ChunkSuspended { scan, worker } => self.words(&[10, scan.0, u64::from(worker.0)]),
            Event::LoadFinished { load, columns } => {
                self.words(&[11, load.0]);
                self.columns(columns);
            }
            Event::LoadFailed { load, columns } => {
                self.words(&[12, load.0]);
                self.columns(columns);
            }
            Event::Decoded { table, chunk, column, bytes } => {
                self.words(&[13, u64::from(table.0), u64::from(chunk.0), u64::from(column.0), *bytes]);
            }
            Event::ScanGone { scan } => self.words(&[14, scan.0]),
            Event::BudgetChanged { bytes } => self.words(&[15, *bytes]),
            Event::TimePassed => self.word(16),
            Event::PointRoom { bytes } => self.words(&[17, *bytes]),
            Event::WorkspaceGrown { scan, bytes } => self.words(&[19, scan.0, *bytes]),
            Event::PointsWaiting { table, chunk, columns, reads } => {
                self.words(&[18, u64::from(table.0), u64::from(chunk.0), u64::from(*reads)]);
                self.columns(columns);
            }
        }
    }

    /// Adds an action.
    pub fn action(&mut self, action: &Action) {
        match action {
            Action::Load { load, table, chunk, parts } => {
                self.words(&[101, load.0, u64::from(table.0), u64::from(chunk.0), parts.len() as u64]);
                for part in parts {
                    let place = [part.column.0, part.first_page.0, part.pages].map(u64::from);
                    self.words(&place);
                    self.word(part.bytes);
                }
            }
            Action::Evict { table, chunk, column, first_page, pages, bytes } => {
                let place = [table.0, chunk.0, column.0, first_page.0, *pages].map(u64::from);
                self.word(102);
                self.words(&place);
                self.word(*bytes);
            }
            Action::DropDecoded { table, chunk, column } => {
                self.words(&[103, u64::from(table.0), u64::from(chunk.0), u64::from(column.0)]);
            }
            Action::Deliver { scan, worker, chunk } => {
                self.words(&[104, scan.0, u64::from(worker.0), u64::from(chunk.0)]);
            }
            Action::Wake { scan, worker } => self.words(&[105, scan.0, u64::from(worker.0)]),
            Action::Suspend { scan, worker } => self.words(&[106, scan.0, u64::from(worker.0)]),
            Action::ReturnPointRoom => self.word(108),
            Action::Fail { scan, chunk, reason, .. } => {
                let (tag, needed) = match reason {
                    FailReason::LoadFailed => (1, 0),
                    FailReason::ChunkInvalidated => (2, 0),
                    FailReason::TableDropped => (3, 0),
                    FailReason::BudgetTooSmall { needed } => (4, *needed),
                };
                let chunk = chunk.map_or(u64::MAX, |c| u64::from(c.0));
                self.words(&[107, scan.0, chunk, tag, needed]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_core::{ScanId, WorkerNo};

    #[test]
    fn the_hash_is_pinned_and_tells_runs_apart() {
        let hash = |at, scan| {
            let mut hash = TraceHash::default();
            let (scan, worker) = (ScanId(scan), WorkerNo(0));
            hash.event(Instant::from_nanos(at), &Event::ChunkRequested { scan, worker });
            hash.action(&Action::Wake { scan, worker });
            hash.value()
        };
        assert_eq!(hash(5, 1), hash(5, 1));
        assert_ne!(hash(5, 1), hash(6, 1));
        assert_ne!(hash(5, 1), hash(5, 2));
        assert_ne!(hash(0, 0), TraceHash::default().value());
    }
}
