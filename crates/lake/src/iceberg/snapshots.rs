//! Snapshots of an Iceberg table: metadata, lists of manifests and manifests as the terms of all formats.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use coscan_datafusion::{as_uuid, is_uuid};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use flate2::read::GzDecoder;
use futures::{StreamExt, TryStreamExt};
use roaring::RoaringTreemap;
use url::Url;

use super::deletes::{DeleteFile, Scope};
use super::manifests::{self, Content, Entry, Manifest};
use super::metadata::{self, Metadata};
use super::{columns, values};
use crate::deleted_rows::without_rows;
use crate::field_ids::{FieldIdAdapters, id_of};
use crate::options::Wanted;
use crate::place::Root;
use crate::snapshot::{Bounds, DataFile, Deletes, Layout, Place, Snapshot, as_in_columns, file_meta};
use crate::source::{Change, Source};

/// The name of the format in `STORED AS`.
pub(crate) const FORMAT: &str = "ICEBERG";

/// Manifests that are read at the same time.
const MANIFESTS_AT_ONCE: usize = 16;

/// The end of the name of a metadata file.
const METADATA: &str = ".metadata.json";

/// A table.
pub(super) struct IcebergTable {
    /// The location, as the user wrote it, or the name in a catalog.
    name: String,
    url: Url,
    newest: Newest,
    store: Arc<dyn ObjectStore>,
    wanted: Wanted,
    last: Mutex<Option<Arc<Last>>>,
}

/// What says which metadata file is the newest.
#[derive(Debug)]
pub(super) enum Newest {
    /// This file is the only one.
    File(Path),
    /// The numbers of the files in this folder.
    Folder(Path),
    /// A catalog.
    Pointer(Arc<dyn Pointer>),
}

/// A table's entry in a catalog.
#[async_trait]
pub(super) trait Pointer: std::fmt::Debug + Send + Sync {
    /// Returns the newest metadata file.
    async fn current(&self) -> Result<Current>;
}

/// The newest metadata file.
pub(super) struct Current {
    /// Its location.
    pub(super) location: String,
    /// Its contents, if the catalog sends them.
    pub(super) metadata: Option<Metadata>,
}

/// What was read for the last snapshot.
struct Last {
    /// The location of the metadata file.
    metadata: String,
    /// Files by manifest, which does not change.
    manifests: HashMap<String, Arc<Vec<Entry>>>,
    deletes: Vec<Arc<DeleteFile>>,
    root: Arc<Root>,
    types: Arc<HashMap<i32, DataType>>,
    adapters: Arc<FieldIdAdapters>,
}

