//! Settings of a scheduler.

use coscan_base::Span;
use thiserror::Error;

/// Settings of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// The budget of the cache of fragments in bytes, including fragments being fetched.
    pub cache_bytes: u64,
    /// A list that has had nothing to run for this long goes first, whatever the policy chooses. The
    /// documentation of [`Scheduler`](crate::Scheduler) has the resulting bound.
    pub patience: Span,
    /// Attempts for a fragment or a medium before its lists are told that it failed.
    pub attempts: u32,
}

impl SchedulerConfig {
    /// A cache of `cache_bytes` bytes, a patience of an hour, three attempts.
    pub const fn new(cache_bytes: u64) -> Self {
        SchedulerConfig { cache_bytes, patience: Span::from_millis(3_600_000), attempts: 3 }
    }
}

/// An invalid setup of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A setting that must be at least 1 is 0.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// No such policy.
    #[error("there is no policy '{name}' for slow media; there are {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
}
