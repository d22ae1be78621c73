//! The merge-combine node: a scan whose rows come in an order, so that all its fragments have to be there together.
//!
//! Its list has one subquery with all fragments. It is also what a scan gets of which nothing is proven: a plain scan over
//! restored fragments.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use crate::error::TierError;
use crate::list::SqList;
use crate::plan::resolve::Resolver;
use crate::plan::scan::TierScan;
use crate::reads::user_of;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct MergeCombineExec {
    scan: Arc<TierScan>,
    input: Arc<dyn ExecutionPlan>,
    holds: Mutex<Vec<Weak<Hold>>>,
}

/// The fragments, held by every stream that reads them.
#[derive(Debug)]
struct Hold {
    context: Weak<TaskContext>,
    list: OnceCell<Option<SqList>>,
}

impl MergeCombineExec {
    /// Over the scan, which `input` is.
    pub(crate) fn new(scan: Arc<TierScan>, input: Arc<dyn ExecutionPlan>) -> Self {
        MergeCombineExec { scan, input, holds: Mutex::default() }
    }

    pub(crate) fn scan(&self) -> &TierScan {
        &self.scan
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Arc<Hold> {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.strong_count() > 0);
        let same = |hold: &Arc<Hold>| std::ptr::eq(hold.context.as_ptr(), Arc::as_ptr(context));
        if let Some(hold) = holds.iter().filter_map(Weak::upgrade).find(same) {
            return hold;
        }
        let hold = Arc::new(Hold { context: Arc::downgrade(context), list: OnceCell::new() });
        holds.push(Arc::downgrade(&hold));
        hold
    }
}

/// Waits until all fragments that the scan needs are in the cache; the list keeps them there.
async fn restored(scan: &TierScan, user: &str) -> Result<Option<SqList>> {
    let resolver = Resolver::of(scan);
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
    let list = scan.tier.submit(user, vec![vec![wanted]]).await?;
    list.next().await?;
    Ok(Some(list))
}

impl DisplayAs for MergeCombineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MergeCombineExec: tier={}, fragments={}",
            self.scan.tier.config().name,
            self.scan.fragments.len()
        )
    }
}

impl ExecutionPlan for MergeCombineExec {
    fn name(&self) -> &str {
        "MergeCombineExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("a merge-combine node has one input");
        };
        Ok(Arc::new(MergeCombineExec::new(Arc::clone(&self.scan), input)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let hold = self.hold(&context);
        let (scan, input) = (Arc::clone(&self.scan), Arc::clone(&self.input));
        let rows = async move {
            let user = user_of(&context);
            hold.list.get_or_try_init(|| restored(&scan, &user)).await?;
            let rows = input.execute(partition, context)?;
            // The hold goes with the stream.
            Result::<_>::Ok(rows.map(move |batch| {
                let _ = &hold;
                batch
            }))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
