//! A shared limit on reading: one token bucket for all requests, and a store that obeys it.
//!
//! Concurrent requests share the bandwidth instead of each having it, which is what makes an experiment
//! about sharing I/O honest. The bucket only says when; callers do the waiting.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::config::ReadLimit;

/// An idle bucket saves up at most this much time's worth of bytes.
const BURST: Duration = Duration::from_millis(50);

/// The share of the bandwidth with which point reads may overtake others.
pub const FIRST_SHARE: f64 = 0.5;

/// The limit all reads share.
#[derive(Debug)]
pub struct TokenBucket {
    pace: Mutex<Pace>,
}

#[derive(Debug)]
struct Pace {
    limit: Option<ReadLimit>,
    /// When everything granted so far will have been transferred.
    free_at: Instant,
    /// When what point reads were granted will have been transferred at their share of the bandwidth.
    points_free_at: Instant,
    granted: Granted,
}

/// What a bucket has let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Requests for at least one byte.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TokenBucket {
    /// A bucket with this limit, or none.
    pub fn new(limit: Option<ReadLimit>) -> Self {
        let now = Instant::now();
        let pace = Pace { limit, free_at: now, points_free_at: now, granted: Granted::default() };
        TokenBucket { pace: Mutex::new(pace) }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit now.
    pub fn limit(&self) -> Option<ReadLimit> {
        self.pace().limit
    }

    /// Changes the limit for requests from now on.
    pub fn set_limit(&self, limit: Option<ReadLimit>) {
        let mut pace = self.pace();
        pace.limit = limit;
        pace.free_at = Instant::now();
        pace.points_free_at = pace.free_at;
    }

    /// What it has let through so far.
    pub fn granted(&self) -> Granted {
        self.pace().granted
    }

    /// Takes `bytes` out and says when a request of that size may go ahead.
    pub fn reserve(&self, bytes: u64) -> Instant {
        self.reserve_at(Instant::now(), bytes)
    }

    fn reserve_at(&self, now: Instant, bytes: u64) -> Instant {
        let mut pace = self.pace();
        pace.granted.requests += u64::from(bytes > 0);
        pace.granted.bytes += bytes;
        let Some(limit) = pace.limit else { return now };
        if limit.bytes_per_s > 0 {
            let idle_since = now.checked_sub(BURST).unwrap_or(now);
            let transfer = Duration::from_secs_f64(bytes as f64 / limit.bytes_per_s as f64);
            pace.free_at = pace.free_at.max(idle_since) + transfer;
            return pace.free_at.max(now) + limit.latency;
        }
        now + limit.latency
    }

    /// As [`Self::reserve`], past all requests that wait: for point reads. These pay for it, in that they are granted
    /// less from now on; but point reads overtake with no more than half of the bandwidth, so that
    /// whoever reads in bulk keeps the rest.
    pub fn reserve_first(&self, bytes: u64) -> Instant {
        self.reserve_first_at(Instant::now(), bytes)
    }

    fn reserve_first_at(&self, now: Instant, bytes: u64) -> Instant {
        let ordinary = {
            let pace = self.pace();
            let waits = pace.free_at > now;
            pace.limit.filter(|limit| waits && limit.bytes_per_s > 0)
        };
        let Some(limit) = ordinary else {
            // Nobody is to be overtaken.
            return self.reserve_at(now, bytes);
        };
        let mut pace = self.pace();
        pace.granted.requests += u64::from(bytes > 0);
        pace.granted.bytes += bytes;
        let transfer = Duration::from_secs_f64(bytes as f64 / limit.bytes_per_s as f64);
        let idle_since = now.checked_sub(BURST).unwrap_or(now);
        pace.free_at = pace.free_at.max(idle_since) + transfer;
        pace.points_free_at = pace.points_free_at.max(idle_since) + transfer.mul_f64(1.0 / FIRST_SHARE);
        pace.points_free_at.max(now + transfer) + limit.latency
    }

    /// Takes `bytes` out and waits until they may be used.
    pub async fn wait(&self, bytes: u64) {
        let at = self.reserve(bytes);
        if at > Instant::now() {
            tokio::time::sleep_until(at.into()).await;
        }
    }
}

/// A store whose reads obey a bucket, for comparing a plain engine under the same limit.
#[derive(Debug)]
pub struct LimitedStore {
    inner: Arc<dyn ObjectStore>,
    bucket: Arc<TokenBucket>,
}

impl LimitedStore {
    /// Wraps `inner`; writes and listings are not limited.
    pub fn new(inner: Arc<dyn ObjectStore>, bucket: Arc<TokenBucket>) -> Self {
        LimitedStore { inner, bucket }
    }
}

impl fmt::Display for LimitedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitedStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for LimitedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        self.bucket.wait(if head { 0 } else { result.range.end - result.range.start }).await;
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.bucket.wait(ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()).await;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_the_bandwidth() {
        let limit = ReadLimit { bytes_per_s: 1_000_000, latency: Duration::ZERO };
        let bucket = TokenBucket::new(Some(limit));
        let now = Instant::now() + Duration::from_secs(1);
        assert_eq!(bucket.reserve_at(now, 50_000), now, "the burst is free");
        assert_eq!(bucket.reserve_at(now, 100_000), now + Duration::from_millis(100));
        assert_eq!(bucket.reserve_at(now, 100_000), now + Duration::from_millis(200));
        bucket.set_limit(None);
        assert_eq!(bucket.reserve_at(now, u64::MAX), now);
    }

    #[test]
    fn point_reads_overtake_with_their_share_and_bulk_reads_pay() {
        let ms = Duration::from_millis;
        let limit = ReadLimit { bytes_per_s: 1_000_000, latency: Duration::ZERO };
        let bucket = TokenBucket::new(Some(limit));
        let now = Instant::now() + Duration::from_secs(1);
        assert_eq!(
            bucket.reserve_at(now, 1_050_000),
            now + ms(1000),
            "a second of bulk reads, the burst free"
        );
        assert_eq!(bucket.reserve_first_at(now, 10_000), now + ms(10), "past them");
        assert_eq!(
            bucket.reserve_first_at(now, 100_000),
            now + ms(170),
            "at half the bandwidth, the burst free"
        );
        assert_eq!(bucket.reserve_at(now, 10_000), now + ms(1120), "bulk reads wait for what overtook them");
        assert_eq!(bucket.granted(), Granted { requests: 4, bytes: 1_170_000 });
        let idle = TokenBucket::new(Some(limit));
        assert_eq!(idle.reserve_first_at(now, 100_000), now + ms(50), "alone there is nobody to overtake");
    }

    #[test]
    fn latency_does_not_use_up_bandwidth() {
        let latency = Duration::from_millis(10);
        let bucket = TokenBucket::new(Some(ReadLimit { bytes_per_s: 0, latency }));
        let now = Instant::now();
        assert_eq!(bucket.reserve_at(now, 1 << 30), now + latency);
        assert_eq!(bucket.reserve_at(now, 1 << 30), now + latency);
    }
}
