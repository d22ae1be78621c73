//! The merge-combine node: a scan whose rows come in an order, so that all its fragments have to be there together.
//!
//! Its list has one subquery with all fragments. It is also what a scan gets of which nothing is proven: a plain scan over
//! restored fragments.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use coscan_datafusion::MadeOnce;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use crate::error::TierError;
use crate::list::SqList;
use crate::plan::pass::{PassExec, Role};
use crate::plan::resolve::Resolver;
use crate::plan::scan::TierScan;
use crate::reads::user_of;

/// See the module's documentation.
pub(crate) type MergeCombineExec = PassExec<Merge>;

#[derive(Debug)]
pub(crate) struct Merge {
    scan: Arc<TierScan>,
    holds: Mutex<Vec<Weak<Hold>>>,
}

/// The fragments, held by every stream that reads them. A stream that is left alone while they are restored keeps no other
/// one waiting.
#[derive(Debug)]
struct Hold {
    context: Weak<TaskContext>,
    list: MadeOnce<Option<Arc<SqList>>>,
}

impl MergeCombineExec {
    /// Over the scan, which `input` is.
    pub(crate) fn new(scan: Arc<TierScan>, input: Arc<dyn ExecutionPlan>) -> Self {
        PassExec { input, role: Merge { scan, holds: Mutex::default() } }
    }

    pub(crate) fn scan(&self) -> &TierScan {
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

/// Waits until all fragments that the scan needs are in the cache; the list keeps them there.
async fn restored(scan: Arc<TierScan>, user: String) -> Result<Option<Arc<SqList>>> {
    let resolver = Resolver::of(&scan);
    let mut wanted = Vec::new();
    for read in &scan.fragments {
        if resolver.as_ref().map_or(Ok(true), |resolver| resolver.needs(read))? {
            wanted.push(read.fragment.clone());
        }
    }
    let (bytes, budget) =
        (wanted.iter().map(|fragment| fragment.bytes).sum(), scan.tier.config().cache_bytes);
    let Some(first) = wanted.first() else { return Ok(None) };
    if bytes > budget {
        let (tier, table) = (scan.tier.config().name.clone(), first.to_string());
        return Err(TierError::TogetherTooLarge { tier, table, files: wanted.len(), bytes, budget }.into());
    }
    let list = scan.tier.submit(&user, vec![vec![wanted]]).await?;
    list.next().await?;
    Ok(Some(Arc::new(list)))
}

impl Role for Merge {
    const NAME: &'static str = "MergeCombineExec";

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tier={}, fragments={}", self.scan.tier.config().name, self.scan.fragments.len())
    }

    fn renewed(&self) -> Self {
        Merge { scan: Arc::clone(&self.scan), holds: Mutex::default() }
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let hold = self.hold(&context);
        let (scan, input) = (Arc::clone(&self.scan), Arc::clone(input));
        let schema = input.schema();
        let rows = async move {
            hold.list.get(|| restored(scan, user_of(&context))).await?;
            let rows = input.execute(partition, context)?;
            // The hold goes with the stream.
            Result::<_>::Ok(rows.map(move |batch| {
                let _ = &hold;
                batch
            }))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
