//! The merge-combine node: a scan in order, which needs all its fragments together.
//!
//! Its list has one subquery with all fragments. Nodes whose rows are merged with each other, such as those below a
//! merge join, each request the fragments of all of them. Otherwise one could not begin while another holds the room
//! that it needs. Scans for which no other rewrite is proven use the same node: a plain scan over restored
//! fragments.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use coscan_datafusion::MadeOnce;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use crate::error::TierError;
use crate::plan::held::HeldList;
use crate::plan::pass::{PassExec, Role};
use crate::plan::resolve::needed_fragments;
use crate::plan::scan::TierScan;
use crate::reads::user_of;

/// See the module's documentation.
pub(crate) type MergeCombineExec = PassExec<Merge>;

#[derive(Debug)]
pub(crate) struct Merge {
    scan: Arc<TierScan>,
    /// Other scans of the tier that are read at the same time.
    beside: Beside,
    holds: Mutex<Vec<Weak<Hold>>>,
}

/// Data that needs room in the cache beside a scan's fragments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Scans in order, which need all their fragments together.
    pub(crate) scans: Vec<Arc<TierScan>>,
    /// Bytes of the largest fragment of the scans that read one fragment after the other.
    pub(crate) passing_bytes: u64,
}

/// The fragments, held by every stream that reads them. A stream that is not polled during the restore does not
/// block the others.
#[derive(Debug)]
struct Hold {
    context: Weak<TaskContext>,
    list: MadeOnce<Option<Arc<HeldList>>>,
}

impl MergeCombineExec {
    /// A node over the scan `input`.
    pub(crate) fn new(scan: Arc<TierScan>, input: Arc<dyn ExecutionPlan>) -> Self {
        PassExec { input, role: Merge { scan, beside: Beside::default(), holds: Mutex::default() } }
    }

    /// The node with other scans that are read at the same time.
    pub(crate) fn with(&self, beside: Beside) -> Self {
        let scan = Arc::clone(&self.role.scan);
        PassExec { input: Arc::clone(&self.input), role: Merge { scan, beside, holds: Mutex::default() } }
    }

    pub(crate) fn scan(&self) -> &Arc<TierScan> {
        &self.role.scan
    }
}

impl Merge {
    fn hold(&self, context: &Arc<TaskContext>) -> Arc<Hold> {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.strong_count() > 0);
        let same = |hold: &Arc<Hold>| std::ptr::eq(hold.context.as_ptr(), Arc::as_ptr(context));
        if let Some(hold) = holds.iter().filter_map(Weak::upgrade).find(same) {
            return hold;
        }
        let hold = Arc::new(Hold { context: Arc::downgrade(context), list: MadeOnce::new() });
        holds.push(Arc::downgrade(&hold));
        hold
    }
}

/// Waits until all fragments that the scan needs are in the cache. The list keeps them there.
async fn restored(
    scan: Arc<TierScan>,
    beside: Beside,
    context: Arc<TaskContext>,
) -> Result<Option<Arc<HeldList>>> {
    let mut wanted = needed_fragments(&scan);
    let Some(first) = wanted.first().map(|first| scan.tier.config().shown(first)) else { return Ok(None) };
    beside.scans.iter().for_each(|other| wanted.extend(needed_fragments(other)));
    wanted.sort();
    wanted.dedup();
    let bytes = wanted.iter().map(|fragment| fragment.bytes).sum::<u64>() + beside.passing_bytes;
    let budget = scan.tier.config().cache_bytes;
    if bytes > budget {
        let tier = scan.tier.config().name.clone();
        let (files, beside) = (wanted.len(), beside.scans.len());
        return Err(TierError::TogetherTooLarge { tier, table: first, beside, files, bytes, budget }.into());
    }
    scan.bill.check(&context).await?;
    let list = scan.tier.submit(&user_of(&context), vec![vec![wanted]]).await?;
    let list = HeldList::new(list, scan.tier.config().patience);
    list.next().await?;
    Ok(Some(list))
}

impl Role for Merge {
    const NAME: &'static str = "MergeCombineExec";

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tier={}, fragments={}", self.scan.tier.config().name, self.scan.fragments.len())
    }

    fn renewed(&self) -> Self {
        Merge { scan: Arc::clone(&self.scan), beside: self.beside.clone(), holds: Mutex::default() }
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let hold = self.hold(&context);
        let (scan, beside, input) = (Arc::clone(&self.scan), self.beside.clone(), Arc::clone(input));
        let (schema, doubted) = (input.schema(), Arc::clone(&self.scan));
        let rows = async move {
            let list = hold.list.get(|| restored(scan, beside, Arc::clone(&context))).await?;
            let rows = input.execute(partition, context)?;
            let rows = rows.or_else(move |error| {
                let (tier, fragments) = (doubted.tier.clone(), needed_fragments(&doubted));
                async move { Err(tier.doubted(fragments, error).await) }
            });
            // The stream owns the hold.
            Result::<_>::Ok(rows.inspect(move |_| {
                let _ = &hold;
                list.iter().for_each(|list| list.read());
            }))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
