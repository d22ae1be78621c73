//! A store that obeys a shared limit on reading, to compare a plain engine under the same limit.
//!
//! It is not part of an engine: it waits on the caller's runtime.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetResult, ObjectStore, Result};

use super::limit::TokenBucket;
use super::wrapped_store::{Reads, WrappedStore};

/// Reads that obey a bucket.
#[derive(Debug)]
pub struct Limited(Arc<TokenBucket>);

/// A store whose reads obey a bucket, to compare a plain engine under the same limit.
pub type LimitedStore = WrappedStore<Limited>;

impl LimitedStore {
    /// Wraps `inner`. Writes and listings are not limited.
    pub fn new(inner: Arc<dyn ObjectStore>, bucket: Arc<TokenBucket>) -> Self {
        WrappedStore::around(inner, Limited(bucket))
    }
}

#[async_trait]
impl Reads for Limited {
    const NAME: &'static str = "LimitedStore";

    async fn get_opts(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        options: GetOptions,
    ) -> Result<GetResult> {
        let head = options.head;
        let result = inner.get_opts(location, options).await?;
        self.0.wait(if head { 0 } else { result.range.end - result.range.start }).await;
        Ok(result)
    }

    async fn get_ranges(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        self.0.wait(ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()).await;
        inner.get_ranges(location, ranges).await
    }
}
