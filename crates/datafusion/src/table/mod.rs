//! How files become a table: their format ([`format`]) and footers ([`footers`]), the schema that they have together ([`schema`],
//! [`promotion`]), the conversion of their columns to it ([`adapter`], [`widened`], [`statistics`]), and what footers prove of
//! their rows ([`file_statistics`]).
//!
//! Nothing here knows the engine; scans of these tables are made cooperative by [`crate::rule`], as all others.

pub(crate) mod adapter;
pub(crate) mod file_statistics;
pub(crate) mod footers;
pub(crate) mod format;
pub(crate) mod promotion;
pub(crate) mod schema;
pub(crate) mod statistics;
pub(crate) mod widened;
