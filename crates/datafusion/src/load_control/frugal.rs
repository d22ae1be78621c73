//! The settings with which operators need the least memory, for a run with little of it.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinType, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::prelude::SessionConfig;

use coscan_upstream::compares_sorted;

/// Partitions of a frugal run. Sort-merge joins need two.
const FRUGAL_PARTITIONS: usize = 2;

/// Rows of a batch in such a run.
const FRUGAL_BATCH_ROWS: usize = 1024;

/// 1/N of the available memory is kept for merging spilled data.
const FRUGAL_MERGE_SHARE: u64 = 32;

/// The joins of such a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrugalJoins {
    /// By sorting both sides, which spills.
    Spilling,
    /// By hash tables in memory.
    Hash,
}

/// Returns a session with the settings by which operators need the least memory.
pub(crate) fn frugal(session: &SessionState, room: u64, joins: FrugalJoins) -> SessionState {
    let mut frugal = session.clone();
    // A builder would replace the default catalog, which all sessions with these tables share.
    *frugal.config_mut() = frugal_config(session.config(), room, joins);
    frugal
}

/// Returns these settings.
pub(crate) fn frugal_config(config: &SessionConfig, room: u64, joins: FrugalJoins) -> SessionConfig {
    let (partitions, rows) = (config.target_partitions(), config.batch_size());
    let config = config.clone().with_target_partitions(partitions.clamp(2, FRUGAL_PARTITIONS));
    let mut config = config.with_batch_size(rows.min(FRUGAL_BATCH_ROWS));
    let options = config.options_mut();
    if joins == FrugalJoins::Spilling {
        options.optimizer.prefer_hash_join = false;
    }
    let spill = &mut options.execution.sort_spill_reservation_bytes;
    *spill = (*spill).min((room / FRUGAL_MERGE_SHARE) as usize);
    config
}

/// Returns whether a plan has a sort-merge join that DataFusion 55 computes wrongly.
pub(crate) fn joins_wrongly(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| node.downcast_ref::<SortMergeJoinExec>().map_or(Ok(false), is_done_wrong))
}

fn is_done_wrong(join: &SortMergeJoinExec) -> Result<bool> {
    let filter = join.filter().as_ref();
    // The condition of a full join is not tested if it has no columns, such as `random() < 0.5`.
    let untested = filter.is_some_and(|filter| filter.column_indices().is_empty());
    let wrong = untested && join.join_type() == JoinType::Full;
    // Sort-merge joins do not match zeros of both signs, nor NaN.
    let schema = join.left().schema();
    let keys = join.on().iter().map(|(key, _)| key.data_type(&schema)).collect::<Result<Vec<_>>>()?;
    Ok(wrong || !keys.iter().all(compares_sorted))
}

#[cfg(test)]
mod tests {
    use coscan_upstream::PlainSql;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn joins_by_sorting_that_are_done_wrong_are_known() {
        let session = SessionContext::new();
        let session = frugal(&session.state(), 1 << 30, FrugalJoins::Spilling);
        let session = SessionContext::new_with_state(session);
        session.plain_sql("CREATE TABLE t AS SELECT v FROM generate_series(1, 10) AS t(v)").await.unwrap();
        for (kind, condition, expected) in [
            ("FULL", "a.v = b.v AND random() < 0", true),
            ("FULL", "a.v = b.v AND a.v + random() < b.v", false),
            ("LEFT", "a.v = b.v AND random() < 0", false),
            ("FULL", "a.v = b.v", false),
            ("INNER", "a.v = CAST(b.v AS REAL)", true),
        ] {
            let sql = format!("SELECT * FROM t a {kind} JOIN t b ON {condition}");
            let plan = session.plain_sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            assert!(plan.exists(|node| Ok(node.is::<SortMergeJoinExec>())).unwrap(), "{sql}");
            assert_eq!(joins_wrongly(&plan).unwrap(), expected, "{sql}");
        }
    }
}