impl std::fmt::Debug for IcebergTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IcebergTable").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl IcebergTable {
    /// A table in the store at a URL.
    pub(super) fn new(
        name: &str,
        url: Url,
        newest: Newest,
        store: Arc<dyn ObjectStore>,
        wanted: Wanted,
    ) -> Self {
        IcebergTable { name: name.to_owned(), url, newest, store, wanted, last: Mutex::new(None) }
    }

    async fn newest(&self) -> Result<Current> {
        let path = match &self.newest {
            Newest::Pointer(pointer) => return pointer.current().await,
            Newest::File(path) => path.clone(),
            Newest::Folder(folder) => match newest_metadata(&self.store, folder).await? {
                Some(newest) => newest,
                None => return plan_err!("{folder}/metadata has no metadata file"),
            },
        };
        Ok(Current { location: path.to_string(), metadata: None })
    }

    fn last(&self) -> Option<Arc<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn read(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>> {
        let Current { location, metadata } = self.newest().await?;
        let last = self.last();
        if let Some(known) = known.filter(|_| last.as_ref().is_some_and(|last| last.metadata == location)) {
            return Ok(Arc::clone(known));
        }
        let metadata = match metadata {
            Some(sent) => sent,
            None => self.metadata(&location).await?,
        };
        metadata.check()?;
        let root = Arc::new(self.root(&location, &metadata)?);
        let (found, schema) = metadata.find(&self.wanted)?;
        let manifests = match found {
            Some(snapshot) => self.manifests(snapshot, &root).await?,
            None => Vec::new(),
        };
        let read_before = last.as_ref().map(|last| &last.manifests);
        let each = |manifest: &Manifest| {
            let manifest = manifest.clone();
            let (root, before) = (&root, read_before.and_then(|read| read.get(&manifest.path)).cloned());
            async move {
                let entries = match before {
                    Some(entries) => entries,
                    None => {
                        let bytes = self.file(root, &manifest.path).await?;
                        let entries = manifests::entries(&bytes, &manifest);
                        Arc::new(entries.map_err(|error| cannot_read("manifest", &manifest.path, error))?)
                    }
                };
                Ok::<_, DataFusionError>((manifest.path, entries))
            }
        };
        let read = futures::stream::iter(manifests.iter().map(each)).buffered(MANIFESTS_AT_ONCE);
        let read: Vec<(String, Arc<Vec<Entry>>)> = read.try_collect().await?;
        let entries: Vec<&Entry> = read.iter().flat_map(|(_, entries)| entries.iter()).collect();
        let before = last.as_ref().map_or(&[][..], |last| &last.deletes);
        let deletes = delete_files(&root, &metadata, &entries, before)?;
        let defaults = Arc::new(columns::defaults(&schema.fields)?);
        let adapters = Arc::new(FieldIdAdapters { by_name: false, names: metadata.names()?, defaults });
        let of = |field: &metadata::Field| Some((field.id, columns::arrow_type(&field.data_type).ok()?));
        let types = Arc::new(schema.fields.iter().filter_map(of).collect::<HashMap<_, _>>());
        let rows: Vec<&Entry> =
            entries.iter().copied().filter(|entry| entry.content == Content::Rows).collect();
        let known = known.map(|known| &**known);
        let found = (found, schema);
        let snapshot = snapshot_of(&root, &metadata, found, &rows, &deletes, &adapters, known)?;
        let snapshot = Arc::new(snapshot);
        let manifests = read.into_iter().collect();
        let last = Last { metadata: location, manifests, deletes, root, types, adapters };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(last));
        Ok(snapshot)
    }

    /// Reads a metadata file.
    async fn metadata(&self, location: &str) -> Result<Metadata> {
        let path = match &self.newest {
            Newest::Pointer(_) => Root::of_store(&self.url).path_of(location)?,
            _ => Path::parse(location)?,
        };
        let bytes = self.store.get(&path).await?.bytes().await?;
        let parse = || {
            if !location.ends_with(&format!(".gz{METADATA}")) {
                return Metadata::parse(&bytes);
            }
            let mut text = Vec::new();
            GzDecoder::new(bytes.as_ref()).read_to_end(&mut text)?;
            Metadata::parse(&text)
        };
        parse().map_err(|error| {
            error.context(format!(
                "the metadata file {location} cannot be read: restore it, or name an earlier one as the table's location"
            ))
        })
    }

    /// The folder of the table. Without a catalog it is the one with the folder of this metadata file, because the
    /// table may have been copied.
    fn root(&self, metadata_file: &str, metadata: &Metadata) -> Result<Root> {
        let folder = match &self.newest {
            Newest::Pointer(_) => Root::of_store(&self.url).path_of(&metadata.location)?,
            _ => {
                let path = Path::parse(metadata_file)?;
                let mut parts: Vec<_> = path.parts().collect();
                parts.truncate(parts.len().saturating_sub(2));
                Path::from_iter(parts)
            }
        };
        Ok(Root { url: self.url.clone(), folder, written: metadata.location.clone() })
    }

    async fn file(&self, root: &Root, location: &str) -> Result<Bytes> {
        Ok(self.store.get(&root.path_of(location)?).await?.bytes().await?)
    }

    async fn manifests(&self, snapshot: &metadata::Snapshot, root: &Root) -> Result<Vec<Manifest>> {
        if let Some(list) = &snapshot.manifest_list {
            let read = manifests::list(&self.file(root, list).await?);
            let what = format!("list of manifests of the snapshot {}", snapshot.snapshot_id);
            return read.map_err(|error| cannot_read(&what, list, error));
        }
        let of = |path: &String| Manifest { path: path.clone(), spec: 0, sequence: 0 };
        Ok(snapshot.manifests.iter().map(of).collect())
    }
}

