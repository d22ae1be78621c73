//! A table of the files at one or several locations of a store.
//!
//! Its files are listed for each query ([`super::listing`]). Files whose keys a filter rules out are not
//! read. The format reads the contents, and DataFusion writes.

use std::collections::HashSet;
use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{
    Constraints, DataFusionError, Result, ScalarValue, Statistics, TableReference, plan_err, project_schema,
};
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::datasource::listing::{ListingOptions, ListingTable, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchemaBuilder;
use datafusion::execution::cache::cache_manager::{
    CachedFileMetadata, FileStatisticsCache, SchemaFingerprint, TableScopedPath,
};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::{StreamExt, TryStreamExt};

use super::groups::{by_keys, grouped, summed};
use super::keys::{Key, passing, value_of, wanted_by};
use super::listing::{Listed, files_at};
use super::location::Location;
use crate::file::version::is_other_version;

/// A table of files; see the module's documentation.
#[derive(Debug)]
pub(crate) struct FilesTable {
    /// Constraints, defaults, declared orders and writing. It never lists.
    table: ListingTable,
    locations: Vec<Location>,
    /// The columns of the files.
    file_schema: SchemaRef,
    /// The columns of the files, then the keys.
    schema: SchemaRef,
    keys: Vec<Key>,
    reference: Option<TableReference>,
    known: Option<Arc<FileStatisticsCache>>,
    fingerprint: Arc<SchemaFingerprint>,
}

impl FilesTable {
    /// Creates a table with the schema and options of `table`. The locations must be of one store.
    pub(crate) fn new(
        table: ListingTable,
        locations: Vec<Location>,
        reference: Option<TableReference>,
        state: &dyn Session,
    ) -> Self {
        let keys = table.options().table_partition_cols.clone();
        let all = table.schema();
        let file_fields: Vec<FieldRef> =
            all.fields().iter().take(all.fields().len() - keys.len()).cloned().collect();
        let file_schema = Arc::new(Schema::new_with_metadata(file_fields, all.metadata().clone()));
        // A folder of rows without a key may be added at any time.
        let key_fields = keys.iter().map(|(key, of)| Arc::new(Field::new(key, of.clone(), true)));
        let fields: Vec<FieldRef> = file_schema.fields().iter().cloned().chain(key_fields).collect();
        FilesTable {
            schema: Arc::new(Schema::new_with_metadata(fields, file_schema.metadata().clone())),
            fingerprint: Arc::new(SchemaFingerprint::from_schema(&file_schema)),
            known: state.runtime_env().cache_manager.get_file_statistic_cache(),
            table,
            locations,
            file_schema,
            keys,
            reference,
        }
    }

    fn options(&self) -> &ListingOptions {
        self.table.options()
    }

    fn key_fields(&self) -> &[FieldRef] {
        &self.schema.fields()[self.file_schema.fields().len()..]
    }

    fn is_of_keys(&self, filter: &Expr) -> bool {
        let names: Vec<&str> = self.keys.iter().map(|(key, _)| key.as_str()).collect();
        !names.is_empty() && expr_applicable_for_cols(&names, filter)
    }

    /// Returns the table's files whose keys pass the filters, which must use keys only.
    async fn files(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        filters: &[Expr],
    ) -> Result<Vec<PartitionedFile>> {
        let subfolders = !state.config_options().execution.listing_table_ignore_subdirectory;
        let wanted = wanted_by(&self.keys, filters);
        let mut files = Vec::new();
        let mut seen = HashSet::new();
        for location in &self.locations {
            for file in files_at(store, location, &wanted, subfolders).await? {
                // Locations may overlap.
                if self.locations.len() == 1 || seen.insert(file.meta.location.clone()) {
                    files.push(self.with_keys(file)?);
                }
            }
        }
        if filters.is_empty() {
            return Ok(files);
        }
        let values: Vec<&[ScalarValue]> = files.iter().map(|file| file.partition_values.as_slice()).collect();
        let mut passes = passing(state, &self.keys, &values, filters)?.into_iter();
        files.retain(|_| passes.next().unwrap_or(true));
        Ok(files)
    }

    /// Returns a file with the values of the table's keys.
    fn with_keys(&self, file: Listed) -> Result<PartitionedFile> {
        let Listed { meta, keys: stated } = file;
        let mut values = Vec::with_capacity(self.keys.len());
        for (at, (key, of)) in self.keys.iter().enumerate() {
            let Some((_, text)) = stated.get(at).filter(|(name, _)| name == key) else {
                let names: Vec<&String> = stated.iter().map(|(name, _)| name).collect();
                return plan_err!(
                    "{} is in folders of the keys {names:?}, and the table has the key {key} there: move the file, or make the \
                     table again",
                    meta.location
                );
            };
            let Some(value) = value_of(text, of) else {
                return plan_err!(
                    "{}: the key {key} is '{text}', and was {of} in all folders when the table was made: make the table again",
                    meta.location
                );
            };
            values.push(value);
        }
        let mut file = PartitionedFile::new_from_meta(meta).with_partition_values(values);
        file.table_reference.clone_from(&self.reference);
        Ok(file)
    }

    /// Returns files with their statistics, at most as many as `limit` rows need, and whether there are more.
    async fn described(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: Vec<PartitionedFile>,
        limit: Option<usize>,
    ) -> Result<(FileGroup, bool)> {
        let all = files.len();
        let collects = state.config().collect_statistics();
        if !collects {
            let unknown = Arc::new(Statistics::new_unknown(&self.file_schema));
            let files = files.into_iter().map(|file| with_statistics(file, Arc::clone(&unknown)));
            return Ok((FileGroup::new(files.collect()), false));
        }
        let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
        let described = futures::stream::iter(files).map(|file| async {
            let (statistics, ordering) = self.statistics(state, store, &file).await?;
            Ok::<_, DataFusionError>(with_statistics(file, statistics).with_ordering(ordering))
        });
        let mut described = described.boxed().buffered(concurrency);
        let mut files = Vec::with_capacity(all);
        let mut rows = Precision::Exact(0);
        while let Some(file) = described.try_next().await? {
            rows = rows.add(&file.statistics.as_ref().map_or(Precision::Absent, |about| about.num_rows));
            files.push(file);
            if let (Some(limit), Precision::Exact(rows)) = (limit, rows)
                && rows > limit
            {
                break;
            }
        }
        let more = files.len() < all;
        Ok((FileGroup::new(files), more))
    }

    /// Returns statistics and order of one file, from the session's cache if it has them.
    async fn statistics(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        file: &PartitionedFile,
    ) -> Result<(Arc<Statistics>, Option<LexOrdering>)> {
        let meta = &file.object_meta;
        let path = TableScopedPath { table: file.table_reference.clone(), path: meta.location.clone() };
        if let Some(known) = self.known.as_ref().and_then(|known| known.get(&path))
            && known.is_valid_for(meta, &self.fingerprint)
            && !is_other_version(&known.meta, meta)
        {
            return Ok((Arc::clone(&known.statistics), known.ordering.clone()));
        }
        let schema = Arc::clone(&self.file_schema);
        let about = self.options().format.infer_stats_and_ordering(state, store, schema, meta).await?;
        let (statistics, ordering) = (Arc::new(about.statistics), about.ordering);
        if let Some(known) = &self.known {
            let fingerprint = Arc::clone(&self.fingerprint);
            let about =
                CachedFileMetadata::new(meta.clone(), fingerprint, Arc::clone(&statistics), ordering.clone());
            known.put(&path, about);
        }
        Ok((statistics, ordering))
    }

    /// Reads the statistics of these files into the session's cache, if there is one.
    pub(crate) async fn warm_up(&self, state: &dyn Session, files: Vec<Listed>) -> Result<()> {
        let Some(location) = self.locations.first() else { return Ok(()) };
        if !state.config().collect_statistics() {
            return Ok(());
        }
        let store = state.runtime_env().object_store(location.url())?;
        let files = files.into_iter().map(|file| self.with_keys(file)).collect::<Result<_>>()?;
        self.described(state, &store, files, None).await.map(drop)
    }

    /// Returns the scan of these groups of files.
    async fn scan_of(
        &self,
        state: &dyn Session,
        location: &Location,
        groups: Vec<FileGroup>,
        statistics: Statistics,
        keyed: bool,
        args: &ScanArgs<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (table, format) = (&self.table, &self.options().format);
        let orders = table.try_create_output_ordering(state.execution_props(), &groups)?;
        let mut groups = groups;
        if state.config_options().execution.split_file_groups_by_statistics
            && let Some(order) = orders.first()
        {
            let partitions = state.config().target_partitions();
            let split = FileScanConfig::split_groups_by_statistics_with_target_partitions(
                &self.schema,
                &groups,
                order,
                partitions,
            );
            match split {
                Ok(split) if split.len() <= partitions => groups = split,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "files cannot be grouped by their statistics"),
            }
        }
        let partitioning = keyed.then(|| by_keys(self.key_fields(), &self.schema, groups.len()));
        let table_schema = TableSchemaBuilder::from(&self.file_schema)
            .with_table_partition_cols(self.key_fields().to_vec())
            .build();
        let source = format.file_source(table_schema);
        let scan = FileScanConfigBuilder::new(location.url().object_store(), source)
            .with_file_groups(groups)
            .with_constraints(self.table.constraints().cloned().unwrap_or_default())
            .with_statistics(statistics)
            .with_projection_indices(args.projection().map(<[usize]>::to_vec))?
            .with_limit(args.limit())
            .with_output_ordering(orders)
            .with_output_partitioning(partitioning)
            .build();
        format.create_physical_plan(state, scan).await
    }
}

