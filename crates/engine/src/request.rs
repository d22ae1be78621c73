//! What a caller asks for, checked and cut into scans of one table each.
//!
//! The buffer manager's scans cover one table, name each chunk once, and are either in table order or in
//! any. A request that does not fit (several tables, a chunk twice, an order of its own) becomes several
//! scans that are worked off one after another.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_core::{ChunkNo, ColumnNo, ColumnSet, DeliveryOrder, ScanSpec, TableId};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use crate::error::EngineError;
use crate::table::{File, FileId};
use crate::workspace;

/// A scan to register.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The chunks to deliver. One that is listed twice is delivered twice.
    pub chunks: Vec<ChunkRequest>,
    /// What to decode, for every file that `chunks` names.
    pub columns: Vec<FileColumns>,
    /// How many workers will read at once, at least one.
    pub workers: usize,
    /// `Table`: chunks come in the order of `chunks`.
    pub order: DeliveryOrder,
    /// How much this scan's needs count against others', from 1 (normal) upwards.
    pub weight: u32,
}

/// One row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRequest {
    /// The file.
    pub file: FileId,
    /// The row group, counted from zero.
    pub row_group: usize,
    /// Handed back with the chunk.
    pub tag: u32,
}

/// The columns to decode from one file.
#[derive(Clone, Debug)]
pub struct FileColumns {
    /// The file.
    pub file: FileId,
    /// Positions of root columns in the file, ascending. May be empty: chunks then have rows, no arrays.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to, after any change of types the caller wants (views,
    /// timestamps from int96): as many fields as the file has root columns.
    pub schema: SchemaRef,
}

/// How to read one file.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) file: Arc<File>,
    pub(crate) roots: Vec<usize>,
    pub(crate) columns: Vec<ColumnNo>,
    pub(crate) decoding: ArrowReaderMetadata,
}

/// A checked request.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) segments: Vec<Segment>,
    /// For every chunk of the request: its segment and its number there.
    pub(crate) places: Vec<(usize, ChunkNo)>,
    pub(crate) tags: Vec<u32>,
    pub(crate) reads: Arc<HashMap<FileId, FileRead>>,
    pub(crate) workers: usize,
    order: DeliveryOrder,
    weight: u32,
}

/// The part of a request that is one scan for the buffer manager.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) table: TableId,
    /// Chunks, and where they stand in the request.
    pub(crate) chunks: Vec<(ChunkNo, usize)>,
    columns: ColumnSet,
    workspace_bytes: u64,
    /// A file of the segment, for messages.
    pub(crate) example: String,
}

impl Plan {
    /// `files` are those that the request's columns name.
    pub(crate) fn new(
        request: ScanRequest,
        files: &HashMap<FileId, Arc<File>>,
        slice_rows: usize,
    ) -> Result<Self, EngineError> {
        if request.workers == 0 {
            return Err(EngineError::InvalidRequest("workers must be at least 1".into()));
        }
        let reads = file_reads(request.columns, files)?;
        let tags = request.chunks.iter().map(|chunk| chunk.tag).collect();
        let mut plan = Plan {
            segments: Vec::new(),
            places: Vec::with_capacity(request.chunks.len()),
            tags,
            reads: Arc::new(reads),
            workers: request.workers,
            order: request.order,
            weight: request.weight.max(1),
        };
        // For delivery in any order: the segment of each table's n-th mention of a chunk.
        let mut rounds: HashMap<(TableId, usize), usize> = HashMap::new();
        let mut mentions: HashMap<(TableId, ChunkNo), usize> = HashMap::new();
        for (index, wanted) in request.chunks.iter().enumerate() {
            let read = plan.reads.get(&wanted.file).ok_or_else(|| {
                EngineError::InvalidRequest(format!(
                    "chunk {index}: no columns are given for file {}",
                    wanted.file
                ))
            })?;
            if wanted.row_group >= read.file.metadata.num_row_groups() {
                let (group, file) = (wanted.row_group, read.file.name());
                return Err(EngineError::InvalidRequest(format!("there is no row group {group} in {file}")));
            }
            let (table, chunk) = (read.file.table, read.file.chunk(wanted.row_group));
            let at = match request.order {
                DeliveryOrder::Any => {
                    let nth = mentions.entry((table, chunk)).or_default();
                    *nth += 1;
                    let next = plan.segments.len();
                    *rounds.entry((table, *nth)).or_insert(next)
                }
                DeliveryOrder::Table => {
                    let last = plan.segments.last();
                    let goes_on =
                        last.is_some_and(|s| s.table == table && s.chunks[s.chunks.len() - 1].0 < chunk);
                    if goes_on { plan.segments.len() - 1 } else { plan.segments.len() }
                }
            };
            if at == plan.segments.len() {
                let example = read.file.name().to_owned();
                let (columns, chunks) = (ColumnSet::new(), Vec::new());
                plan.segments.push(Segment { table, chunks, columns, workspace_bytes: 0, example });
            }
            plan.segments[at].chunks.push((chunk, index));
            plan.places.push((at, chunk));
        }
        plan.measure(&request.chunks, slice_rows);
        Ok(plan)
    }

    /// Columns and workspace of each segment: the most that any of its chunks needs.
    fn measure(&mut self, wanted: &[ChunkRequest], slice_rows: usize) {
        for segment in &mut self.segments {
            let mut seen = HashSet::new();
            for (chunk, index) in &segment.chunks {
                let read = &self.reads[&wanted[*index].file];
                if seen.insert(read.file.id) {
                    read.columns.iter().for_each(|column| segment.columns.insert(*column));
                }
                let needed = workspace::chunk_bytes(read, read.file.row_group(*chunk), slice_rows);
                segment.workspace_bytes = segment.workspace_bytes.max(needed);
            }
        }
    }

    /// What to register for a segment, without the chunks (by their place in the request) in `skip`.
    pub(crate) fn spec(&self, segment: usize, skip: &HashSet<usize>) -> ScanSpec {
        let segment = &self.segments[segment];
        let chunks = segment.chunks.iter().filter(|(_, index)| !skip.contains(index));
        ScanSpec {
            table: segment.table,
            columns: segment.columns.clone(),
            chunks: chunks.map(|(chunk, _)| *chunk).collect(),
            workers: self.workers as u32,
            order: self.order,
            weight: self.weight,
            workspace_bytes: segment.workspace_bytes,
        }
    }
}

fn file_reads(
    columns: Vec<FileColumns>,
    files: &HashMap<FileId, Arc<File>>,
) -> Result<HashMap<FileId, FileRead>, EngineError> {
    let mut reads = HashMap::with_capacity(columns.len());
    for wanted in columns {
        let file = files
            .get(&wanted.file)
            .cloned()
            .ok_or_else(|| EngineError::InvalidRequest(format!("there is no file {}", wanted.file)))?;
        if let Some(error) = file.replaced_error() {
            return Err(error);
        }
        let ascending = wanted.roots.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || wanted.roots.last().is_some_and(|&root| root >= file.columns.len()) {
            let message =
                format!("root columns {:?} of {}: ascending positions are wanted", wanted.roots, file.name());
            return Err(EngineError::InvalidRequest(message));
        }
        let decoding = file.decoding(&wanted.schema)?;
        let columns = wanted.roots.iter().map(|&root| file.columns[root].no).collect();
        reads.insert(wanted.file, FileRead { file, roots: wanted.roots, columns, decoding });
    }
    Ok(reads)
}
