//! Archive tier of an object store: nothing is mounted, a restore takes hours, and requests and bytes have
//! prices.
//!
//! Delays and prices are inputs, because providers change both and they differ by region and class.

use coscan_base::Span;

use super::{LibraryError, Price, check_drives, check_rate, check_time, time_for};

/// Numbers of an archive tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Simultaneous restores.
    pub restores_at_once: u32,
    /// Time from the request until the object is readable.
    pub restore: Span,
    /// Transfer rate of one object once it is restored.
    pub bytes_per_s: u64,
    /// Price of one restore request.
    pub per_request: Price,
    /// Price of 2^30 restored bytes.
    pub per_gib: Price,
}

impl Archive {
    pub(super) fn check(&self) -> Result<(), LibraryError> {
        check_drives(self.restores_at_once)?;
        check_time("restore", self.restore)?;
        check_rate("transfer", self.bytes_per_s)
    }

    pub(super) fn restore(&self, bytes: u64) -> Span {
        let read = time_for(bytes, self.bytes_per_s);
        Span::from_nanos(self.restore.as_nanos().saturating_add(read.as_nanos()))
    }

    pub(super) fn price(&self, bytes: u64) -> Price {
        let by_size = u128::from(bytes) * u128::from(self.per_gib.as_millionths()) / (1 << 30);
        self.per_request + Price::from_millionths(u64::try_from(by_size).unwrap_or(u64::MAX))
    }
}
