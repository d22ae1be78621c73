//! Tables with a foreign provider: files of a listing, described as by lake tables and other systems.
//!
//! Both sides have the same provider. Its effect on rows is the same unless cooperative scans break a promise
//! to the provider. The promises are the order of rows below its own node, selected rows, and columns that
//! the reader generates.

mod node;

use std::sync::Arc;

use coscan_upstream::boxed;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::parquet::{
    DefaultParquetFileReaderFactory, ParquetAccessPlan, ParquetFileReaderFactory,
};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::parquet::arrow::RowNumber;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::SessionContext;
use object_store::ObjectStore;

use self::node::EveryNthExec;
use crate::data::Database;
use crate::dice::Dice;

/// The oddities of a seed's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Odd {
    /// Whether files have neither time nor ETag, or a time in milliseconds from a log.
    version: Version,
    /// Whether nothing is known about the table, or all numbers are estimates.
    statistics: Told,
    /// Whether every second row group of the first file is left out.
    chosen: bool,
    /// Whether each file is given as two halves.
    halves: bool,
    /// Whether a factory of the provider adapts expressions to files.
    adapter: bool,
    /// Whether a factory of the provider reads bytes.
    reader: bool,
    /// Whether there is a generated column of row numbers.
    row_numbers: bool,
    /// A node that leaves out every n-th row in the order of arrival, and whether it refuses other inputs.
    node: Option<(u8, bool)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Version {
    #[default]
    Listed,
    Unknown,
    Noted,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Exactly,
    Estimated,
    Not,
}

/// The milliseconds since 1970 from the log.
const NOTED_MS: u64 = 1_600_000_000_123;

impl Odd {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Odd {
            version: *dice.pick(&[Version::Unknown, Version::Unknown, Version::Noted, Version::Listed]),
            statistics: *dice.pick(&[Told::Exactly, Told::Estimated, Told::Not]),
            chosen: dice.one_in(6),
            halves: dice.one_in(5),
            adapter: dice.one_in(4),
            reader: dice.one_in(8),
            row_numbers: dice.one_in(6),
            node: dice.one_in(2).then(|| (dice.between(2, 5) as u8, dice.one_in(4))),
        }
    }

    /// Returns the variants with one oddity less.
    pub(crate) fn simpler(&self) -> Vec<Odd> {
        let usual = Odd::default();
        let all = [
            Odd { version: usual.version, ..self.clone() },
            Odd { statistics: usual.statistics, ..self.clone() },
            Odd { chosen: false, ..self.clone() },
            Odd { halves: false, ..self.clone() },
            Odd { adapter: false, ..self.clone() },
            Odd { reader: false, ..self.clone() },
            Odd { row_numbers: false, ..self.clone() },
            Odd { node: None, ..self.clone() },
        ];
        all.into_iter().filter(|odd| odd != self).collect()
    }

    /// Replaces each table's provider.
    pub(crate) async fn replace(&self, database: &Database, session: &SessionContext) -> Result<()> {
        for table in &database.tables {
            let inner = session.table_provider(&table.name).await?;
            let row_groups = table.files.first().map_or(0, |file| file.row_groups.len());
            let schema = match self.row_numbers {
                true => {
                    let all =
                        inner.schema().fields().iter().cloned().chain([row_number()]).collect::<Vec<_>>();
                    Arc::new(Schema::new(all))
                }
                false => inner.schema(),
            };
            let odd = OddTable { inner, odd: self.clone(), schema, row_groups };
            session.deregister_table(&table.name)?;
            session.register_table(&table.name, Arc::new(odd))?;
        }
        Ok(())
    }
}

fn row_number() -> FieldRef {
    Arc::new(Field::new("number_of_row", DataType::Int64, false).with_extension_type(RowNumber))
}

/// A table over another that lists files.
#[derive(Debug)]
struct OddTable {
    inner: Arc<dyn TableProvider>,
    odd: Odd,
    schema: SchemaRef,
    /// The row groups of the first file.
    row_groups: usize,
}

impl TableProvider for OddTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // The node counts all rows.
        match self.odd.node {
            Some(_) => Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()]),
            None => Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()]),
        }
    }

    boxed!(OddTable::plan as scan);
}

