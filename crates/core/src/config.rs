//! How an active buffer manager is set up, checked once.

use thiserror::Error;

use crate::registry::PolicyName;
use crate::time::Span;

/// The settings of an [`Abm`](crate::Abm). [`AbmConfig::new`] gives the papers' values for the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct AbmConfig {
    /// The sharing policy.
    pub policy: PolicyName,
    /// The byte budget of everything the ledger counts.
    pub buffer_bytes: u64,
    /// How many loads may be in flight at once from each store.
    pub loads_in_flight_max: u32,
    /// A scan is starved below this many available chunks per worker. The papers use 2: the chunk in use
    /// and the next one. Devices with long latency and much parallelism want more.
    pub starved_below: u32,
    /// How long a worker may sit on a chunk while others are blocked for its room, before the chunk is
    /// asked back.
    pub stall_after: Span,
    /// The share of the budget that the workspaces of workers may take together, in percent, once one
    /// worker is at work. More workers than there are processors only take room from the data; who goes
    /// first is the policy's choice.
    pub workspace_share_percent: u8,
    /// How many workers can run at once. Loads leave room for so many workspaces and one more, within their
    /// share: a buffer that data fill to the brim is emptied by one worker after another.
    pub processors: u32,
    /// The share of the budget that decoded arrays may have, in percent.
    pub decoded_share_percent: u8,
}

impl AbmConfig {
    /// The papers' settings: one load in flight, starved below two chunks.
    pub fn new(policy: PolicyName, buffer_bytes: u64) -> Self {
        AbmConfig {
            policy,
            buffer_bytes,
            loads_in_flight_max: 1,
            starved_below: 2,
            stall_after: Span::from_millis(200),
            workspace_share_percent: 25,
            processors: 1,
            decoded_share_percent: 25,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.buffer_bytes == 0 {
            return Err(ConfigError::BufferTooSmall { needed: 1, budget: 0 });
        }
        if self.loads_in_flight_max == 0 {
            return Err(ConfigError::Zero { setting: "loads_in_flight" });
        }
        if self.starved_below == 0 {
            return Err(ConfigError::Zero { setting: "starved_below" });
        }
        let shares = [
            ("workspace_share", self.workspace_share_percent),
            ("decoded_share", self.decoded_share_percent),
        ];
        if let Some((setting, value)) = shares.into_iter().find(|(_, percent)| *percent > 100) {
            return Err(ConfigError::Percent { setting, value });
        }
        Ok(())
    }
}

/// Why a configuration or a layout is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The buffer cannot hold what one worker needs at the least.
    #[error("a buffer of {budget} bytes is too small: at least {needed} bytes are needed for progress")]
    BufferTooSmall {
        /// The smallest buffer that guarantees progress, in bytes.
        needed: u64,
        /// The budget there is, in bytes.
        budget: u64,
    },
    /// A setting that must be at least 1 is 0.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A percentage above 100.
    #[error("{setting} is a percentage, {value} is above 100")]
    Percent {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u8,
    },
    /// No policy of that name and kind.
    #[error("there is no sharing policy '{name}'; there are {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// A part's run of pages is not within the column or goes backwards.
    #[error("chunk {chunk} lies on pages {start}..{end} of {pages}: spans must ascend and stay inside")]
    BadSpan {
        /// The chunk.
        chunk: u32,
        /// The first page of its span.
        start: u32,
        /// The page after its span.
        end: u32,
        /// The pages of the column.
        pages: u32,
    },
    /// A page of zero bytes.
    #[error("page {page} has no bytes")]
    EmptyPage {
        /// The page.
        page: u32,
    },
    /// A column does not describe one part per chunk.
    #[error("column {column} has {parts} parts for {chunks} chunks")]
    PartCount {
        /// The column.
        column: u32,
        /// Its parts.
        parts: u32,
        /// The table's chunks.
        chunks: u32,
    },
}
