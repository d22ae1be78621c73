//! Files and tables: which row group is which chunk, which root column is which column.
//!
//! All files of one store under one root form a table. Row groups get chunk numbers in the order in which
//! files are opened; root columns of the same name are one column, whatever the file. A file that
//! changes on disk becomes a new file with new chunks; the old chunks stay invalid for ever.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock, PoisonError};

use arrow::datatypes::SchemaRef;
use coscan_core::{ChunkNo, ChunkSet, ColumnLayout, ColumnNo, ConfigError, StoreNo, TableId, TableLayout};
use object_store::local::LocalFileSystem;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::ParquetMetaData;

use crate::error::EngineError;
use crate::io::{Source, same_etag};
use crate::sync::Mutex;

/// A file the engine knows; one id per version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) usize);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// A Parquet file to read. Its row groups are its chunks; columns are its root columns.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// Where it lives. Reads go through the store, except for local files (see `store_url`).
    pub store: Arc<dyn ObjectStore>,
    /// The store's address, for example `file:///` or `s3://bucket`. Files of a `file:///` store are read
    /// directly, past `store`: their path on disk is `/` plus `meta.location`.
    pub store_url: String,
    /// The version to read: path, size, modification time and ETag.
    pub meta: ObjectMeta,
    /// The file's footer, decoded.
    pub metadata: Arc<ParquetMetaData>,
    /// Files with the same `store_url` and `table_root` form one table.
    pub table_root: String,
}

/// How many schemas to decode to are remembered per file.
const SCHEMAS_KEPT: usize = 8;

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
    /// Byte range in the file, by row group and root column.
    ranges: Vec<Vec<Range<u64>>>,
    /// What is different about the file on disk, once that is known.
    pub(crate) replaced: OnceLock<String>,
    decodings: Mutex<Vec<(SchemaRef, ArrowReaderMetadata)>>,
}

/// A root column of a file, and which column of the table it is.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) no: ColumnNo,
    /// How many registered scans read this column of the table.
    pub(crate) readers: Arc<AtomicU32>,
}

impl File {
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    pub(crate) fn chunk(&self, row_group: usize) -> ChunkNo {
        ChunkNo(self.first_chunk + row_group as u32)
    }

    pub(crate) fn row_group(&self, chunk: ChunkNo) -> usize {
        (chunk.0 - self.first_chunk) as usize
    }

    pub(crate) fn chunks(&self) -> ChunkSet {
        ChunkSet::range(self.first_chunk..self.first_chunk + self.ranges.len() as u32)
    }

    pub(crate) fn range(&self, row_group: usize, root: usize) -> Range<u64> {
        self.ranges[row_group][root].clone()
    }

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

    /// How to decode to `schema`: made once per schema.
    pub(crate) fn decoding(&self, schema: &SchemaRef) -> Result<ArrowReaderMetadata, EngineError> {
        let mut known = self.decodings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, decoding)) = known.iter().find(|(s, _)| Arc::ptr_eq(s, schema) || s == schema) {
            return Ok(decoding.clone());
        }
        let options = ArrowReaderOptions::new().with_schema(schema.clone());
        let decoding = ArrowReaderMetadata::try_new(self.metadata.clone(), options).map_err(|source| {
            EngineError::Schema { file: self.name().to_owned(), source: Arc::new(source) }
        })?;
        if known.len() == SCHEMAS_KEPT {
            known.remove(0);
        }
        known.push((schema.clone(), decoding.clone()));
        Ok(decoding)
    }
}

/// All files and tables.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: Vec<Arc<File>>,
    /// The current version of each path.
    current: HashMap<(String, String), FileId>,
    by_root: HashMap<(String, String), TableId>,
    /// Stores by their address.
    stores: HashMap<String, StoreNo>,
    tables: Vec<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The n-th column of a name: Parquet allows several.
    columns: HashMap<(String, usize), ColumnNo>,
    readers: Vec<Arc<AtomicU32>>,
    /// By first chunk, ascending.
    files: Vec<FileId>,
    chunks: u32,
}

/// What adding a file to the catalog means for the buffer manager.
pub(crate) struct Added {
    pub(crate) file: Arc<File>,
    /// Whether this is the table's first file.
    pub(crate) opens_table: bool,
    pub(crate) layout: TableLayout,
}

impl Catalog {
    pub(crate) fn file(&self, id: FileId) -> Option<&Arc<File>> {
        self.files.get(id.0)
    }

    pub(crate) fn file_of(&self, table: TableId, chunk: ChunkNo) -> &Arc<File> {
        let files = &self.tables[table.index()].files;
        let after = files.partition_point(|id| self.files[id.0].first_chunk <= chunk.0);
        &self.files[files[after - 1].0]
    }

    pub(crate) fn readers(&self, table: TableId, column: ColumnNo) -> &AtomicU32 {
        &self.tables[table.index()].readers[column.index()]
    }

