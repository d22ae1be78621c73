//! Settings of a page-level pool.

use crate::allocation::load_control::LoadControlName;
use crate::registry::AllocationName;

/// The settings of a [`Pool`](crate::Pool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of frames.
    pub frames: u32,
    /// The policy for ownership of frames and eviction.
    pub allocation: AllocationName,
    /// The policy for the number of queries that run at once.
    pub load_control: LoadControlName,
    /// Seed of policies that draw random numbers.
    pub seed: u64,
}
