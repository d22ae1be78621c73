//! A store whose credentials the catalog renews.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use coscan_datafusion::store_with;
use datafusion::common::DataFusionError;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::Mutex;
use url::Url;

use super::vended;
use super::{Entries, Entry, Namespace};

/// Credentials are renewed this long before their end.
const EARLIER: Duration = Duration::from_secs(60);

/// The name of the store in errors.
const NAME: &str = "lake";

/// A store with the credentials of one table.
#[derive(Clone)]
pub(super) struct RenewedStore(Arc<Inner>);

struct Inner {
    entries: Arc<dyn Entries>,
    namespace: Namespace,
    table: String,
    url: Url,
    current: Mutex<(Arc<dyn ObjectStore>, Option<SystemTime>)>,
}

impl fmt::Debug for RenewedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewedStore").field("url", &self.0.url.as_str()).finish_non_exhaustive()
    }
}

impl fmt::Display for RenewedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}({} for {}.{})", self.0.url, self.0.namespace.join("."), self.0.table)
    }
}

impl RenewedStore {
    /// The store at a URL with these settings, renewed by the entry of a table.
    pub(super) fn new(
        (entries, namespace, table): (Arc<dyn Entries>, Namespace, String),
        url: Url,
        entry: &Entry,
        settings: &[(String, String)],
    ) -> datafusion::common::Result<Self> {
        let current = Mutex::new((store_with(&url, settings)?, vended::end(&entry.of_store)));
        Ok(RenewedStore(Arc::new(Inner { entries, namespace, table, url, current })))
    }

    async fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut current = self.0.current.lock().await;
        let ends = current.1.is_some_and(|end| SystemTime::now() + EARLIER >= end);
        if ends {
            let renewed = self.renewed().await;
            *current = renewed.map_err(|error| Error::Generic { store: NAME, source: Box::new(error) })?;
        }
        Ok(Arc::clone(&current.0))
    }

    async fn renewed(&self) -> Result<(Arc<dyn ObjectStore>, Option<SystemTime>), DataFusionError> {
        let Inner { entries, namespace, table, url, .. } = &*self.0;
        let entry = entries.table(namespace, table).await?;
        let given = entry.map(|entry| entry.of_store).unwrap_or_default();
        let settings = vended::settings(&given, url)?.unwrap_or_default();
        Ok((store_with(url, &settings)?, vended::end(&given)))
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::NotSupported { source: "tables of lake formats are only read".into() })
}

#[async_trait]
impl ObjectStore for RenewedStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store().await?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store().await?.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        futures::stream::once(async { read_only() }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move { Ok::<_, Error>(store.store().await?.list(prefix.as_ref())) };
        futures::stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store().await?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
