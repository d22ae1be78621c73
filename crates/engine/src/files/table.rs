//! A known file: the positions of its parts, the rows of its chunks, and its decoding.
//!
//! [`Catalog`](crate::files::catalog::Catalog) has the known files.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use arrow::datatypes::SchemaRef;
use coscan_core::{ChunkNo, ChunkSet, ColumnNo, StoreNo, TableId};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::error::{EngineError, SharedSource};
use crate::files::chunks::{ChunkRows, FileChunk};
use crate::files::decoding::Decoding;
use crate::io::fit::cost_bytes;
use crate::io::identity::{LocalFile, LocalVersion, StoreId, Version, names_version};
use crate::io::same::Quirks;
use crate::io::{BUFFER_SLACK, ReadError, Source};
use crate::sync::Mutex;

/// The identifier of a known file; one per version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u64);

impl FileId {
    /// Its number. No other version of a file on the engine ever has it.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// A Parquet file to read. Its chunks are row groups or pieces of them; columns are its root columns.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// The store. Reads go through it, except for files on this machine (see `local`).
    pub store: Arc<dyn ObjectStore>,
    /// The store's address, for example `file:///` or `s3://bucket`.
    pub store_url: String,
    /// The identity of the store. Ignored for files on this machine, which are the same for all stores.
    pub store_id: StoreId,
    /// The file on this machine, to be read directly instead of through `store`; `None` to read through the
    /// store. The caller guarantees that `metadata` is from this version: it looked before and after reading
    /// the footer.
    pub local: Option<LocalFile>,
    /// The version to read: path, size, modification time and ETag.
    pub meta: ObjectMeta,
    /// The file's footer, decoded.
    pub metadata: Arc<ParquetMetaData>,
    /// Files of one store with the same `table_root` form one table.
    pub table_root: String,
}

/// The address of a file, given the address of its store.
pub(crate) fn address(store_url: &str, location: &Path) -> String {
    let between = if store_url.ends_with('/') { "" } else { "/" };
    format!("{store_url}{between}{location}")
}

/// Fails if the version that was found is not the one that `meta` describes: with
/// [`EngineError::FileReplaced`], or with [`EngineError::WrongSize`] if `meta` names no version.
fn check_listed(
    found: &LocalVersion,
    meta: &ObjectMeta,
    file: impl FnOnce() -> String,
) -> Result<(), EngineError> {
    if found.is_listed_as(meta) {
        return Ok(());
    }
    Err(match names_version(meta) {
        true => EngineError::FileReplaced {
            file: file(),
            detail: format!("listed with {} bytes of {}", meta.size, meta.last_modified),
        },
        false => EngineError::WrongSize { file: file(), found: found.bytes(), stated: meta.size },
    })
}

impl FileSpec {
    /// The file's address.
    pub(crate) fn name(&self) -> String {
        address(&self.store_url, &self.meta.location)
    }

    fn store_key(&self) -> StoreId {
        if self.local.is_some() { StoreId::local() } else { self.store_id.clone() }
    }

    pub(crate) fn path_key(&self) -> (StoreId, String) {
        let location = match &self.local {
            Some(local) => local.path.to_string_lossy().into_owned(),
            None => self.meta.location.to_string(),
        };
        (self.store_key(), location)
    }

    pub(crate) fn root_key(&self) -> (StoreId, String, String) {
        (self.store_key(), self.store_url.clone(), self.table_root.clone())
    }

    pub(crate) fn version(&self) -> Version<'_> {
        Version { local: self.local.as_ref(), meta: &self.meta }
    }

    /// Fails if the listing and the file on this machine are different versions.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match &self.local {
            Some(local) => check_listed(&local.version, &self.meta, || self.name()),
            None => Ok(()),
        }
    }
}

/// A version of a file in use. The engine knows it as long as a handle exists.
#[derive(Clone)]
pub struct FileHandle(Arc<Opened>);

/// The state that the handles of a file share.
#[derive(Debug)]
pub(crate) struct Opened {
    file: Arc<File>,
}

impl Opened {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Opened { file }
    }
}

impl FileHandle {
    pub(crate) fn new(opened: Arc<Opened>) -> Self {
        FileHandle(opened)
    }

