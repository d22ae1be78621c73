//! The catalog of known files and tables. It maps bundles of chunks to the buffer manager's chunk numbers,
//! and forgets unused files.
//!
//! All files of one store under one root form a table. Chunks are numbered in the order in which files are
//! opened. Root columns of the same name are one column in all files. Each version of a file is a file of its
//! own.
//!
//! A file is *in use* while a [`FileHandle`] of it exists. An unused file stays, because its resident parts
//! may be wanted again. It is forgotten when a newer version of it is known, or when unused files take too
//! much memory and it is the least recently used. Chunk numbers are never reused. A table in which more
//! numbers belong to forgotten files than to known ones is *retired*: files opened after that go to a new
//! table, and the old one is dropped with the last of its files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use coscan_core::{ChunkNo, ChunkSet, ColumnLayout, ColumnNo, ConfigError, StoreNo, TableId, TableLayout};
use object_store::ObjectMeta;
use parquet::file::metadata::ParquetMetaData;

use crate::files::chunks::FileChunk;
use crate::files::table::{Column, File, FileHandle, FileId, FileSpec, KnownStore, Opened, booked_bytes};
use crate::io::identity::{StoreId, Version};

/// A table is retired when its forgotten files have this many more chunk numbers than its known ones.
const DEAD_CHUNKS: u32 = 1024;

/// The maximum number of other files that are checked for use with every file that is added.
const FILES_LOOKED_AT: usize = 64;

/// The bytes of a file besides its footer, for itself and for each part, here and in the buffer manager.
const FILE_BYTES: u64 = 2048;
const PART_BYTES: u64 = 64;

/// The bytes of its columns' decoders for each leaf of its schema, for as many schemas as are kept.
const LEAF_BYTES: u64 = 256;

/// A path in a store.
type PathKey = (StoreId, String);

/// A folder of a store that is a table.
type RootKey = (StoreId, String, String);

/// All files and tables.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: HashMap<FileId, Known>,
    /// The versions of each path that a new query may be given.
    versions: HashMap<PathKey, Vec<FileId>>,
    roots: HashMap<RootKey, TableId>,
    tables: BTreeMap<TableId, Table>,
    next_file: u64,
    next_table: u32,
    /// The number of openings, for the order of use.
    openings: u64,
    /// Files to forget as soon as they are unused.
    stale: BTreeSet<FileId>,
    /// The number of stale files in use at the last check, and the number of files added since.
    stale_kept: usize,
    added_since_stale: usize,
    bytes: u64,
    /// The number of files added since all were checked.
    added_since_look: usize,
}

/// A known file.
#[derive(Debug)]
struct Known {
    file: Arc<File>,
    path: PathKey,
    opened: Weak<Opened>,
    /// The openings at which it was last opened, and at which its version was first seen.
    used: u64,
    seen: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Table {
    root: RootKey,
    /// Its store, which keeps its number while it has tables.
    store: KnownStore,
    /// The columns by name and position among columns of that name: Parquet allows several of one name.
    columns: HashMap<(String, usize), ColumnNo>,
    readers: Vec<Arc<AtomicU32>>,
    /// Files that have chunks, by their first chunk.
    files: BTreeMap<u32, Arc<File>>,
    /// The number of files, including those without chunks.
    open: usize,
    chunks: u32,
    /// The number of chunks of forgotten files.
    dead: u32,
}

/// The consequences of adding a file, for the buffer manager.
pub(crate) struct Added {
    pub(crate) handle: FileHandle,
    /// True if this is the table's first file.
    pub(crate) opens_table: bool,
    pub(crate) layout: TableLayout,
}

/// The chunks that were forgotten, for the buffer manager.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    pub(crate) tables: Vec<TableId>,
    pub(crate) chunks: BTreeMap<TableId, ChunkSet>,
}

