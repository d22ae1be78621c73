//! Decoding of a part's encoded bytes to Arrow arrays, slice by slice.
//!
//! The first scan that needs a slice decodes it. Scans that need it while it is kept get the same array. A
//! decoder has no queue: a task that finds it busy is woken later and tries again, so a consumer that is not
//! polled cannot block the others.

pub(crate) mod canonical_floats;
pub(crate) mod delta_strings;
pub(crate) mod file_bytes;
pub(crate) mod packing;
pub(crate) mod page_gate;
pub(crate) mod page_header;
pub(crate) mod page_rows;
pub(crate) mod store;
pub(crate) mod workspace;

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;

use arrow::array::{Array, ArrayData, ArrayRef};
use arrow::datatypes::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy, RowSelector,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;

use crate::decode::canonical_floats::with_canonical_floats;
use crate::decode::file_bytes::FileBytes;
use crate::decode::packing::Packing;
use crate::decode::page_gate::{PageGate, column_range, values_claimed};
use crate::decode::page_rows::check_pages;
use crate::decode::store::Part;
use crate::decode::workspace::Estimate;
use crate::error::{EngineError, SharedSource, panic_message};
use crate::files::decoding::leaves;
use crate::io::ReadError;
use crate::io::cached_file::CachedFile;
use crate::protocol::exclusive::Exclusive;
use crate::sync::Mutex;

/// Decodes one chunk of one part to one Arrow type, or to dictionaries of values of this type.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The chunk's position in the file.
    chunk: usize,
    decoding: ArrowReaderMetadata,
    data_type: DataType,
    /// True if `decoding` has dictionaries.
    has_dictionary: bool,
    /// The expected bytes of a slice.
    slice_bytes: u64,
    /// The bytes of each reader in addition to the slice: as expected, or more if pages are larger.
    page_bytes: AtomicU64,
    kept: Mutex<Kept>,
    readers: Exclusive<Vec<SliceReader>>,
}

/// The slices kept for other scans.
#[derive(Debug, Default)]
struct Kept {
    slices: BTreeMap<usize, ArrayRef>,
    /// Buffers that are already counted: views and dictionaries share buffers between slices.
    counted: HashSet<usize>,
    bytes: u64,
    /// A bit for each slice that was decoded at least once.
    decoded: Vec<u64>,
}

/// A sequential reader and its next slice.
#[derive(Debug)]
struct SliceReader {
    next: usize,
    reader: ParquetRecordBatchReader,
    packing: Packing,
    gate: Arc<PageGate>,
    /// True if pages with readable headers have all values that the footer states.
    is_whole: bool,
    /// Access to its pages, if they are not in memory.
    cached: Option<Arc<CachedFile>>,
}

/// The reasons, other than the data, for which a slice could not be decoded.
#[derive(Debug, Default)]
struct Why {
    /// The room that a page would have needed.
    refused: Option<u64>,
    /// The error of a read of its pages.
    unread: Option<ReadError>,
}

fn unread(file: Option<&Arc<CachedFile>>) -> Option<ReadError> {
    file.and_then(|file| file.take_error())
}

/// The answer to a request for a slice.
pub(crate) enum Decoded {
    /// Another scan had decoded it.
    Shared(ArrayRef),
    /// Decoded by this call. `kept` tells whether it is kept for other scans, `again` whether it had been
    /// decoded before.
    Fresh { array: ArrayRef, kept: bool, again: bool },
    /// Another task is decoding this part. It wakes the waker when the request should be repeated.
    Busy,
    /// A page needs more room than is reserved. Repeat with [`Decoder::bytes`] reserved.
    NeedsRoom,
}

impl Decoder {
    pub(crate) fn new(
        chunk: usize,
        decoding: ArrowReaderMetadata,
        data_type: DataType,
        has_dictionary: bool,
        estimate: Estimate,
    ) -> Self {
        Decoder {
            chunk,
            decoding,
            data_type,
            has_dictionary,
            slice_bytes: estimate.slice,
            page_bytes: AtomicU64::new(estimate.pages),
            kept: Mutex::default(),
            readers: Exclusive::new(Vec::new()),
        }
    }

    /// Returns whether it decodes the chunk at a position of the file to this type.
    pub(crate) fn is_for(&self, chunk: usize, data_type: &DataType) -> bool {
        self.chunk == chunk && self.data_type == *data_type
    }

    /// The bytes that decoding a slice takes, as far as known: the slice, and the pages it is made from.
    pub(crate) fn bytes(&self) -> u64 {
        self.slice_bytes.saturating_add(self.page_bytes.load(Ordering::Relaxed))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept().bytes
    }

    pub(crate) fn take_kept(&self) -> Vec<ArrayRef> {
        let mut kept = self.kept();
        let decoded = std::mem::take(&mut kept.decoded);
        std::mem::replace(&mut *kept, Kept { decoded, ..Kept::default() }).slices.into_values().collect()
    }

    /// Drops the decoder state; kept slices stay. A running decode keeps its own state until it is done.
    pub(crate) fn drop_readers(&self) {
        self.readers.clear();
    }

