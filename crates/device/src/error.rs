//! Errors in the numbers of a device model.

use std::fmt;

/// The maximum number of disks of a device. It stops a typing error from filling the memory.
pub(crate) const MEMBERS_MAX: u64 = 4096;

/// The part of a model that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A disk's bandwidth or seek.
    Disk,
    /// The bandwidth of one request of a parallel device.
    ParallelEach,
    /// The bandwidth of all requests of a parallel device, or its latency.
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

/// The impossible number of a model, and the change to make. Members and devices behind wrappers are checked
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A bandwidth of zero.
    #[error("{of}: a bandwidth must be at least 1 byte/s")]
    NoBandwidth {
        /// The part.
        of: Part,
    },
    /// Above the range in which arithmetic in nanoseconds is exact.
    #[error(
        "{of}: a bandwidth of {bytes_per_s} bytes/s is more than the model computes with: use at most 1 TiB/s"
    )]
    BandwidthTooHigh {
        /// The part.
        of: Part,
        /// The bandwidth asked for.
        bytes_per_s: u64,
    },
    /// A fixed cost or delay that is too long.
    #[error("{of}: a time of more than a day is not a cost of a request: use a shorter one")]
    TooLong {
        /// The part.
        of: Part,
    },
    /// Too few members, or an odd number of mirrors.
    #[error("RAID-{level} of {disks} disks: use {wanted}")]
    Disks {
        /// The level's number.
        level: u8,
        /// The number asked for.
        disks: u32,
        /// The required number.
        wanted: &'static str,
    },
    /// Too many members, including those of arrays in arrays.
    #[error("an array of {0} disks in all is more than the model builds: use at most {MEMBERS_MAX}")]
    TooManyDisks(u64),
    /// A stripe unit that is too small.
    #[error("a stripe unit of {0} bytes is too small: use at least 512")]
    StripeUnit(u64),
    /// No place for a request.
    #[error("a parallel device must serve at least 1 request at once")]
    NoPlaces,
    /// A rule that never or always applies by mistake, or a draw from an empty range.
    #[error("{0}")]
    Rule(&'static str),
}