/// Adds statistics of the file's own columns, and of its keys. DataFusion takes a key for a value, even if it is NULL, or the file
/// has no row.
fn with_statistics(file: PartitionedFile, statistics: Arc<Statistics>) -> PartitionedFile {
    let mut file = file.with_statistics(statistics);
    let Some(statistics) = &mut file.statistics else { return file };
    let has_rows = matches!(statistics.num_rows, Precision::Exact(rows) if rows > 0);
    if has_rows && !file.partition_values.iter().any(ScalarValue::is_null) {
        return file;
    }
    let statistics = Arc::make_mut(statistics);
    let first = statistics.column_statistics.len() - file.partition_values.len();
    for (value, column) in file.partition_values.iter().zip(&mut statistics.column_statistics[first..]) {
        if value.is_null() {
            column.null_count = statistics.num_rows;
            column.distinct_count = Precision::Absent;
            (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
        } else if !has_rows {
            column.distinct_count = column.distinct_count.to_inexact();
            let bounds = (column.min_value.clone(), column.max_value.clone());
            (column.min_value, column.max_value) = (bounds.0.to_inexact(), bounds.1.to_inexact());
        }
    }
    file
}

impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.table.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.table.get_table_definition()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.table.get_column_default(column)
    }

    boxed!(FilesTable::plan as scan);

    boxed!(FilesTable::plan_with_args as scan_with_args);

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushdown = |filter: &&Expr| match self.is_of_keys(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    boxed!(FilesTable::plan_insert as insert_into);
}