/// An error in a file of a snapshot.
fn cannot_read(what: &str, path: &str, error: DataFusionError) -> DataFusionError {
    error.context(format!("the {what} {path} cannot be read: restore it, or read another snapshot"))
}

/// Returns the metadata file of the highest number in a table's folder; `None` if the folder is no table.
pub(super) async fn newest_metadata(store: &Arc<dyn ObjectStore>, folder: &Path) -> Result<Option<Path>> {
    let folder = folder.clone().join("metadata");
    let files: Vec<ObjectMeta> = store.list(Some(&folder)).try_collect().await?;
    let numbered = files.iter().filter_map(|file| {
        let name = file.location.filename()?.strip_suffix(METADATA)?;
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let number = name.strip_prefix('v').unwrap_or(name).split('-').next()?.parse::<u64>().ok()?;
        Some((number, file.last_modified, &file.location))
    });
    Ok(numbered.max().map(|(_, _, newest)| newest.clone()))
}

/// The files with deleted rows. Those that were read for an earlier snapshot are not read again.
fn delete_files(
    root: &Root,
    metadata: &Metadata,
    entries: &[&Entry],
    before: &[Arc<DeleteFile>],
) -> Result<Vec<Arc<DeleteFile>>> {
    let known: HashMap<_, _> =
        before.iter().map(|known| ((known.entry.path.as_str(), known.entry.part), known)).collect();
    let deletes = entries.iter().filter(|entry| entry.content != Content::Rows);
    let file = |entry: &&Entry| {
        let path = root.path_of(&entry.path)?;
        let fields = metadata.partition_fields(entry.spec)?;
        let everywhere = fields.iter().all(|field| field.transform == "void");
        let file = DeleteFile::new((*entry).clone(), path, everywhere)?;
        let known = known.get(&(entry.path.as_str(), entry.part)).copied();
        Ok(known.map_or_else(|| Arc::new(file), Arc::clone))
    };
    deletes.map(file).collect()
}

/// Translates a snapshot with its columns.
fn snapshot_of(
    root: &Root,
    metadata: &Metadata,
    (found, schema): (Option<&metadata::Snapshot>, &metadata::Schema),
    rows: &[&Entry],
    deletes: &[Arc<DeleteFile>],
    adapters: &Arc<FieldIdAdapters>,
    known: Option<&Snapshot>,
) -> Result<Snapshot> {
    let mut fields: Vec<FieldRef> = Vec::new();
    let mut unreadable: Vec<Option<String>> = Vec::new();
    for field in &schema.fields {
        let read = columns::column(field);
        unreadable.push(
            read.as_ref()
                .err()
                .map(|error| format!("the column {}: {}", field.name, error.strip_backtrace())),
        );
        fields.push(read.unwrap_or_else(|_| Arc::new(Field::new(&field.name, DataType::Null, true))));
    }
    let constants = Constants::of(metadata, &fields, rows)?;
    let mut layouts: Vec<(BTreeSet<i32>, Layout)> = Vec::new();
    let listed = known.map(Snapshot::deletes).unwrap_or_default();
    let mut files = Vec::with_capacity(rows.len());
    let mut by_scope: HashMap<Scope<'_>, Vec<&Arc<DeleteFile>>> = HashMap::new();
    for file in deletes {
        by_scope.entry(file.scope()).or_default().push(file);
    }
    for entry in rows {
        if entry.format != "PARQUET" {
            return not_impl_err!("the file {} is of the format {}", entry.path, entry.format);
        }
        let location = root.path_of(&entry.path)?;
        let own = constants.of_file(entry)?;
        let ids: BTreeSet<i32> = own.keys().copied().collect();
        let layout = match layouts.iter().position(|(known, _)| *known == ids) {
            Some(at) => at,
            None => {
                layouts.push((ids.clone(), layout_of(&fields, &unreadable, &ids, adapters)?));
                layouts.len() - 1
            }
        };
        let applied = applied(&by_scope, entry);
        let deletes = (!applied.is_empty()).then(|| {
            let count = counted(&applied);
            Deletes::of(applied, count, listed.get(&location))
        });
        let meta = file_meta(location, entry.bytes);
        let mut file = PartitionedFile::new_from_meta(meta);
        file.partition_values = own.into_values().collect();
        files.push(DataFile { file, layout, rows: Some(entry.rows), deletes });
    }
    if layouts.is_empty() {
        layouts.push((BTreeSet::new(), layout_of(&fields, &unreadable, &BTreeSet::new(), adapters)?));
    }
    let bounds = fields.iter().map(|field| bounds_of(field, rows)).collect();
    Ok(Snapshot {
        version: found.map_or(0, |snapshot| snapshot.snapshot_id as u64),
        schema: Arc::new(Schema::new(fields.iter().map(without_id).collect::<Vec<_>>())),
        layouts: layouts.into_iter().map(|(_, layout)| layout).collect(),
        files,
        bounds,
        rows: None,
    })
}

