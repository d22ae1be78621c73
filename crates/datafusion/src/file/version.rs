//! The version of each file that a scan reads.
//!
//! A listing gives the version: an ETag or a version, and on this machine the modification time. Tables that
//! keep lists of their files, as lake tables do, know a path and a size, and perhaps a time that a writer
//! noted. The version of such a file is looked up once, and the scan holds to it. On this machine a look-up
//! is a system call. A store is asked once per file and engine, until a read finds that the file was
//! replaced.
//!
//! This module reads neither footers nor data.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use coscan_engine::{Engine, EngineError, LocalFile, StoreId};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use futures::{StreamExt, TryStreamExt};

use crate::error::from_engine;
use crate::lock::lock;
use crate::made_once::MadeOnce;

/// Files of a store that are looked up at the same time.
const ASKED_AT_ONCE: usize = 16;

/// Limit of the known answers. Beyond it they are forgotten.
const ANSWERS_MAX: usize = 1 << 16;

/// A file of a store as its table describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Described {
    store: StoreId,
    location: String,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: Option<i64>,
}

/// The answers of stores about files that tables describe without a version. All sessions of an engine share
/// them.
#[derive(Default)]
pub(crate) struct Answers(Mutex<HashMap<Described, Arc<MadeOnce<ObjectMeta>>>>);

/// The versions of the files of a scan.
pub(crate) struct Versions {
    engine: Engine,
    store: Arc<dyn ObjectStore>,
    store_id: StoreId,
    store_url: String,
    /// Whether the engine reads the files directly. Then the store is exactly this machine's file system.
    on_this_machine: bool,
    answers: Arc<Answers>,
}

/// A file in the version to read.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) meta: ObjectMeta,
    /// The file that was found, if it is on this machine.
    pub(crate) local: Option<LocalFile>,
}

impl Answers {
    /// Returns the store's answer, which all callers share. An answer that is `not`, which is out of date, is
    /// replaced.
    fn of(&self, key: &Described, not: Option<&Arc<MadeOnce<ObjectMeta>>>) -> Arc<MadeOnce<ObjectMeta>> {
        let mut known = lock(&self.0);
        if known.len() > ANSWERS_MAX {
            known.clear();
        }
        let answer = known.entry(key.clone()).or_default();
        if not.is_some_and(|not| Arc::ptr_eq(not, answer)) {
            *answer = Arc::default();
        }
        Arc::clone(answer)
    }

    /// Forgets an answer, because the store could not be asked.
    fn forget(&self, key: &Described, answer: &Arc<MadeOnce<ObjectMeta>>) {
        let mut known = lock(&self.0);
        if known.get(key).is_some_and(|known| Arc::ptr_eq(known, answer)) {
            known.remove(key);
        }
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions").field("store_id", &self.store_id).finish_non_exhaustive()
    }
}

/// Returns whether `meta` states the file's version, as a listing or a store's answer does.
pub(crate) fn is_listed(meta: &ObjectMeta) -> bool {
    meta.e_tag.is_some() || meta.version.is_some()
}

/// Returns whether descriptions of a file name different versions. Some of a store's answers name none.
pub(crate) fn is_other_version(known: &ObjectMeta, meta: &ObjectMeta) -> bool {
    let differ =
        |a: &Option<String>, b: &Option<String>| a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a != b);
    differ(&known.e_tag, &meta.e_tag) || differ(&known.version, &meta.version)
}

/// Removes the metadata of a file from the session's cache if its ETag is another version's. The cache
/// compares size and time, which may be the same. Returns whether metadata was removed.
pub(crate) fn forget_other_version(cache: &FileMetadataCache, meta: &ObjectMeta) -> bool {
    let known = cache.get(&meta.location).filter(|known| known.is_valid_for(meta));
    let tags = known.as_ref().and_then(|known| known.meta.e_tag.as_ref()).zip(meta.e_tag.as_ref());
    let is_other = tags.is_some_and(|(known, listed)| known != listed);
    is_other && cache.remove(&meta.location).is_some()
}

impl Versions {
    /// Creates the versions of files in `store`, whose name among all stores is `store_id`.
    pub(crate) fn new(
        engine: &Engine,
        store: &Arc<dyn ObjectStore>,
        store_id: StoreId,
        store_url: &str,
        on_this_machine: bool,
    ) -> Self {
        Versions {
            engine: engine.clone(),
            store: Arc::clone(store),
            store_id,
            store_url: store_url.to_owned(),
            on_this_machine,
            answers: engine.companion(Answers::default),
        }
    }

