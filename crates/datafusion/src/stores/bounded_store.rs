//! A store that refuses ranges outside its objects.
//!
//! Footers give the positions of page indexes, and readers request the claimed ranges. The store of the file
//! system allocates that much memory before it checks the file's size. This store checks first.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use coscan_engine::{Reads, WrappedStore};
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, ObjectStore, ObjectStoreExt, Result};

/// Restricts reads to the object.
#[derive(Debug)]
struct Bounded;

/// Wraps the store so that it allocates only for bytes that exist.
pub(crate) fn bounded(inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    Arc::new(WrappedStore::around(inner, Bounded))
}

#[async_trait]
impl Reads for Bounded {
    const NAME: &'static str = "BoundedStore";

    async fn get_ranges(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let size = inner.head(location).await?.size;
        if let Some(Range { start, end }) =
            ranges.iter().find(|range| range.start > range.end || range.end > size)
        {
            return Err(Error::Generic {
                store: Self::NAME,
                source: format!("bytes {start}..{end} of {location} do not lie within its {size}").into(),
            });
        }
        inner.get_ranges(location, ranges).await
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
        let store = bounded(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).expect("a store")));
        let path = Path::from("a");
        assert_eq!(store.get_ranges(&path, &[2..4, 9..10]).await.expect("bytes"), ["23", "9"]);
        // More than the memory of any machine: without the check the allocation aborts the process.
        let error = store.get_ranges(&path, &[0..4, 5..1 << 60]).await.expect_err("beyond").to_string();
        assert!(error.contains("do not lie within its 10"), "{error}");
    }
}
