//! What a scheduler is set up with.

use coscan_core::Span;
use thiserror::Error;

/// Settings of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// What the cache of fragments may hold, in bytes: those there, those on their way.
    pub cache_bytes: u64,
    /// A list that has had nothing to run for so long goes first, whatever the policy thinks. The
    /// documentation of [`Scheduler`](crate::Scheduler) has the bound that follows.
    pub patience: Span,
    /// How often a fragment or a medium is tried before those who want it are told.
    pub attempts: u32,
}

impl SchedulerConfig {
    /// A cache of so many bytes, a patience of an hour, three attempts.
    pub const fn new(cache_bytes: u64) -> Self {
        SchedulerConfig { cache_bytes, patience: Span::from_millis(3_600_000), attempts: 3 }
    }
}

/// What cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A setting that must be at least 1 is 0.
    #[error("{setting} must be at least 1")]
    Zero {
        /// Which.
        setting: &'static str,
    },
    /// No such policy.
    #[error("there is no policy '{name}' for slow media; there are {known}")]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// What there is, separated by commas.
        known: String,
    },
}
