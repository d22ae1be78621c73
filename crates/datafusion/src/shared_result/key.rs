//! The equality of queries: the same optimized logical plan, the same settings, and scans of the same
//! versions of the same files under the same declarations, in the same stores.
//!
//! The whole logical plan is compared, with types and functions. It names tables without defining them. So
//! every table must be a plain listing of files, and the scans that the planner made of it are compared, too.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use coscan_engine::StoreId;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use object_store::ObjectStore;
use tokio::runtime;

use crate::determined::is_determined;
use crate::eligibility;
use crate::file::chosen_rows::same_rows;
use crate::rule::foreign;
use crate::scan::{cooperative_scan, scanned_files};
use crate::stores::{is_plain_local, store_id};

/// A query, as far as its plan identifies it.
#[derive(Debug)]
pub(crate) struct Query {
    logical: LogicalPlan,
    /// The leaves of the physical plan that read files.
    scans: Vec<Arc<dyn ExecutionPlan>>,
}

impl Query {
    /// Returns `None` if the result depends on more than the plan says, or if the plan reads nothing through
    /// the engine.
    pub(crate) fn new(logical: &LogicalPlan, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if !is_determined(logical)? {
            return Ok(None);
        }
        let mut scans = Vec::new();
        if !collect_scans(plan, &mut scans) || !scans.iter().any(is_cooperative) {
            return Ok(None);
        }
        // If statistics answer an aggregation, it becomes a row without a scan, and the versions of the files
        // are lost.
        if one_rows(plan) != written_one_rows(logical)? {
            return Ok(None);
        }
        Ok(Some(Query { logical: logical.clone(), scans }))
    }

    fn configs(&self) -> impl Iterator<Item = &FileScanConfig> {
        self.scans.iter().filter_map(scanned_files)
    }
}

/// The properties that equal queries share when they are executed.
#[derive(Debug)]
pub(crate) struct Key {
    query: Arc<Query>,
    settings: Vec<(String, Option<String>)>,
    /// The store of each scan, without an identity for this machine's file system. The store is held, so that
    /// no other store gets its address and its name.
    stores: Vec<(Option<StoreId>, Arc<dyn ObjectStore>)>,
    /// Tasks of a query end with the runtime in which they were started.
    runtime: Option<runtime::Id>,
    hash: u64,
}

impl Key {
    /// # Errors
    /// If a session does not know a store of its own plan.
    pub(crate) fn new(query: &Arc<Query>, context: &TaskContext) -> Result<Self> {
        let entries = context.session_config().options().entries().into_iter();
        // Settings of this crate never change a result.
        let settings = entries.filter(|entry| !entry.key.starts_with("coscan."));
        let settings: Vec<_> = settings.map(|entry| (entry.key, entry.value)).collect();
        let stores = query.configs().map(|config| {
            let url = &config.object_store_url;
            let store = context.runtime_env().object_store(url)?;
            let local = url.as_str() == "file:///" && is_plain_local(&store);
            Ok(((!local).then(|| store_id(url, &store, context)), store))
        });
        let stores = stores.collect::<Result<Vec<_>>>()?;
        let mut hasher = DefaultHasher::new();
        (&query.logical, &settings).hash(&mut hasher);
        let runtime = runtime::Handle::try_current().ok().map(|handle| handle.id());
        Ok(Key { query: Arc::clone(query), settings, stores, runtime, hash: hasher.finish() })
    }

    /// Returns the hash. Equal queries have equal ones.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let ids = |key: &Self| key.stores.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
        self.hash == other.hash
            && self.runtime == other.runtime
            && self.settings == other.settings
            && ids(self) == ids(other)
            && self.query.logical == other.query.logical
            && self.query.configs().eq_by_scan(other.query.configs())
    }
}

/// `Iterator::eq_by` with [`same_scan`].
trait EqByScan<'a>: Iterator<Item = &'a FileScanConfig> + Sized {
    fn eq_by_scan(mut self, mut other: impl Iterator<Item = &'a FileScanConfig>) -> bool {
        loop {
            match (self.next(), other.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if same_scan(a, b) => {}
                _ => return false,
            }
        }
    }
}

impl<'a, I: Iterator<Item = &'a FileScanConfig>> EqByScan<'a> for I {}

/// Returns whether all nodes are known and all leaves are scans of plain files, and collects these.
fn collect_scans(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<Arc<dyn ExecutionPlan>>) -> bool {
    // An unknown node may keep something that its inputs do not show.
    if !foreign::is_own(plan) {
        return false;
    }
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().all(|child| collect_scans(child, scans));
    }
    if plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() {
        return true;
    }
    let Some(config) = scanned_files(plan) else { return false };
    let plain = eligibility::scan(config, None).is_ok() && config.expr_adapter_factory.is_none();
    scans.push(Arc::clone(plan));
    plain
}

/// The number of rows that the plan produces without a scan.
fn one_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = usize::from(plan.is::<PlaceholderRowExec>());
    own + plan.children().into_iter().map(one_rows).sum::<usize>()
}

/// The number of rows without a table, from SELECT without FROM.
fn written_one_rows(plan: &LogicalPlan) -> Result<usize> {
    let mut rows = 0;
    plan.apply_with_subqueries(|node| {
        rows += usize::from(matches!(node, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

fn is_cooperative(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let source = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    source.is_some_and(|source| cooperative_scan(source).is_some())
}

/// Returns whether two scans read the same versions of the same files under the same declarations.
fn same_scan(a: &FileScanConfig, b: &FileScanConfig) -> bool {
    let files =
        |config: &FileScanConfig| config.file_groups.iter().map(|group| group.len()).collect::<Vec<_>>();
    a.object_store_url == b.object_store_url
        && a.file_source.file_type() == b.file_source.file_type()
        && a.file_source.table_schema().table_schema() == b.file_source.table_schema().table_schema()
        && a.output_ordering == b.output_ordering
        && a.constraints == b.constraints
        && files(a) == files(b)
        && a.file_groups
            .iter()
            .zip(&b.file_groups)
            .all(|(a, b)| a.iter().zip(b.iter()).all(|(a, b)| same_file(a, b)))
}

fn same_file(a: &PartitionedFile, b: &PartitionedFile) -> bool {
    a.object_meta == b.object_meta
        && a.partition_values == b.partition_values
        && a.range == b.range
        && a.ordering == b.ordering
        && a.arrow_schema == b.arrow_schema
        && same_rows(a, b)
}
