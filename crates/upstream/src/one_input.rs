//! A wrapper for plan nodes with one input. A node states only what it does with the input. It emits every
//! input row.

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

/// The behavior of a node with one input.
pub trait OneInput: Sized + Send + Sync + 'static {
    /// The node's name in plans.
    const NAME: &'static str;

    /// Whether rows keep the order of the input.
    const KEEPS_ORDER: bool = true;

    /// Whether filters above the node may be evaluated below it.
    const PASSES_FILTERS: bool = false;

    /// The input.
    fn input(&self) -> &Arc<dyn ExecutionPlan>;

    /// The plan properties of its output.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input().properties()
    }

    /// The distribution that it requires of its input.
    fn distribution(&self) -> Distribution {
        Distribution::UnspecifiedDistribution
    }

    /// Writes what plans show after the name.
    fn describe(&self, _: &mut fmt::Formatter) -> fmt::Result {
        Ok(())
    }

    /// Returns the replacement of `node` for another input, or for the same input again.
    fn over(node: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>;

    /// Returns the replacement of `node` for another execution of the plan with other rows.
    fn again(node: &Arc<OneInputExec<Self>>) -> Arc<dyn ExecutionPlan> {
        Self::over(node, Arc::clone(node.0.input()))
    }

    /// Executes a partition. The default returns the input's rows.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input().execute(partition, context)
    }

    /// The metrics of an execution.
    fn metrics(&self) -> Option<MetricsSet> {
        None
    }
}

/// The plan node of a [`OneInput`].
pub struct OneInputExec<T>(pub T);

/// Merges the partitions of a plan into one.
pub fn one_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        0 | 1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

/// Replaces the inputs of a node.
pub fn with_children(
    node: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Asks a node whether it is a [`OneInputExec`]. The type is private, so no other node knows the question.
struct AreYouOne;

/// Returns whether the node is a [`OneInputExec`] of any type.
pub fn is_one_input(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.with_new_state(Arc::new(AreYouOne)).is_some()
}

/// Replaces every `OneInputExec<T>` of the plan by its input.
pub fn without<T: OneInput>(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
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

    /// Answers `AreYouOne` and no other state.
    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        state.is::<AreYouOne>().then(|| Arc::clone(self.0.input()))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(T::again(&self))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    /// The metrics of an execution.
    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics()
    }
}
