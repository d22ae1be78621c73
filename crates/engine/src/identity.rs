//! What tells stores, files and versions of files apart.
//!
//! Of two versions of a remote file the one that was modified later is the newer; where times are equal, the one that
//! was seen later. On this machine the one that was looked at last is: modification times can be set. That order says
//! only what is worth keeping. Whether a version still exists is decided by reading it, never guessed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::io::same_etag;

/// Which store a file is in. What was read of a file is shared by those who name the same store, and by no others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(Identity);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Local,
    Instance(usize),
    Named(Arc<str>),
}

impl StoreId {
    /// This instance and its clones. Another one may have other credentials, or other data under the same address. A
    /// [`FileSpec`](crate::FileSpec) with this id has to hold the instance.
    pub fn instance(store: &Arc<dyn ObjectStore>) -> Self {
        StoreId(Identity::Instance(Arc::as_ptr(store).cast::<()>() as usize))
    }

    /// Whoever uses this name states that all stores so named hold the same files, and that whoever may read from one
    /// of them may read from all.
    pub fn named(name: &str) -> Self {
        StoreId(Identity::Named(name.into()))
    }

    /// The file system of this machine.
    pub(crate) fn local() -> Self {
        StoreId(Identity::Local)
    }
}

/// A version of a file on this machine: another content has another version, unless somebody sets the clock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// When anything about it changed last, which nobody can set.
    changed: (i64, i64),
}

impl LocalVersion {
    /// The version that these facts are of.
    pub fn of(found: &std::fs::Metadata) -> Self {
        LocalVersion {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// The number of the device that it is on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// What is different now, if anything is.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.bytes != now.bytes {
            return Some(format!("{} bytes, was {}", now.bytes, self.bytes));
        }
        if (self.device, self.inode) != (now.device, now.inode) {
            return Some("another file has its name now".into());
        }
        (self != now).then(|| "changed since it was opened".into())
    }

    /// Whether its modification time is when it was last written, and not one that somebody set. Then size and
    /// modification time tell it from other versions.
    pub fn has_own_time(&self) -> bool {
        self.modified == self.changed
    }

    /// Whether a listing describes this version, as far as a listing can.
    pub fn is_listed_as(&self, meta: &ObjectMeta) -> bool {
        let (seconds, nanos) = self.modified;
        self.bytes == meta.size
            && seconds * 1_000_000 + nanos / 1_000 == meta.last_modified.timestamp_micros()
    }
}

/// A file on this machine, as it was found.
#[derive(Clone, Debug)]
pub struct LocalFile {
    /// Where it is.
    pub path: PathBuf,
    /// The version that was there.
    pub version: LocalVersion,
    /// Which look it was, counted over the process.
    pub(crate) look: u64,
}

impl LocalFile {
    /// Looks at a file. Costs a system call.
    ///
    /// # Errors
    /// What the system says: there is no such file, or it may not be looked at.
    pub fn look(path: PathBuf) -> std::io::Result<Self> {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let version = LocalVersion::of(&std::fs::metadata(&path)?);
        Ok(LocalFile { path, version, look: LOOKS.fetch_add(1, Ordering::Relaxed) })
    }

    /// A file of a simulated machine: what a look would have found, with its number among all looks.
    #[doc(hidden)]
    pub fn played(path: PathBuf, look: u64, inode: u64, bytes: u64, modified: (i64, i64)) -> Self {
        let version = LocalVersion { device: 1, inode, bytes, modified, changed: modified };
        LocalFile { path, version, look }
    }

    /// Looks at the file that the plain store of this machine has at `location`.
    ///
    /// # Errors
    /// As [`Self::look`]; or the location is no path on this machine.
    pub fn at(location: &Path) -> std::io::Result<Self> {
        let path = LocalFileSystem::new().path_to_filesystem(location).map_err(std::io::Error::other)?;
        Self::look(path)
    }
}

/// A version of a file as somebody described it.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) local: Option<&'a LocalFile>,
    pub(crate) meta: &'a ObjectMeta,
}

impl Version<'_> {
    /// Whether both are the same version.
    pub(crate) fn is(&self, other: &Version<'_>) -> bool {
        match (self.local, other.local) {
            (Some(a), Some(b)) => a.version == b.version,
            (None, None) => same_object(self.meta, other.meta),
            _ => false,
        }
    }

    /// Later versions are greater: by the look, for files of this machine, or else by the time.
    pub(crate) fn order(&self) -> (u64, i64) {
        match self.local {
            Some(local) => (local.look, 0),
            // Times come in whole seconds from some requests and not from others.
            None => (0, self.meta.last_modified.timestamp()),
        }
    }
}

impl fmt::Debug for Version<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version").field("local", &self.local).field("meta", &self.meta).finish()
    }
}

/// Whether two descriptions of a location mean the same object.
fn same_object(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    // Equal tags settle it: times come in whole seconds from some requests and not from others.
    a.size == b.size
        && match (&a.e_tag, &b.e_tag) {
            (Some(a), Some(b)) => same_etag(a, b),
            _ => a.last_modified == b.last_modified,
        }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests live in the real world")]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

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
