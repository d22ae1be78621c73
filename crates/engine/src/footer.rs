//! Footers of files on this machine, each read from exactly the version it belongs to.
//!
//! Caches of footers commonly compare size and modification time, and both can be the same for other content. Here
//! a footer is found by everything that tells versions apart.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use crate::error::{EngineError, SharedSource};
use crate::identity::{LocalFile, LocalVersion};
use crate::sync::Mutex;

/// The footers read last.
#[derive(Debug, Default)]
pub(crate) struct Footers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    footers: HashMap<PathBuf, Footer>,
    bytes: u64,
    /// Counts reads: what was used when.
    reads: u64,
}

#[derive(Debug)]
struct Footer {
    version: LocalVersion,
    metadata: Arc<ParquetMetaData>,
    bytes: u64,
    used: u64,
}

impl Footers {
    /// The footer of this version of a file; keeps footers of at most `bytes_max` bytes.
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
        lock().put(local, metadata.clone(), bytes_max);
        Ok(metadata)
    }
}

impl Kept {
    fn get(&mut self, local: &LocalFile) -> Option<Arc<ParquetMetaData>> {
        self.reads += 1;
        let footer = self.footers.get_mut(&local.path).filter(|footer| footer.version == local.version)?;
        footer.used = self.reads;
        Some(footer.metadata.clone())
    }

    fn put(&mut self, local: &LocalFile, metadata: Arc<ParquetMetaData>, bytes_max: u64) {
        let bytes = metadata.memory_size() as u64;
        if bytes > bytes_max {
            return;
        }
        let footer = Footer { version: local.version, metadata, bytes, used: self.reads };
        self.bytes += bytes;
        if let Some(before) = self.footers.insert(local.path.clone(), footer) {
            self.bytes -= before.bytes;
        }
        if self.bytes > bytes_max {
            let mut by_use: Vec<(u64, PathBuf)> =
                self.footers.iter().map(|(path, footer)| (footer.used, path.clone())).collect();
            by_use.sort_unstable();
            // A quarter more than needed, so that the next one does not sort them again.
            let mut oldest = by_use.into_iter();
            while self.bytes > bytes_max / 4 * 3
                && let Some((_, path)) = oldest.next()
            {
                self.bytes -= self.footers.remove(&path).map_or(0, |footer| footer.bytes);
            }
        }
    }
}

fn read(local: &LocalFile) -> Result<ParquetMetaData, EngineError> {
    let file_name = || format!("file://{}", local.path.display());
    let failed = |source: SharedSource| EngineError::Footer { file: file_name(), source };
    let file = File::open(&local.path).map_err(|error| failed(Arc::new(error)))?;
    let check = || match file.metadata().map(|found| local.version.difference(&LocalVersion::of(&found))) {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(EngineError::FileReplaced { file: file_name(), detail }),
        Err(error) => Err(failed(Arc::new(error))),
    };
    check()?;
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata = reader.parse_and_finish(&file);
    // What was read while somebody was writing is neither version's.
    check()?;
    metadata.map_err(|error| failed(Arc::new(error)))
}
