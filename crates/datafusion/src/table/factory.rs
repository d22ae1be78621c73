//! Factories of tables of files, for `CREATE EXTERNAL TABLE` and for paths.

use std::collections::HashSet;
use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result, TableReference, ToDFSchema, plan_err};
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{CreateExternalTable, SortExpr};
use datafusion::object_store::{Error as StoreError, ObjectMeta};

use super::files::FilesTable;
use super::format::ParquetFilesFactory;
use super::keys::{Key, type_of};
use super::lake::{lake_table, lake_table_at};
use super::listing::{Listed, common_keys, first_files};
use super::location::{Location, store_of};

/// The name of the factory for tables of Parquet files.
pub(crate) const PARQUET: &str = "PARQUET";

/// Replaces DataFusion's own tables and format of Parquet files in a session by those of this crate.
pub(crate) fn with_mended_tables(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let factories = builder.table_factories().get_or_insert_default();
    if factories.get(PARQUET).is_none_or(is_default) {
        factories.insert(PARQUET.to_owned(), Arc::new(FilesTables));
    }
    let formats = builder.file_formats().get_or_insert_default();
    let is_parquet = |factory: &Arc<dyn FileFormatFactory>| {
        factory.get_ext().eq_ignore_ascii_case(ParquetFilesFactory::EXTENSION)
    };
    let inner = formats.iter().position(is_parquet).map(|at| formats.remove(at));
    let inner = inner.unwrap_or_else(|| Arc::new(ParquetFormatFactory::new()));
    formats.push(Arc::new(ParquetFilesFactory::new(inner)));
    builder
}

/// Returns whether a factory is DataFusion's own. It does not reveal its type, but its text does.
fn is_default(factory: &Arc<dyn TableProviderFactory>) -> bool {
    let own = [format!("{:?}", DefaultTableFactory::new()), format!("{:?}", ListingTableFactory::new())];
    own.contains(&format!("{factory:?}"))
}

/// Makes tables of Parquet files.
#[derive(Debug)]
pub(crate) struct FilesTables;

impl TableProviderFactory for FilesTables {
    boxed!(FilesTables::table as create);
}

impl FilesTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        if let Some(table) = lake_table(state, command).await? {
            return Ok(table);
        }
        if command.unbounded {
            return DefaultTableFactory::new().create(state, command).await;
        }
        let declared = (!command.schema.fields().is_empty()).then(|| Arc::clone(command.schema.inner()));
        let locations = command.locations.iter().map(|text| {
            let location = Location::parse(text)?;
            Ok(if declared.is_some() { location.with_any_name() } else { location })
        });
        let found = Found::at(state, locations.collect::<Result<Vec<_>>>()?).await?;
        let format = format(state, command)?;
        let (file_schema, keys) = match declared {
            Some(columns) => found.declared(&columns, &command.table_partition_cols)?,
            None => found.inferred(state, format.as_ref(), &command.table_partition_cols).await?,
        };
        check_orders(&file_schema, &command.order_exprs)?;
        let options = ListingOptions::new(format).with_file_sort_order(command.order_exprs.clone());
        let table = found.table(options, file_schema, keys, Some(&command.name))?;
        let table = table
            .with_definition(command.definition.clone())
            .with_constraints(command.constraints.clone())
            .with_column_defaults(command.column_defaults.clone());
        found.open(state, table, Some(command.name.clone())).await
    }
}

/// Returns the table of the Parquet files at a location; `None` if there are none, or other files.
pub(crate) async fn table_at(state: &SessionState, text: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    if let Some(table) = lake_table_at(state, text).await? {
        return Ok(Some(table));
    }
    let Ok(location) = Location::parse(text) else { return Ok(None) };
    let is_path = location.is_on_this_machine() && (text.contains('/') || text.ends_with(".parquet"));
    // A store that refuses credentials or fails says nothing about the file.
    let is_address = text.contains("://");
    let found = match Found::at(state, vec![location]).await {
        Ok(found) => found,
        Err(error) if is_path || is_address && !is_missing(&error) => return Err(error),
        Err(_) => return Ok(None),
    };
    let is_parquet = found.locations[0].is_presigned()
        || found.files.first().is_some_and(|file| file.meta.location.as_ref().ends_with(".parquet"));
    let Some(formats) = state.get_file_format_factory(ParquetFilesFactory::EXTENSION).filter(|_| is_parquet)
    else {
        return Ok(None);
    };
    if found.files.is_empty() {
        return Ok(None);
    }
    let format = formats.create(state, &Default::default())?;
    let (file_schema, keys) = found.inferred(state, format.as_ref(), &[]).await?;
    let table = found.table(ListingOptions::new(format), file_schema, keys, None)?;
    found.open(state, table, None).await.map(Some)
}

/// Returns whether the store has no such file.
fn is_missing(error: &DataFusionError) -> bool {
    let root = error.find_root();
    matches!(root, DataFusionError::ObjectStore(error) if matches!(**error, StoreError::NotFound { .. }))
}

/// Returns the session's format for the command's files.
fn format(state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn FileFormat>> {
    let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
        return plan_err!("tables of files need DataFusion's own session");
    };
    match state.get_file_format_factory(&command.file_type) {
        Some(formats) => formats.create(state, &command.options),
        None => plan_err!("the session has no format of the name {}", command.file_type),
    }
}

