//! How a page-level pool is set up, checked once.

use thiserror::Error;

use crate::allocation::AllocationName;
use crate::allocation::load_control::LoadControlName;

/// The settings of a [`Pool`](super::Pool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// The frames.
    pub frames: u32,
    /// Who owns frames and which one leaves.
    pub allocation: AllocationName,
    /// How many queries run at once.
    pub load_control: LoadControlName,
    /// For policies that draw.
    pub seed: u64,
}

/// Why a pool cannot be set up like that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PoolConfigError {
    /// A pool without frames.
    #[error("frames must be at least 1")]
    NoFrames,
    /// A utilisation above 1000 thousandths.
    #[error("the threshold of feedback is in thousandths, {threshold_permille} is above 1000")]
    Threshold {
        /// The threshold.
        threshold_permille: u32,
    },
    /// No policy of that name and kind.
    #[error("there is no {what} '{name}'; there are {known}")]
    UnknownName {
        /// What was asked for.
        what: &'static str,
        /// By which name.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
}
