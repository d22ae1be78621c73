//! Restored fragments on the local disk, and the footers of all files that were ever there.
//!
//! A fragment is written to a temporary file, synced and renamed. A record beside it describes the fragment and has
//! a checksum. After a crash, each fragment is therefore either whole or deleted. After a restart, the checksum of a
//! fragment is computed before its first use. This file does not decide which fragments enter or leave the cache.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use coscan_parquet::read_footer;
use flate2::Crc;
use parquet::file::reader::ChunkReader;
use serde::{Deserialize, Serialize};

use crate::arrival::{End, MARK, judge};
use crate::disk::{take, write_whole};
use crate::error::TierError;
use crate::fragment::{Fragment, Key};

/// Maximum bytes of a file's end that are kept as its footer.
const FOOTER_BYTES_MAX: u64 = 64 << 20;

/// The folder of a tier's fragments.
#[derive(Debug)]
pub struct FragmentCache {
    tier: String,
    dir: PathBuf,
    held: Mutex<BTreeMap<Key, Held>>,
    /// Number of copies of each fragment that this process has dropped because they were wrong.
    dropped: Mutex<BTreeMap<Key, u64>>,
    /// Lock that this process holds while it uses the folder. Without it, another process may use the folder, and
    /// nothing in the folder is changed.
    lock: Option<File>,
}

#[derive(Clone, Debug)]
struct Held {
    record: Record,
    /// Set after this process has verified the bytes against the checksum.
    checked: bool,
}

/// The record beside a fragment.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    fragment: Fragment,
    crc32: u32,
}

