//! The proof that the tasks of a stage together return the rows of one plan.
//!
//! DataFusion puts an exchange before a node that needs rows of equal keys, or all rows, in one partition, unless its
//! input has one partition anyway. Exchanges become exchanges between tasks, so what is right for several partitions is
//! right for several tasks. What was right because there is one partition is not: each task has one.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{NetworkBoundaryExt, NetworkBroadcastExec, Stage};

use crate::guard::Reason;

/// The rows of a node in the tasks of its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// Each row is in one task.
    Divided,
    /// Each row is in every task.
    Copied,
}

/// Checks the stages of a distributed plan.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<(), Reason> {
    rows(plan, 1).map(|_| ())
}

fn rows(node: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Rows, Reason> {
    let wrong = |what: &str| Err(Reason::Division(format!("{} {what}", node.name())));
    if let Some(boundary) = node.as_network_boundary() {
        let Stage::Local(stage) = boundary.input_stage() else { return wrong("has no plan") };
        if rows(&stage.plan, stage.tasks)? == Rows::Copied && stage.tasks > 1 {
            return wrong("would get each row once for each task");
        }
        return Ok(if node.is::<NetworkBroadcastExec>() { Rows::Copied } else { Rows::Divided });
    }
    let inputs =
        node.children().into_iter().map(|input| rows(input, tasks)).collect::<Result<Vec<_>, _>>()?;
    if tasks == 1 {
        return Ok(Rows::Divided);
    }
    if !inputs.is_empty() && inputs.iter().all(|rows| *rows == Rows::Copied) {
        return Ok(Rows::Copied);
    }
    if inputs.contains(&Rows::Copied) && !keeps_rows_of_left_for_itself(node) {
        return wrong("would return rows of its left side once for each task");
    }
    if node.output_partitioning().partition_count() == 1 {
        return wrong("has one partition in each task");
    }
    Ok(Rows::Divided)
}

/// Returns whether a node is a join whose left side may be the same in all tasks: each row of the result has a row of the
/// right side.
fn keeps_rows_of_left_for_itself(node: &Arc<dyn ExecutionPlan>) -> bool {
    let by_right = |of: &JoinType| {
        matches!(
            of,
            JoinType::Inner
                | JoinType::Right
                | JoinType::RightSemi
                | JoinType::RightAnti
                | JoinType::RightMark
        )
    };
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return *join.partition_mode() == PartitionMode::CollectLeft
            && by_right(join.join_type())
            && !join.null_aware;
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return by_right(join.join_type());
    }
    // Other nodes, such as a union, return the rows of each input.
    node.is::<CrossJoinExec>()
}
