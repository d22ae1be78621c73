//! Foreign nodes: nodes of types that neither DataFusion nor coscan defines.
//!
//! Nothing is known about them. They may number rows as they come, expect a file in each partition, or keep
//! something that their inputs do not show. So the known types are a closed list, and every other node is
//! foreign. Names prove nothing: any node may be called `FilterExec`.
//!
//! [`super::aside`] keeps the order of rows below foreign nodes. Results of plans that contain them are not
//! shared ([`crate::shared_result`]).

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use coscan_engine::Engine;
use coscan_operators::{RestExec, ScanAggregateExec};
use coscan_upstream::one_input::is_one_input;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::async_func::AsyncFuncExec;
use datafusion::physical_plan::buffer::BufferExec;
#[expect(deprecated, reason = "plans that other versions have made may contain it")]
use datafusion::physical_plan::coalesce_batches::CoalesceBatchesExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::partitioned_topk::PartitionedTopKExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;

use crate::lock::lock;
use crate::ordered::{OrderedAggregateExec, OrderedJoinExec, OrderedWindowExec};

macro_rules! is_one_of {
    ($node:expr, $($kind:ty),+ $(,)?) => { $($node.is::<$kind>())||+ };
}

/// Returns whether the node is of a type that DataFusion or this crate defines.
pub(crate) fn is_own(node: &Arc<dyn ExecutionPlan>) -> bool {
    is_of_datafusion(node)
        || is_one_input(node)
        || is_one_of!(
            node,
            OrderedAggregateExec,
            OrderedJoinExec,
            OrderedWindowExec,
            RestExec,
            ScanAggregateExec,
        )
}

#[expect(deprecated, reason = "as above")]
fn is_of_datafusion(node: &Arc<dyn ExecutionPlan>) -> bool {
    is_one_of!(
        node,
        AggregateExec,
        AnalyzeExec,
        AsyncFuncExec,
        BoundedWindowAggExec,
        BufferExec,
        CoalesceBatchesExec,
        CoalescePartitionsExec,
        CooperativeExec,
        CrossJoinExec,
        DataSinkExec,
        DataSourceExec,
        EmptyExec,
        ExplainExec,
        FilterExec,
        GlobalLimitExec,
        HashJoinExec,
        InterleaveExec,
        LazyMemoryExec,
        LocalLimitExec,
        NestedLoopJoinExec,
        OutputRequirementExec,
        PartialSortExec,
        PartitionedTopKExec,
        PiecewiseMergeJoinExec,
        PlaceholderRowExec,
        ProjectionExec,
        RecursiveQueryExec,
        RepartitionExec,
        ScalarSubqueryExec,
        SortExec,
        SortMergeJoinExec,
        SortPreservingMergeExec,
        StreamingTableExec,
        SymmetricHashJoinExec,
        UnionExec,
        UnnestExec,
        WindowAggExec,
        WorkTableExec,
    )
}

/// Tests whether a node is of one type.
type IsOfType = fn(&Arc<dyn ExecutionPlan>) -> bool;

/// The node types that hosts of an engine have declared, by their names.
#[derive(Debug, Default)]
pub(super) struct Declared(Mutex<BTreeMap<&'static str, IsOfType>>);

/// Declares a type of the host's nodes. Such a node must give the same rows in whatever order and partition
/// the rows of its inputs come. Below nodes of undeclared types, plans keep the order of rows.
pub fn declare_node<T: ExecutionPlan>(engine: &Engine) {
    let declared = engine.companion(Declared::default);
    lock(&declared.0).insert(type_name::<T>(), |node| node.is::<T>());
}

impl Declared {
    /// Returns the declared types of an engine.
    pub(super) fn of(engine: &Engine) -> Arc<Self> {
        engine.companion(Declared::default)
    }

    /// Returns whether the node may rely on the order in which rows come.
    pub(super) fn is_foreign(&self, node: &Arc<dyn ExecutionPlan>) -> bool {
        !is_own(node) && !lock(&self.0).values().any(|is_of_type| is_of_type(node))
    }
}