    /// Returns the versions of these files, in their order. Fails if one is not the version that was listed.
    ///
    /// Files of this machine are looked up. The engine checks the version when it reads a file, but not when
    /// its data are in memory. A look-up at a remote store for every listed file of every query would cost
    /// too much.
    pub(crate) async fn find(&self, described: &[ObjectMeta]) -> Result<Vec<Version>> {
        if self.on_this_machine {
            let found = self.look(described).await?.into_iter();
            return found.zip(described).map(|(found, meta)| self.found(found, meta)).collect();
        }
        let each = |meta: ObjectMeta| async move {
            let meta = if is_listed(&meta) { meta } else { self.ask(meta).await? };
            Ok(Version { meta, local: None })
        };
        futures::stream::iter(described.to_vec()).map(each).buffered(ASKED_AT_ONCE).try_collect().await
    }

    /// Looks files up again. Fails if one is not the version that was found before.
    pub(crate) async fn look_again(&self, before: Vec<Version>) -> Result<()> {
        let metas: Vec<ObjectMeta> = before.iter().map(|version| version.meta.clone()).collect();
        let now = if before.is_empty() { Vec::new() } else { self.look(&metas).await? };
        for (before, now) in before.iter().zip(now) {
            let detail = before.local.as_ref().and_then(|before| before.version.difference(&now.version));
            detail.map_or(Ok(()), |detail| Err(self.replaced(&before.meta, detail)))?;
        }
        Ok(())
    }

    /// Looks up the files as they are at this moment.
    async fn look(&self, described: &[ObjectMeta]) -> Result<Vec<LocalFile>> {
        let locations: Vec<Path> = described.iter().map(|meta| meta.location.clone()).collect();
        let look = move || locations.iter().map(LocalFile::at).collect::<Vec<_>>();
        let found = tokio::task::spawn_blocking(look).await;
        let found = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut looked = Vec::with_capacity(described.len());
        for (found, meta) in found.into_iter().zip(described) {
            let Ok(found) = found else {
                // The store reports the error in its usual form.
                self.store.head(&meta.location).await?;
                return Err(self.replaced(meta, "it is there only now".into()));
            };
            looked.push(found);
        }
        Ok(looked)
    }

    /// Returns the version that was found, if it is the described one.
    fn found(&self, found: LocalFile, meta: &ObjectMeta) -> Result<Version> {
        if is_listed(meta) {
            if !found.version.is_listed_as(meta) {
                let detail = format!("listed with {} bytes of {}", meta.size, meta.last_modified);
                return Err(self.replaced(meta, detail));
            }
            return Ok(Version { meta: meta.clone(), local: Some(found) });
        }
        self.check_size(meta, found.version.bytes())?;
        let meta = ObjectMeta { last_modified: found.version.modified().into(), ..meta.clone() };
        Ok(Version { meta, local: Some(found) })
    }

    /// Asks the store about a file that is described without a version.
    async fn ask(&self, meta: ObjectMeta) -> Result<ObjectMeta> {
        let key = Described {
            store: self.store_id.clone(),
            location: meta.location.to_string(),
            bytes: meta.size,
            modified: meta.last_modified.timestamp_nanos_opt(),
        };
        let answer = self.answers.of(&key, None);
        let found = match self.head(&answer, &meta).await {
            Ok(found) if self.engine.is_replaced(&self.store_id, &found) => {
                self.head(&self.answers.of(&key, Some(&answer)), &meta).await?
            }
            Ok(found) => found,
            Err(error) => {
                self.answers.forget(&key, &answer);
                return Err(error);
            }
        };
        self.check_size(&meta, found.size)?;
        Ok(found)
    }

    async fn head(&self, answer: &MadeOnce<ObjectMeta>, meta: &ObjectMeta) -> Result<ObjectMeta> {
        let (store, location) = (Arc::clone(&self.store), meta.location.clone());
        let made = answer.get(|| async move { Ok(store.head(&location).await?) });
        Ok(ObjectMeta { location: meta.location.clone(), ..made.await? })
    }

    fn check_size(&self, meta: &ObjectMeta, found: u64) -> Result<()> {
        if found == meta.size {
            return Ok(());
        }
        Err(from_engine(EngineError::WrongSize { file: self.address(meta), found, stated: meta.size }))
    }

    fn replaced(&self, meta: &ObjectMeta, detail: String) -> DataFusionError {
        from_engine(EngineError::FileReplaced { file: self.address(meta), detail })
    }

    fn address(&self, meta: &ObjectMeta) -> String {
        let between = if self.store_url.ends_with('/') { "" } else { "/" };
        format!("{}{between}{}", self.store_url, meta.location)
    }
}
