//! How files become a table.
//!
//! [`location`] says where they are, [`listing`] finds them ([`hidden`] ones not), [`keys`] are the columns that their folders
//! state, [`files`] is the table, of which queries are scans of [`groups`] of files, and [`factory`] makes it. The format of
//! the files is [`format`], and their [`footers`] say what they hold; the schema that they have together is made by [`schema`] and
//! [`promotion`], and [`adapter`], [`widened`], [`intervals`] and [`statistics`] convert their columns to it. [`file_statistics`] is what
//! footers prove of their rows.
//!
//! Nothing here knows the engine; scans of these tables are made cooperative by [`crate::rule`], as all others.

pub(crate) mod adapter;
pub(crate) mod factory;
pub(crate) mod file_statistics;
pub(crate) mod files;
pub(crate) mod footers;
pub(crate) mod format;
pub(crate) mod groups;
pub(crate) mod hidden;
pub(crate) mod intervals;
pub(crate) mod keys;
pub(crate) mod listing;
pub(crate) mod location;
pub(crate) mod promotion;
pub(crate) mod schema;
pub(crate) mod statistics;
pub(crate) mod widened;