impl FragmentCache {
    /// Opens the cache in `dir`, with the fragments that earlier processes left there.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used, or another process uses it.
    pub fn open(tier: &str, dir: &Path) -> Result<Self, TierError> {
        for folder in ["fragments", "footers"] {
            let folder = dir.join(folder);
            fs::create_dir_all(&folder).map_err(TierError::io("create the cache folder", &folder))?;
        }
        let lock_path = dir.join("lock");
        let lock = File::create(&lock_path).map_err(TierError::io("create", &lock_path))?;
        take(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => TierError::CacheInUse { dir: dir.to_owned() },
            TryLockError::Error(error) => TierError::io("lock", &lock_path)(error),
        })?;
        let held = Mutex::new(found(&dir.join("fragments"))?);
        let dropped = Mutex::default();
        Ok(FragmentCache { tier: tier.to_owned(), dir: dir.to_owned(), held, dropped, lock: Some(lock) })
    }

    /// Opens the cache in `dir` read-only, while another process may use it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed.
    pub fn look(tier: &str, dir: &Path) -> Result<Self, TierError> {
        let fragments = dir.join("fragments");
        let names = if fragments.exists() { files_in(&fragments)? } else { Vec::new() };
        let held = Mutex::new(held_of(&names));
        let dropped = Mutex::default();
        Ok(FragmentCache { tier: tier.to_owned(), dir: dir.to_owned(), held, dropped, lock: None })
    }

    /// Returns true if this process may change the cache.
    pub fn is_ours(&self) -> bool {
        self.lock.is_some()
    }

    /// The fragments in the cache.
    pub fn fragments(&self) -> Vec<Fragment> {
        self.held().values().map(|held| held.record.fragment.clone()).collect()
    }

    /// Returns true if the fragment is in the cache.
    pub fn contains(&self, fragment: &Fragment) -> bool {
        self.held().get(&fragment.key()).is_some_and(|held| held.record.fragment == *fragment)
    }

    /// Returns true if the fragment's checksum is not verified yet. [`file`](Self::file) verifies it.
    pub fn is_unchecked(&self, fragment: &Fragment) -> bool {
        self.held().get(&fragment.key()).is_some_and(|held| !held.checked)
    }

    /// Begins a fragment. An unfinished fragment leaves no file.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(self: &Arc<Self>, fragment: &Fragment) -> Result<Writer, TierError> {
        let path = self.path(fragment.key(), "part");
        let file = File::create(&path).map_err(|error| self.refused(fragment, &path, error))?;
        let cache = Arc::clone(self);
        Ok(Writer { cache, fragment: fragment.clone(), path, file, crc: Crc::new(), bytes: 0, done: false })
    }

    /// Opens the file of a fragment. It stays readable when the fragment leaves the cache. `None` if the fragment is
    /// not there, or if its bytes differ from those that were written.
    ///
    /// Reads the whole file the first time after a restart.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn file(&self, fragment: &Fragment) -> Result<Option<(File, PathBuf)>, TierError> {
        let key = fragment.key();
        let held = self.held().get(&key).cloned();
        let Some(held) = held.filter(|held| held.record.fragment == *fragment) else { return Ok(None) };
        let path = self.path(key, "fragment");
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.remove(fragment);
                return Ok(None);
            }
            Err(error) => return Err(TierError::io("open the cached fragment", &path)(error)),
        };
        let length = file.metadata().map_err(TierError::io("look at the cached fragment", &path))?.len();
        let is_whole = length == fragment.bytes
            && (held.checked
                || self.problem(fragment, &file).is_none() && is_intact(&mut file, &held.record, &path)?);
        if !is_whole {
            tracing::warn!(file = %fragment, cached = %path.display(), "cached fragment is damaged and is dropped");
            self.remove(fragment);
            return Ok(None);
        }
        if let Some(held) = self.held().get_mut(&key) {
            held.checked = true;
        }
        Ok(Some((file, path)))
    }

    /// Drops a fragment and keeps its footer.
    pub fn remove(&self, fragment: &Fragment) {
        let key = fragment.key();
        self.held().remove(&key);
        if !self.is_ours() {
            return;
        }
        // The record is removed first: a fragment without a record is deleted at the next start.
        for extension in ["json", "fragment"] {
            let _ = fs::remove_file(self.path(key, extension));
        }
    }

    /// Drops a fragment whose copy may be wrong. The next copy has another version, so readers do not mix data of
    /// both copies.
    pub fn drop_copy(&self, fragment: &Fragment) {
        // The order matters: a reader that sees the new version must not read the old copy.
        self.remove(fragment);
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner).entry(fragment.key()).or_default() += 1;
    }

    /// The version of the fragment's copy that readers see.
    pub fn copy_version(&self, fragment: &Fragment) -> String {
        let dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        format!("copy {}", dropped.get(&fragment.key()).unwrap_or(&0) + 1)
    }

    /// Bytes of the file's end, as far as they are kept: footer and page index. `None` unless all of `range` is
    /// kept.
    pub fn footer(&self, fragment: &Fragment, range: std::ops::Range<u64>) -> Option<Bytes> {
        let mut file = File::open(self.footer_path(fragment)).ok()?;
        let kept = file.metadata().ok()?.len();
        let start = range.start.checked_sub(fragment.bytes.checked_sub(kept)?)?;
        let length = range.end.checked_sub(range.start).filter(|length| start + length <= kept)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes)).ok()?;
        Some(bytes.into())
    }

    /// The last `most` bytes of the kept footer, or all of it if it is shorter.
    pub fn footer_end(&self, fragment: &Fragment, most: u64) -> Option<Bytes> {
        let kept = fs::metadata(self.footer_path(fragment)).ok()?.len().min(most);
        self.footer(fragment, fragment.bytes.checked_sub(kept)?..fragment.bytes)
    }

    /// Returns true if the file's footer is kept.
    pub fn has_footer(&self, fragment: &Fragment) -> bool {
        self.footer_path(fragment).exists()
    }

    /// Drops a fragment and its kept footer, which may both be wrong.
    pub fn forget(&self, fragment: &Fragment) {
        self.drop_copy(fragment);
        if self.is_ours() {
            let _ = fs::remove_file(self.footer_path(fragment));
        }
    }

    /// Keeps the end of a file, from its page index on. Keeps nothing of a file that is not Parquet.
    ///
    /// # Errors
    ///
    /// If the disk refuses the write.
    pub fn keep_footer(&self, fragment: &Fragment, file: &File) -> Result<(), TierError> {
        // Planning reads the same ranges, so the lowest offset read here is the start of the kept end.
        let mut start = fragment.bytes;
        let read = read_footer(fragment.bytes, |range| {
            start = start.min(range.start);
            file.get_bytes(range.start, (range.end - range.start) as usize)
        });
        if read.is_err() {
            return Ok(());
        }
        let mut end = file;
        let path = self.footer_path(fragment);
        let io = |error| TierError::io("keep the footer", &path)(error);
        let mut tail = vec![0; usize::try_from((fragment.bytes - start).min(FOOTER_BYTES_MAX)).unwrap_or(0)];
        let from = fragment.bytes - tail.len() as u64;
        end.seek(SeekFrom::Start(from)).and_then(|_| end.read_exact(&mut tail)).map_err(io)?;
        write_whole(&path, &tail).map_err(|error| self.refused(fragment, &path, error))
    }

    /// The reason why the file is not the fragment's. `None` if its end matches.
    fn problem(&self, fragment: &Fragment, file: &File) -> Option<&'static str> {
        let kept = self.footer_end(fragment, FOOTER_BYTES_MAX);
        let length = kept.as_ref().map_or(MARK, |kept| kept.len() as u64).min(fragment.bytes);
        let mut tail = vec![0; usize::try_from(length).unwrap_or(0)];
        let mut end = file;
        let read = end.seek(SeekFrom::Start(fragment.bytes - length)).and_then(|_| end.read_exact(&mut tail));
        if read.and_then(|()| end.rewind()).is_err() {
            return Some("its end cannot be read");
        }
        match judge(&fragment.location, fragment.bytes, &tail, kept.as_deref()) {
            End::Right => None,
            End::Zeros => Some("it ends in zeros, as a stub does"),
            End::Wrong(problem) => Some(problem),
        }
    }

    /// The cache's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Key, Held>> {
        // Every change is one insertion or removal, so a panic leaves no half-done change.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, key: Key, extension: &str) -> PathBuf {
        self.dir.join("fragments").join(format!("{key}.{extension}"))
    }

    fn footer_path(&self, fragment: &Fragment) -> PathBuf {
        self.dir.join("footers").join(fragment.key().to_string())
    }

    fn refused(&self, fragment: &Fragment, path: &Path, error: io::Error) -> TierError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                TierError::DiskFull {
                    tier: self.tier.clone(),
                    file: fragment.to_string(),
                    dir: self.dir.clone(),
                    bytes: fragment.bytes,
                }
            }
            _ => TierError::io("write to the fragment cache", path)(error),
        }
    }
}

