//! A table whose provider plans its own scans, as lake tables do.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;
use tempfile::TempDir;

use super::nodes::{Does, ForeignExec};
use crate::data;

/// The oddities of a table.
#[derive(Clone, Debug)]
pub struct Odd {
    /// The declared time of writing of its files, in milliseconds since 1970. `None`: unknown.
    pub written_ms: Option<u64>,
    /// The excess of the declared size of files, in bytes.
    pub longer: u64,
    /// A node above its scan.
    pub node: Option<(Does, bool)>,
    /// The store of the files, if they are not on this machine.
    pub url: ObjectStoreUrl,
    /// The prefix of their names.
    pub prefix: Option<String>,
}

impl Default for Odd {
    fn default() -> Self {
        Odd { written_ms: None, longer: 0, node: None, url: ObjectStoreUrl::local_filesystem(), prefix: None }
    }
}

/// Files of numbers, and their description.
#[derive(Debug)]
pub struct OddTable {
    pub folder: TempDir,
    /// The first number and the rows of each file, which is a partition.
    files: Vec<(i64, i64)>,
    odd: Odd,
}

#[derive(Debug)]
struct Provider {
    files: Vec<PartitionedFile>,
    odd: Odd,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

impl OddTable {
    pub fn write(files: &[(i64, i64)], odd: Odd) -> Self {
        let table = OddTable { folder: tempfile::tempdir().expect("a folder"), files: files.to_vec(), odd };
        for (at, (first, rows)) in files.iter().enumerate() {
            table.overwrite(at, *first, *rows);
        }
        table
    }

    /// Overwrites a file with other numbers.
    pub fn overwrite(&self, at: usize, first: i64, rows: i64) {
        let properties = data::row_groups(100)
            .set_dictionary_enabled(false)
            .set_compression(parquet::basic::Compression::UNCOMPRESSED)
            .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None);
        data::write(&self.path(at), &data::numbers(first, rows), properties.build());
    }

    pub fn path(&self, at: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("{at}.parquet"))
    }

    /// Returns the table with the current description of its files.
    pub fn provider(&self) -> Arc<dyn TableProvider> {
        let file = |at: usize| {
            let path = self.path(at);
            let bytes = std::fs::metadata(&path).expect("a file").len() + self.odd.longer;
            let name = match &self.odd.prefix {
                Some(prefix) => format!("{prefix}{at}.parquet"),
                None => path.to_str().expect("a name").to_owned(),
            };
            let mut file = PartitionedFile::new(name, bytes);
            if let Some(written) = self.odd.written_ms {
                let written = std::time::UNIX_EPOCH + std::time::Duration::from_millis(written);
                file.object_meta = ObjectMeta { last_modified: written.into(), ..file.object_meta };
            }
            file
        };
        let files = (0..self.files.len()).map(file).collect();
        Arc::new(Provider { files, odd: self.odd.clone() })
    }

    /// Computes the rows of one of the queries over tables with a node that numbers rows.
    pub fn expected(&self, sql: &str) -> Vec<String> {
        let Some((Does::Number(times), _)) = self.odd.node else { panic!("rows are not numbered") };
        let of_file = |&(first, rows): &(i64, i64)| (0..rows).map(move |row| first + row + row * times);
        let mut numbers: Vec<i64> = self.files.iter().flat_map(of_file).collect();
        numbers.sort_unstable();
        if sql.contains("sum") {
            return vec![numbers.iter().sum::<i64>().to_string()];
        }
        if sql.contains("% 7") {
            numbers.retain(|n| n % 7 > 2);
        }
        numbers.iter().map(i64::to_string).collect()
    }
}

#[async_trait]
impl TableProvider for Provider {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = Arc::new(ParquetSource::new(schema()));
        let groups = self.files.iter().map(|file| FileGroup::new(vec![file.clone()])).collect();
        // A limit counts the rows that the node outputs.
        let limit = limit.filter(|_| self.odd.node.is_none());
        let config = FileScanConfigBuilder::new(self.odd.url.clone(), source)
            .with_file_groups(groups)
            .with_projection_indices(if self.odd.node.is_some() { None } else { projection.cloned() })?
            .with_limit(limit)
            .build();
        let scan = DataSourceExec::from_data_source(config);
        Ok(match self.odd.node {
            Some((does, refuses)) => {
                let foreign: Arc<dyn ExecutionPlan> = Arc::new(ForeignExec { input: scan, does, refuses });
                match projection {
                    Some(columns) if columns.is_empty() => counted(foreign)?,
                    _ => foreign,
                }
            }
            None => scan,
        })
    }
}

/// Counts the rows, without columns.
fn counted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
    let none: Vec<ProjectionExpr> = Vec::new();
    Ok(Arc::new(ProjectionExec::try_new(none, plan)?))
}
