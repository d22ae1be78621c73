//! A store that makes room for no more bytes than its objects have.
//!
//! Footers say where page indexes are, and whoever reads them asks for what they claim. The file system's store clears as
//! much memory as it is asked for before it looks at the file. This one looks first.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use futures::stream::BoxStream;

/// The store, bounded in what it makes room for.
#[derive(Debug)]
pub(crate) struct BoundedStore {
    inner: Arc<dyn ObjectStore>,
}

impl BoundedStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        BoundedStore { inner }
    }
}

impl fmt::Display for BoundedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for BoundedStore {
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
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let size = self.inner.head(location).await?.size;
        if let Some(Range { start, end }) =
            ranges.iter().find(|range| range.start > range.end || range.end > size)
        {
            return Err(Error::Generic {
                store: "BoundedStore",
                source: format!("bytes {start}..{end} of {location} do not lie within its {size}").into(),
            });
        }
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
    use datafusion::object_store::local::LocalFileSystem;

    use super::*;

    #[tokio::test]
    async fn nobody_makes_room_for_what_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), b"0123456789").expect("a file");
        let store =
            BoundedStore::new(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).expect("a store")));
        let path = Path::from("a");
        assert_eq!(store.get_ranges(&path, &[2..4, 9..10]).await.expect("bytes"), ["23", "9"]);
        // More than any machine has: without the check the process ends.
        let error = store.get_ranges(&path, &[0..4, 5..1 << 60]).await.expect_err("beyond").to_string();
        assert!(error.contains("do not lie within its 10"), "{error}");
    }
}
