//! How files become a table: their format ([`format`]) and their footers ([`footers`]).
//!
//! Nothing here knows the engine; scans of these tables are made cooperative by [`crate::rule`], as all others.

pub(crate) mod footers;
pub(crate) mod format;
