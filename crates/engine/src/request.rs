//! The caller's request, checked and divided into scans of one table each.
//!
//! A scan of the buffer manager covers one table in one set of columns, names each chunk once, and is either in table
//! order or in any. Any other request becomes several scans, its *segments*. Segments that differ only in their
//! columns are read at the same time, as one *stage*. For another table, a chunk that is named again, or an order of
//! the request's own, there is a further stage.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_core::{ChunkNo, ColumnSet, DeliveryOrder, ScanSpec, TableId};

use crate::error::EngineError;
use crate::file_read::FileRead;
use crate::segments::{self, ColumnGroup, RequestedChunk};
use crate::table::FileHandle;
use crate::workspace;

/// A scan to register.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The chunks to deliver, in the order of their keys. A chunk that is listed twice is delivered twice.
    pub chunks: Vec<ChunkRequest>,
    /// What to decode of which file: each chunk names one of these.
    pub columns: Vec<FileColumns>,
    /// How many workers will read at once, at least one.
    pub workers: usize,
    /// With `Table`, chunks come in the order of `chunks`; if there are several workers or one is dropped, small row
    /// groups that are read together may come later.
    pub order: DeliveryOrder,
    /// The weight of this scan's needs against those of others, from 1 (normal) upwards.
    pub weight: u32,
    /// The reader; `None` for one without other scans.
    pub reader: Option<Reader>,
}

/// A reader of a table with several scans: what one of them decodes is not kept for the others, as it is for other
/// readers of the same columns.
#[derive(Clone, Debug, Default)]
pub struct Reader(Arc<()>);

impl Reader {
    /// Whether both are the same.
    pub(crate) fn is(&self, other: &Reader) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that no other reader has as long as this one exists.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRequest {
    /// Its file and the columns to decode: a position in [`ScanRequest::columns`].
    pub columns: usize,
    /// Its position in [`FileHandle::chunks`].
    pub chunk: usize,
    /// The caller's key: greater than the keys before it in the request.
    pub key: u32,
}

/// Columns to decode from one file. A file may be there several times, for chunks that need other columns.
#[derive(Clone, Debug)]
pub struct FileColumns {
    /// The file.
    pub file: FileHandle,
    /// Positions of root columns in the file, ascending. May be empty: chunks then have rows, but no arrays.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to, after any change of types the caller wants (views,
    /// timestamps from int96): as many fields as the file has root columns.
    pub schema: SchemaRef,
}

/// A checked request.
#[derive(Debug)]
pub(crate) struct CheckedRequest {
    pub(crate) segments: Vec<Segment>,
    /// The segments of each stage.
    pub(crate) stages: Vec<Range<usize>>,
    /// For every chunk of the request, by its key: its segment and its bundle.
    pub(crate) places: HashMap<u32, (usize, ChunkNo)>,
    pub(crate) reads: Arc<[FileRead]>,
    pub(crate) workers: usize,
    pub(crate) reader: Reader,
    order: DeliveryOrder,
    weight: u32,
}

/// The part of a request that is one scan for the buffer manager.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) table: TableId,
    pub(crate) chunks: Vec<RequestedChunk>,
    /// The same, by bundle.
    pub(crate) bundles: HashMap<ChunkNo, Vec<RequestedChunk>>,
    columns: ColumnSet,
    pub(crate) workspace_bytes: u64,
    /// A file of the segment, for messages.
    pub(crate) example: String,
}

impl CheckedRequest {
    pub(crate) fn new(request: ScanRequest, slice_rows: usize) -> Result<Self, EngineError> {
        if request.workers == 0 {
            return Err(EngineError::InvalidRequest("workers must be at least 1".into()));
        }
        let reads = file_reads(request.columns)?;
        let mut checked = CheckedRequest {
            segments: Vec::new(),
            stages: Vec::new(),
            places: HashMap::with_capacity(request.chunks.len()),
            reads: reads.into(),
            workers: request.workers,
            reader: request.reader.unwrap_or_default(),
            order: request.order,
            weight: request.weight.max(1),
        };
        for (table, chunks) in stages(&request.chunks, &checked.reads, request.order)? {
            let begin = checked.segments.len();
            let groups = match request.order {
                DeliveryOrder::Any => segments::by_columns(chunks, &checked.reads),
                DeliveryOrder::Table => vec![segments::one(chunks, &checked.reads)],
            };
            groups.into_iter().for_each(|group| checked.add(table, group, slice_rows));
            checked.stages.push(begin..checked.segments.len());
        }
        Ok(checked)
    }

    /// The encoded bytes of all chunks in their columns.
    pub(crate) fn bytes(&self) -> u64 {
        let chunks = self.segments.iter().flat_map(|segment| &segment.chunks);
        let bytes = |wanted: &RequestedChunk| {
            let read = &self.reads[wanted.read];
            let chunk = read.file.chunk(wanted.chunk);
            read.roots.iter().map(|&root| chunk.part_bytes(root)).sum::<u64>()
        };
        chunks.map(bytes).sum()
    }