    /// The version's id.
    pub fn id(&self) -> FileId {
        self.0.file.id
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.0.file
    }

    /// Its chunks, in the order of its rows.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &ChunkRows> {
        self.file().chunks.iter().map(|chunk| &chunk.rows)
    }

    /// The encoded bytes of a chunk, by its position in [`Self::chunks`], in these root columns.
    pub fn chunk_bytes(&self, chunk: usize, roots: &[usize]) -> u64 {
        roots.iter().map(|&root| self.file().chunks[chunk].part_bytes(root)).sum()
    }

    /// The cost of reading these root columns (ascending) of a chunk, in bytes, if a further request costs as
    /// much as `request_bytes`.
    pub fn chunk_cost_bytes(&self, chunk: usize, roots: &[usize], request_bytes: u64) -> u64 {
        let chunk = &self.file().chunks[chunk];
        let mut ranges: Vec<Range<u64>> =
            roots.iter().flat_map(|&root| chunk.parts[root].iter().cloned()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        cost_bytes(ranges, request_bytes, request_bytes)
    }
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.file(), other.file())
    }
}

impl Eq for FileHandle {}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.file().name())
    }
}

/// The number of schemas to decode to that are kept per file.
const SCHEMAS_KEPT: usize = 8;

/// A store with known files.
#[derive(Clone, Debug)]
pub(crate) struct KnownStore {
    pub(crate) no: StoreNo,
    pub(crate) quirks: Arc<Quirks>,
}

/// One version of a file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: FileId,
    pub(crate) source: Arc<Source>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) table: TableId,
    pub(crate) first_chunk: u32,
    /// Root columns by position in the file.
    pub(crate) columns: Vec<Column>,
    /// The chunks in the order of the file's rows.
    chunks: Vec<FileChunk>,
    /// The bundles: ranges of positions of chunks that are one chunk to the buffer manager.
    bundles: Vec<Range<usize>>,
    /// The difference of the file on disk, once that is known.
    pub(crate) replaced: OnceLock<String>,
    /// The last look that found it on this machine.
    look: AtomicU64,
    decodings: Mutex<Vec<(SchemaRef, Arc<Decoding>)>>,
}

/// A root column of a file, and its column of the table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) no: ColumnNo,
    /// The number of registered scans that read this column of the table.
    pub(crate) readers: Arc<AtomicU32>,
}

impl File {
    #[expect(clippy::too_many_arguments, reason = "the one constructor of a plain record")]
    pub(crate) fn new(
        id: FileId,
        spec: FileSpec,
        table: TableId,
        first_chunk: u32,
        columns: Vec<Column>,
        chunks: Vec<FileChunk>,
        bundles: Vec<Range<usize>>,
        known: KnownStore,
    ) -> Self {
        let name = spec.name();
        let FileSpec { store, local, meta, metadata, .. } = spec;
        let look = AtomicU64::new(local.as_ref().map_or(0, |local| local.look));
        let KnownStore { no: store_no, quirks } = known;
        let source = Arc::new(Source { name, store, store_no, meta, local, quirks });
        let (replaced, decodings) = (OnceLock::new(), Mutex::default());
        File { id, source, metadata, table, first_chunk, columns, chunks, bundles, replaced, look, decodings }
    }

    /// Notes that this version was found on this machine.
    pub(crate) fn looked_at(&self, look: u64) {
        self.look.fetch_max(look, Ordering::Relaxed);
    }

    /// The order of versions of a path: the newer one is greater.
    pub(crate) fn order(&self) -> (u64, i64) {
        let (_, modified) = self.source.version().order();
        (self.look.load(Ordering::Relaxed), modified)
    }

    /// Returns whether the chunk belongs to this file.
    pub(crate) fn has_chunk(&self, chunk: ChunkNo) -> bool {
        chunk.0.checked_sub(self.first_chunk).is_some_and(|at| (at as usize) < self.bundles.len())
    }

    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// The number of the bundle with the chunk at a position; `None` if there is no such chunk.
    pub(crate) fn bundle_of(&self, at: usize) -> Option<ChunkNo> {
        let bundle = self.bundles.partition_point(|bundle| bundle.end <= at);
        (bundle < self.bundles.len()).then_some(ChunkNo(self.first_chunk + bundle as u32))
    }

