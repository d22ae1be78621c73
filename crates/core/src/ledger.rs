//! The ledger: use of the budget, in bytes.

/// Bytes in use, by purpose, and the budget that they must fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The budget.
    pub budget: u64,
    /// Encoded pages in the buffer.
    pub resident: u64,
    /// Pages being read.
    pub loading: u64,
    /// Workspaces of the workers that hold a chunk: the slice that is being decoded or was handed out.
    pub workspace: u64,
    /// Decoded arrays kept for other scans.
    pub decoded: u64,
    /// Bytes of point reads: frames of their pages, and pages that are being assembled.
    pub points: u64,
}

impl Usage {
    /// The bytes in use for any purpose.
    pub fn total(&self) -> u64 {
        self.resident + self.loading + self.workspace + self.decoded + self.points
    }

    /// The free bytes; zero if the budget has shrunk below the bytes in use.
    pub fn free(&self) -> u64 {
        self.budget.saturating_sub(self.total())
    }
}
