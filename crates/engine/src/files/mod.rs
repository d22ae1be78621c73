//! Files, tables and chunks: what the engine knows of the data before it reads them.
//!
//! | module | content |
//! |---|---|
//! | [`catalog`] | all tables and files that scans have made known |
//! | [`table`], [`chunks`] | a file's columns, and its rows as chunks |
//! | [`split_points`], [`key_pages`] | rows at which a row group may be cut into chunks |
//! | [`footer`], [`file_read`] | footers, read once for each version |
//! | [`pages`] | the pages of rows, for point reads |
//! | [`decoding`] | the types that columns are decoded to |

pub(crate) mod catalog;
pub(crate) mod chunks;
pub(crate) mod decoding;
pub(crate) mod file_read;
pub(crate) mod footer;
pub(crate) mod key_pages;
pub(crate) mod pages;
pub(crate) mod split_points;
pub(crate) mod table;
