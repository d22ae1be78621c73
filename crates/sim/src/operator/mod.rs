//! What queries do with their chunks: operators that rely on the order of a table, or do without.
//!
//! Cooperative Scans 2007, section 7.2: a query that must have its chunks in order shares little. Operators that know
//! where a chunk belongs take it whenever it comes. An [`Operator`] is plain data of a query; how it goes through its
//! chunks in a run is the host's business. What it keeps meanwhile is computed from the ranges of keys of its chunks
//! ([`ChunkKeys`]): the groups that wait ([`BorderGroups`]) and the chunks that wait for their matches ([`Matches`]). Rows
//! are not simulated.

mod borders;
mod keys;
mod matches;

use std::sync::Arc;

use coscan_core::{ChunkNo, ChunkSet, ColumnSet, MatchingChunks, Span, TableId};

pub use borders::BorderGroups;
pub use keys::{ChunkKeys, Key, KeyError, overlap, spread};
pub use matches::{Matches, Side};

/// A second thing that a query reads: the build side of a hash join, the inner side of a merge join.
#[derive(Clone, Debug)]
pub struct Input {
    /// The table.
    pub table: TableId,
    /// The columns it uses.
    pub columns: ColumnSet,
    /// Processor time for each chunk of the table, by chunk number.
    pub work: Arc<[Span]>,
    /// What is known of each chunk.
    pub rows: Arc<[ChunkRows]>,
}

/// What is known of a chunk before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRows {
    /// The keys of its rows.
    pub keys: ChunkKeys,
    /// How many rows there are.
    pub rows: u64,
    /// Their bytes in the columns that the query uses: what it takes to keep them.
    pub bytes: u64,
}

/// What a query does with its chunks.
#[derive(Clone, Debug, Default)]
pub enum Operator {
    /// Is done with a chunk when it has processed it.
    #[default]
    Scan,
    /// Groups by the table's key, inside each chunk. Groups at borders wait for the other chunks that have rows of them.
    OrderedAggregation {
        /// What is known of each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes of the state of a group.
        group_bytes: u64,
    },
    /// Groups by the table's key in a table of all groups seen so far.
    HashAggregation {
        /// What is known of each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes of an entry.
        group_bytes: u64,
    },
    /// Reads the build side into a hash table first, then its own chunks.
    HashJoin {
        /// The build side.
        build: Input,
        /// What is known of each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// Bytes that a row of the build side takes in the table.
        row_bytes: u64,
    },
    /// Goes through its own chunks and those of `inner` side by side, both in the order of the key.
    MergeJoin {
        /// The inner side.
        inner: Input,
        /// What is known of each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// Where both sides start.
        start: MergeStart,
    },
    /// Takes its own chunks in any order, and with each those of `inner` with keys in common. As `coscan-datafusion`
    /// joins tables that are clustered by one key.
    JoinByChunks {
        /// The inner side.
        inner: Input,
        /// What is known of each of its own chunks.
        rows: Arc<[ChunkRows]>,
        /// Whether those of `inner` are announced as matching chunks from the start, or when an own one has been taken.
        announced: bool,
    },
    /// Gives its rows on in the order of the key. Chunks that come too early wait; of as many as fit into `memory` it takes
    /// whichever comes first.
    Sorted {
        /// What is known of each chunk.
        rows: Arc<[ChunkRows]>,
        /// Bytes that may wait.
        memory: u64,
    },
    /// Gives on the rows with the least keys. What cannot have one of them any more is not read.
    Top {
        /// What is known of each chunk.
        rows: Arc<[ChunkRows]>,
        /// How many rows it gives on.
        limit: u64,
        /// Of a thousand rows of a chunk, how many pass its filter, spread evenly.
        pass_per_mille: u64,
        /// Bytes of a row that is kept.
        row_bytes: u64,
    },
}

/// Where the sides of a merge join start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStart {
    /// At the first chunk of each: two scans in order.
    Beginning,
    /// The outer side where its policy likes, the inner one at the matching chunk. At the end of the table both go on from
    /// the beginning to where they started.
    Matching,
}

impl Operator {
    /// What it reads beside its query's own chunks.
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
