//! The optimizer rule: every scan of Parquet files becomes a cooperative one.
//!
//! It must run last, because later rules look for DataFusion's own scan. It changes leaves only; joins,
//! orderings and partitions above them stay as they are. What it cannot do as well as DataFusion's scan
//! it leaves alone, with the reason in the log.

use std::fmt;
use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetRowSelection};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::cscan::CScan;
use crate::options::CoscanOptions;

/// Why a scan is left to DataFusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It wants row numbers or other columns that the reader makes up.
    VirtualColumns,
    /// Its files are encrypted.
    Encryption,
    /// Somebody has chosen rows of this file beforehand.
    AccessPlan(String),
    /// It reads through a reader of its own.
    CustomReader,
    /// Its files have fewer bytes than `coscan.small_table_bytes`.
    SmallTable(u64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::VirtualColumns => f.write_str("it has virtual columns"),
            Reason::Encryption => f.write_str("its files are encrypted"),
            Reason::AccessPlan(file) => write!(f, "{file} comes with an access plan"),
            Reason::CustomReader => f.write_str("it has its own file reader"),
            Reason::SmallTable(bytes) => write!(f, "{bytes} bytes are too little to share"),
        }
    }
}

/// Why this scan of Parquet files cannot be cooperative, if so.
pub(crate) fn reason_to_leave(config: &FileScanConfig) -> Option<Reason> {
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    if !source.table_schema().virtual_columns().is_empty() {
        return Some(Reason::VirtualColumns);
    }
    let crypto = &source.table_parquet_options().crypto;
    if crypto.file_decryption.is_some() || crypto.factory_id.is_some() {
        return Some(Reason::Encryption);
    }
    // A factory of another type may read something else than the bytes of the file in its store, and its
    // type can only be told by its name.
    if let Some(factory) = source.parquet_file_reader_factory() {
        let name = format!("{factory:?}");
        let known = ["CachedParquetFileReaderFactory", "DefaultParquetFileReaderFactory"];
        if !known.iter().any(|known| name.starts_with(known)) {
            return Some(Reason::CustomReader);
        }
    }
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    files
        .filter(|file| {
            file.extensions.contains::<ParquetAccessPlan>()
                || file.extensions.contains::<ParquetRowSelection>()
        })
        .map(|file| Reason::AccessPlan(file.object_meta.location.to_string()))
        .next()
}

/// The bytes of the scan's files, or of the ranges of them that it reads.
fn bytes(config: &FileScanConfig) -> u64 {
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    files
        .map(|file| match &file.range {
            Some(range) => u64::try_from(range.end - range.start).unwrap_or(0),
            None => file.object_meta.size,
        })
        .sum()
}

/// `plan` with every scan of Parquet files that can be made cooperative made so, reading through `engine`.
///
/// Does nothing if `coscan.enabled` is false.
pub fn rewrite_plan(
    plan: Arc<dyn ExecutionPlan>,
    engine: &Engine,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let defaults = CoscanOptions::default();
    let options = config.extensions.get::<CoscanOptions>().unwrap_or(&defaults);
    if !options.enabled {
        return Ok(plan);
    }
    plan.transform_down(|node| {
        Ok(match cooperative_leaf(&node, engine, options) {
            Some(leaf) => Transformed::yes(leaf),
            None => Transformed::no(node),
        })
    })
    .data()
}

fn cooperative_leaf(
    node: &Arc<dyn ExecutionPlan>,
    engine: &Engine,
    options: &CoscanOptions,
) -> Option<Arc<dyn ExecutionPlan>> {
    let exec = node.downcast_ref::<DataSourceExec>()?;
    let (config, _) = exec.downcast_to_file_source::<ParquetSource>()?;
    let bytes = bytes(config);
    let small = (bytes < options.small_table_bytes).then_some(Reason::SmallTable(bytes));
    if let Some(reason) = reason_to_leave(config).or(small) {
        let file = config.file_groups.iter().flat_map(|group| group.iter()).next();
        let file = file.map_or("nothing", |file| file.object_meta.location.as_ref());
        tracing::debug!(file, %reason, "scan left to DataFusion");
        return None;
    }
    Some(DataSourceExec::from_data_source(CScan::new(config.clone(), engine.clone())))
}

/// [`rewrite_plan`] as a rule of a session, to be appended last.
pub struct CooperativeScans {
    engine: Engine,
}

impl CooperativeScans {
    /// The rule that sends scans to `engine`.
    pub fn new(engine: Engine) -> Self {
        CooperativeScans { engine }
    }
}

impl fmt::Debug for CooperativeScans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CooperativeScans")
    }
}

impl PhysicalOptimizerRule for CooperativeScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        rewrite_plan(plan, &self.engine, config)
    }

    fn name(&self) -> &str {
        "cooperative_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
