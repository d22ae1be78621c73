//! Identity of stores, files and versions of files.
//!
//! Of two versions of a remote file, the one modified later is the newer one; if times are equal, the one
//! seen later. Of two versions of a file on this machine, the one looked at last is the newer one, because
//! modification times can be set. This order decides only which version is kept. Only a read decides whether
//! a version still exists.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::io::same::same_etag;

/// The identity of a file's store. Callers that name the same store share the data that were read of a file.
/// Other callers do not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(Identity);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Local,
    Instance(usize),
    Named(Arc<str>),
}

impl StoreId {
    /// The identity of this instance and its clones. Another instance may have other credentials, or other
    /// data under the same address. A [`FileSpec`](crate::FileSpec) with this id has to hold the instance.
    pub fn instance(store: &Arc<dyn ObjectStore>) -> Self {
        StoreId(Identity::Instance(Arc::as_ptr(store).cast::<()>() as usize))
    }

    /// The identity of all stores with this name. The caller guarantees that they have the same files, and
    /// that a user who may read from one may read from all.
    pub fn named(name: &str) -> Self {
        StoreId(Identity::Named(name.into()))
    }

    /// The file system of this machine.
    pub(crate) fn local() -> Self {
        StoreId(Identity::Local)
    }
}

/// A version of a file on this machine: other content has another version, unless the clock is set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of the last modification.
    modified: (i64, i64),
    /// The last change of the inode, which users cannot set.
    changed: (i64, i64),
}

impl LocalVersion {
    /// The version with this metadata.
    pub fn of(found: &std::fs::Metadata) -> Self {
        LocalVersion {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the device that it is on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// The difference between this version and the current one, if any.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.bytes != now.bytes {
            return Some(format!("{} bytes, was {}", now.bytes, self.bytes));
        }
        if (self.device, self.inode) != (now.device, now.inode) {
            return Some("another file has its name now".into());
        }
        (self != now).then(|| "changed since it was opened".into())
    }

    /// A text that other versions do not have.
    pub fn tag(&self) -> String {
        let LocalVersion { device, inode, bytes, modified, changed } = self;
        format!("{device:x}-{inode:x}-{bytes:x}-{}.{}-{}.{}", modified.0, modified.1, changed.0, changed.1)
    }

    /// Its modification time.
    pub fn modified(&self) -> SystemTime {
        let (seconds, nanos) = self.modified;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let at = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        at.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Returns whether its modification time is the time of the last write, and was not set. Then size and
    /// modification time distinguish it from other versions.
    pub fn has_own_time(&self) -> bool {
        self.modified == self.changed
    }

    /// Returns whether this may be the version that `meta` describes. If `meta` names no version
    /// (`names_version`), any version of its size may be.
    pub fn is_listed_as(&self, meta: &ObjectMeta) -> bool {
        let (seconds, nanos) = self.modified;
        let modified = seconds * 1_000_000 + nanos / 1_000;
        self.bytes == meta.size && (!names_version(meta) || modified == meta.last_modified.timestamp_micros())
    }
}

/// A file on this machine, with the version that was found.
#[derive(Clone, Debug)]
pub struct LocalFile {
    /// Its path.
    pub path: PathBuf,
    /// The version that was found.
    pub version: LocalVersion,
    /// The number of the look, counted over the process.
    pub(crate) look: u64,
}

impl LocalFile {
    /// Looks at a file. Costs a system call.
    ///
    /// # Errors
    /// Errors of the system: the file does not exist, or may not be read.
    pub fn look(path: PathBuf) -> std::io::Result<Self> {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let version = LocalVersion::of(&std::fs::metadata(&path)?);
        Ok(LocalFile { path, version, look: LOOKS.fetch_add(1, Ordering::Relaxed) })
    }

    /// A file of a simulated machine: the result of a look, with its number among all looks.
    #[doc(hidden)]
    pub fn played(path: PathBuf, look: u64, inode: u64, bytes: u64, modified: (i64, i64)) -> Self {
        let version = LocalVersion { device: 1, inode, bytes, modified, changed: modified };
        LocalFile { path, version, look }
    }

    /// Looks at the file that the local store has at `location`.
    ///
    /// # Errors
    /// As [`Self::look`]; or the location is no path on this machine.
    pub fn at(location: &Path) -> std::io::Result<Self> {
        let path = LocalFileSystem::new().path_to_filesystem(location).map_err(std::io::Error::other)?;
        Self::look(path)
    }
}

/// A version of a file, by its description.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) local: Option<&'a LocalFile>,
    pub(crate) meta: &'a ObjectMeta,
}

impl Version<'_> {
    /// Returns whether both are the same version.
    pub(crate) fn is(&self, other: &Version<'_>) -> bool {
        match (self.local, other.local) {
            (Some(a), Some(b)) => a.version == b.version,
            (None, None) => same_object(self.meta, other.meta),
            _ => false,
        }
    }

    /// The order of versions: by the look for files on this machine, otherwise by the time.
    pub(crate) fn order(&self) -> (u64, i64) {
        match self.local {
            Some(local) => (local.look, 0),
            // Some requests report whole seconds, others more.
            None => (0, self.meta.last_modified.timestamp()),
        }
    }
}

impl fmt::Debug for Version<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version").field("local", &self.local).field("meta", &self.meta).finish()
    }
}

/// Returns whether a description of a file names a version of it: by an ETag, a version or a time. A table
/// that knows only a path and a size gives the beginning of time.
pub(crate) fn names_version(meta: &ObjectMeta) -> bool {
    meta.e_tag.is_some() || meta.version.is_some() || meta.last_modified.timestamp_micros() != 0
}

/// Returns whether two descriptions of a location are the same object.
fn same_object(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    let other_version = a.version.as_ref().zip(b.version.as_ref()).is_some_and(|(a, b)| a != b);
    // Some requests report whole seconds, others more.
    a.size == b.size
        && !other_version
        && match (&a.e_tag, &b.e_tag) {
            (Some(a), Some(b)) => same_etag(a, b),
            _ => {
                let whole = [a, b].iter().any(|meta| meta.last_modified.timestamp_subsec_nanos() == 0);
                match whole {
                    true => a.last_modified.timestamp() == b.last_modified.timestamp(),
                    false => a.last_modified == b.last_modified,
                }
            }
        }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests live in the real world")]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn objects_with_other_versions_are_others_whatever_their_times() {
        let listed = ObjectMeta {
            location: "a".into(),
            last_modified: UNIX_EPOCH.into(),
            size: 1,
            e_tag: None,
            version: None,
        };
        let version = |version: &str| ObjectMeta { version: Some(version.into()), ..listed.clone() };
        assert!(same_object(&version("1"), &version("1")));
        assert!(same_object(&listed, &version("1")), "a listing may say less");
        assert!(!same_object(&version("1"), &version("2")));
    }

    #[test]
    fn stores_are_the_same_only_if_they_are_or_are_said_to_be() {
        let (a, b): (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>) =
            (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
        assert_eq!(StoreId::instance(&a), StoreId::instance(&a.clone()));
        assert_ne!(StoreId::instance(&a), StoreId::instance(&b));
        assert_eq!(StoreId::named("warehouse"), StoreId::named("warehouse"));
    }

    #[test]
    fn a_file_overwritten_with_its_old_time_is_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, b"first").unwrap();
        let before = LocalFile::look(path.clone()).unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, b"other").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        let after = LocalFile::look(path).unwrap();
        assert_eq!(before.version.modified, after.version.modified);
        assert!(before.version.difference(&after.version).is_some() && after.look > before.look);
    }
}
