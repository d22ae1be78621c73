//! The settings of a run with little memory: those with which operators need least.

use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;

/// Partitions of a run that has to make do; joins by sorting need two.
const FRUGAL_PARTITIONS: usize = 2;

/// Rows of a batch in such a run.
const FRUGAL_BATCH_ROWS: usize = 1024;

/// Of the room there is, 1/N is kept for merging what was spilled.
const FRUGAL_MERGE_SHARE: u64 = 32;

/// How such a run joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrugalJoins {
    /// By sorting both sides, which spills.
    Spilling,
    /// By hash tables in memory.
    Hash,
}

/// A session with the settings by which operators need the least memory.
pub(crate) fn frugal(session: &SessionState, room: u64, joins: FrugalJoins) -> SessionState {
    let mut frugal = session.clone();
    // A builder would make the default catalog anew, which all sessions with these tables share.
    *frugal.config_mut() = frugal_config(session.config(), room, joins);
    frugal
}

/// These settings.
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
