//! Reads of one version of a file outside the engine: footers, and the pages of scans that are left to
//! DataFusion.
//!
//! The version is checked at each read, by the rules of the engine's own reads (`docs/stores.md`). A file
//! that is another version by then is [`EngineError::FileReplaced`].

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;
use coscan_engine::{EngineError, LocalFile, Object, Quirks, ReadError};
use datafusion::object_store::{
    Error, GetOptions, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt,
    coalesce_ranges,
};
use datafusion::parquet::errors::{ParquetError, Result};

use crate::file::version::is_listed;
use crate::lock::lock;
use crate::stores::is_plain_local;

/// A version of a file, and its store.
pub(crate) struct VersionBytes {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    held: Held,
}

/// The version that all reads must find.
enum Held {
    Local(LocalFile),
    Object {
        /// The description of the first answer, where the file is described without a version.
        opened: OnceLock<ObjectMeta>,
        quirks: Arc<Quirks>,
    },
}

/// A store, and the facts that were learned of it.
type Learned = (Weak<dyn ObjectStore>, Arc<Quirks>);

/// Returns the facts that were learned of a store. They are kept as long as the store.
fn quirks_of(store: &Arc<dyn ObjectStore>) -> Arc<Quirks> {
    static LEARNED: Mutex<Vec<Learned>> = Mutex::new(Vec::new());
    let mut learned = lock(&LEARNED);
    learned.retain(|(store, _)| store.strong_count() > 0);
    let is_this =
        |known: &Weak<dyn ObjectStore>| known.upgrade().is_some_and(|known| Arc::ptr_eq(&known, store));
    if let Some((_, quirks)) = learned.iter().find(|(known, _)| is_this(known)) {
        return Arc::clone(quirks);
    }
    let quirks = Arc::<Quirks>::default();
    learned.push((Arc::downgrade(store), Arc::clone(&quirks)));
    quirks
}

/// Returns the name of a file for messages.
pub(crate) fn shown(store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> String {
    let root = if is_plain_local(store) { "/" } else { "" };
    format!("{root}{}", meta.location)
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

fn replaced(file: String, detail: String) -> ParquetError {
    external(EngineError::FileReplaced { file, detail })
}

async fn look(meta: &ObjectMeta) -> Result<LocalFile> {
    let location = meta.location.clone();
    let found = tokio::task::spawn_blocking(move || LocalFile::at(&location)).await.map_err(external)?;
    found.map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            external(Error::NotFound { path: format!("/{}", meta.location), source: Box::new(source) })
        }
        _ => external(Error::Generic { store: "local", source: Box::new(source) }),
    })
}

impl VersionBytes {
    /// The version that `meta` describes. Looks at a file of this machine. If `listed_here`, this process has
    /// made the description.
    ///
    /// # Errors
    /// If the file has another version now, or cannot be looked at.
    pub(crate) async fn find(
        store: &Arc<dyn ObjectStore>,
        meta: &ObjectMeta,
        listed_here: bool,
    ) -> Result<Self> {
        if !is_plain_local(store) {
            return Ok(Self::of(store, meta, None));
        }
        let found = look(meta).await?;
        let file = || format!("/{}", meta.location);
        if !is_listed(meta) {
            let (found, stated) = (found.version.bytes(), meta.size);
            if found != stated {
                return Err(external(EngineError::WrongSize { file: file(), found, stated }));
            }
        } else if !found.version.is_listed_as(meta) {
            let detail = format!("listed with {} bytes of {}", meta.size, meta.last_modified);
            return Err(replaced(file(), detail));
        } else if listed_here && is_other_tag(&found.version.tag(), meta) {
            return Err(replaced(file(), "changed since it was listed".to_owned()));
        }
        Ok(Self::of(store, meta, Some(found)))
    }

    /// The version that `meta` describes, and that was found if it is on this machine.
    pub(crate) fn of(store: &Arc<dyn ObjectStore>, meta: &ObjectMeta, found: Option<LocalFile>) -> Self {
        let held = match found {
            Some(found) => Held::Local(found),
            None => {
                let opened = OnceLock::new();
                if is_listed(meta) {
                    let _ = opened.set(meta.clone());
                }
                Held::Object { opened, quirks: quirks_of(store) }
            }
        };
        VersionBytes { store: Arc::clone(store), meta: meta.clone(), held }
    }

    /// Its description, with a tag that distinguishes it from other versions if the file is on this machine.
    pub(crate) fn described(&self) -> ObjectMeta {
        match &self.held {
            Held::Local(found) => ObjectMeta { e_tag: Some(found.version.tag()), ..self.meta.clone() },
            Held::Object { .. } => self.meta.clone(),
        }
    }

