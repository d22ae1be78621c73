//! The caller's request, checked and divided into scans of one table each.
//!
//! A scan of the buffer manager covers one table in one set of columns, names each chunk once, and is either in table
//! order or in any. Any other request becomes several scans, its *segments*. Segments that differ only in their
//! columns are read at the same time, as one *stage*. For another table, a chunk that is named again, or an order of
//! the request's own, there is a further stage.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkNo, ColumnSet, DeliveryOrder, ScanSpec, TableId};

use crate::error::EngineError;
use crate::file_read::FileRead;
use crate::request::{ChunkRequest, FileColumns, Reader, ScanRequest};
use crate::segments::{self, ColumnGroup};
use crate::workspace;

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

/// Chunks of a request, in its order, by the bundle that they are to the buffer manager; none is empty.
pub(crate) type Bundles = BTreeMap<ChunkNo, Vec<ChunkRequest>>;

/// The part of a request that is one scan for the buffer manager.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) table: TableId,
    pub(crate) bundles: Bundles,
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
        let chunks = self.segments.iter().flat_map(|segment| segment.bundles.values().flatten());
        let bytes = |wanted: &ChunkRequest| {
            let read = &self.reads[wanted.columns];
            let chunk = read.file.chunk(wanted.chunk);
            read.roots.iter().map(|&root| chunk.part_bytes(root)).sum::<u64>()
        };
        chunks.map(bytes).sum()
    }

    /// Adds a segment; its workspace is that of its largest chunk.
    fn add(&mut self, table: TableId, group: ColumnGroup, slice_rows: usize) {
        let ColumnGroup { columns, chunks, .. } = group;
        let needed = |wanted: &ChunkRequest| {
            let read = &self.reads[wanted.columns];
            workspace::chunk_bytes(read, read.file.chunk(wanted.chunk).rows.row_group, slice_rows)
        };
        let workspace_bytes = chunks.iter().map(needed).max().unwrap_or(0);
        let example = self.reads[chunks[0].columns].file.name().to_owned();
        let segment = self.segments.len();
        let mut bundles = Bundles::new();
        for wanted in chunks {
            let Some(bundle) = self.reads[wanted.columns].file.bundle_of(wanted.chunk) else { continue };
            self.places.insert(wanted.key, (segment, bundle));
            bundles.entry(bundle).or_default().push(wanted);
        }
        self.segments.push(Segment { table, bundles, columns, workspace_bytes, example });
    }

    /// What to register for chunks of these bundles of a segment.
    pub(crate) fn spec(&self, segment: usize, bundles: &Bundles) -> ScanSpec {
        let segment = &self.segments[segment];
        ScanSpec {
            table: segment.table,
            columns: segment.columns.clone(),
            chunks: bundles.keys().copied().collect(),
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
) -> Result<Vec<(TableId, Vec<ChunkRequest>)>, EngineError> {
    let mut stages: Vec<(TableId, Vec<ChunkRequest>)> = Vec::new();
    // For delivery in table order: the chunk before, by its bundle.
    let mut before: Option<(TableId, ChunkNo, usize)> = None;
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
                let last = before.replace((table, bundle, chunk));
                let goes_on = last.is_some_and(|(of, last, at)| of == table && (last, at) < (bundle, chunk));
                if goes_on { next - 1 } else { next }
            }
        };
        if at == next {
            stages.push((table, Vec::new()));
        }
        stages[at].1.push(*wanted);
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