/// A fragment that is being written.
#[derive(Debug)]
pub struct Writer {
    cache: Arc<FragmentCache>,
    fragment: Fragment,
    path: PathBuf,
    file: File,
    crc: Crc,
    bytes: u64,
    done: bool,
}

impl Writer {
    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// If the disk refuses them, or if they exceed the fragment's length.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TierError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.fragment.bytes {
            return Err(self.truncated());
        }
        self.crc.update(bytes);
        self.file.write_all(bytes).map_err(|error| self.cache.refused(&self.fragment, &self.path, error))
    }

    /// Moves the fragment to its place and keeps its footer.
    ///
    /// # Errors
    ///
    /// If bytes are missing, their end is not that of the fragment, or the disk refuses the write.
    pub fn finish(mut self) -> Result<(), TierError> {
        if self.bytes != self.fragment.bytes {
            return Err(self.truncated());
        }
        let (cache, fragment) = (Arc::clone(&self.cache), self.fragment.clone());
        let path = self.path.clone();
        let refused = |error| cache.refused(&fragment, &path, error);
        self.file.sync_all().map_err(refused)?;
        let file = File::open(&self.path).map_err(refused)?;
        if let Some(problem) = cache.problem(&fragment, &file) {
            return Err(TierError::Damaged { file: fragment.to_string(), problem });
        }
        if !cache.has_footer(&fragment) {
            cache.keep_footer(&fragment, &file)?;
        }
        let record = Record { fragment: fragment.clone(), crc32: self.crc.sum() };
        let text = serde_json::to_vec(&record).map_err(|error| refused(io::Error::other(error)))?;
        let key = fragment.key();
        fs::rename(&self.path, cache.path(key, "fragment")).map_err(refused)?;
        self.done = true;
        write_whole(&cache.path(key, "json"), &text).map_err(refused)?;
        cache.held().insert(key, Held { record, checked: true });
        Ok(())
    }

    fn truncated(&self) -> TierError {
        TierError::Truncated {
            file: self.fragment.to_string(),
            expected: self.fragment.bytes,
            found: self.bytes,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The whole fragments in the cache in `dir`, also while another process uses it.
///
/// # Errors
///
/// If the folder cannot be listed.
pub fn fragments_in(dir: &Path) -> Result<Vec<Fragment>, TierError> {
    let records = records(&files_in(&dir.join("fragments"))?);
    Ok(records.into_values().map(|record| record.fragment).collect())
}

fn files_in(dir: &Path) -> Result<Vec<PathBuf>, TierError> {
    let entries = fs::read_dir(dir).map_err(TierError::io("list the cache folder", dir))?;
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    Ok(names)
}

/// The records whose fragment exists and has the recorded length.
fn records(names: &[PathBuf]) -> BTreeMap<Key, Record> {
    let mut records = BTreeMap::new();
    for path in names {
        let Some(key) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok())
        else {
            continue;
        };
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let record = fs::read(path).ok().and_then(|text| serde_json::from_slice::<Record>(&text).ok());
        let length = fs::metadata(path.with_extension("fragment")).map(|data| data.len()).ok();
        if let Some(record) =
            record.filter(|record| record.fragment.key() == key && length == Some(record.fragment.bytes))
        {
            records.insert(key, record);
        }
    }
    records
}

fn held_of(names: &[PathBuf]) -> BTreeMap<Key, Held> {
    records(names).into_iter().map(|(key, record)| (key, Held { record, checked: false })).collect()
}

/// The fragments that an earlier process left. Removes files that are not whole.
fn found(dir: &Path) -> Result<BTreeMap<Key, Held>, TierError> {
    let names = files_in(dir)?;
    let held = held_of(&names);
    for path in &names {
        let key = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<Key>().ok());
        let part = path.extension().is_some_and(|extension| extension == "part" || extension == "tmp");
        if key.is_some_and(|key| part || !held.contains_key(&key)) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(held)
}

fn is_intact(file: &mut File, record: &Record, path: &Path) -> Result<bool, TierError> {
    let mut crc = Crc::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut buffer).map_err(TierError::io("read the cached fragment", path))?;
        if length == 0 {
            break;
        }
        crc.update(&buffer[..length]);
    }
    file.rewind().map_err(TierError::io("read the cached fragment", path))?;
    Ok(crc.sum() == record.crc32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::sample;

    fn put(cache: &Arc<FragmentCache>, fragment: &Fragment, bytes: &[u8]) {
        let mut writer = cache.create(fragment).expect("a writer");
        writer.write(bytes).expect("room");
        writer.finish().expect("all bytes");
    }

    fn read(cache: &FragmentCache, fragment: &Fragment) -> Option<Vec<u8>> {
        let (mut file, _) = cache.file(fragment).expect("readable")?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("readable");
        Some(bytes)
    }

    #[test]
    fn fragments_survive_a_restart_and_other_versions_do_not_count() {
        let dir = tempfile::tempdir().expect("a folder");
        let (old, new) = (sample("a.csv", 4), sample("a.csv", 5));
        let cache = Arc::new(FragmentCache::open("t", dir.path()).expect("a cache"));
        put(&cache, &old, b"abcd");
        assert!(matches!(FragmentCache::open("t", dir.path()), Err(TierError::CacheInUse { .. })));
        drop(cache);
        let cache = Arc::new(FragmentCache::open("t", dir.path()).expect("a cache"));
        assert_eq!(cache.fragments(), std::slice::from_ref(&old));
        assert_eq!(read(&cache, &old).as_deref(), Some(&b"abcd"[..]));
        assert_eq!(read(&cache, &new), None);
        cache.remove(&old);
        assert_eq!(read(&cache, &old), None);
        assert_eq!(fs::read_dir(dir.path().join("fragments")).expect("a folder").count(), 0);
    }

    #[test]
    fn what_is_damaged_or_unfinished_is_thrown_away() {
        let dir = tempfile::tempdir().expect("a folder");
        let fragments: Vec<_> = (0..4).map(|at| sample(&format!("{at}.csv"), 4)).collect();
        let cache = Arc::new(FragmentCache::open("t", dir.path()).expect("a cache"));
        fragments[..3].iter().for_each(|fragment| put(&cache, fragment, b"abcd"));
        let path = |at: usize, extension: &str| cache.path(fragments[at].key(), extension);
        fs::write(path(0, "fragment"), b"abcx").expect("written");
        fs::write(path(1, "fragment"), b"abc").expect("written");
        fs::remove_file(path(2, "json")).expect("removed");
        fs::write(path(3, "part"), b"ab").expect("written");
        drop(cache);
        let cache = Arc::new(FragmentCache::open("t", dir.path()).expect("a cache"));
        assert_eq!(cache.fragments(), fragments[..1], "lengths are compared at the start");
        assert_eq!(read(&cache, &fragments[0]), None, "checksums before the first use");
        assert_eq!(fs::read_dir(dir.path().join("fragments")).expect("a folder").count(), 0);
    }

    #[test]
    fn too_few_and_too_many_bytes_are_errors_and_leave_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = Arc::new(FragmentCache::open("t", dir.path()).expect("a cache"));
        let fragment = sample("a.csv", 4);
        let mut writer = cache.create(&fragment).expect("a writer");
        writer.write(b"abc").expect("room");
        assert!(matches!(writer.finish(), Err(TierError::Truncated { expected: 4, found: 3, .. })));
        let mut writer = cache.create(&fragment).expect("a writer");
        assert!(matches!(writer.write(b"abcde"), Err(TierError::Truncated { found: 5, .. })));
        drop(writer);
        assert_eq!(fs::read_dir(dir.path().join("fragments")).expect("a folder").count(), 0);
        assert!(!cache.contains(&fragment));
    }
}
