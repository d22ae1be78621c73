//! Ranges of keys that were found by reading. An engine's sessions share them, so that the keys of a file
//! version are read once. The oldest files are dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use coscan_engine::FileId;
use datafusion::arrow::datatypes::DataType;

use super::ranges::ChunkRange;
use crate::lock::lock;

/// Limit of the kept ranges. One takes about two hundred bytes, and at most the limit of [`super::measured`]
/// for keys.
const RANGES_MAX: usize = 1 << 15;

/// A column of a file version, as values of a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileColumn {
    pub(super) file: FileId,
    pub(super) root: usize,
    pub(super) data_type: DataType,
}

/// The known ranges; see the module's documentation.
#[derive(Default)]
pub(super) struct KnownRanges(Mutex<State>);

#[derive(Default)]
struct State {
    /// By the chunk's position in its file.
    columns: HashMap<FileColumn, HashMap<usize, ChunkRange>>,
    oldest_first: VecDeque<FileColumn>,
    ranges: usize,
}

impl KnownRanges {
    /// Returns the range of a chunk, if it is known.
    pub(super) fn get(&self, column: &FileColumn, chunk: usize) -> Option<ChunkRange> {
        let state = lock(&self.0);
        state.columns.get(column)?.get(&chunk).cloned()
    }

    /// Stores the range of a chunk that was read.
    pub(super) fn insert(&self, column: &FileColumn, chunk: usize, range: ChunkRange) {
        let mut state = lock(&self.0);
        let State { columns, oldest_first, ranges } = &mut *state;
        let known = columns.entry(column.clone()).or_insert_with(|| {
            oldest_first.push_back(column.clone());
            HashMap::new()
        });
        *ranges += usize::from(known.insert(chunk, range).is_none());
        while *ranges > RANGES_MAX
            && let Some(oldest) = oldest_first.pop_front()
        {
            *ranges -= columns.remove(&oldest).map_or(0, |forgotten| forgotten.len());
        }
    }
}
