//! A tier's files as an object store: listings come from the tier, bytes from the cache.
//!
//! Plans over tiers restore fragments before they read them (`plan/`). The store is also correct for all other
//! readers. It serves footers from the kept ones. Other bytes of a file that is not online are restored first.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::error::TierError;
use crate::fragment::Fragment;
use crate::tier::Tier;

/// The files of a tier.
pub struct TierStore {
    tier: Tier,
    /// Entries from listings. They save a request per file.
    known: Arc<Known>,
}

#[derive(Default)]
struct Known(RwLock<HashMap<Path, ObjectMeta>>);

impl Known {
    fn get(&self, location: &Path) -> Option<ObjectMeta> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(location).cloned()
    }

    /// Adds an entry. An entry of the same version stays, because one answer may have an ETag that another omits.
    fn put(&self, meta: &ObjectMeta, tags: bool) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.get(&meta.location).is_some_and(|known| Fragment::of(known, tags).is(meta, tags)) {
            known.insert(meta.location.clone(), meta.clone());
        }
    }
}

impl TierStore {
    /// The store of a tier.
    pub fn new(tier: Tier) -> Self {
        TierStore { tier, known: Arc::default() }
    }

    /// The tier.
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    fn inner(&self) -> &dyn ObjectStore {
        &*self.tier.fetcher().store
    }

    fn tags(&self) -> bool {
        self.tier.fetcher().driver.tags_survive()
    }

    async fn meta(&self, location: &Path) -> Result<ObjectMeta> {
        if let Some(meta) = self.known.get(location) {
            return Ok(meta);
        }
        let meta = self.inner().head(location).await?;
        has_length(&self.tier, &meta).await?;
        self.known.put(&meta, self.tags());
        Ok(meta)
    }

    /// Remembers the entries of a listing as they pass.
    fn remembered(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (known, tags, tier) = (Arc::clone(&self.known), self.tags(), self.tier.clone());
        let listed = listed.and_then(move |meta| {
            let (known, tier) = (Arc::clone(&known), tier.clone());
            async move {
                has_length(&tier, &meta).await?;
                known.put(&meta, tags);
                Ok(told(&tier, meta))
            }
        });
        listed.boxed()
    }

    /// Bytes of a fragment from the footer, the cache or the tier.
    async fn read(&self, meta: ObjectMeta, range: Range<u64>) -> Result<GetResult> {
        let fetcher = self.tier.fetcher();
        let fragment = Fragment::of(&meta, self.tags());
        let result = |payload| GetResult {
            payload,
            meta: told(&self.tier, meta.clone()),
            range: range.clone(),
            attributes: Attributes::default(),
        };
        // The first read of a cached file after a start computes its checksum. Plans that want only the footer need
        // not wait for this.
        if let Some(bytes) = fetcher.cache.footer(&fragment, range.clone()) {
            let bytes = futures::stream::once(async move { Ok(bytes) });
            return Ok(result(GetResultPayload::Stream(bytes.boxed())));
        }
        if let Some(file) = self.cached(&fragment).await? {
            return Ok(result(file));
        }
        let shown = |error: TierError| self.tier.config().in_messages(error);
        if fetcher.driver.is_online(&fragment).await.map_err(shown)? {
            let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
            let got = fetcher.store.get_opts(&meta.location, options).await?;
            return Ok(GetResult { meta: told(&self.tier, got.meta.clone()), ..got });
        }
        if !fetcher.cache.has_footer(&fragment) {
            return Err(self.tier.footer_unknown(&fragment).into());
        }
        let list = self.tier.submit("a read without a plan", vec![vec![vec![fragment.clone()]]]).await?;
        while let Some(ready) = list.next().await? {
            // The open file stays readable when the fragment leaves the cache.
            let file = self.cached(&fragment).await?;
            list.done(ready);
            if let Some(file) = file {
                return Ok(result(file));
            }
        }
        let (file, why) = (self.tier.config().shown(&fragment), "it left the cache at once".to_owned());
        Err(TierError::Abandoned { file, why }.into())
    }

    async fn cached(&self, fragment: &Fragment) -> Result<Option<GetResultPayload>, TierError> {
        let cache = &self.tier.fetcher().cache;
        if !cache.contains(fragment) {
            return Ok(None);
        }
        let (cache, of) = (Arc::clone(cache), fragment.clone());
        let opened = tokio::task::spawn_blocking(move || cache.file(&of)).await;
        let opened = opened.map_err(|error| TierError::Abandoned {
            file: self.tier.config().shown(fragment),
            why: error.to_string(),
        })?;
        let file = opened?.map(|(file, path)| GetResultPayload::File(file, path));
        if file.is_none() {
            self.tier.lost(fragment);
        }
        Ok(file)
    }
}

impl fmt::Debug for TierStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TierStore").field("tier", &self.tier).finish_non_exhaustive()
    }
}

impl fmt::Display for TierStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TierStore({})", self.tier.config().name)
    }
}

/// A file's directory entry for readers.
fn told(tier: &Tier, mut meta: ObjectMeta) -> ObjectMeta {
    tier.tell(&mut meta);
    meta
}

/// Fails for a stub that lost its length. Readers skip a file without bytes, so its rows would be missing.
async fn has_length(tier: &Tier, meta: &ObjectMeta) -> Result<()> {
    let driver = &tier.fetcher().driver;
    let may_be_stub = driver.looks_again().is_some() && meta.location.as_ref().ends_with(".parquet");
    if meta.size > 0 || !may_be_stub {
        return Ok(());
    }
    let fragment = Fragment::of(meta, driver.tags_survive());
    if driver.is_online(&fragment).await.map_err(|error| tier.config().in_messages(error))? {
        return Ok(());
    }
    let config = tier.config();
    Err(TierError::Empty { tier: config.name.clone(), file: config.shown(&fragment) }.into())
}

fn read_only<T>() -> Result<T> {
    Err(object_store::Error::NotImplemented {
        operation: "writing".to_owned(),
        implementer: "a tier, which is read only".to_owned(),
    })
}

#[async_trait]
impl ObjectStore for TierStore {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            let options = GetOptions { version: None, ..options };
            let got = self.inner().get_opts(location, options).await?;
            has_length(&self.tier, &got.meta).await?;
            self.known.put(&got.meta, self.tags());
            return Ok(GetResult { meta: told(&self.tier, got.meta.clone()), ..got });
        }
        let meta = self.meta(location).await?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            None => 0..meta.size,
            Some(range) => range.as_range(meta.size).map_err(|error| object_store::Error::Generic {
                store: "tier",
                source: format!("{location}: {error}").into(),
            })?,
        };
        self.read(meta, range).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.and_then(|_| async { read_only() }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.remembered(self.inner().list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.remembered(self.inner().list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.inner().list_with_delimiter(prefix).await?;
        for meta in &mut listed.objects {
            has_length(&self.tier, meta).await?;
            self.known.put(meta, self.tags());
            *meta = told(&self.tier, meta.clone());
        }
        Ok(listed)
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
