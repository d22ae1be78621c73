//! Operators that use the order of rows although chunks come in any order (2007 section 7.2).
//!
//! Statistics may prove that every value of a column lies in one chunk, except values at the borders between
//! chunks (`ranges`, `piece_ranges`). Then an aggregation by that column, alone or with others, needs no hash
//! table over the whole table and no exchange between partitions. It builds groups inside a chunk, run by run
//! (`groups`), and emits them at the end of the chunk. Groups at borders wait (`borders`) until all chunks
//! that may hold their rows were seen.
//!
//! Joins on the key by which all of their tables are clustered need no hash table over a whole table either.
//! Each chunk of one table meets the few chunks of the others that overlap its range (`join`).
//!
//! Window functions over partitions by such a column are computed chunk by chunk, too (`window`).
//!
//! The only trusted input is statistics, by which DataFusion prunes as well. They are checked against the
//! groups that are found. If a table is declared clustered and statistics do not prove it, its keys are read
//! first (`measured`). Sorted rows inside a chunk make an operator fast, but are not required: keys out of
//! order are hashed, within the chunk. The clustering of chunks is known after the footers are read, at the
//! first poll. Until then the plan of DataFusion is kept as a fallback (`node`).

mod aggregation;
mod borders;
mod executions;
mod groups;
mod in_order;
mod inner;
mod input;
mod join;
mod kept;
mod known_ranges;
mod measured;
mod node;
mod piece_ranges;
mod ranges;
mod spec;
mod window;
mod worker;

pub(crate) use aggregation::{Candidate, ChunkAggregation, OrderedAggregateExec};
pub(crate) use input::ChunkInput;
pub(crate) use join::{ChunkJoin, JoinTree, OrderedJoinExec};
pub(crate) use spec::AggregateSpec;
pub(crate) use window::{ChunkWindow, OrderedWindowExec, sort_chunks};
