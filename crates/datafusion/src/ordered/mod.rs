//! Operators that make use of the order of rows although chunks come in any order (2007 section 7.2).
//!
//! Where statistics prove that every value of a column lies in one chunk, but for values at the borders between chunks
//! (`ranges`, `piece_ranges`), an aggregation by that column, or by it and others, needs no hash table over the whole table and no
//! exchange between partitions: groups are made inside a chunk, run by run (`groups`), and leave with its end. Groups at
//! borders wait aside (`borders`) until all chunks that may hold rows of them were seen.
//!
//! Joins on the key by which all of their tables are clustered need no hash table over a whole table either: each chunk of one
//! table meets the few chunks of the others that overlap its range (`join`).
//!
//! Window functions over partitions by such a column are computed chunk by chunk, too (`window`).
//!
//! Nothing is taken on trust but statistics, by which DataFusion prunes as well, and these are checked against the
//! groups that are found. Where a table is declared to be clustered and statistics do not prove it, its keys are read
//! before (`measured`). That rows of a chunk are sorted makes it fast, not right: keys out of order are hashed, within
//! the chunk. Whether chunks are clustered is known when footers are, at the first poll; until then the plan that
//! DataFusion made stands by (`node`).

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
mod steps;
mod window;
mod worker;

pub(crate) use aggregation::{Candidate, ChunkAggregation, OrderedAggregateExec};
pub(crate) use input::ChunkInput;
pub(crate) use join::{ChunkJoin, JoinTree, OrderedJoinExec};
pub(crate) use spec::AggregateSpec;
pub(crate) use steps::Step;
pub(crate) use window::{ChunkWindow, OrderedWindowExec, sort_chunks};
