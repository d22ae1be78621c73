//! How files become a table: their format ([`format`]), their footers ([`footers`]), and what these say of their
//! rows ([`file_statistics`]).
//!
//! Nothing here knows the engine; scans of these tables are made cooperative by [`crate::rule`], as all others.

pub(crate) mod file_statistics;
pub(crate) mod footers;
pub(crate) mod format;
