//! Tables over Parquet files.
//!
//! [`location`] is the place of the files, [`listing`] finds them, on this machine by [`local_listing`], and
//! skips [`hidden`] ones. [`keys`] are the columns that folders state. [`files`] is the table; its queries are scans of [`groups`] of files.
//! [`factory`] makes tables, and leaves folders with a log to [`lake`]. [`mod@format`] is the format of the
//! files, and [`footers`](crate::file::footers) reads their metadata.
//! [`schema`] and [`promotion`] make the common schema, and [`uuids`] marks columns of it. [`adapter`], [`widened`],
//! [`intervals`] and [`statistics`] convert columns of files to it. [`file_statistics`] are the properties that footers prove.
//!
//! This module does not know the engine. [`crate::rule`] makes scans of these tables cooperative, like all
//! others.

pub(crate) mod adapter;
pub(crate) mod factory;
pub(crate) mod file_statistics;
pub(crate) mod files;
pub(crate) mod format;
pub(crate) mod groups;
pub(crate) mod hidden;
pub(crate) mod intervals;
pub(crate) mod keys;
pub(crate) mod lake;
pub(crate) mod listing;
pub(crate) mod local_listing;
pub(crate) mod location;
pub(crate) mod promotion;
pub(crate) mod schema;
pub(crate) mod statistics;
pub(crate) mod uuids;
pub(crate) mod widened;