    /// Reads ranges of the file.
    ///
    /// # Errors
    /// If the file is another version, or cannot be read.
    pub(crate) async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let size = self.meta.size;
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > size) {
            let file = shown(&self.store, &self.meta);
            return Err(ParquetError::EOF(format!("bytes {range:?} do not lie within the {size} of {file}")));
        }
        let Held::Local(found) = &self.held else {
            return coalesce_ranges(ranges, |range| self.get(range), OBJECT_STORE_COALESCE_DEFAULT).await;
        };
        let bytes = self.store.get_ranges(&self.meta.location, ranges).await;
        // Bytes that were read during a write belong to neither version. A shorter version lacks some of them.
        let now = look(&self.meta).await?;
        if let Some(detail) = found.version.difference(&now.version) {
            return Err(replaced(format!("/{}", self.meta.location), detail));
        }
        bytes.map_err(external)
    }

    /// Reads a range of the file.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_one(&self, range: Range<u64>) -> Result<Bytes> {
        let read = self.read(std::slice::from_ref(&range)).await?;
        read.into_iter().next().ok_or_else(|| ParquetError::EOF(format!("bytes {range:?} are missing")))
    }

    async fn get(&self, range: Range<u64>) -> Result<Bytes> {
        let Held::Object { opened, quirks } = &self.held else {
            return Err(ParquetError::General("a file of this machine is no object".to_owned()));
        };
        let location = &self.meta.location;
        let options = GetOptions::new().with_range(Some(range.clone()));
        let mut answer = match self.store.get_opts(location, options).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.explained(error).await),
        };
        let opened = opened.get_or_init(|| answer.meta.clone());
        if !quirks.is_same(&answer.meta, opened) {
            let object = Object { store: &*self.store, meta: opened, quirks };
            answer = object.answer(&range, tokio::time::sleep).await.map_err(|error| self.failed(error))?;
        }
        let bytes = match answer.bytes().await {
            // The answer broke off, and its rest is another version's.
            Err(Error::Precondition { source, .. }) => {
                return Err(replaced(location.to_string(), source.to_string()));
            }
            bytes => bytes.map_err(external)?,
        };
        let (wanted, got) = (range.end - range.start, bytes.len() as u64);
        if got != wanted {
            return Err(external(ReadError::Short { wanted, got }));
        }
        Ok(bytes)
    }

    /// The error of a request, whose range may lie behind the end of a shorter version.
    async fn explained(&self, error: Error) -> ParquetError {
        match self.store.head(&self.meta.location).await {
            Ok(now) if now.size != self.meta.size => {
                let detail = format!("{} bytes, was {}", now.size, self.meta.size);
                replaced(self.meta.location.to_string(), detail)
            }
            _ => external(error),
        }
    }

    fn failed(&self, error: ReadError) -> ParquetError {
        match error {
            ReadError::Replaced(detail) => replaced(self.meta.location.to_string(), detail),
            ReadError::Store(error)
            | ReadError::Unusable(error)
            | ReadError::Refused { source: error, .. } => external(error),
            other => external(other),
        }
    }
}

/// Returns whether a description has the tag of another version. Tags with other parts are not those of
/// [`LocalVersion::tag`](coscan_engine::LocalVersion::tag).
fn is_other_tag(tag: &str, meta: &ObjectMeta) -> bool {
    let parts = |tag: &str| tag.split('-').count();
    meta.e_tag.as_deref().is_some_and(|listed| parts(listed) == parts(tag) && listed != tag)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use coscan_engine::LocalVersion;
    use datafusion::object_store::PutPayload;
    use datafusion::object_store::local::LocalFileSystem;
    use datafusion::object_store::memory::InMemory;
    use datafusion::object_store::path::Path;

    use super::*;

    fn is_replaced(error: &ParquetError) -> bool {
        let ParquetError::External(source) = error else { return false };
        matches!(source.downcast_ref(), Some(EngineError::FileReplaced { .. }))
    }

    #[tokio::test]
    async fn an_object_is_read_in_one_version() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let location = Path::from("a");
        store.put(&location, PutPayload::from_static(b"first")).await.expect("put");
        let meta = store.head(&location).await.expect("an object");
        let bytes = VersionBytes::find(&store, &meta, true).await.expect("a version");
        assert_eq!(bytes.read(&[0..2, 3..5]).await.expect("bytes"), ["fi", "st"]);
        let undescribed = ObjectMeta { e_tag: None, last_modified: Default::default(), ..meta };
        let by_first = VersionBytes::find(&store, &undescribed, true).await.expect("a version");
        assert_eq!(by_first.read(&[0..5]).await.expect("bytes"), ["first"]);
        store.put(&location, PutPayload::from_static(b"other")).await.expect("put");
        for bytes in [bytes, by_first] {
            assert!(is_replaced(&bytes.read(&[0..2]).await.expect_err("another version")));
        }
    }

    #[tokio::test]
    async fn a_file_is_read_in_one_version_whatever_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let write = |content: &str| {
            std::fs::write(&path, content).expect("a file");
            let file = std::fs::File::options().write(true).open(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(9)).expect("a time");
        };
        write("first");
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let location = Path::from_absolute_path(&path).expect("a path");
        let of_store = store.head(&location).await.expect("a file");
        let version = LocalVersion::of(&std::fs::metadata(&path).expect("a file"));
        let meta = ObjectMeta { e_tag: Some(version.tag()), ..of_store.clone() };
        let bytes = VersionBytes::find(&store, &meta, true).await.expect("a version");
        assert_eq!(bytes.read(&[1..3]).await.expect("bytes"), ["ir"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
        write("other");
        assert!(is_replaced(&bytes.read(&[1..3]).await.expect_err("another version")));
        assert!(is_replaced(&VersionBytes::find(&store, &meta, true).await.err().expect("another version")));
        let other = VersionBytes::find(&store, &of_store, true).await.expect("the store's tag is another");
        assert_ne!(other.described().e_tag, bytes.described().e_tag);
        std::fs::remove_file(&path).expect("a file");
        let error = other.read(&[0..1]).await.expect_err("nothing").to_string();
        assert!(error.contains("not found"), "{error}");
    }
}