/// The size of the records of known files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogSize {
    /// The number of files; each version counts.
    pub files: usize,
    /// The number of tables.
    pub tables: usize,
    /// Chunk numbers of all tables, including those of forgotten files.
    pub chunks: u64,
    /// The approximate bytes of these records, including footers. Up to a sixteenth of the buffer's size (at
    /// least 4 MiB) they are beside the buffer; memory beyond that reduces the buffer.
    pub bytes: u64,
}

impl Catalog {
    /// The approximate bytes of the records of files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn size(&self) -> CatalogSize {
        CatalogSize {
            files: self.files.len(),
            tables: self.tables.len(),
            chunks: self.tables.values().map(|table| u64::from(table.chunks)).sum(),
            bytes: self.bytes,
        }
    }

    /// Returns whether the handle belongs to this engine.
    pub(crate) fn has(&self, handle: &FileHandle) -> bool {
        self.files.get(&handle.id()).is_some_and(|known| Arc::ptr_eq(&known.file, handle.file()))
    }

    /// The file of a chunk.
    pub(crate) fn file_of(&self, table: TableId, chunk: ChunkNo) -> Option<&Arc<File>> {
        let (_, file) = self.tables.get(&table)?.files.range(..=chunk.0).next_back()?;
        file.has_chunk(chunk).then_some(file)
    }

    /// The files of a table that have chunks, in the order of their chunks.
    pub(crate) fn files_of(&self, table: TableId) -> impl Iterator<Item = &Arc<File>> {
        self.tables.get(&table).into_iter().flat_map(|table| table.files.values())
    }

    /// The names of a table's columns, by number.
    pub(crate) fn columns_of(&self, table: TableId) -> Vec<String> {
        let Some(table) = self.tables.get(&table) else { return Vec::new() };
        let mut names = vec![String::new(); table.readers.len()];
        for ((name, _), no) in &table.columns {
            names[no.index()].clone_from(name);
        }
        names
    }

    pub(crate) fn readers(&self, table: TableId, column: ColumnNo) -> Option<&AtomicU32> {
        Some(&**self.tables.get(&table)?.readers.get(column.index())?)
    }

    /// The version that `spec` describes, if it is known and not found to be replaced.
    pub(crate) fn reopen(&mut self, spec: &FileSpec) -> Option<FileHandle> {
        self.openings += 1;
        let versions = self.versions.get(&spec.path_key())?;
        let is_it = |id: &&FileId| {
            let file = &self.files[*id].file;
            file.replaced.get().is_none() && file.source.version().is(&spec.version())
        };
        let id = *versions.iter().find(is_it)?;
        let known = self.files.get_mut(&id)?;
        known.used = self.openings;
        if let Some(local) = &spec.local {
            known.file.looked_at(local.look);
        }
        Some(known.handle())
    }

    /// Returns whether a read has found that a store has replaced this version of a file.
    pub(crate) fn is_replaced(&self, store: &StoreId, meta: &ObjectMeta) -> bool {
        let path = (store.clone(), meta.location.to_string());
        let is_it = |id: &FileId| {
            let file = &self.files[id].file;
            file.replaced.get().is_some() && file.source.version().is(&Version { local: None, meta })
        };
        self.versions.get(&path).is_some_and(|versions| versions.iter().any(is_it))
    }

    /// Adds a file that [`Self::reopen`] did not find.
    pub(crate) fn add(
        &mut self,
        spec: FileSpec,
        file_chunks: Vec<FileChunk>,
        bundles: Vec<Range<usize>>,
    ) -> Result<Added, ConfigError> {
        let (path, root) = (spec.path_key(), spec.root_key());
        let known_table = self.roots.get(&root).copied();
        let table_id = known_table.unwrap_or(TableId(self.next_table));
        let mut new = Table::new(&root, self.store(&root.0));
        let table = self.tables.get_mut(&table_id).unwrap_or(&mut new);
        let columns = table.unify(&spec.metadata);
        let store = table.store.clone();
        let layout = layout(&file_chunks, &bundles, &columns, table.readers.len())?.on_store(store.no);
        let (chunks, first_chunk) = (bundles.len() as u32, table.chunks);
        let parts = file_chunks.len() * columns.len();
        let leaves = spec.metadata.file_metadata().schema_descr().num_columns();
        let books = FILE_BYTES + parts as u64 * PART_BYTES + leaves as u64 * LEAF_BYTES;
        let bytes = books + spec.metadata.memory_size() as u64;
        let id = FileId(self.next_file);
        let file = Arc::new(File::new(id, spec, table_id, first_chunk, columns, file_chunks, bundles, store));
        table.chunks += chunks;
        table.open += 1;
        if chunks > 0 {
            table.files.insert(first_chunk, file.clone());
        }
        if known_table.is_none() {
            self.roots.insert(root, table_id);
            self.tables.insert(table_id, new);
            self.next_table += 1;
        }
        self.next_file += 1;
        let mut known =
            Known { file, path: path.clone(), opened: Weak::new(), used: self.openings, seen: id.0, bytes };
        let handle = known.handle();
        self.files.insert(id, known);
        self.versions.entry(path).or_default().push(id);
        self.bytes += bytes;
        Ok(Added { handle, opens_table: known_table.is_none(), layout })
    }

    /// Marks all versions of a path except the newest as stale.
    pub(crate) fn supersede(&mut self, handle: &FileHandle) {
        let Some(path) = self.files.get(&handle.id()).map(|known| known.path.clone()) else { return };
        let Some(versions) = self.versions.get(&path) else { return };
        let order = |id: &FileId| {
            let known = &self.files[id];
            (known.file.replaced.get().is_none(), known.file.order(), known.seen)
        };
        let newest = versions.iter().copied().max_by_key(order);
        // An old listing may name them again as long as they are in use.
        self.stale.extend(versions.iter().copied().filter(|id| Some(*id) != newest));
    }

    /// Forgets stale files that are unused, and other unused files if all of them take more than `bytes_max`.
    /// Cost: constant on average over all openings.
    pub(crate) fn tidy(&mut self, bytes_max: u64) -> Forgotten {
        let mut forgotten = Forgotten::default();
        self.added_since_stale += 1;
        self.added_since_look += 1;
        if self.added_since_stale >= self.stale_kept {
            self.forget_stale(&mut forgotten);
        }
        if self.bytes > bytes_max && self.added_since_look >= self.files.len() / FILES_LOOKED_AT {
            self.forget_unused(bytes_max, &mut forgotten);
        }
        forgotten
    }

    fn forget_stale(&mut self, forgotten: &mut Forgotten) {
        let stale = std::mem::take(&mut self.stale).into_iter();
        let (kept, gone): (BTreeSet<FileId>, BTreeSet<FileId>) = stale.partition(|id| self.in_use(id));
        (self.stale_kept, self.added_since_stale) = (kept.len(), 0);
        self.stale = kept;
        self.forget(gone, forgotten);
    }

    fn forget_unused(&mut self, bytes_max: u64, forgotten: &mut Forgotten) {
        self.added_since_look = 0;
        let unused = self.files.iter().filter(|(id, _)| !self.in_use(id));
        let mut unused: Vec<(u64, FileId, u64)> =
            unused.map(|(id, known)| (known.used, *id, known.bytes)).collect();
        unused.sort_unstable();
        // A quarter more than needed, so that the next check is not due at once.
        let mut surplus =
            unused.iter().map(|(.., bytes)| bytes).sum::<u64>().saturating_sub(bytes_max / 4 * 3);
        let mut gone = Vec::new();
        for (_, id, bytes) in unused {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(bytes);
            gone.push(id);
        }
        self.forget(gone, forgotten);
    }

    /// The record of a store: the one that its other tables use, or one with the lowest free number.
    fn store(&self, store: &StoreId) -> KnownStore {
        let same = self.tables.values().find(|table| table.root.0 == *store);
        same.map(|table| table.store.clone()).unwrap_or_else(|| {
            let taken: BTreeSet<StoreNo> = self.tables.values().map(|table| table.store.no).collect();
            let free = (0..).map(StoreNo).find(|no| !taken.contains(no));
            KnownStore { no: free.unwrap_or_default(), quirks: Arc::default() }
        })
    }

    fn in_use(&self, id: &FileId) -> bool {
        self.files.get(id).is_some_and(|known| known.opened.strong_count() > 0)
    }

    fn forget(&mut self, gone: impl IntoIterator<Item = FileId>, forgotten: &mut Forgotten) {
        for id in gone {
            let Some(known) = self.files.remove(&id) else { continue };
            self.bytes -= known.bytes;
            self.unlist(&known.path, id);
            let file = &known.file;
            let Some(table) = self.tables.get_mut(&file.table) else { continue };
            let chunks = file.chunks();
            table.open -= 1;
            table.dead += chunks.len();
            table.files.remove(&file.first_chunk);
            let invalid = forgotten.chunks.entry(file.table).or_default();
            *invalid = invalid.runs().chain(chunks.runs()).collect();
            if table.open == 0 {
                self.drop_table(file.table, forgotten);
            } else if table.dead > table.chunks - table.dead + DEAD_CHUNKS {
                self.retire(file.table);
            }
        }
    }

    fn unlist(&mut self, path: &PathKey, id: FileId) {
        if let Some(versions) = self.versions.get_mut(path) {
            versions.retain(|version| *version != id);
            if versions.is_empty() {
                self.versions.remove(path);
            }
        }
    }

    fn drop_table(&mut self, id: TableId, forgotten: &mut Forgotten) {
        if let Some(table) = self.tables.remove(&id) {
            if self.roots.get(&table.root) == Some(&id) {
                self.roots.remove(&table.root);
            }
            forgotten.chunks.remove(&id);
            forgotten.tables.push(id);
        }
    }

    /// Retires a table: no file is added to it, and its files are forgotten when they are unused.
    fn retire(&mut self, id: TableId) {
        let Some(table) = self.tables.get(&id) else { return };
        if self.roots.get(&table.root) != Some(&id) {
            return;
        }
        self.roots.remove(&table.root);
        let files: Vec<(FileId, PathKey)> = self
            .files
            .iter()
            .filter(|(_, known)| known.file.table == id)
            .map(|(file, known)| (*file, known.path.clone()))
            .collect();
        for (file, path) in files {
            self.unlist(&path, file);
            self.stale.insert(file);
        }
    }
}

