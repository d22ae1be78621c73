//! How a page-level pool is set up.

use crate::allocation::load_control::LoadControlName;
use crate::registry::AllocationName;

/// The settings of a [`Pool`](crate::Pool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// The frames.
    pub frames: u32,
    /// Who owns frames and which page is evicted.
    pub allocation: AllocationName,
    /// How many queries run at once.
    pub load_control: LoadControlName,
    /// For policies that draw.
    pub seed: u64,
}
