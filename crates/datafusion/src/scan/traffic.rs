//! The engine's traffic for the chunks of a scan's plan, before the scan begins.

use coscan_engine::{ChunkColumns, Traffic};

use crate::scan::chunks::SharedScan;
use crate::scan::plan::ScanPlan;

impl SharedScan {
    /// Returns the concurrent readers of these chunks' tables, and the part of the chunks that is in the
    /// buffer.
    pub(crate) fn traffic(&self, plan: &ScanPlan) -> Traffic {
        let chunks = plan.chunks.iter().map(|chunk| ChunkColumns {
            file: &plan.handles[chunk.file],
            chunk: chunk.chunk,
            roots: &chunk.variant.roots,
        });
        self.engine().traffic(&chunks.collect::<Vec<_>>())
    }
}
