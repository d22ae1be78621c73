//! Tables that are declared to be clustered by the key of another one:
//! `CREATE EXTERNAL TABLE .. OPTIONS ('coscan.clustered_with' 'orders (l_orderkey = o_orderkey)')`.
//!
//! A declaration is believed in one respect only: that it is worth finding out which keys each chunk holds where statistics
//! do not say so ([`crate::ordered`]). Nothing else follows from it, so that a wrong one costs time and never an answer.

mod declaration;
mod table;

pub(crate) use declaration::{ClusteredWith, matches_declared};
pub(crate) use table::{ClusteredTable, ClusteredTables};
