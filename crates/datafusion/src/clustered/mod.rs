//! Tables that are declared to be clustered by the key of another table: `CREATE EXTERNAL TABLE .. OPTIONS
//! ('coscan.clustered_with' 'orders (l_orderkey = o_orderkey)')`.
//!
//! A declaration has one effect: where statistics do not give the keys of a chunk, the keys are read
//! ([`crate::ordered`]). So a wrong declaration costs time and never changes a result.

mod declaration;
mod table;

pub(crate) use declaration::{ClusteredWith, matches_declared};
pub(crate) use table::{ClusteredTable, ClusteredTables};
