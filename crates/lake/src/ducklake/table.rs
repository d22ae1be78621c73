//! Versions of a table, in the terms of all formats.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::object_store::ObjectStore;
use url::Url;

use super::columns::Columns;
use super::deletes::DeletedRows;
use super::newest::Newest;
use super::stored::{below, is_of_version, version};
use super::{files, inlined};
use crate::catalog::database::{Database, Reading};
use crate::deleted_rows::without_rows;
use crate::options::{Wanted, time};
use crate::place::Root;
use crate::snapshot::{DataFile, Deletes, Snapshot};
use crate::source::{Change, Source};

/// The name of the format in `STORED AS`.
pub(crate) const FORMAT: &str = "DUCKLAKE";

/// A table of a catalog.
pub(super) struct DuckLakeTable {
    /// The name for people.
    pub(super) name: String,
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) database: Arc<Database>,
    pub(super) newest: Arc<Newest>,
    /// The folder of all tables.
    pub(super) folder: String,
    /// The folder of this one.
    pub(super) location: String,
    pub(super) url: Url,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) wanted: Wanted,
}

impl fmt::Debug for DuckLakeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuckLakeTable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The number of a table and its folder, relative to that of the catalog unless it has a root.
pub(super) struct TablePlace {
    pub(super) id: String,
    folder: String,
}

impl TablePlace {
    /// The table's folder in the catalog's.
    pub(super) fn folder_in(&self, catalog: &str) -> String {
        let is_rooted = self.folder.starts_with('/') || self.folder.contains("://");
        if is_rooted { self.folder.clone() } else { format!("{catalog}{}", self.folder) }
    }
}

/// Finds a table in a version; `None` if it has no such table.
pub(super) async fn place_of(
    reading: &mut Reading<'_>,
    schema: &str,
    table: &str,
    version: u64,
) -> Result<Option<TablePlace>> {
    let sql = format!(
        "SELECT CAST(t.table_id AS TEXT), t.path, CAST(t.path_is_relative AS TEXT), s.path, CAST(s.path_is_relative AS TEXT) \
         FROM ducklake_table t JOIN ducklake_schema s ON t.schema_id = s.schema_id \
         WHERE {} AND {} AND schema_name = $2 AND table_name = $3",
        is_of_version("t"),
        is_of_version("s")
    );
    let found = reading.rows::<5>(&sql, &[&version.to_string(), schema, table]).await?.pop();
    let Some([Some(id), path, relative, schema_path, schema_relative]) = found else { return Ok(None) };
    let of_schema = below("", schema_path.as_deref(), schema_relative.as_deref());
    Ok(Some(TablePlace { id, folder: below(&of_schema, path.as_deref(), relative.as_deref()) }))
}

impl DuckLakeTable {
    async fn read(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>> {
        let wanted = match &self.wanted {
            // Looked up just now, when the known snapshot was found to be old.
            Wanted::Newest if known.is_some() => {
                Wanted::Version(self.newest.version(&self.database, Duration::MAX).await?)
            }
            wanted => wanted.clone(),
        };
        let mut reading = self.database.read().await?;
        let is_pinned = self.wanted == Wanted::Newest && wanted != Wanted::Newest;
        let version = version(&mut reading, &wanted).await.map_err(|error| match error {
            // A writer removed it after the statement had looked it up.
            DataFusionError::Plan(text) if is_pinned => {
                DataFusionError::IoError(io::Error::new(io::ErrorKind::NotFound, text))
            }
            other => other,
        })?;
        if wanted == Wanted::Newest {
            self.newest.note(version);
        }
        if let Some(known) = known.filter(|known| known.version == version) {
            return Ok(Arc::clone(known));
        }
        let Some(place) = place_of(&mut reading, &self.schema, &self.table, version).await? else {
            return plan_err!("the catalog has no such table any more");
        };
        let folder = place.folder_in(&self.folder);
        let of = (&*place.id, version);
        let columns = Columns::read(&mut reading, of).await?;
        let root = Root::of_store(&self.url);
        let (files, layouts) =
            files::read(&mut reading, of, &columns, &folder, &root, known.map(|known| &**known)).await?;
        let bounds = files::bounds(&mut reading, of, &columns, &files).await?;
        let rows = inlined::read(&mut reading, of, &columns).await?;
        let layouts = match &rows.unreadable {
            unreadable if unreadable.is_empty() => layouts,
            unreadable => layouts.into_iter().map(|layout| layout.without(unreadable)).collect(),
        };
        Ok(Arc::new(Snapshot {
            version,
            schema: Arc::new(Schema::new(columns.fields_of_queries())),
            layouts,
            files: files.into_iter().map(|file| file.file).collect(),
            bounds,
            rows: Some(rows.rows),
        }))
    }
}

#[async_trait]
impl Source for DuckLakeTable {
    async fn snapshot(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>> {
        let read = Box::pin(self.read(known)).await;
        read.map_err(|error| error.context(format!("the DuckLake table {}", self.name)))
    }

    async fn common_version(&self, age: Duration) -> Result<Option<u64>> {
        match self.wanted {
            Wanted::Newest => self.newest.version(&self.database, age).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn without_deleted(&self, file: &DataFile, deletes: &Deletes) -> Result<PartitionedFile> {
        let meta = &file.file.object_meta;
        let (Some(deleted), Some(rows)) = (deletes.place::<DeletedRows>(), file.rows) else {
            return exec_err!("{} has deletes of another format", meta.location);
        };
        let positions = deleted.read(&self.store, meta).await?;
        if let Some(count) = deletes.count.filter(|&count| positions.len() != count) {
            return exec_err!(
                "the catalog counts {count} deleted rows of {}, and there are {}",
                meta.location,
                positions.len()
            );
        }
        without_rows(&file.file, positions, rows).ok_or_else(|| {
            exec_datafusion_err!("deleted positions of {} exceed the file's {rows} rows", meta.location)
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    async fn history(&self) -> Result<Vec<Change>> {
        let mut reading = self.database.read().await?;
        let version = version(&mut reading, &self.wanted).await?;
        let Some(place) = place_of(&mut reading, &self.schema, &self.table, version).await? else {
            return plan_err!("the catalog has no table {} any more", self.name);
        };
        let sql = "SELECT CAST(s.snapshot_id AS TEXT), CAST(s.snapshot_time AS TEXT), c.changes_made, c.author, c.commit_message \
                   FROM ducklake_snapshot s JOIN ducklake_snapshot_changes c ON s.snapshot_id = c.snapshot_id ORDER BY s.snapshot_id";
        let made = format!("created_table:\"{}\".\"{}\"", self.schema, self.table);
        let end = format!(":{}", place.id);
        let change = |[id, at, changes, author, message]: [Option<String>; 5]| {
            let changes = changes?;
            let own: Vec<&str> =
                changes.split(',').filter(|part| part.ends_with(&end) || *part == made).collect();
            let details = serde_json::json!({ "author": author, "message": message });
            (!own.is_empty()).then(|| {
                Some(Change {
                    version: id?.parse().ok()?,
                    at: at.as_deref().and_then(time),
                    operation: Some(own.join(",")),
                    details: (author.is_some() || message.is_some()).then(|| details.to_string()),
                })
            })?
        };
        Ok(reading.rows::<5>(sql, &[]).await?.into_iter().filter_map(change).collect())
    }

    fn place(&self) -> (&'static str, String) {
        (FORMAT, self.location.clone())
    }
}
