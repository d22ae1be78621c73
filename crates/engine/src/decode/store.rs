//! The data in memory: the encoded bytes of parts, and the arrays decoded from them.
//!
//! The buffer manager decides what is loaded and evicted. It pins a part that a worker holds, and the worker
//! keeps the part's `Arc`. Decoder state exists only while a worker holds the part, because it is that
//! worker's workspace.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use coscan_core::PartKey;

use crate::decode::Decoder;
use crate::decode::workspace::Estimate;
use crate::error::EngineError;
use crate::files::decoding::Decoding;
use crate::files::table::{File, booked_bytes};
use crate::io::ReadError;
use crate::io::cached_file::CachedFile;
use crate::io::encoded::{Piece, are_in_memory};
use crate::sync::Mutex;

/// One root column of one bundle of chunks.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) key: PartKey,
    pub(crate) file: Arc<File>,
    pub(crate) root: usize,
    /// The encoded bytes, by ascending offset in the file.
    pub(crate) pieces: Vec<Piece>,
    /// The time at which it became resident, counted in parts.
    pub(crate) loaded: u64,
    /// The first scan to which it was delivered, plus one; zero before.
    first_user: AtomicU64,
    /// One decoder for each chunk and Arrow type; there is almost always one type.
    decoders: Mutex<Vec<Arc<Decoder>>>,
    pins: AtomicU32,
}

impl Part {
    pub(crate) fn new(key: PartKey, file: Arc<File>, root: usize, pieces: Vec<Piece>, loaded: u64) -> Self {
        let (first_user, pins) = (AtomicU64::new(0), AtomicU32::new(0));
        Part { key, file, root, pieces, loaded, first_user, decoders: Mutex::default(), pins }
    }

    /// The number of its encoded bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn decoders(&self) -> MutexGuard<'_, Vec<Arc<Decoder>>> {
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The decoder of the chunk at a position of the file, to the type that `decoding` has for this part's
    /// column.
    pub(crate) fn decoder(&self, at: usize, decoding: &Decoding, slice_rows: usize) -> Arc<Decoder> {
        let data_type = decoding.data_type(self.root);
        let mut decoders = self.decoders();
        if let Some(known) = decoders.iter().find(|d| d.is_for(at, data_type)) {
            return known.clone();
        }
        // A worker that begins a new chunk of a bundle has finished the chunks before it: each holder has
        // room for one state.
        let others = decoders.len().saturating_sub((self.pins().max(1) - 1) as usize);
        decoders[..others].iter().for_each(|decoder| decoder.drop_readers());
        let chunk = &self.file.chunk(at).rows;
        let estimate = Estimate::new(&self.file.metadata, chunk.row_group, self.root, data_type, slice_rows);
        let (reading, has_dictionary) =
            decoding.of(chunk.row_group, self.root, chunk.rows.len() / slice_rows);
        let decoder = Decoder::new(at, reading.clone(), data_type.clone(), has_dictionary, estimate);
        let decoder = Arc::new(decoder);
        decoders.push(decoder.clone());
        decoder
    }

    /// The bytes of the kept slices.
    pub(crate) fn decoded_bytes(&self) -> u64 {
        self.decoders().iter().map(|d| d.kept_bytes()).sum()
    }

    /// Removes the kept slices, for the caller to drop outside of its locks.
    pub(crate) fn take_decoded(&self) -> Vec<ArrayRef> {
        self.decoders().iter().flat_map(|d| d.take_kept()).collect()
    }

    /// Returns whether another scan is registered that reads this column of the table.
    pub(crate) fn is_shared(&self) -> bool {
        self.file.columns[self.root].readers.load(Ordering::Relaxed) > 1
    }

