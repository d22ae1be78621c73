//! Footers of files on this machine, each read from exactly the version it belongs to.
//!
//! Caches of footers usually compare size and modification time, and both can be equal for different content.
//! Here the key of a footer is everything that distinguishes versions. A footer that a query or the catalog
//! has in memory is neither read nor held again.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};

use coscan_parquet::read_footer;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use crate::error::{EngineError, SharedSource};
use crate::io::identity::{LocalFile, LocalVersion};
use crate::sync::Mutex;

/// The minimum number of footers at which dropped ones are removed.
const LOOK_AT_LEAST: usize = 64;

/// The footers that were read last, and those in use.
#[derive(Debug, Default)]
pub(crate) struct Footers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    footers: HashMap<PathBuf, Footer>,
    /// The bytes of the footers that are kept.
    bytes: u64,
    /// The number of reads, for the order of use.
    reads: u64,
    /// The number of footers at which dropped ones are removed.
    look_at: usize,
}

#[derive(Debug)]
struct Footer {
    version: LocalVersion,
    /// A weak reference: while a query or the catalog has the footer, it is not in memory a second time.
    metadata: Weak<ParquetMetaData>,
    kept: Option<Arc<ParquetMetaData>>,
    bytes: u64,
    used: u64,
}

impl Footers {
    /// The footer of this version of a file. Keeps unused footers of at most `bytes_max` bytes.
    pub(crate) fn read(
        &self,
        local: &LocalFile,
        bytes_max: u64,
    ) -> Result<Arc<ParquetMetaData>, EngineError> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(local) {
            return Ok(known);
        }
        let metadata = Arc::new(read(local)?);
        Ok(lock().put(local, metadata, bytes_max))
    }
}

impl Kept {
    fn get(&mut self, local: &LocalFile) -> Option<Arc<ParquetMetaData>> {
        self.reads += 1;
        let footer = self.footers.get_mut(&local.path).filter(|footer| footer.version == local.version)?;
        footer.used = self.reads;
        footer.metadata.upgrade()
    }

    /// Enters a footer. Returns the one that all callers share, because another caller may have read it at
    /// the same time.
    fn put(
        &mut self,
        local: &LocalFile,
        metadata: Arc<ParquetMetaData>,
        bytes_max: u64,
    ) -> Arc<ParquetMetaData> {
        if let Some(known) = self.get(local) {
            return known;
        }
        let bytes = metadata.memory_size() as u64;
        let kept = (bytes <= bytes_max).then(|| Arc::clone(&metadata));
        self.bytes += kept.as_ref().map_or(0, |_| bytes);
        let weak = Arc::downgrade(&metadata);
        let footer = Footer { version: local.version, metadata: weak, kept, bytes, used: self.reads };
        if let Some(before) = self.footers.insert(local.path.clone(), footer) {
            self.bytes -= before.kept.map_or(0, |_| before.bytes);
        }
        if self.bytes > bytes_max {
            self.keep_fewer(bytes_max);
        }
        if self.footers.len() >= self.look_at {
            self.footers.retain(|_, footer| footer.metadata.strong_count() > 0);
            self.look_at = 2 * self.footers.len() + LOOK_AT_LEAST;
        }
        metadata
    }

    fn keep_fewer(&mut self, bytes_max: u64) {
        let kept = self.footers.values_mut().filter(|footer| footer.kept.is_some());
        let mut by_use: Vec<&mut Footer> = kept.collect();
        by_use.sort_unstable_by_key(|footer| footer.used);
        let mut oldest = by_use.into_iter();
        // A quarter more than needed, so that the next call does not sort them again.
        while self.bytes > bytes_max / 4 * 3
            && let Some(footer) = oldest.next()
        {
            footer.kept = None;
            self.bytes -= footer.bytes;
        }
    }
}

fn read(local: &LocalFile) -> Result<ParquetMetaData, EngineError> {
    let file_name = || format!("file://{}", local.path.display());
    let failed = |source: SharedSource| EngineError::Footer { file: file_name(), source };
    let file = File::open(&local.path).map_err(|error| failed(Arc::new(error)))?;
    let size = file.metadata().map_err(|error| failed(Arc::new(error)))?.len();
    let check = || match file.metadata().map(|found| local.version.difference(&LocalVersion::of(&found))) {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(EngineError::FileReplaced { file: file_name(), detail }),
        Err(error) => Err(failed(Arc::new(error))),
    };
    check()?;
    let metadata = read_footer(size, |range| file.get_bytes(range.start, (range.end - range.start) as usize));
    // A footer that was read during a write belongs to neither version.
    check()?;
    metadata.map_err(|error| failed(Arc::new(error)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use object_store::path::Path;
    use parquet::arrow::ArrowWriter;

    use super::*;

    #[test]
    fn a_footer_that_somebody_has_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let local = |name: &str| {
            let path = dir.path().join(name);
            let array = Arc::new(Int64Array::from(vec![1, 2, 3])) as _;
            let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
            let mut writer =
                ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            LocalFile::at(&Path::from_absolute_path(&path).unwrap()).unwrap()
        };
        let footers = Footers::default();
        let first = local("first");
        let held = footers.read(&first, 0).unwrap();
        assert!(Arc::ptr_eq(&held, &footers.read(&first, 0).unwrap()), "the one that is held");
        drop(held);
        assert!(footers.kept.lock().unwrap().get(&first).is_none(), "nobody has it, and nothing is kept");
        // Many footers that are dropped leave nothing behind.
        for at in 0..500 {
            footers.read(&local(&format!("{at}")), 5000).unwrap();
        }
        let kept = footers.kept.lock().unwrap();
        assert!(kept.footers.len() <= 2 * LOOK_AT_LEAST, "{} footers", kept.footers.len());
        let bytes: u64 = kept.footers.values().filter(|f| f.kept.is_some()).map(|f| f.bytes).sum();
        assert!(bytes == kept.bytes && bytes <= 5000, "{bytes} of {}", kept.bytes);
    }
}