    /// The chunks of a bundle, by their positions.
    pub(crate) fn bundle(&self, bundle: ChunkNo) -> Range<usize> {
        self.bundles[(bundle.0 - self.first_chunk) as usize].clone()
    }

    /// Up to `most` pieces on either side of a piece, in the same row group, nearest first. Empty for a whole
    /// row group.
    pub(crate) fn neighbours(&self, bundle: ChunkNo, most: usize) -> impl Iterator<Item = ChunkNo> + '_ {
        let at = self.bundle(bundle).start;
        let of =
            |at: usize| self.chunks.get(at).filter(|chunk| chunk.is_piece).map(|chunk| chunk.rows.row_group);
        let row_group = of(at);
        let most = if row_group.is_some() { most } else { 0 };
        let near = (1..=most).flat_map(move |far| [at.checked_sub(far), at.checked_add(far)]).flatten();
        near.filter(move |&other| of(other) == row_group).filter_map(|other| self.bundle_of(other))
    }

    /// The chunk at a position in the file.
    pub(crate) fn chunk(&self, at: usize) -> &FileChunk {
        &self.chunks[at]
    }

    /// The position of the chunk with a row, or of the last one before it.
    pub(crate) fn chunk_with(&self, row_group: usize, row: usize) -> usize {
        let begins_before =
            |chunk: &FileChunk| (chunk.rows.row_group, chunk.rows.rows.start) <= (row_group, row);
        self.chunks.partition_point(begins_before).saturating_sub(1)
    }

    /// The byte ranges of a part in the file, one chunk after the other.
    pub(crate) fn part_ranges(&self, bundle: ChunkNo, root: usize) -> impl Iterator<Item = Range<u64>> + '_ {
        self.bundle(bundle).flat_map(move |at| self.chunks[at].parts[root].iter().cloned())
    }

    /// The row group of a bundle's part that has the bytes at an offset; the bundle's first if none has.
    pub(crate) fn row_group_at(&self, bundle: ChunkNo, root: usize, offset: u64) -> usize {
        let chunks = self.bundle(bundle);
        let has = |at: &usize| self.chunks[*at].parts[root].iter().any(|range| range.contains(&offset));
        self.chunks[chunks.clone().find(has).unwrap_or(chunks.start)].rows.row_group
    }

    pub(crate) fn chunks(&self) -> ChunkSet {
        ChunkSet::range(self.first_chunk..self.first_chunk + self.bundles.len() as u32)
    }

    /// The encoded bytes of a part.
    pub(crate) fn part_bytes(&self, bundle: ChunkNo, root: usize) -> u64 {
        self.part_ranges(bundle, root).map(|range| range.end - range.start).sum()
    }

    /// The rows of a row group.
    pub(crate) fn rows(&self, row_group: usize) -> usize {
        self.metadata.row_group(row_group).num_rows().max(0) as usize
    }

    /// The position in this file of a column of the table.
    pub(crate) fn root_of(&self, column: ColumnNo) -> Option<usize> {
        self.columns.iter().position(|c| c.no == column)
    }

    pub(crate) fn replaced_error(&self) -> Option<EngineError> {
        let detail = self.replaced.get()?.clone();
        Some(EngineError::FileReplaced { file: self.name().to_owned(), detail })
    }

    /// The error for scans that wait for bytes that could not be read. It names the column if that is known.
    pub(crate) fn read_error(
        &self,
        row_group: usize,
        root: Option<usize>,
        error: &Arc<ReadError>,
    ) -> EngineError {
        let file = self.name().to_owned();
        match &**error {
            ReadError::Replaced(detail) => EngineError::FileReplaced { file, detail: detail.clone() },
            _ => EngineError::Read {
                file,
                row_group,
                column: root.map_or_else(String::new, |root| self.columns[root].name.clone()),
                source: error.clone(),
            },
        }
    }

    /// The error for scans that decode a column of the chunk at a position.
    pub(crate) fn corrupt(&self, at: usize, root: usize, source: SharedSource) -> EngineError {
        EngineError::Corrupt {
            file: self.name().to_owned(),
            row_group: self.chunk(at).rows.row_group,
            column: self.columns[root].name.clone(),
            source,
        }
    }

    /// The decoding to `schema`, made once per schema.
    pub(crate) fn decoding(&self, schema: &SchemaRef) -> Result<Arc<Decoding>, EngineError> {
        let mut known = self.decodings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, decoding)) = known.iter().find(|(s, _)| Arc::ptr_eq(s, schema) || s == schema) {
            return Ok(decoding.clone());
        }
        let options = ArrowReaderOptions::new().with_schema(schema.clone());
        let plain = ArrowReaderMetadata::try_new(self.metadata.clone(), options).map_err(|source| {
            EngineError::Schema { file: self.name().to_owned(), source: Arc::new(source) }
        })?;
        let decoding = Arc::new(Decoding::new(plain));
        if known.len() == SCHEMAS_KEPT {
            known.remove(0);
        }
        known.push((schema.clone(), decoding.clone()));
        Ok(decoding)
    }
}

