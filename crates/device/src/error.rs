//! Errors in the numbers of a device model.

use std::fmt;

/// The maximum number of disks of a device, so that a typing error does not fill the memory.
pub(crate) const MEMBERS_MAX: u64 = 4096;

/// Which number of a model an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A disk's bandwidth or seek.
    Disk,
    /// What one request of a parallel device gets.
    ParallelEach,
    /// What all requests of a parallel device get, or its latency.
    Parallel,
    /// A throttle's limit.
    Throttle,
    /// A delay.
    Delay,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Disk => "disk",
            Part::ParallelEach => "parallel device, one request",
            Part::Parallel => "parallel device, all requests",
            Part::Throttle => "throttle",
            Part::Delay => "delay",
        })
    }
}

/// Which number of a model is impossible, and what to change. Members and devices behind wrappers are checked too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A bandwidth of zero.
    #[error("{of}: a bandwidth must be at least 1 byte/s")]
    NoBandwidth {
        /// Whose.
        of: Part,
    },
    /// Above the range in which arithmetic in nanoseconds is exact.
    #[error(
        "{of}: a bandwidth of {bytes_per_s} bytes/s is more than the model computes with: use at most 1 TiB/s"
    )]
    BandwidthTooHigh {
        /// Whose.
        of: Part,
        /// What was asked for.
        bytes_per_s: u64,
    },
    /// A fixed cost or delay that is too long.
    #[error("{of}: a time of more than a day is not a cost of a request: use a shorter one")]
    TooLong {
        /// Whose.
        of: Part,
    },
    /// Too few members, or an odd number of mirrors.
    #[error("RAID-{level} of {disks} disks: use {wanted}")]
    Disks {
        /// The level's number.
        level: u8,
        /// What was asked for.
        disks: u32,
        /// What there must be.
        wanted: &'static str,
    },
    /// Too many members, those of arrays in arrays included.
    #[error("an array of {0} disks in all is more than the model builds: use at most {MEMBERS_MAX}")]
    TooManyDisks(u64),
    /// A stripe unit too small to be one.
    #[error("a stripe unit of {0} bytes is too small: use at least 512")]
    StripeUnit(u64),
    /// No place for a request.
    #[error("a parallel device must serve at least 1 request at once")]
    NoPlaces,
    /// A rule that never or always applies by mistake, or a draw from nothing.
    #[error("{0}")]
    Rule(&'static str),
}
