//! A store around another one that reads in its own way and passes on everything else.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// The reads of a [`WrappedStore`]. The inner store carries out those that are not overridden.
#[async_trait]
pub trait Reads: fmt::Debug + Send + Sync + 'static {
    /// The name of the wrapped store, for messages.
    const NAME: &'static str;

    /// Reads an object, or a range of it, from `inner`.
    ///
    /// # Errors
    /// Errors of the store.
    async fn get_opts(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        options: GetOptions,
    ) -> Result<GetResult> {
        inner.get_opts(location, options).await
    }

    /// Reads several ranges of an object from `inner`.
    ///
    /// # Errors
    /// Errors of the store.
    async fn get_ranges(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        inner.get_ranges(location, ranges).await
    }
}

/// A store that reads as `R` does.
#[derive(Debug)]
pub struct WrappedStore<R> {
    inner: Arc<dyn ObjectStore>,
    reads: R,
}

impl<R: Reads> WrappedStore<R> {
    /// Wraps `inner`.
    pub fn around(inner: Arc<dyn ObjectStore>, reads: R) -> Self {
        WrappedStore { inner, reads }
    }
}

impl<R: Reads> fmt::Display for WrappedStore<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", R::NAME, self.inner)
    }
}

#[async_trait]
impl<R: Reads> ObjectStore for WrappedStore<R> {
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
        self.reads.get_opts(&*self.inner, location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.reads.get_ranges(&*self.inner, location, ranges).await
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
