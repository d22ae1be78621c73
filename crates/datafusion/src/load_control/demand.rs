//! Detection of operators whose memory grows with the data.

use std::sync::Arc;

use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;

use coscan_upstream::FLOAT_EXTREMA;

/// Returns whether an operator of the plan keeps an unbounded number of rows.
pub(crate) fn needs_memory(plan: &Arc<dyn ExecutionPlan>) -> bool {
    keeps_rows(plan) || plan.children().into_iter().any(needs_memory)
}

fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let collects =
            |f: &Arc<AggregateFunctionExpr>| f.is_distinct() || !FIXED_STATE.contains(&f.fun().name());
        return !aggregate.group_expr().is_empty() || aggregate.aggr_expr().iter().any(collects);
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return sort.fetch().is_none_or(|rows| rows > FEW_ROWS);
    }
    plan.is::<HashJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<RecursiveQueryExec>()
}

/// Functions whose state does not grow with the rows of a group. Of other functions this is unknown.
const FIXED_STATE: [&str; 15] = [
    "approx_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first_value",
    "last_value",
    "max",
    "min",
    "sum",
    FLOAT_EXTREMA[0],
    FLOAT_EXTREMA[1],
];

/// The first rows of an order are kept in memory up to this number.
const FEW_ROWS: usize = 10_000;
