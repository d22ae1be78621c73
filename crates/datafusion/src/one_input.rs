//! Nodes of a plan over one other node, which say what they do with it and nothing else. They give its rows, all of them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};

/// What a node does with its input.
pub(crate) trait OneInput: Sized + Send + Sync + 'static {
    /// What the node is called in plans.
    const NAME: &'static str;

    /// Whether it gives rows in their order.
    const KEEPS_ORDER: bool = true;

    /// Whether filters above it may be tested below.
    const PASSES_FILTERS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan>;

    /// What is known of its rows.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input().properties()
    }

    /// What it needs of its input.
    fn distribution(&self) -> Distribution {
        Distribution::UnspecifiedDistribution
    }

    /// What plans show behind the name.
    fn describe(&self, _: &mut fmt::Formatter) -> fmt::Result {
        Ok(())
    }

    /// What stands in the place of `node` over another input, or over the same once more.
    fn over(node: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>;

    /// What stands in its place where the plan is executed again with other rows.
    fn again(node: &Arc<OneInputExec<Self>>) -> Arc<dyn ExecutionPlan> {
        Self::over(node, Arc::clone(node.0.input()))
    }

    /// Its rows: those of its input, unless it does something with them.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input().execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }
}

/// The node that does so.
pub(crate) struct OneInputExec<T>(pub(crate) T);

/// The plan as an input with one partition.
pub(crate) fn one_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        0 | 1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

/// A node with other inputs.
pub(crate) fn with_children(
    node: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Asks a node whether it is one of these. No other node knows the question, whose type is private.
struct AreYouOne;

/// Whether the node is one of these, whatever it does with its input.
pub(crate) fn is_one_input(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.with_new_state(Arc::new(AreYouOne)).is_some()
}

/// The plan with the inputs of all such nodes in their places.
pub(crate) fn without<T: OneInput>(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let strip = |node: Arc<dyn ExecutionPlan>| {
        Ok(match node.downcast_ref::<OneInputExec<T>>() {
            Some(OneInputExec(of)) => Transformed::yes(Arc::clone(of.input())),
            None => Transformed::no(node),
        })
    };
    plan.transform_up(strip).data()
}

impl<T: OneInput> fmt::Debug for OneInputExec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(T::NAME).field("input", self.0.input()).finish_non_exhaustive()
    }
}

impl<T: OneInput> DisplayAs for OneInputExec<T> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(T::NAME)?;
        self.0.describe(f)
    }
}

impl<T: OneInput> ExecutionPlan for OneInputExec<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.0.input()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![T::KEEPS_ORDER]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![self.0.distribution()])
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one input, not {}", T::NAME, inputs.len()),
        }
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) {
            Ok([input]) => Ok(T::over(&self, input)),
            Err(children) => internal_err!("{} has one input, not {}", T::NAME, children.len()),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_children(self, children)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        if T::PASSES_FILTERS {
            FilterDescription::from_children(filters, &self.children())
        } else {
            Ok(FilterDescription::all_unsupported(&filters, &self.children()))
        }
    }

    /// The answer to [`AreYouOne`], and to nothing else.
    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        state.is::<AreYouOne>().then(|| Arc::clone(self.0.input()))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(T::again(&self))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics()
    }
}
