//! Parts: one column of one chunk, the unit in which data is kept and evicted.

use crate::ids::{ChunkNo, ColumnNo, TableId};
use crate::set::ColumnSet;

/// One part of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartKey {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The column.
    pub column: ColumnNo,
}

/// The parts for which room is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The columns; other columns of the chunk may leave.
    pub columns: ColumnSet,
}

impl Target {
    /// Whether a part is among them.
    pub fn contains(&self, part: PartKey) -> bool {
        (self.table, self.chunk) == (part.table, part.chunk) && self.columns.contains(part.column)
    }
}