fn check_orders(schema: &SchemaRef, orders: &[Vec<SortExpr>]) -> Result<()> {
    let schema = Arc::clone(schema).to_dfschema()?;
    let columns: HashSet<_> = orders.iter().flatten().flat_map(|order| order.expr.column_refs()).collect();
    match columns.into_iter().find(|column| !schema.has_column(column)) {
        Some(column) => plan_err!("Column {column} is not in schema"),
        None => Ok(()),
    }
}

/// The locations of a table and their files.
struct Found {
    locations: Vec<Location>,
    files: Vec<Listed>,
}

impl Found {
    async fn at(state: &dyn Session, given: Vec<Location>) -> Result<Self> {
        let Some(first) = given.first() else { return plan_err!("a table needs a location") };
        if let Some(other) = given.iter().find(|other| store_of(other.url()) != store_of(first.url())) {
            return plan_err!(
                "All locations of a table must be in the same object store: {} and {} are not",
                first.shown(),
                other.shown()
            );
        }
        for (at, location) in given.iter().enumerate() {
            if given[..at].iter().any(|other| other.text() == location.text()) {
                return plan_err!("Duplicate location '{}' of a table", location.shown());
            }
        }
        let subfolders = !state.config_options().execution.listing_table_ignore_subdirectory;
        let mut found = Found { locations: Vec::new(), files: Vec::new() };
        for location in given {
            // Each location is looked up, because a URL may say more than its store.
            let store = state.runtime_env().object_store(location.url())?;
            let (location, files) = first_files(&store, location, subfolders).await?;
            found.locations.push(location);
            found.files.extend(files);
        }
        Ok(found)
    }

    /// Returns the columns of files and the keys of a table with declared columns.
    fn declared(&self, columns: &SchemaRef, declared: &[String]) -> Result<(SchemaRef, Vec<Key>)> {
        self.check_keys(declared)?;
        let key = |name: &String| Ok((name.clone(), columns.field_with_name(name)?.data_type().clone()));
        let keys = declared.iter().map(key).collect::<Result<Vec<_>>>()?;
        Ok((without(columns, declared), keys))
    }

    /// Returns the columns of files and the keys as the files have them. If a file has a key as a column,
    /// too, the folder's value is used.
    async fn inferred(
        &self,
        state: &dyn Session,
        format: &dyn FileFormat,
        declared: &[String],
    ) -> Result<(SchemaRef, Vec<Key>)> {
        let Some(first) = self.locations.first().filter(|_| !self.files.is_empty()) else {
            return plan_err!(
                "No files found at {}. Cannot infer schema from an empty location; either add data files or declare an explicit \
                 schema for the table.",
                self.locations.iter().map(Location::shown).collect::<Vec<_>>().join(", ")
            );
        };
        let names = match declared {
            [] if state.config_options().execution.listing_table_factory_infer_partitions => {
                common_keys(&self.files)?
            }
            declared => {
                self.check_keys(declared)?;
                declared.to_vec()
            }
        };
        let keys = names.iter().enumerate().map(|(at, name)| (name.clone(), self.type_of_key(at)));
        let keys = keys.collect();
        let store = state.runtime_env().object_store(first.url())?;
        let metas: Vec<ObjectMeta> = self.files.iter().map(|file| file.meta.clone()).collect();
        let columns = format.infer_schema(state, &store, &metas).await?;
        Ok((without(&columns, &names), keys))
    }

    fn type_of_key(&self, at: usize) -> DataType {
        type_of(self.files.iter().filter_map(|file| file.keys.get(at).map(|(_, value)| value.as_str())))
    }

    /// Fails if the folders of files begin with other keys than these.
    fn check_keys(&self, declared: &[String]) -> Result<()> {
        let of = |file: &Listed| file.keys.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        match self.files.iter().find(|file| !of(file).starts_with(declared)) {
            Some(file) => plan_err!(
                "the table is partitioned by {declared:?}, but {} is in folders of the keys {:?}",
                file.meta.location,
                of(file)
            ),
            None => Ok(()),
        }
    }

    fn table(
        &self,
        options: ListingOptions,
        file_schema: SchemaRef,
        keys: Vec<Key>,
        name: Option<&TableReference>,
    ) -> Result<ListingTable> {
        let url = |location: &Location| match name {
            Some(name) => location.url().clone().with_table_ref(name.clone()),
            None => location.url().clone(),
        };
        let urls = self.locations.iter().map(url).collect();
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options.with_table_partition_cols(keys))
            .with_schema(file_schema);
        ListingTable::try_new(config)
    }

    async fn open(
        self,
        state: &dyn Session,
        table: ListingTable,
        name: Option<TableReference>,
    ) -> Result<Arc<dyn TableProvider>> {
        let table = FilesTable::new(table, self.locations, name, state);
        if let Err(error) = table.warm_up(state, self.files).await {
            // Queries that need them report the error.
            tracing::debug!(%error, "the statistics of a table's files cannot be read");
        }
        Ok(Arc::new(table))
    }
}

/// Returns the columns that are not keys.
fn without(columns: &SchemaRef, keys: &[String]) -> SchemaRef {
    let fields = columns.fields().iter().filter(|field| !keys.contains(field.name())).cloned();
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), columns.metadata().clone()))
}