impl Known {
    fn handle(&mut self) -> FileHandle {
        let opened = self.opened.upgrade().unwrap_or_else(|| Arc::new(Opened::new(self.file.clone())));
        self.opened = Arc::downgrade(&opened);
        FileHandle::new(opened)
    }
}

/// The positions of a file's chunks in their table.
fn layout(
    chunks: &[FileChunk],
    bundles: &[Range<usize>],
    columns: &[Column],
    table_columns: usize,
) -> Result<TableLayout, ConfigError> {
    let mut sizes = vec![vec![0; bundles.len()]; table_columns];
    for (at, bundle) in bundles.iter().enumerate() {
        for (root, column) in columns.iter().enumerate() {
            let bytes = chunks[bundle.clone()].iter().map(|chunk| chunk.part_bytes(root)).sum();
            sizes[column.no.index()][at] = booked_bytes(bytes);
        }
    }
    TableLayout::columns(bundles.len() as u32, sizes.into_iter().map(ColumnLayout::separate).collect())
}

impl Table {
    fn new(root: &RootKey, store: KnownStore) -> Self {
        Table {
            root: root.clone(),
            store,
            columns: HashMap::new(),
            readers: Vec::new(),
            files: BTreeMap::new(),
            open: 0,
            chunks: 0,
            dead: 0,
        }
    }

    /// Numbers a file's root columns. A new name becomes a new column.
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
