//! The scans of a plan that read a tier, and the fragments they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

use crate::fragment::Fragment;
use crate::plan::bill::Bill;
use crate::tier::Tier;
use crate::tiers::Tiers;

/// A scan of files in a tier.
#[derive(Clone, Debug)]
pub(crate) struct TierScan {
    pub(crate) tier: Tier,
    pub(crate) config: FileScanConfig,
    pub(crate) fragments: Vec<ScanFragment>,
    /// The cost check of the whole plan.
    pub(crate) bill: Arc<Bill>,
}

/// A fragment as a scan reads it: whole, or by ranges in several partitions of the plan.
#[derive(Clone, Debug)]
pub(crate) struct ScanFragment {
    pub(crate) fragment: Fragment,
    /// The ranges that are read, with the partitions for which they were planned.
    pub(crate) pieces: Vec<(usize, PartitionedFile)>,
}

impl TierScan {
    /// The scan of the node. `None` if the node does not read a tier.
    pub(crate) fn of(node: &Arc<dyn ExecutionPlan>, tiers: &Tiers, bill: &Arc<Bill>) -> Option<TierScan> {
        let exec = node.downcast_ref::<DataSourceExec>()?;
        let config = exec.data_source().downcast_ref::<FileScanConfig>()?;
        let tier = tiers.at(&config.object_store_url)?;
        let tags = tier.fetcher().driver.tags_survive();
        let mut fragments: BTreeMap<Fragment, ScanFragment> = BTreeMap::new();
        for (partition, group) in config.file_groups.iter().enumerate() {
            for file in group.iter() {
                let fragment = Fragment::of(&file.object_meta, tags);
                let entry = fragments.entry(fragment.clone());
                let read = entry.or_insert_with(|| ScanFragment { fragment, pieces: Vec::new() });
                read.pieces.push((partition, file.clone()));
            }
        }
        let fragments = fragments.into_values().collect();
        Some(TierScan { tier, config: config.clone(), fragments, bill: Arc::clone(bill) })
    }

    /// Returns true if the scan declares an order of rows or the contents of partitions. Both tie rows to files.
    pub(crate) fn is_tied(&self, node: &Arc<dyn ExecutionPlan>) -> bool {
        self.config.preserve_order
            || self.config.output_partitioning.is_some()
            || !self.config.output_ordering.is_empty()
            || node.properties().output_ordering().is_some()
    }

    /// Returns true if the scan reads Parquet, whose files can be read one by one.
    pub(crate) fn is_parquet(&self) -> bool {
        self.config.file_source().downcast_ref::<ParquetSource>().is_some()
    }

    /// The predicate, with the dynamic filters that were pushed down.
    pub(crate) fn predicate(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.config.file_source().filter()
    }

    /// The bytes of all fragments.
    pub(crate) fn bytes(&self) -> u64 {
        self.fragments.iter().map(|read| read.fragment.bytes).sum()
    }
}

/// A scan of these files only, with one partition per group.
pub(crate) fn scan_of(config: &FileScanConfig, groups: Vec<Vec<PartitionedFile>>) -> Arc<dyn ExecutionPlan> {
    let groups = groups.into_iter().map(FileGroup::new).collect();
    let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build();
    DataSourceExec::from_data_source(config)
}

/// Replaces the leaf of `template`, whose nodes have one child each.
pub(crate) fn over(
    template: &Arc<dyn ExecutionPlan>,
    leaf: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let children = template.children();
    let Some(child) = children.first() else { return Ok(leaf) };
    let child = over(child, leaf)?;
    datafusion::physical_plan::execution_plan::replace_children_if_necessary(
        Arc::clone(template),
        vec![child],
    )
}