/// A column as queries see it.
fn without_id(field: &FieldRef) -> FieldRef {
    let plain = field.as_ref().clone().with_metadata(HashMap::new());
    Arc::new(if is_uuid(field) { as_uuid(plain) } else { plain })
}

/// The layout of files with constants for these columns.
fn layout_of(
    fields: &[FieldRef],
    unreadable: &[Option<String>],
    constants: &BTreeSet<i32>,
    adapters: &Arc<FieldIdAdapters>,
) -> Result<Layout> {
    let is_constant = |field: &FieldRef| id_of(field).is_some_and(|id| constants.contains(&id));
    let readable =
        || fields.iter().zip(unreadable).filter(|(_, reason)| reason.is_none()).map(|(field, _)| field);
    let in_files: Vec<FieldRef> = readable().filter(|field| !is_constant(field)).cloned().collect();
    let mut kept: Vec<FieldRef> = readable().filter(|field| is_constant(field)).cloned().collect();
    kept.sort_by_key(id_of);
    let stored =
        TableSchema::builder(Arc::new(Schema::new(in_files))).with_table_partition_cols(kept).build();
    let places = fields.iter().zip(unreadable).map(|(field, reason)| match reason {
        Some(reason) => Ok(Err(reason.clone())),
        None => Ok(Ok(stored.table_schema().index_of(field.name())?)),
    });
    let places = places.collect::<Result<Vec<Place>>>()?;
    Ok(Layout { stored, places, adapters: Some(Arc::clone(adapters) as _) })
}

/// The columns by whose values files are partitioned, by the id of the specification.
struct Constants {
    /// The position of the field in the partition, with the column.
    of_specs: HashMap<i32, Vec<(usize, i32, DataType)>>,
}

impl Constants {
    fn of(metadata: &Metadata, fields: &[FieldRef], rows: &[&Entry]) -> Result<Self> {
        let mut of_specs = HashMap::new();
        for entry in rows {
            if of_specs.contains_key(&entry.spec) {
                continue;
            }
            let mut found = Vec::new();
            for (at, field) in metadata.partition_fields(entry.spec)?.iter().enumerate() {
                let column = fields.iter().find(|column| id_of(column) == Some(field.source_id));
                if let Some(column) = column.filter(|_| field.transform == "identity") {
                    found.push((at, field.source_id, column.data_type().clone()));
                }
            }
            of_specs.insert(entry.spec, found);
        }
        Ok(Constants { of_specs })
    }

    /// The constants of a file, by the id of the column.
    fn of_file(&self, entry: &Entry) -> Result<std::collections::BTreeMap<i32, ScalarValue>> {
        let of = |(at, id, data_type): &(usize, i32, DataType)| {
            let Some(value) = entry.partition.get(*at) else {
                return exec_err!("the partition of {} has {} values", entry.path, entry.partition.len());
            };
            Ok((*id, as_in_columns(value.cast_to(data_type)?)))
        };
        self.of_specs[&entry.spec].iter().map(of).collect()
    }
}