    /// Slice `at` of `part`, which this decoder belongs to. `spare` bytes are available in addition to
    /// [`Self::bytes`]. `keep` tells whether the slice is kept for other scans if it has to be decoded.
    pub(crate) fn slice(
        &self,
        part: &Part,
        at: usize,
        slice_rows: usize,
        spare: u64,
        keep: bool,
        waker: &Waker,
    ) -> Result<Decoded, EngineError> {
        if let Some(array) = self.kept().get(at) {
            return Ok(Decoded::Shared(array));
        }
        let Some(mut readers) = self.readers.try_take(waker) else { return Ok(Decoded::Busy) };
        // The previous user of the readers may have decoded this slice.
        if let Some(array) = self.kept().get(at) {
            return Ok(Decoded::Shared(array));
        }
        let mut why = Why::default();
        let outcome = self.decode(&mut readers, part, (at, slice_rows), spare, keep, &mut why);
        if outcome.is_err() {
            readers.clear();
        }
        let again = outcome.as_ref().is_ok_and(|array| {
            let mut kept = self.kept();
            if keep {
                kept.put(at, array);
            }
            kept.was_decoded(at)
        });
        drop(readers);
        if let Some(bytes) = why.refused {
            self.page_bytes.fetch_max(bytes, Ordering::Relaxed);
            return Ok(Decoded::NeedsRoom);
        }
        if let Some(error) = why.unread {
            return Err(part.unreadable(self.chunk, error));
        }
        let array = outcome.map_err(|source| part.corrupt(self.chunk, source))?;
        Ok(Decoded::Fresh { array, kept: keep, again })
    }

    fn decode(
        &self,
        readers: &mut Vec<SliceReader>,
        part: &Part,
        (at, slice_rows): (usize, usize),
        spare: u64,
        keep: bool,
        why: &mut Why,
    ) -> Result<ArrayRef, SharedSource> {
        let chunk = part.file.chunk(self.chunk);
        let rows = chunk.rows.rows.len();
        let wanted = slice_rows.min(rows - (at * slice_rows).min(rows));
        let step = || -> ParquetResult<ArrayRef> {
            let mut slice_reader = match readers.iter().position(|r| r.next == at) {
                Some(known) => readers.swap_remove(known),
                None => self.open(part, at, rows, slice_rows, why)?,
            };
            let gate = slice_reader.gate.clone();
            gate.begin_slice(self.page_bytes.load(Ordering::Relaxed).saturating_add(spare));
            let batch = slice_reader.reader.next().transpose().inspect_err(|_| {
                *why = Why { refused: gate.refused(), unread: unread(slice_reader.cached.as_ref()) };
            })?;
            self.page_bytes.fetch_max(gate.admitted(), Ordering::Relaxed);
            let array = batch.map(|batch| batch.column(0).clone());
            let packed =
                |array| slice_reader.packing.packed(with_canonical_floats(array)?, &self.data_type, keep);
            let array = array.map(packed).transpose()?;
            let array = array.filter(|array| array.len() == wanted).ok_or_else(|| {
                ParquetError::EOF(format!("rows {}.. are missing, expected {wanted}", at * slice_rows))
            })?;
            // The actual sizes are known after this decode.
            let more = (array.get_array_memory_size() as u64).saturating_sub(self.slice_bytes);
            self.page_bytes.fetch_max(more, Ordering::Relaxed);
            slice_reader.next = at + 1;
            if slice_reader.next * slice_rows < rows {
                // Drop the oldest: each worker that holds the part has room for one slice.
                let room = (part.pins().max(1) as usize).saturating_sub(1);
                readers.drain(..readers.len().saturating_sub(room));
                readers.push(slice_reader);
            } else if !chunk.is_piece
                && let Some(more) = slice_reader.reader.next()
            {
                // The numbers of rows by pages and by footer would differ. Bytes behind the last page are not
                // a page.
                let more = match more {
                    Ok(batch) => batch.num_rows(),
                    Err(_) if slice_reader.is_whole => return Ok(array),
                    Err(error) => return Err(error.into()),
                };
                let message =
                    format!("there are {more} rows or more behind the {rows} that the footer claims");
                return Err(ParquetError::General(message));
            }
            Ok(array)
        };
        match catch_unwind(AssertUnwindSafe(step)) {
            Ok(outcome) => outcome.map_err(|error| Arc::new(error) as SharedSource),
            Err(panic) => Err(corrupt_panic(&*panic)),
        }
    }

    /// A reader that starts with slice `at`.
    fn open(
        &self,
        part: &Part,
        at: usize,
        rows: usize,
        slice_rows: usize,
        why: &mut Why,
    ) -> ParquetResult<SliceReader> {
        let cached = part.cached_file().map_err(|error| {
            let text = error.to_string();
            why.unread = Some(error);
            ParquetError::General(text)
        })?;
        let opened = self.open_pages(part, at, rows, slice_rows, cached.clone());
        opened.inspect_err(|_| why.unread = unread(cached.as_ref()))
    }

