//! Errors in the setup of a pool or a page replacement policy.

use thiserror::Error;

use crate::ids::FRAMES_MAX;

/// An invalid setup of a pool.
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
        /// The kind of policy asked for.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
}

/// An invalid setup of a page replacement policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PageSetupError {
    /// No such policy.
    #[error("there is no page replacement policy '{name}'; there are {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A pool without frames.
    #[error("a pool needs at least one frame")]
    NoFrames,
    /// More frames than slots can number.
    #[error("{frames} frames are more than the {} a pool can have", FRAMES_MAX)]
    TooManyFrames {
        /// The number asked for.
        frames: usize,
    },
    /// The policy needs the references in advance and did not get them.
    #[error("policy '{name}' is offline: give it all references in advance")]
    NeedsFuture {
        /// The policy.
        name: &'static str,
    },
    /// Positions are numbers of 32 bits.
    #[error("{references} references are too many: an offline policy takes at most {}", u32::MAX - 1)]
    FutureTooLong {
        /// The number of references given.
        references: usize,
    },
}