    /// The file that is open under this path: the same version, or another.
    pub(crate) fn known(&self, spec: &FileSpec) -> Option<&Arc<File>> {
        let key = (spec.store_url.clone(), spec.meta.location.to_string());
        self.current.get(&key).map(|id| &self.files[id.0])
    }

    /// Adds a file, as the current version of its path.
    pub(crate) fn add(&mut self, spec: FileSpec, ranges: Vec<Vec<Range<u64>>>) -> Result<Added, ConfigError> {
        let root = (spec.store_url.clone(), spec.table_root.clone());
        let known_table = self.by_root.get(&root).copied();
        let table_id = known_table.unwrap_or(TableId(self.tables.len() as u32));
        if known_table.is_none() {
            self.by_root.insert(root, table_id);
            self.tables.push(Table::default());
        }
        let table = &mut self.tables[table_id.index()];
        let columns = table.unify(&spec.metadata);
        let chunks = ranges.len() as u32;
        let mut sizes = vec![vec![0; ranges.len()]; table.readers.len()];
        for (row_group, roots) in ranges.iter().enumerate() {
            for (root, range) in roots.iter().enumerate() {
                sizes[columns[root].no.index()][row_group] = range.end - range.start;
            }
        }
        let layout = TableLayout::columns(chunks, sizes.into_iter().map(ColumnLayout::separate).collect())?;
        let next = StoreNo(self.stores.len() as u32);
        let layout = layout.on_store(*self.stores.entry(spec.store_url.clone()).or_insert(next));
        let (id, first_chunk) = (FileId(self.files.len()), table.chunks);
        table.chunks += chunks;
        if chunks > 0 {
            table.files.push(id);
        }
        self.current.insert((spec.store_url.clone(), spec.meta.location.to_string()), id);
        let metadata = spec.metadata.clone();
        let (source, replaced, decodings) = (Arc::new(source(spec)), OnceLock::new(), Mutex::default());
        let file =
            File { id, source, metadata, table: table_id, first_chunk, columns, ranges, replaced, decodings };
        let file = Arc::new(file);
        self.files.push(file.clone());
        Ok(Added { file, opens_table: known_table.is_none(), layout })
    }
}

impl Table {
    /// Numbers a file's root columns; a name not seen before becomes a new column.
    fn unify(&mut self, metadata: &ParquetMetaData) -> Vec<Column> {
        let roots = metadata.file_metadata().schema_descr().root_schema().get_fields();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut columns = Vec::with_capacity(roots.len());
        for root in roots {
            let nth = seen.entry(root.name()).or_default();
            let key = (root.name().to_owned(), *nth);
            *nth += 1;
            let next = ColumnNo(self.readers.len() as u32);
            let no = *self.columns.entry(key.clone()).or_insert(next);
            if no == next {
                self.readers.push(Arc::default());
            }
            columns.push(Column { name: key.0, no, readers: self.readers[no.index()].clone() });
        }
        columns
    }
}

fn source(spec: FileSpec) -> Source {
    let between = if spec.store_url.ends_with('/') { "" } else { "/" };
    let name = format!("{}{between}{}", spec.store_url, spec.meta.location);
    let local = spec.store_url == "file:///";
    // A path that cannot be on this file system is left to the store, which says what is wrong with it.
    let path = local.then(|| LocalFileSystem::new().path_to_filesystem(&spec.meta.location).ok()).flatten();
    Source { name, store: spec.store, store_url: spec.store_url.into(), meta: spec.meta, path }
}

/// Where every part lies: checked, because a footer can be as corrupt as any page.
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
            let range =
                range.filter(|range| range.end <= spec.meta.size).ok_or_else(|| EngineError::Corrupt {
                    file: spec.meta.location.to_string(),
                    row_group,
                    column: roots[root].name().to_owned(),
                    source: Arc::new(parquet::errors::ParquetError::EOF(format!(
                        "the column chunk does not lie within the file's {} bytes",
                        spec.meta.size
                    ))),
                })?;
            if range.start < range.end {
                let whole = ranges[root].get_or_insert(range.clone());
                *whole = whole.start.min(range.start)..whole.end.max(range.end);
            }
        }
        Ok(ranges.into_iter().map(|range| range.unwrap_or(0..0)).collect())
    };
    (0..spec.metadata.num_row_groups()).map(of_row_group).collect()
}

/// Whether two descriptions of a path mean the same version; otherwise what differs.
pub(crate) fn difference(then: &ObjectMeta, now: &ObjectMeta) -> Option<String> {
    if then.size != now.size {
        return Some(format!("{} bytes, was {}", now.size, then.size));
    }
    // Equal tags settle it: times come in whole seconds from some requests and not from others.
    match (&then.e_tag, &now.e_tag) {
        (Some(a), Some(b)) => (!same_etag(a, b)).then(|| format!("ETag {b}, was {a}")),
        _ => (then.last_modified != now.last_modified)
            .then(|| format!("modified at {}, was {}", now.last_modified, then.last_modified)),
    }
}
