//! Arrival and failure of loads; decoded arrays of parts.

use super::Mechanism;
use crate::action::{Action, FailReason};
use crate::ids::{ChunkNo, LoadId, ScanId};
use crate::part::PartKey;
use crate::set::ColumnSet;

impl Mechanism {
    pub(crate) fn load_finished(&mut self, load: LoadId, columns: &ColumnSet, actions: &mut Vec<Action>) {
        let (table, chunk) = self.state.end_load(load, columns, true);
        let arrived = self.on_pages_of(table, chunk, columns);
        self.evict_invalid(table, &arrived, actions);
        for column in columns.iter() {
            let t = self.state.table(table);
            let span = t.layout.span(chunk, column);
            for sharing in t.chunks_on(column, span) {
                let class = t.class_of(ChunkNo(sharing));
                self.dirty.extend(class.key.interested.iter().map(|slot| t.interest(slot).scan));
            }
        }
        self.forget_dropped(table);
    }

    pub(crate) fn load_failed(&mut self, load: LoadId, columns: &ColumnSet, actions: &mut Vec<Action>) {
        let (table, chunk) = self.state.end_load(load, columns, false);
        let t = self.state.table(table);
        let interested = t.class_of(chunk).key.interested.iter().map(|slot| t.interest(slot));
        let concerned: Vec<ScanId> =
            interested.filter(|i| i.columns.intersects(columns)).map(|i| i.scan).collect();
        for scan in concerned {
            self.fail_scan(scan, Some((table, chunk)), FailReason::LoadFailed, actions);
        }
        let failed = self.on_pages_of(table, chunk, columns);
        self.evict_invalid(table, &failed, actions);
        self.forget_dropped(table);
    }

    /// Sets the bytes of decoded arrays that the host holds for the part. Returns whether room was gained.
    pub(crate) fn decoded(&mut self, part: PartKey, bytes: u64, actions: &mut Vec<Action>) -> bool {
        if !self.state.recency.contains(part) {
            // The part was evicted while it was being decoded. The arrays are charged to the worker that
            // holds them.
            if bytes > 0 {
                let PartKey { table, chunk, column } = part;
                actions.push(Action::DropDecoded { table, chunk, column });
            }
            return false;
        }
        let used = self.state.usage.total();
        self.state.set_decoded(part, bytes);
        self.trim_decoded(actions);
        self.state.usage.total() < used
    }
}
