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

/// Some columns of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkParts {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The columns.
    pub columns: ColumnSet,
}

/// The parts for which room is being made: those of a chunk and of its matching chunks
/// ([`MatchingChunks`](crate::MatchingChunks)). Other columns of these chunks may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The chunk's parts.
    pub chunk: ChunkParts,
    /// The parts of its matching chunks.
    pub matching: Vec<ChunkParts>,
}

impl Target {
    /// All parts, by chunk.
    pub fn chunks(&self) -> impl Iterator<Item = &ChunkParts> {
        std::iter::once(&self.chunk).chain(&self.matching)
    }

    /// Returns whether a part is among them.
    pub fn contains(&self, part: PartKey) -> bool {
        self.chunks().any(|parts| {
            (parts.table, parts.chunk) == (part.table, part.chunk) && parts.columns.contains(part.column)
        })
    }
}
