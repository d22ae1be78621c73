//! How files become a table: their format ([`format`]).
//!
//! Nothing here knows the engine; scans of these tables are made cooperative by [`crate::rule`], as all others.

pub(crate) mod format;
