//! The schedule node: owns the list of subqueries of the plan below it.
//!
//! If every subquery is one fragment, the combine nodes below execute the list as their streams are polled. The node
//! only passes rows on. If a subquery is a combination of fragments of two joined scans, the plan below runs once
//! per ready batch, over the fragments of the batch. The scheduler guarantees that a batch is everything that such a
//! pass joins, and that no combination is joined twice.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::StreamExt;

use crate::fragment::Fragment;
use crate::list::Subqueries;
use crate::plan::combine::CombineExec;
use crate::plan::held::HeldList;
use crate::plan::pass::{PassExec, Role};
use crate::plan::resolve::{needed, needed_fragments};
use crate::plan::scan::TierScan;
use crate::reads::user_of;

/// A schedule node whose subqueries are single fragments.
pub(crate) type ScheduleExec = PassExec<Schedule>;

#[derive(Debug)]
pub(crate) struct Schedule {
    /// Maximum number of subqueries in the list. Only shown in plans.
    subqueries: usize,
}

impl ScheduleExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, subqueries: usize) -> Self {
        PassExec { input, role: Schedule { subqueries } }
    }
}

impl Role for Schedule {
    const NAME: &'static str = "ScheduleExec";

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subqueries={}", self.subqueries)
    }

    fn renewed(&self) -> Self {
        Schedule { subqueries: self.subqueries }
    }
}

/// A schedule node whose subqueries are combinations of fragments. The join below it runs in passes.
#[derive(Debug)]
pub(crate) struct PassesExec {
    /// The join. Its leaves are combine nodes, in the order of the inputs of a subquery.
    template: Arc<dyn ExecutionPlan>,
    /// The scans of the combine nodes, in their order.
    inputs: Vec<Arc<TierScan>>,
    properties: Arc<PlanProperties>,
}

impl PassesExec {
    /// A node over a join whose result is the union of its results over all combinations of fragments.
    pub(crate) fn new(template: Arc<dyn ExecutionPlan>) -> Self {
        let mut equivalences = template.properties().eq_properties.clone();
        equivalences.clear_orderings();
        let properties = PlanProperties::clone(template.properties())
            .with_eq_properties(equivalences)
            .with_partitioning(Partitioning::UnknownPartitioning(1))
            .with_emission_type(EmissionType::Incremental);
        let mut inputs = Vec::new();
        for_each_combine(&template, &mut |combine| inputs.push(Arc::clone(combine.scan())));
        PassesExec { template, inputs, properties: Arc::new(properties) }
    }

    /// Maximum number of subqueries.
    pub(crate) fn subqueries(&self) -> usize {
        self.inputs.iter().fold(1, |product, scan| product.saturating_mul(scan.fragments.len()))
    }

    /// The combinations of fragments, by their places, that predicates do not rule out.
    fn combinations(&self) -> Vec<Vec<usize>> {
        self.inputs.iter().fold(vec![Vec::new()], |combinations, scan| {
            let needed = needed(scan);
            let longer = |combination: Vec<usize>| {
                let one_more = |at: &usize| combination.iter().copied().chain([*at]).collect();
                needed.iter().map(one_more).collect::<Vec<_>>()
            };
            combinations.into_iter().flat_map(longer).collect()
        })
    }

    /// The join over the available fragments.
    fn pass(&self, available: &[Vec<usize>], options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Each pass has hash tables and dynamic filters of its own.
        let fresh = reset_plan_states(Arc::clone(&self.template))?;
        let mut inputs = available.iter();
        let bound = fresh.transform_down(|node| {
            let Some(combine) = node.downcast_ref::<CombineExec>() else { return Ok(Transformed::no(node)) };
            let Some(fragments) = inputs.next() else { return internal_err!("a pass has too few inputs") };
            Ok(Transformed::new(combine.over_fragments(fragments, options)?, true, TreeNodeRecursion::Jump))
        });
        let bound = bound.data()?;
        let one = bound.output_partitioning().partition_count() == 1;
        Ok(if one { bound } else { Arc::new(CoalescePartitionsExec::new(bound)) })
    }
}

/// The combine nodes of a join, in the order in which its inputs stand in a subquery.
pub(crate) fn for_each_combine(plan: &Arc<dyn ExecutionPlan>, f: &mut dyn FnMut(&CombineExec)) {
    if let Some(combine) = plan.downcast_ref::<CombineExec>() {
        f(combine);
    }
    plan.children().into_iter().for_each(|child| for_each_combine(child, f));
}

/// The passes of one execution.
struct Passes {
    node: Arc<PassesExec>,
    context: Arc<TaskContext>,
    /// The combinations without a pass so far.
    left: BTreeSet<Vec<usize>>,
    submitted: Option<Submitted>,
    running: Option<(SendableRecordBatchStream, Vec<u32>)>,
}