/// The bytes of a resident part besides its data: its names, its state here and in the buffer manager, its
/// decoder.
const PART_BYTES: u64 = 512;

/// The bytes in the ledger for a part of this many encoded bytes. Buffers may exceed their data by
/// [`BUFFER_SLACK`], and every part has its state. A part without data is never read.
pub(crate) fn booked_bytes(bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes => bytes.saturating_add(bytes / BUFFER_SLACK).saturating_add(PART_BYTES),
    }
}

/// The byte ranges of every column of every row group. Checked, because a footer can be as corrupt as any
/// page.
pub(crate) fn part_ranges(spec: &FileSpec) -> Result<Vec<Vec<Range<u64>>>, EngineError> {
    let schema = spec.metadata.file_metadata().schema_descr();
    let roots = schema.root_schema().get_fields();
    let of_row_group = |row_group: usize| {
        let leaves = spec.metadata.row_group(row_group).columns();
        let mut ranges: Vec<Option<Range<u64>>> = vec![None; roots.len()];
        for (leaf, column) in leaves.iter().enumerate() {
            let root = schema.get_column_root_idx(leaf);
            let first_page = column.dictionary_page_offset().filter(|&at| at > 0);
            let start = u64::try_from(first_page.unwrap_or(column.data_page_offset()));
            let len = u64::try_from(column.compressed_size());
            let range = match (start, len) {
                (Ok(start), Ok(len)) => start.checked_add(len).map(|end| start..end),
                _ => None,
            };
            let corrupt = |what: String| EngineError::Corrupt {
                file: spec.meta.location.to_string(),
                row_group,
                column: roots[root].name().to_owned(),
                source: Arc::new(ParquetError::EOF(what)),
            };
            let size = spec.meta.size;
            let range = range.filter(|range| range.end <= size).ok_or_else(|| {
                corrupt(format!("the column chunk does not lie within the file's {size} bytes"))
            })?;
            let rows = spec.metadata.row_group(row_group).num_rows();
            if !range.is_empty() && rows > most_rows(column, range.end - range.start) {
                return Err(corrupt(format!(
                    "the column chunk cannot hold the {rows} rows that the footer claims"
                )));
            }
            if range.start < range.end {
                let whole = ranges[root].get_or_insert(range.clone());
                *whole = whole.start.min(range.start)..whole.end.max(range.end);
            }
        }
        Ok(ranges.into_iter().map(|range| range.unwrap_or(0..0)).collect())
    };
    (0..spec.metadata.num_row_groups()).map(of_row_group).collect()
}

/// The minimum bytes of a page header. A page has 31 bits for the number of its values.
const PAGE_HEADER_BYTES: u64 = 8;

/// The maximum rows of a column chunk of this many bytes: every row has a value or a null.
fn most_rows(column: &ColumnChunkMetaData, bytes: u64) -> i64 {
    let pages = i64::try_from(bytes / PAGE_HEADER_BYTES).unwrap_or(i64::MAX);
    column.num_values().min(pages.saturating_mul(i64::from(i32::MAX)))
}
