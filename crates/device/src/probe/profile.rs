//! Measured properties of a device, as TOML that people can read and edit.
//!
//! An absent value was searched for and not detected, or not searched for; the flags tell which.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Boundary;
use super::rank::Bounds;

/// The version of the format that this code writes and reads.
pub const PROFILE_VERSION: u32 = 1;

/// A value and its bounds of 95% confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The best estimate.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl From<Bounds> for Estimate {
    fn from((value, low, high): Bounds) -> Self {
        Estimate { value, low, high }
    }
}

/// Time of a random read of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The size.
    pub bytes: u64,
    /// The median, in seconds.
    pub p50_s: Estimate,
    /// The 99th percentile of the reads, in seconds.
    pub p99_s: f64,
}

/// Throughput with this many requests in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Requests in flight.
    pub requests: usize,
    /// Bytes per second.
    pub bytes_per_s: Estimate,
}

/// Requests in flight that a device needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    /// Size of the requests.
    pub request_bytes: u64,
    /// The fewest in flight that reach 95% of the best throughput.
    pub enough: Estimate,
    /// Throughput by requests in flight.
    pub throughput: Vec<Throughput>,
    /// The bandwidth of the device: as many large requests in flight as suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large: Option<Large>,
}

/// The throughput of large requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Large {
    /// Size of the requests.
    pub request_bytes: u64,
    /// The median, the lowest and the highest of some rounds.
    pub bytes_per_s: Estimate,
}

/// Reads that alternate with writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixed {
    /// Size of the requests.
    pub request_bytes: u64,
    /// Requests in flight.
    pub requests: usize,
    /// The median time of a read among reads, in seconds.
    pub read_s: Estimate,
    /// The median time of a write among as many reads, in seconds.
    pub write_s: Estimate,
    /// Time of a read among as many writes, relative to a read among reads.
    pub read_beside_writes: Estimate,
}

/// A lasting change of throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regime {
    /// Bytes read without a pause before the change.
    pub after_bytes: u64,
    /// Throughput before the change.
    pub bytes_per_s_before: f64,
    /// Throughput after the change.
    pub bytes_per_s_after: f64,
}

/// The measured properties of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The [`PROFILE_VERSION`] of the writer.
    pub version: u32,
    /// The name of the measured device as the user gave it; empty for models.
    #[serde(default)]
    pub device: String,
    /// Identification of files on the device: `major:minor` of a local device, or the prefix of the addresses
    /// of a store's objects, such as `s3://bucket`.
    #[serde(default)]
    pub device_ids: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// The unit of offsets and lengths.
    pub block_bytes: u64,
    /// True if everything was measured; false if a limit was reached first.
    pub complete: bool,
    /// True if the search for boundaries was completed.
    pub boundaries_searched: bool,
    /// True if the search for changes of regime was completed.
    pub regime_searched: bool,
    /// Part of a read's time that does not depend on its size, in seconds: t0.
    pub fixed_cost_s: Option<Estimate>,
    /// Bandwidth of one read: B in t = t0 + n / B.
    pub bytes_per_s: Option<Estimate>,
    /// Size of a read that spends 90% of its time on its bytes.
    pub efficient_bytes: Option<Estimate>,
    /// Time of a random read relative to one that follows the last.
    pub random_over_sequential: Option<Estimate>,
    /// Properties that the device reports itself.
    #[serde(default)]
    pub declared: BTreeMap<String, String>,
    /// Boundaries that a read should not cross.
    pub boundary: Option<Boundary>,
    /// A change of throughput.
    pub regime: Option<Regime>,
    /// Requests in flight.
    pub depth: Option<Depth>,
    /// Reads beside writes; only measured on request.
    pub mixed: Option<Mixed>,
    /// Times by size.
    #[serde(default)]
    pub latencies: Vec<Latency>,
}

/// A profile that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or not a profile.
    #[error("not a device profile: {0}")]
    Format(String),
    /// Written by a newer version.
    #[error(
        "a profile of version {found}, but this program reads version {PROFILE_VERSION}: measure it again"
    )]
    Version {
        /// The version in the file.
        found: u32,
    },
}

impl Profile {
    /// The profile of a device without measurements.
    pub(super) fn new(bytes: u64, block_bytes: u64) -> Self {
        Profile {
            version: PROFILE_VERSION,
            device: String::new(),
            device_ids: Vec::new(),
            bytes,
            block_bytes,
            complete: false,
            boundaries_searched: false,
            regime_searched: false,
            fixed_cost_s: None,
            bytes_per_s: None,
            efficient_bytes: None,
            random_over_sequential: None,
            declared: BTreeMap::new(),
            boundary: None,
            regime: None,
            depth: None,
            mixed: None,
            latencies: Vec::new(),
        }
    }

    /// The gap between two reads that takes as long to read as a second request takes to start: t0 x B.
    pub fn coalescing_gap_bytes(&self) -> Option<u64> {
        Some((self.fixed_cost_s?.value * self.bytes_per_s?.value) as u64)
    }

    /// As TOML.
    ///
    /// # Errors
    /// If a number has no form in TOML.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        toml::to_string(self).map_err(|error| ProfileError::Format(error.to_string()))
    }

    /// From TOML.
    ///
    /// # Errors
    /// If the text is not a profile, or one of another version.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let profile: Profile =
            toml::from_str(text).map_err(|error| ProfileError::Format(located(text, &error)))?;
        if profile.version == PROFILE_VERSION {
            Ok(profile)
        } else {
            Err(ProfileError::Version { found: profile.version })
        }
    }
}

/// The error of the text, with its line if there is one.
fn located(text: &str, error: &toml::de::Error) -> String {
    // A missing value has no line.
    let before = error.span().filter(|span| *span != (0..text.len())).and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {}", before.matches('\n').count() + 1, error.message()),
        None => error.message().to_owned(),
    }
}