impl FilesTable {
    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let args = ScanArgs::default()
            .with_projection(projection.map(Vec::as_slice))
            .with_filters(Some(filters))
            .with_limit(limit);
        Ok(self.scan_with_args(state, args).await?.into_inner())
    }

    async fn plan_with_args<'a>(&self, state: &dyn Session, args: ScanArgs<'a>) -> Result<ScanResult> {
        let filters = args.filters().unwrap_or_default();
        let (of_keys, others): (Vec<Expr>, Vec<Expr>) =
            filters.iter().cloned().partition(|filter| self.is_of_keys(filter));
        let Some(location) = self.locations.first() else { return plan_err!("the table has no location") };
        let store = state.runtime_env().object_store(location.url())?;
        let files = self.files(state, &store, &of_keys).await?;
        // Rows that a filter drops do not count.
        let limit = args.limit().filter(|_| others.is_empty());
        let (files, more) = self.described(state, &store, files, limit).await?;
        let (groups, keyed) = grouped(state, files, !self.keys.is_empty());
        if groups.is_empty() {
            let projection = args.projection().map(<[usize]>::to_vec);
            let schema = project_schema(&self.schema, projection.as_ref())?;
            return Ok(ScanResult::new(Arc::new(EmptyExec::new(schema))));
        }
        let (groups, statistics) = summed(state, groups, &self.schema, more)?;
        let scan = self.scan_of(state, location, groups, statistics, keyed, &args).await?;
        Ok(ScanResult::new(scan))
    }

    async fn plan_insert(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.insert_into(state, input, operation).await
    }
}
