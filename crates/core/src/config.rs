//! The settings of an active buffer manager, checked once. Its policy is passed separately.

use coscan_base::Span;

use crate::error::ConfigError;

/// The settings of an [`Abm`](crate::Abm). [`AbmConfig::new`] sets all but the budget to the papers' values.
#[derive(Clone, Debug, PartialEq)]
pub struct AbmConfig {
    /// The byte budget of everything the ledger counts.
    pub buffer_bytes: u64,
    /// The maximum number of loads in flight per store. Matching chunks of other tables are read together
    /// with their chunk, even if that exceeds the maximum.
    pub loads_in_flight_max: u32,
    /// A scan is starved with fewer available chunks per worker than this. The papers use 2: the chunk in use
    /// and the next one. Devices with long latency and much parallelism need more.
    pub starved_below: u32,
    /// A limit in bytes for reading ahead of scans with small chunks, so that enough loads are in progress.
    /// Such a scan may have more chunks ahead while its supplied chunks have fewer bytes than this. It may
    /// have at most one more chunk per load that may be in flight. All scans together have at most an eighth
    /// of the buffer in this way. With zero, as in the papers, there is none of this.
    pub ahead_bytes: u64,
    /// The time that a worker may hold a chunk without reading while others wait for its room. After that the
    /// chunk is asked back.
    pub stall_after: Span,
    /// The share of the budget that the workspaces of workers may take together, in percent. One worker may
    /// always run. With more workers than processors, workspaces would only take room from the data. The
    /// policy chooses the workers that run first.
    pub workspace_share_percent: u8,
    /// The number of workers that can run at once. Loads leave room for this many workspaces and one more,
    /// within their share. Otherwise only one worker at a time could run while the buffer is full of data.
    pub processors: u32,
    /// The share of the budget that decoded arrays may take, in percent.
    pub decoded_share_percent: u8,
    /// The maximum bytes of decoded arrays, even if their share is larger.
    pub decoded_bytes_max: u64,
}

impl AbmConfig {
    /// The papers' settings: one load in flight, starved below two chunks.
    pub fn new(buffer_bytes: u64) -> Self {
        AbmConfig {
            buffer_bytes,
            loads_in_flight_max: 1,
            starved_below: 2,
            ahead_bytes: 0,
            stall_after: Span::from_millis(200),
            workspace_share_percent: 25,
            processors: 1,
            decoded_share_percent: 25,
            decoded_bytes_max: u64::MAX,
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
