//! The resolve node: finds at run time the fragments that a scan needs.
//!
//! The needed fragments depend on the scan's predicate. Part of the predicate is known only when the build side of a
//! join is complete, or when a top-k has rows. The footers on the local disk are the index: their statistics rule
//! out files.
//!
//! The list is made in parts, and each part but the last is flagged incomplete. Fragments of a large table are
//! therefore fetched while others are still checked. Every file that is not ruled out is wanted, because pruning is
//! never needed for a correct result.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr_adapter::replace_columns_with_literals;
use datafusion::physical_optimizer::pruning::FilePruner;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Count;

use crate::fragment::Fragment;
use crate::plan::pass::{PassExec, Role};
use crate::plan::scan::{ScanFragment, TierScan};

/// Number of fragments that are checked before a partial list is handed on.
pub(crate) const PARTIAL_LIST: usize = 256;

/// Rules out fragments of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    predicate: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// Names of the columns whose values are in the files' paths.
    path_columns: Vec<String>,
}

impl Resolver {
    /// The resolver of a scan. `None` if the scan has no predicate.
    pub(crate) fn of(scan: &TierScan) -> Option<Self> {
        let table = scan.config.file_source().table_schema().clone();
        Some(Resolver {
            predicate: scan.predicate()?,
            schema: Arc::clone(table.file_schema()),
            path_columns: table.table_partition_cols().iter().map(|field| field.name().clone()).collect(),
        })
    }

    /// Detects changes of the predicate.
    pub(crate) fn tracking(&self) -> DynamicFilterTracking {
        DynamicFilterTracking::classify(&self.predicate)
    }

    /// The next part of the list: the needed fragments of `fragments[from..]`, and the place to continue. `None` as
    /// this place if the list is complete.
    pub(crate) fn partial(
        &self,
        fragments: &[ScanFragment],
        from: usize,
    ) -> Result<(Vec<usize>, Option<usize>)> {
        let to = fragments.len().min(from + PARTIAL_LIST);
        let mut needed = Vec::new();
        for (at, read) in fragments[..to].iter().enumerate().skip(from) {
            if self.needs(read)? {
                needed.push(at);
            }
        }
        Ok((needed, (to < fragments.len()).then_some(to)))
    }

    /// Returns true if rows of the fragment may meet the current predicate.
    pub(crate) fn needs(&self, read: &ScanFragment) -> Result<bool> {
        for (_, piece) in &read.pieces {
            if self.needs_piece(piece)? {
                return Ok(true);
            }
        }
        Ok(read.pieces.is_empty())
    }

    fn needs_piece(&self, piece: &PartitionedFile) -> Result<bool> {
        let values = self.path_columns.iter().cloned().zip(piece.partition_values.iter().cloned()).collect();
        let predicate = replace_columns_with_literals(Arc::clone(&self.predicate), &values)?;
        let pruner = FilePruner::try_new(predicate, &self.schema, piece, Count::new());
        Ok(match pruner {
            Some(mut pruner) => !pruner.should_prune()?,
            None => true,
        })
    }
}

/// The places of the fragments of a scan that its current predicate does not rule out.
pub(crate) fn needed(scan: &TierScan) -> Vec<usize> {
    let resolver = Resolver::of(scan);
    // A fragment that cannot be ruled out is needed.
    let needs = |read: &ScanFragment| resolver.as_ref().is_none_or(|of| of.needs(read).unwrap_or(true));
    (0..scan.fragments.len()).filter(|at| needs(&scan.fragments[*at])).collect()
}

/// The fragments of a scan that its current predicate does not rule out.
pub(crate) fn needed_fragments(scan: &TierScan) -> Vec<Fragment> {
    needed(scan).into_iter().map(|at| scan.fragments[at].fragment.clone()).collect()
}

/// The node in the plan, above the scan whose list it resolves.
pub(crate) type ResolveExec = PassExec<Resolver>;

impl ResolveExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, resolver: Resolver) -> Self {
        PassExec { input, role: resolver }
    }
}

impl Role for Resolver {
    const NAME: &'static str = "ResolveExec";

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by footers, predicate={}", self.predicate)
    }

    fn renewed(&self) -> Self {
        self.clone()
    }
}