impl OddTable {
    async fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let listed = self.inner.scan(state, None, &[], None).await?;
        let listed = listed.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        let Some(listed) = listed.and_then(|source| source.downcast_ref::<FileScanConfig>()) else {
            let schema = match projection {
                Some(projection) => Arc::new(self.schema.project(projection)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let source = self.source(listed, state)?;
        let builder = FileScanConfigBuilder::new(listed.object_store_url.clone(), source)
            .with_file_groups(self.groups(listed))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit.filter(|_| self.odd.node.is_none()))
            // DataFusion splits the files of a scan that declares nothing, also below a node that does not
            // want it.
            .with_output_partitioning(self.odd.node.map(|_| Partitioning::UnknownPartitioning(1)));
        let builder = match self.odd.statistics {
            _ if self.odd.row_numbers || self.odd.chosen || self.odd.node.is_some() => builder,
            Told::Exactly => builder.with_statistics(listed.statistics()),
            Told::Estimated => builder.with_statistics(listed.statistics().to_inexact()),
            Told::Not => builder,
        };
        let builder = match self.odd.adapter {
            true => builder.with_expr_adapter(Some(Arc::new(OwnAdapters))),
            false => builder,
        };
        let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(builder.build());
        Ok(match self.odd.node {
            Some((n, refuses)) => Arc::new(EveryNthExec::new(scan, n, refuses)),
            None => scan,
        })
    }
}

impl OddTable {
    fn source(&self, listed: &FileScanConfig, state: &dyn Session) -> Result<Arc<ParquetSource>> {
        let Some(source) = listed.file_source().downcast_ref::<ParquetSource>() else {
            return datafusion::common::internal_err!("a listing of other files");
        };
        let table = source.table_schema();
        let schema = TableSchema::builder(Arc::clone(table.file_schema()))
            .with_table_partition_cols(table.table_partition_cols().clone());
        let virtual_columns: Vec<FieldRef> = self.odd.row_numbers.then(row_number).into_iter().collect();
        let schema = schema.with_virtual_columns(virtual_columns).build();
        let options = source.table_parquet_options().clone();
        let source = ParquetSource::new(schema).with_table_parquet_options(options);
        if !self.odd.reader {
            return Ok(Arc::new(source));
        }
        let store = state.runtime_env().object_store(&listed.object_store_url)?;
        Ok(Arc::new(source.with_parquet_file_reader_factory(Arc::new(OwnReaders(store)))))
    }

    /// Returns the files as the table describes them.
    fn groups(&self, listed: &FileScanConfig) -> Vec<FileGroup> {
        let groups = listed.file_groups.iter().enumerate().map(|(at, group)| {
            let files = group.iter().enumerate();
            files.flat_map(|(of_group, file)| self.described(file, at + of_group == 0)).collect::<Vec<_>>()
        });
        if self.odd.node.is_some() {
            // Plain DataFusion repeats the order of rows only with one partition.
            let mut files: Vec<PartitionedFile> = groups.flatten().collect();
            files.sort_by_key(|file| {
                (file.object_meta.location.clone(), file.range.as_ref().map(|range| range.start))
            });
            return vec![FileGroup::new(files)];
        }
        groups.map(FileGroup::new).collect()
    }

    fn described(&self, file: &PartitionedFile, first: bool) -> Vec<PartitionedFile> {
        let mut file = file.clone();
        let meta = &mut file.object_meta;
        match self.odd.version {
            Version::Listed => {}
            Version::Unknown => (meta.e_tag, meta.last_modified) = (None, Default::default()),
            Version::Noted => {
                let noted = std::time::UNIX_EPOCH + std::time::Duration::from_millis(NOTED_MS);
                (meta.e_tag, meta.last_modified) = (None, noted.into());
            }
        }
        let known = |statistics: Arc<Statistics>| match self.odd.statistics {
            _ if self.odd.row_numbers || self.odd.chosen => None,
            Told::Exactly => Some(statistics),
            Told::Estimated => Some(Arc::new(Statistics::clone(&statistics).to_inexact())),
            Told::Not => None,
        };
        file.statistics = file.statistics.take().and_then(known);
        if self.odd.row_numbers {
            file.ordering = None;
        }
        if self.odd.chosen && first && self.row_groups > 0 && file.range.is_none() {
            let mut plan = ParquetAccessPlan::new_all(self.row_groups);
            (0..self.row_groups).step_by(2).for_each(|row_group| plan.skip(row_group));
            file.extensions.insert(plan);
            return vec![file];
        }
        let bytes = i64::try_from(file.object_meta.size).unwrap_or(i64::MAX);
        if !self.odd.halves || file.range.is_some() {
            return vec![file];
        }
        let half = |start: i64, end: i64| {
            let mut half = file.clone();
            half.range = Some(FileRange { start, end });
            half
        };
        vec![half(0, bytes / 2), half(bytes / 2, bytes)]
    }
}

/// DataFusion's adapters under a foreign type.
#[derive(Debug)]
struct OwnAdapters;

impl PhysicalExprAdapterFactory for OwnAdapters {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        DefaultPhysicalExprAdapterFactory.create(logical, physical)
    }
}

/// DataFusion's readers under a foreign type.
#[derive(Debug)]
struct OwnReaders(Arc<dyn ObjectStore>);

impl ParquetFileReaderFactory for OwnReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        DefaultParquetFileReaderFactory::new(Arc::clone(&self.0))
            .create_reader(partition, file, hint, metrics)
    }
}
