//! Facts of a pool, for policies.

use coscan_base::Instant;

use crate::frames::Frames;
use crate::queries::Queries;

/// The facts of a pool, for policies.
#[derive(Clone, Debug)]
pub struct PoolState {
    /// Frames and resident pages.
    pub frames: Frames,
    /// Queries and the files they have open.
    pub queries: Queries,
    pub(crate) now: Instant,
}

impl PoolState {
    /// The time of the last event.
    pub fn now(&self) -> Instant {
        self.now
    }
}