    fn open_pages(
        &self,
        part: &Part,
        at: usize,
        rows: usize,
        slice_rows: usize,
        cached: Option<Arc<CachedFile>>,
    ) -> ParquetResult<SliceReader> {
        let chunk = part.file.chunk(self.chunk);
        let first = chunk.rows.rows.start + at * slice_rows;
        let detach = has_views(&self.data_type) && !self.has_dictionary;
        let row_group = part.file.metadata.row_group(chunk.rows.row_group);
        let leaves = leaves(&part.file.metadata, part.root);
        let gate = Arc::new(PageGate::new(row_group.columns()[leaves.clone()].iter(), detach));
        let input = FileBytes {
            pieces: part.pieces.clone(),
            cached: cached.clone(),
            end: part.file.source.meta.size,
            detach,
            gate: gate.clone(),
            what: if chunk.is_piece { "the chunk's pages" } else { "the column chunk" },
        };
        let mut is_whole = true;
        for (leaf, column) in leaves.clone().zip(&row_group.columns()[leaves]) {
            let values = check_rows(&input, chunk.is_piece, column, rows as u64)?;
            is_whole &= u64::try_from(column.num_values()) == Ok(values);
            if chunk.is_piece {
                check_pages(&part.file.metadata, &chunk.rows, leaf, &input)?;
            }
        }
        let mask = ProjectionMask::roots(self.decoding.parquet_schema(), [part.root]);
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, self.decoding.clone())
            .with_row_groups(vec![chunk.rows.row_group])
            .with_projection(mask)
            .with_batch_size(slice_rows);
        if first > 0 || chunk.is_piece {
            let rest = chunk.rows.rows.end.saturating_sub(first);
            let rest = vec![RowSelector::skip(first), RowSelector::select(rest)];
            builder = builder
                .with_row_selection(RowSelection::from(rest))
                .with_row_selection_policy(RowSelectionPolicy::Selectors);
        }
        let (reader, packing) = (builder.build()?, Packing::default());
        Ok(SliceReader { next: at, reader, packing, gate, is_whole, cached })
    }
}

/// Counts the values of a leaf column's pages. Fails if they are fewer than the rows of the footer, each of
/// which has a value or a null. The decoder itself would notice it only at the end.
fn check_rows(
    file: &FileBytes,
    is_piece: bool,
    column: &ColumnChunkMetaData,
    rows: u64,
) -> ParquetResult<u64> {
    let (start, len) = column_range(column);
    if len == 0 {
        return Ok(0);
    }
    let (mut values, mut read) = (0u64, 0);
    for (at, bytes) in &file.pieces {
        let pages = start.max(*at)..start.saturating_add(len).min(at + bytes.len());
        if !pages.is_empty() {
            read += pages.end - pages.start;
            values = values.saturating_add(values_claimed(file, pages)?);
        }
    }
    if read < len && !is_piece {
        return Err(ParquetError::EOF("the column chunk lies outside of what was read".into()));
    }
    match values < rows {
        true => Err(ParquetError::EOF(format!(
            "there are {values} values in the column chunk's pages, the footer claims {rows} rows"
        ))),
        false => Ok(values),
    }
}

/// The error for a panic of the decoder, which panics on data that its authors thought impossible. It is
/// reported as corruption.
fn corrupt_panic(panic: &(dyn Any + Send)) -> SharedSource {
    Arc::new(ParquetError::General(format!("the decoder gave up: {}", panic_message(panic))))
}

impl Kept {
    /// Marks a slice as decoded. Returns whether it had been decoded before.
    fn was_decoded(&mut self, at: usize) -> bool {
        let (word, bit) = (at / 64, 1 << (at % 64));
        if self.decoded.len() <= word {
            self.decoded.resize(word + 1, 0);
        }
        let before = self.decoded[word];
        self.decoded[word] = before | bit;
        before & bit != 0
    }

    fn get(&self, at: usize) -> Option<ArrayRef> {
        self.slices.get(&at).cloned()
    }

    fn put(&mut self, at: usize, array: &ArrayRef) {
        if !self.slices.contains_key(&at) {
            self.bytes += uncounted_bytes(&array.to_data(), &mut self.counted);
            self.slices.insert(at, array.clone());
        }
    }
}

/// The bytes of an array besides its buffers: itself, its type, its place here.
const ARRAY_BYTES: u64 = 256;

/// The bytes of the array and of its buffers that are not in `counted`; these are added to it.
pub(crate) fn uncounted_bytes(data: &ArrayData, counted: &mut HashSet<usize>) -> u64 {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let own: u64 = data
        .buffers()
        .iter()
        .chain(nulls)
        .filter(|buffer| counted.insert(buffer.data_ptr().as_ptr() as usize))
        .map(|buffer| buffer.capacity() as u64)
        .sum();
    ARRAY_BYTES + own + data.child_data().iter().map(|child| uncounted_bytes(child, counted)).sum::<u64>()
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_views(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::Dictionary(_, values) => has_views(values),
        DataType::RunEndEncoded(_, values) => has_views(values.data_type()),
        _ => false,
    }
}
