//! A reader of a file's metadata that never requests bytes outside the file.
//!
//! Footers give the positions of page indexes and bloom filters, and stores allocate as many bytes as are
//! requested.

use std::ops::Range;
use std::sync::Arc;

use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::metadata::ParquetMetaData;
use futures::FutureExt;
use futures::future::BoxFuture;

/// Reads only within the first `size` bytes.
pub(crate) struct BoundedReader {
    pub(crate) inner: Box<dyn AsyncFileReader>,
    /// The file's size.
    pub(crate) size: u64,
}

impl BoundedReader {
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.size {
            return Ok(());
        }
        let Range { start, end } = range;
        Err(ParquetError::EOF(format!("bytes {start}..{end} do not lie within the file's {}", self.size)))
    }
}

impl AsyncFileReader for BoundedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<bytes::Bytes>> {
        match self.check(&range) {
            Ok(()) => self.inner.get_bytes(range),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        }
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<bytes::Bytes>>> {
        match ranges.iter().try_for_each(|range| self.check(range)) {
            Ok(()) => self.inner.get_byte_ranges(ranges),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        }
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        self.inner.get_metadata(options)
    }
}
