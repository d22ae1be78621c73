//! The schedule node: a list of subqueries belongs to the plan below it.
//!
//! Where every subquery is one fragment, the combine nodes below carry the list out as their streams are polled, and this
//! node passes rows on. Where a subquery is a combination of fragments of two scans that are joined, the plan below is run
//! once for each batch that is ready, over the fragments of the batch: the scheduler sees to it that a batch is everything
//! that such a pass joins, and nothing that was joined before.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
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
use crate::list::SqList;
use crate::plan::combine::CombineExec;
use crate::plan::pass::{PassExec, Role};
use crate::reads::user_of;
use crate::tier::Tier;

/// A schedule node whose subqueries are single fragments.
pub(crate) type ScheduleExec = PassExec<Schedule>;

#[derive(Debug)]
pub(crate) struct Schedule {
    /// For people: how many subqueries the list has at most.
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

/// A schedule node whose subqueries are combinations of fragments: the join below is run in passes.
#[derive(Debug)]
pub(crate) struct PassesExec {
    /// The join. Its leaves are combine nodes, in the order of the inputs of a subquery.
    template: Arc<dyn ExecutionPlan>,
    inputs: Vec<Vec<Fragment>>,
    properties: Arc<PlanProperties>,
}

impl PassesExec {
    /// Over a join whose result is the union of its results over all combinations of fragments.
    pub(crate) fn new(template: Arc<dyn ExecutionPlan>) -> Self {
        let mut equivalences = template.properties().eq_properties.clone();
        equivalences.clear_orderings();
        let properties = PlanProperties::clone(template.properties())
            .with_eq_properties(equivalences)
            .with_partitioning(Partitioning::UnknownPartitioning(1))
            .with_emission_type(EmissionType::Incremental);
        let mut inputs = Vec::new();
        for_each_combine(&template, &mut |combine| inputs.push(combine.scan().wanted()));
        PassesExec { template, inputs, properties: Arc::new(properties) }
    }

    /// How many subqueries there are.
    pub(crate) fn subqueries(&self) -> usize {
        self.inputs.iter().fold(1, |product, input| product.saturating_mul(input.len()))
    }

    /// The fragments of each combination, by their places.
    fn combinations(&self) -> Vec<Vec<usize>> {
        self.inputs.iter().fold(vec![Vec::new()], |combinations, input| {
            let longer = |combination: Vec<usize>| {
                (0..input.len()).map(move |at| combination.iter().copied().chain([at]).collect())
            };
            combinations.into_iter().flat_map(longer).collect()
        })
    }

    /// The join over what is available.
    fn pass(&self, available: &[Vec<usize>], options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        // Hash tables and dynamic filters of a pass are its own.
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
    combinations: Vec<Vec<usize>>,
    list: Option<SqList>,
    running: Option<(SendableRecordBatchStream, Vec<u32>)>,
}

impl Passes {
    async fn next(&mut self) -> Result<Option<datafusion::arrow::record_batch::RecordBatch>> {
        loop {
            if let Some((rows, _)) = &mut self.running
                && let Some(batch) = rows.next().await.transpose()?
            {
                return Ok(Some(batch));
            }
            let list = match &self.list {
                Some(list) => list,
                None => {
                    let (tier, subqueries) = self.submission()?;
                    let list = tier.submit(&user_of(&self.context), subqueries).await?;
                    &*self.list.insert(list)
                }
            };
            if let Some((rows, subqueries)) = self.running.take() {
                drop(rows);
                list.done(subqueries);
            }
            let Some(ready) = list.next().await? else { return Ok(None) };
            let available = self.available(&ready);
            let pass = self.node.pass(&available, self.context.session_config().options())?;
            self.running = Some((pass.execute(0, Arc::clone(&self.context))?, ready));
        }
    }

    /// What is submitted, and to whom.
    fn submission(&self) -> Result<(Tier, Vec<Vec<Vec<Fragment>>>)> {
        let inputs = &self.node.inputs;
        let fragments = |combination: &Vec<usize>| {
            combination.iter().zip(inputs).map(|(at, input)| vec![input[*at].clone()]).collect()
        };
        let subqueries = self.combinations.iter().map(fragments).collect();
        let mut tier = None;
        for_each_combine(&self.node.template, &mut |combine| tier = Some(combine.scan().tier.clone()));
        let Some(tier) = tier else { return internal_err!("a join in passes reads no tier") };
        Ok((tier, subqueries))
    }

    /// The fragments of each input that a batch has.
    fn available(&self, ready: &[u32]) -> Vec<Vec<usize>> {
        let mut available = vec![Vec::new(); self.node.inputs.len()];
        for subquery in ready {
            for (input, at) in available.iter_mut().zip(&self.combinations[*subquery as usize]) {
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
        let sizes: Vec<String> = self.inputs.iter().map(|input| input.len().to_string()).collect();
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
            combinations: self.combinations(),
            list: None,
            running: None,
        };
        let rows = futures::stream::try_unfold(passes, |mut passes| async move {
            let batch = passes.next().await?;
            Ok(batch.map(|batch| (batch, passes)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