/// A list, and the combinations that its subqueries join.
struct Submitted {
    list: Arc<HeldList>,
    combinations: Vec<Vec<usize>>,
}

impl Passes {
    async fn next(&mut self) -> Result<Option<datafusion::arrow::record_batch::RecordBatch>> {
        loop {
            let submitted = match &self.submitted {
                Some(submitted) => submitted,
                None if self.left.is_empty() => return Ok(None),
                None => &*self.submitted.insert(self.node.submit(&self.left, &self.context).await?),
            };
            let list = &submitted.list;
            if let Some((rows, _)) = &mut self.running {
                list.read();
                let batch = match rows.next().await.transpose() {
                    Ok(batch) => batch,
                    Err(error) => return Err(self.node.doubted(error).await),
                };
                if let Some(batch) = batch {
                    list.read();
                    return Ok(Some(batch));
                }
            }
            if let Some((rows, subqueries)) = self.running.take() {
                drop(rows);
                list.done(subqueries, true);
            }
            let Some(ready) = list.next().await? else {
                // All subqueries are done, or the list was given back during a pause.
                self.submitted = None;
                continue;
            };
            for subquery in &ready {
                self.left.remove(&submitted.combinations[*subquery as usize]);
            }
            let available = self.node.available(&submitted.combinations, &ready);
            let pass = self.node.pass(&available, self.context.session_config().options())?;
            self.running = Some((pass.execute(0, Arc::clone(&self.context))?, ready));
        }
    }
}

impl PassesExec {
    /// Submits these combinations.
    async fn submit(&self, left: &BTreeSet<Vec<usize>>, context: &Arc<TaskContext>) -> Result<Submitted> {
        let combinations: Vec<Vec<usize>> = left.iter().cloned().collect();
        let subqueries = combinations.iter().map(|combination| self.fragments(combination)).collect();
        let Some(scan) = self.inputs.first() else {
            return internal_err!("a join in passes reads no tier");
        };
        scan.bill.check(context).await?;
        let list = scan.tier.submit(&user_of(context), subqueries).await?;
        Ok(Submitted { list: HeldList::new(list, scan.tier.config().patience), combinations })
    }

    /// The error of a pass. Copies that cannot be decoded leave the cache.
    async fn doubted(&self, error: DataFusionError) -> DataFusionError {
        let Some(first) = self.inputs.first() else { return error };
        let fragments = self.inputs.iter().flat_map(|scan| needed_fragments(scan)).collect();
        first.tier.doubted(fragments, error).await
    }

    /// The list that the node would submit: the fragments of each input, per combination.
    pub(crate) fn wanted(&self) -> Subqueries {
        self.combinations().iter().map(|combination| self.fragments(combination)).collect()
    }

    /// The scans of the combine nodes below.
    pub(crate) fn scans(&self) -> &[Arc<TierScan>] {
        &self.inputs
    }

    fn fragments(&self, combination: &[usize]) -> Vec<Vec<Fragment>> {
        let inputs = combination.iter().zip(&self.inputs);
        inputs.map(|(at, scan)| vec![scan.fragments[*at].fragment.clone()]).collect()
    }

    /// The fragments of each input in a batch.
    fn available(&self, combinations: &[Vec<usize>], ready: &[u32]) -> Vec<Vec<usize>> {
        let mut available = vec![Vec::new(); self.inputs.len()];
        for subquery in ready {
            for (input, at) in available.iter_mut().zip(&combinations[*subquery as usize]) {
                input.push(*at);
            }
        }
        for input in &mut available {
            input.sort_unstable();
            input.dedup();
        }
        available
    }
}

impl DisplayAs for PassesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.inputs.iter().map(|scan| scan.fragments.len().to_string());
        let sizes: Vec<String> = sizes.collect();
        write!(f, "ScheduleExec: subqueries={}, in passes", sizes.join("x"))
    }
}

impl ExecutionPlan for PassesExec {
    fn name(&self) -> &str {
        "ScheduleExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.template]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([template]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("a schedule node has one input");
        };
        Ok(Arc::new(PassesExec::new(template)))
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
        if partition != 0 {
            return internal_err!("a join in passes has one partition, {partition} was opened");
        }
        let passes = Passes {
            node: Arc::new(PassesExec::new(Arc::clone(&self.template))),
            context,
            left: self.combinations().into_iter().collect(),
            submitted: None,
            running: None,
        };
        let rows = futures::stream::try_unfold(passes, |mut passes| async move {
            let batch = passes.next().await?;
            Ok(batch.map(|batch| (batch, passes)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
