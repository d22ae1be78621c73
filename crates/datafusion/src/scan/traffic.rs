//! What goes on with the chunks of a scan's plan, in the engine, before the scan begins.

use coscan_engine::{ChunkColumns, Traffic};

use crate::scan::chunks::SharedScan;
use crate::scan::plan::ScanPlan;

impl SharedScan {
    /// Who reads the tables of these chunks now, and what of them is in the buffer.
    pub(crate) fn traffic(&self, plan: &ScanPlan) -> Traffic {
        let chunks = plan.chunks.iter().map(|chunk| ChunkColumns {
            file: &plan.handles[chunk.file],
            chunk: chunk.chunk,
            roots: &chunk.variant.roots,
        });
        self.engine().traffic(&chunks.collect::<Vec<_>>())
    }
}