    /// Notes a delivery to a scan. Returns whether no other scan had the part before.
    pub(crate) fn used_first_by(&self, scan: u64) -> bool {
        let first = self.first_user.compare_exchange(0, scan + 1, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok() || first == Err(scan + 1)
    }

    /// The number of delivered chunks that hold the part. Each may have a decoder state of its own.
    pub(crate) fn pins(&self) -> u32 {
        self.pins.load(Ordering::Relaxed)
    }

    /// The part's position in the chunk's file, for messages.
    pub(crate) fn described(&self, at: usize) -> String {
        let (column, file) = (&self.file.columns[self.root].name, self.file.name());
        format!("decoding column '{column}' of row group {} of {file}", self.file.chunk(at).rows.row_group)
    }

    /// The file, to read pages from the page cache, if some were left there.
    pub(crate) fn cached_file(&self) -> Result<Option<Arc<CachedFile>>, ReadError> {
        match &self.file.source.local {
            Some(found) if !are_in_memory(&self.pieces) => Ok(Some(Arc::new(CachedFile::open(found)?))),
            _ => Ok(None),
        }
    }

    /// The error if its pages could not be read from the page cache.
    pub(crate) fn unreadable(&self, at: usize, error: ReadError) -> EngineError {
        self.file.read_error(self.file.chunk(at).rows.row_group, Some(self.root), &Arc::new(error))
    }

    pub(crate) fn corrupt(&self, at: usize, source: crate::error::SharedSource) -> EngineError {
        self.file.corrupt(at, self.root, source)
    }
}

/// The parts of a delivered chunk, in the order of the scan's columns.
#[derive(Debug)]
pub(crate) struct PinnedParts {
    parts: Vec<Arc<Part>>,
}

impl PinnedParts {
    pub(crate) fn new(parts: Vec<Arc<Part>>) -> Self {
        for part in &parts {
            part.pins.fetch_add(1, Ordering::Relaxed);
        }
        PinnedParts { parts }
    }
}

impl std::ops::Deref for PinnedParts {
    type Target = [Arc<Part>];
    fn deref(&self) -> &[Arc<Part>] {
        &self.parts
    }
}

impl Drop for PinnedParts {
    fn drop(&mut self) {
        for part in &self.parts {
            if part.pins.fetch_sub(1, Ordering::AcqRel) == 1 {
                let mut decoders = part.decoders();
                decoders.iter().for_each(|decoder| decoder.drop_readers());
                if part.file.bundle(part.key.chunk).len() > 1 {
                    // The decoders of small chunks are large compared to their bytes.
                    decoders.retain(|decoder| decoder.kept_bytes() > 0);
                }
            }
        }
    }
}

/// The resident parts.
#[derive(Debug, Default)]
pub(crate) struct Store {
    parts: HashMap<PartKey, Arc<Part>>,
    loaded: u64,
}

impl Store {
    /// The number of parts that have become resident so far.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded
    }

    pub(crate) fn insert(
        &mut self,
        key: PartKey,
        file: Arc<File>,
        root: usize,
        pieces: Vec<Piece>,
    ) -> Arc<Part> {
        self.loaded += 1;
        let part = Arc::new(Part::new(key, file, root, pieces, self.loaded));
        self.parts.insert(key, part.clone());
        part
    }

    pub(crate) fn get(&self, key: PartKey) -> Option<&Arc<Part>> {
        self.parts.get(&key)
    }

    pub(crate) fn remove(&mut self, key: PartKey) -> Option<Arc<Part>> {
        self.parts.remove(&key)
    }

    /// Returns whether `part` is still the resident part of its key.
    pub(crate) fn holds(&self, part: &Arc<Part>) -> bool {
        self.parts.get(&part.key).is_some_and(|resident| Arc::ptr_eq(resident, part))
    }

    /// The bytes of decoded arrays that are kept.
    pub(crate) fn decoded_bytes(&self) -> u64 {
        self.parts.values().map(|part| part.decoded_bytes()).sum()
    }

    /// Removes everything, for the caller to drop outside of its locks.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Part>> {
        std::mem::take(&mut self.parts).into_values().collect()
    }

    /// The bytes of resident parts, as in the ledger.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.values().map(|part| booked_bytes(part.bytes())).sum()
    }
}
