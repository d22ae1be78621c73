//! Operators: the work of queries on their chunks, with or without use of a table's order.
//!
//! Source: Cooperative Scans 2007, section 7.2. A query that must have its chunks in order shares little.
//! Operators that know the place of a chunk take it at any time. An [`Operator`] is plain data of a query;
//! the host runs it. The memory that it needs is computed from the key ranges of its chunks ([`ChunkKeys`]).
//! This memory holds the groups that wait ([`BorderGroups`]) and the chunks that wait for their matches
//! ([`Matches`]). Rows are not simulated.

mod borders;
mod keys;
mod matches;

use std::sync::Arc;

use coscan_core::{ChunkNo, ChunkSet, ColumnSet, MatchingChunks, Span, TableId};

pub use borders::BorderGroups;
pub use keys::{ChunkKeys, Key, KeyError, overlap, spread};
pub use matches::{Matches, Side};

/// A second input of a query: the build side of a hash join, the inner side of a merge join.
#[derive(Clone, Debug)]
pub struct Input {
    /// The table.
    pub table: TableId,
    /// The columns it uses.
    pub columns: ColumnSet,
    /// Processor time for each chunk of the table, by chunk number.
    pub work: Arc<[Span]>,
    /// The known facts about each chunk.
    pub rows: Arc<[ChunkRows]>,
}

/// Facts about a chunk that are known before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRows {
    /// The keys of its rows.
    pub keys: ChunkKeys,
    /// Number of rows.
    pub rows: u64,
    /// Their bytes in the columns of the query: the memory needed to keep them.
    pub bytes: u64,
}

/// The work of a query on its chunks.
#[derive(Clone, Debug, Default)]
pub enum Operator {
    /// Finishes a chunk when it has processed it.
    #[default]
    Scan,
    /// Groups by the table's key, inside each chunk. Groups at borders wait for the other chunks that have
    /// rows of them.
    OrderedAggregation {
        /// The known facts about each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes of the state of a group.
        group_bytes: u64,
    },
    /// Groups by the table's key in a hash table of all groups seen so far.
    HashAggregation {
        /// The known facts about each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes of an entry.
        group_bytes: u64,
    },
    /// Reads the build side into a hash table first, then its own chunks.
    HashJoin {
        /// The build side.
        build: Input,
        /// The known facts about each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// Bytes that a row of the build side takes in the table.
        row_bytes: u64,
    },
    /// Takes its own chunks and those of `inner` in step, both in the order of the key.
    MergeJoin {
        /// The inner side.
        inner: Input,
        /// The known facts about each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// The start of both sides.
        start: MergeStart,
    },
    /// Takes its own chunks in any order, and with each the matching chunks of `inner`. `coscan-datafusion`
    /// joins tables that are clustered by one key in this way.
    JoinByChunks {
        /// The inner side.
        inner: Input,
        /// The known facts about each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// True if the chunks of `inner` are announced as matching chunks from the start; otherwise when an
        /// own chunk has been taken.
        announced: bool,
    },
    /// Passes its rows on in the order of the key. Chunks that come too early wait. It takes as many chunks
    /// as fit into `memory` in any order.
    Sorted {
        /// The known facts about each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes that may wait.
        memory: u64,
    },
    /// Passes on the rows with the least keys. Chunks that cannot have one of them are not read.
    Top {
        /// The known facts about each chunk.
        rows: Arc<[ChunkRows]>,
        /// Number of rows that it passes on.
        limit: u64,
        /// Rows out of a thousand that pass its filter, spread evenly over a chunk.
        pass_per_mille: u64,
        /// Bytes of a row that is kept.
        row_bytes: u64,
    },
}

/// The start of the two sides of a merge join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStart {
    /// At the first chunk of each: two scans in order.
    Beginning,
    /// The outer side at a chunk that its policy chooses, the inner one at the matching chunk. At the end of
    /// the table both continue from the beginning to their start.
    Matching,
}

impl Operator {
    /// The input besides its query's own chunks.
    pub fn input(&self) -> Option<&Input> {
        match self {
            Operator::HashJoin { build, .. } => Some(build),
            Operator::MergeJoin { inner, .. } | Operator::JoinByChunks { inner, .. } => Some(inner),
            _ => None,
        }
    }

    /// The chunks of its input that are announced together with these of its own.
    pub fn matching(&self, own: &ChunkSet) -> Vec<MatchingChunks> {
        let Operator::JoinByChunks { inner, rows, announced: true } = self else { return Vec::new() };
        let with = own.iter().map(|chunk| {
            let overlapped = overlap(&inner.rows, |r| r.keys, rows[chunk.index()].keys);
            (chunk, ChunkSet::range(overlapped))
        });
        vec![MatchingChunks { table: inner.table, columns: inner.columns.clone(), chunks: with.collect() }]
    }

    /// The chunks of its input that may match one of these chunks of its own.
    pub fn input_chunks(&self, own: &ChunkSet) -> ChunkSet {
        let (Operator::HashJoin { build: input, rows, .. }
        | Operator::MergeJoin { inner: input, rows, .. }
        | Operator::JoinByChunks { inner: input, rows, .. }) = self
        else {
            return ChunkSet::new();
        };
        own.iter().map(|chunk| overlap(&input.rows, |r| r.keys, rows[chunk.index()].keys)).collect()
    }
}

/// The bytes of these chunks' rows.
pub(crate) fn bytes_of(rows: &[ChunkRows], chunk: ChunkNo) -> u64 {
    rows[chunk.index()].bytes
}
