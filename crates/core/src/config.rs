//! The settings of an active buffer manager, checked once. Its policy is passed separately.

use crate::error::ConfigError;
use crate::time::Span;

/// The settings of an [`Abm`](crate::Abm). [`AbmConfig::new`] gives the papers' values for the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct AbmConfig {
    /// The byte budget of everything the ledger counts.
    pub buffer_bytes: u64,
    /// How many loads may be in flight at once from each store. What goes with a chunk of other tables is read with it, beyond
    /// that if need be.
    pub loads_in_flight_max: u32,
    /// A scan is starved below this many available chunks per worker. The papers use 2: the chunk in use
    /// and the next one. Devices with long latency and much parallelism want more.
    pub starved_below: u32,
    /// A scan whose chunks are small may have more of them ahead, so that enough loads are under way: while those that
    /// it is supplied with have fewer bytes than this, and at most one more for every load that may be in flight. All
    /// scans together have at most an eighth of the buffer so. Zero, as in the papers: none.
    pub ahead_bytes: u64,
    /// How long a worker may hold a chunk without reading, while others wait for its room, before the chunk is asked
    /// back.
    pub stall_after: Span,
    /// The share of the budget that the workspaces of workers may take together, in percent. One worker may always
    /// run. More workers than processors would only take room from the data. The policy chooses which workers run
    /// first.
    pub workspace_share_percent: u8,
    /// How many workers can run at once. Loads leave room for this many workspaces and one more, within their share.
    /// In a buffer that is full of data only one worker at a time could run.
    pub processors: u32,
    /// The share of the budget that decoded arrays may have, in percent.
    pub decoded_share_percent: u8,
    /// The bytes that decoded arrays may have, even if their share is larger.
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
