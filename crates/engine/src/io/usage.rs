//! The use of devices and stores, for statistics.

use std::time::Duration;

use crate::io::level::Why;

/// A device with a profile, and the reads from it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceUse {
    /// The device: `device_ids` of its profile.
    pub device: String,
    /// The file with the profile.
    pub profile: String,
    /// The number of reads at the same time.
    pub requests: usize,
    /// Parts at most this many bytes apart are read by one request.
    pub gap_bytes: u64,
    /// The maximum size of a request for several parts.
    pub request_bytes: u64,
    /// The target size in encoded bytes to which row groups are cut; 0 if they are not cut.
    pub chunk_bytes: u64,
    /// The approximate size of the ranges in which parts of objects are read at the same time. `None` for
    /// files on this machine, and if the number of requests was set.
    pub range_bytes: Option<u64>,
    /// The cost of a further request on the busy device, in bytes. Point reads that cost more than the scan
    /// of their chunk are left to the scan.
    pub request_cost_bytes: u64,
    /// The time that a point read may wait before loads are delayed for it.
    pub point_latency: Duration,
    /// The number of timed reads.
    pub reads: u64,
    /// Their time relative to the profile, with the greatest weight for the newest; 1 before the first. Reads
    /// that share the device take longer than the profile's, which were timed one by one.
    pub over_profile: f64,
}

/// A store whose number of requests is found while it is read, and its current use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUse {
    /// The beginning of its files' addresses, for example `s3://bucket`.
    pub store: String,
    /// The number of requests for loads at the same time.
    pub requests: usize,
    /// The reason for that number.
    pub why: Why,
    /// Requests in progress, including those of point reads.
    pub reading: usize,
    /// Parts at most this many bytes apart are read by one request.
    pub gap_bytes: u64,
}