/// The files whose deletes apply to a file. A vector takes the place of files with positions.
fn applied(deletes: &HashMap<Scope<'_>, Vec<&Arc<DeleteFile>>>, data: &Entry) -> Vec<Arc<DeleteFile>> {
    let scopes = [Scope::File(&data.path), Scope::Partition(data.spec, &data.partition), Scope::Table];
    let near = scopes.iter().filter_map(|scope| deletes.get(scope)).flatten();
    let applied: Vec<_> =
        near.filter(|deletes| deletes.applies_to(data)).map(|deletes| Arc::clone(deletes)).collect();
    let vector = applied.iter().any(|file| file.is_vector());
    let kept = |file: &Arc<DeleteFile>| !vector || file.is_vector() || file.entry.content == Content::Values;
    applied.into_iter().filter(kept).collect()
}

/// The number of deleted rows, where it follows from manifests.
fn counted(applied: &[Arc<DeleteFile>]) -> Option<u64> {
    match applied {
        [only] if only.is_vector() => Some(only.entry.rows),
        _ => None,
    }
}

/// The bounds of a column.
fn bounds_of(field: &FieldRef, rows: &[&Entry]) -> Bounds {
    let Some(id) = id_of(field) else { return Bounds::default() };
    let of = field.data_type();
    let float = of.is_floating();
    // NaN is above all numbers in DataFusion, and writers leave it out.
    let without_nan = |entry: &Entry| !float || entry.nans.get(&id) == Some(&0);
    let min = rows.iter().map(|entry| values::from_bytes(entry.lower.get(&id)?, of).map(values::lower));
    let max = rows.iter().map(|entry| {
        let bytes = entry.upper.get(&id).filter(|_| without_nan(entry))?;
        values::from_bytes(bytes, of).map(values::upper)
    });
    let nulls = rows.iter().map(|entry| entry.nulls.get(&id).and_then(|nulls| u64::try_from(*nulls).ok()));
    Bounds {
        min: values::array(min.collect(), of),
        max: values::array(max.collect(), of),
        nulls: Some(nulls.collect()),
    }
}

#[async_trait]
impl Source for IcebergTable {
    async fn snapshot(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>> {
        self.read(known).await.map_err(|error| error.context(format!("the Iceberg table {}", self.name)))
    }

    async fn without_deleted(&self, file: &DataFile, deletes: &Deletes) -> Result<PartitionedFile> {
        let meta = &file.file.object_meta;
        let path = &meta.location;
        let last = self.last();
        let applied = deletes.place::<Vec<Arc<DeleteFile>>>();
        let (Some(applied), Some(last), Some(rows)) = (applied, last, file.rows) else {
            return exec_err!("{path} has deletes of another format");
        };
        let mut positions = RoaringTreemap::new();
        for file in applied {
            match file.entry.content {
                Content::Values => {
                    let data = (path, meta.size);
                    file.add_matching(&self.store, data, &last.types, &last.adapters.names, &mut positions)
                        .await?;
                }
                _ => file.add_positions(&self.store, path, &last.root, &mut positions).await?,
            }
        }
        let Some(left) = without_rows(&file.file, positions, rows) else {
            return exec_err!("deleted positions of {path} exceed the file's {rows} rows");
        };
        Ok(left)
    }

    fn memory(&self) -> usize {
        let Some(last) = self.last() else { return 0 };
        let entries = last.manifests.values().flat_map(|entries| entries.iter());
        entries.map(Entry::memory).sum::<usize>()
            + last.deletes.iter().map(|file| file.memory()).sum::<usize>()
    }

    fn name(&self) -> &str {
        &self.name
    }

    async fn history(&self) -> Result<Vec<Change>> {
        let Current { location, metadata } = self.newest().await?;
        let metadata = match metadata {
            Some(sent) => sent,
            None => self.metadata(&location).await?,
        };
        let change = |snapshot: metadata::Snapshot| {
            let mut summary = snapshot.summary;
            let operation = summary.remove("operation");
            let details = (!summary.is_empty()).then(|| serde_json::json!(summary).to_string());
            Change { version: snapshot.snapshot_id, at: snapshot.timestamp_ms, operation, details }
        };
        Ok(metadata.snapshots.into_iter().map(change).collect())
    }

    fn place(&self) -> (&'static str, String) {
        let location = self.last().map_or_else(|| self.url.to_string(), |last| last.root.location());
        (FORMAT, location)
    }
}