    /// Adds a segment; its workspace is that of its largest chunk.
    fn add(&mut self, table: TableId, group: ColumnGroup, slice_rows: usize) {
        let ColumnGroup { columns, chunks, .. } = group;
        let needed = |wanted: &RequestedChunk| {
            let read = &self.reads[wanted.read];
            workspace::chunk_bytes(read, read.file.chunk(wanted.chunk).rows.row_group, slice_rows)
        };
        let workspace_bytes = chunks.iter().map(needed).max().unwrap_or(0);
        let example = self.reads[chunks[0].read].file.name().to_owned();
        let segment = self.segments.len();
        self.places.extend(chunks.iter().map(|wanted| (wanted.key, (segment, wanted.bundle))));
        let bundles = segments::by_bundle(&chunks);
        self.segments.push(Segment { table, chunks, bundles, columns, workspace_bytes, example });
    }

    /// What to register for these chunks of a segment.
    pub(crate) fn spec(&self, segment: usize, chunks: &[RequestedChunk]) -> ScanSpec {
        let segment = &self.segments[segment];
        ScanSpec {
            table: segment.table,
            columns: segment.columns.clone(),
            chunks: chunks.iter().map(|wanted| wanted.bundle).collect(),
            workers: self.workers as u32,
            order: self.order,
            weight: self.weight,
            workspace_bytes: segment.workspace_bytes,
        }
    }
}

/// The chunks of each stage, with their table: of one table and, for delivery in any order, each once; in table
/// order ascending.
fn stages(
    chunks: &[ChunkRequest],
    reads: &[FileRead],
    order: DeliveryOrder,
) -> Result<Vec<(TableId, Vec<RequestedChunk>)>, EngineError> {
    let mut stages: Vec<(TableId, Vec<RequestedChunk>)> = Vec::new();
    // For delivery in any order: the stage for the n-th mention of a chunk in each table.
    let mut rounds: HashMap<(TableId, usize), usize> = HashMap::new();
    let mut mentions: HashMap<(TableId, ChunkNo, usize), usize> = HashMap::new();
    if let Some(pair) = chunks.windows(2).find(|pair| pair[0].key >= pair[1].key) {
        let message = format!(
            "chunk {}: keys must ascend, but this key is not greater than the one before",
            pair[1].key
        );
        return Err(EngineError::InvalidRequest(message));
    }
    for wanted in chunks {
        let read = reads.get(wanted.columns).ok_or_else(|| {
            let (key, at, given) = (wanted.key, wanted.columns, reads.len());
            EngineError::InvalidRequest(format!(
                "chunk {key} names columns {at}, but the request has {given}"
            ))
        })?;
        let (table, chunk) = (read.file.table, wanted.chunk);
        let Some(bundle) = read.file.bundle_of(chunk) else {
            let file = read.file.name();
            return Err(EngineError::InvalidRequest(format!("there is no chunk {chunk} in {file}")));
        };
        let next = stages.len();
        let at = match order {
            DeliveryOrder::Any => {
                let nth = mentions.entry((table, bundle, chunk)).or_default();
                *nth += 1;
                *rounds.entry((table, *nth)).or_insert(next)
            }
            DeliveryOrder::Table => {
                let goes_on = stages.last().is_some_and(|(of, chunks)| {
                    *of == table
                        && chunks.last().is_some_and(|last| (last.bundle, last.chunk) < (bundle, chunk))
                });
                if goes_on { next - 1 } else { next }
            }
        };
        if at == next {
            stages.push((table, Vec::new()));
        }
        stages[at].1.push(RequestedChunk { bundle, chunk, key: wanted.key, read: wanted.columns });
    }
    Ok(stages)
}

fn file_reads(columns: Vec<FileColumns>) -> Result<Vec<FileRead>, EngineError> {
    let mut reads = Vec::with_capacity(columns.len());
    for wanted in columns {
        let file = wanted.file.file().clone();
        if let Some(error) = file.replaced_error() {
            return Err(error);
        }
        let ascending = wanted.roots.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || wanted.roots.last().is_some_and(|&root| root >= file.columns.len()) {
            let message = format!(
                "root columns {:?} of {}: must be ascending positions in the file",
                wanted.roots,
                file.name()
            );
            return Err(EngineError::InvalidRequest(message));
        }
        let decoding = file.decoding(&wanted.schema)?;
        let columns = wanted.roots.iter().map(|&root| file.columns[root].no).collect();
        reads.push(FileRead { file, _handle: wanted.file, roots: wanted.roots, columns, decoding });
    }
    Ok(reads)
}
