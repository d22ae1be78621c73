//! Checks of a caller's request, and its division into scans of one table each.
//!
//! A scan of the buffer manager covers one table in one set of columns. It names each chunk once, and is in
//! table order or in any order. Any other request becomes several scans, its *segments*. Segments that differ
//! only in their columns are read at the same time, as one *stage*. Another table, a chunk that is named
//! again, or an order of the request's own begins a further stage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use coscan_core::{ChunkNo, ColumnNo, ColumnSet, DeliveryOrder, MatchingChunks, ScanSpec, TableId};

use crate::decode::workspace;
use crate::error::EngineError;
use crate::files::file_read::FileRead;
use crate::files::table::FileHandle;
use crate::request::segments::{self, ColumnGroup};
use crate::request::{ChunkRequest, FileColumns, MatchingChunk, MatchingRequest, Reader, ScanRequest};

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
    /// The matching chunks: one entry for each reader, table and set of columns.
    pub(crate) matching: Vec<CheckedMatching>,
}

/// Chunks of another table that match those of a request.
#[derive(Debug)]
pub(crate) struct CheckedMatching {
    pub(crate) reader: Reader,
    pub(crate) table: TableId,
    pub(crate) columns: ColumnSet,
    /// The matching bundles, by the key of the request's chunk.
    with: BTreeMap<u32, BTreeSet<ChunkNo>>,
    /// The matching chunks of each bundle.
    chunks: BTreeMap<ChunkNo, BTreeSet<usize>>,
    /// Keeps the files known.
    _files: Vec<FileHandle>,
}

/// Chunks of a request, in its order, by their bundle; none is empty.
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
            matching: Vec::new(),
        };
        for matching in request.matching {
            checked.matching.extend(checked_matching(matching)?);
        }
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

    /// The spec to register for chunks of these bundles of a segment.
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
            matching: self.matching.iter().map(|matching| matching.with(bundles)).collect(),
        }
    }
}

impl CheckedMatching {
    /// Returns whether a chunk of a bundle is a matching chunk.
    pub(crate) fn announces(&self, bundle: ChunkNo, chunk: usize) -> bool {
        self.chunks.get(&bundle).is_some_and(|chunks| chunks.contains(&chunk))
    }

    /// The matching chunks of a bundle.
    pub(crate) fn chunks_of(&self, bundle: ChunkNo) -> impl Iterator<Item = usize> {
        self.chunks.get(&bundle).into_iter().flatten().copied()
    }

    /// The matching chunks of these bundles.
    fn with(&self, bundles: &Bundles) -> MatchingChunks {
        let with = bundles.iter().map(|(bundle, chunks)| {
            let with = chunks.iter().filter_map(|wanted| self.with.get(&wanted.key)).flatten();
            (*bundle, with.copied().collect())
        });
        MatchingChunks { table: self.table, columns: self.columns.clone(), chunks: with.collect() }
    }
}

/// The matching chunks of one reader, by table and columns.
fn checked_matching(request: MatchingRequest) -> Result<Vec<CheckedMatching>, EngineError> {
    let MatchingRequest { reader, chunks, columns } = request;
    let reads = file_reads(columns)?;
    let mut by_columns: BTreeMap<(TableId, &[ColumnNo]), CheckedMatching> = BTreeMap::new();
    for MatchingChunk { with, columns, chunk } in chunks {
        let read = reads.get(columns).ok_or_else(|| {
            let given = reads.len();
            let message = format!("a matching chunk names columns {columns}, but {given} are given");
            EngineError::InvalidRequest(message)
        })?;
        let bundle = read.file.bundle_of(chunk).ok_or_else(|| no_chunk(chunk, read))?;
        let group = by_columns.entry((read.file.table, &read.columns)).or_insert_with(|| CheckedMatching {
            reader: reader.clone(),
            table: read.file.table,
            columns: read.columns.iter().copied().collect(),
            with: BTreeMap::new(),
            chunks: BTreeMap::new(),
            _files: reads.iter().map(|read| read._handle.clone()).collect(),
        });
        group.with.entry(with).or_default().insert(bundle);
        group.chunks.entry(bundle).or_default().insert(chunk);
    }
    Ok(by_columns.into_values().collect())
}

fn no_chunk(chunk: usize, read: &FileRead) -> EngineError {
    EngineError::InvalidRequest(format!("there is no chunk {chunk} in {}", read.file.name()))
}

/// The chunks of each stage, with their table. A stage has chunks of one table: each once for delivery in any
/// order, ascending for table order.
fn stages(
    chunks: &[ChunkRequest],
    reads: &[FileRead],
    order: DeliveryOrder,
) -> Result<Vec<(TableId, Vec<ChunkRequest>)>, EngineError> {
    let mut stages: Vec<(TableId, Vec<ChunkRequest>)> = Vec::new();
    // For delivery in table order: the previous chunk, by its bundle.
    let mut before: Option<(TableId, ChunkNo, usize)> = None;
    // For delivery in any order: the stage of the n-th mention of a chunk in each table.
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
        let bundle = read.file.bundle_of(chunk).ok_or_else(|| no_chunk(chunk, read))?;
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
