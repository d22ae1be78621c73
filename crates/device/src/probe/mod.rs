//! Measurement of a device: cost of a request, requests served at once, and boundaries that requests should
//! not cross.
//!
//! The module is pure: a [`Target`] runs requests and returns their times. A target may be a file, a block
//! device, a store, or a model in virtual time ([`Simulated`]). This module chooses the requests and
//! evaluates their times.
//!
//! | part | result | file |
//! |---|---|---|
//! | rank | whether two sets of times differ, by how much, and with what confidence | `rank.rs` |
//! | boundary | places that a request should not cross, and the cost of crossing | `boundary/` |
//! | cost | fixed cost and bandwidth, percentiles per size | `cost.rs` |
//! | load | requests in flight, random beside sequential, changes of regime | `load.rs` |
//! | mixed | reads beside writes, if the target may be written to | `mixed.rs` |
//! | profile | all results, as TOML | `profile.rs` |
//!
//! Every result has an interval. "Not detected" is a result too: [`Profile`] then has no value.

mod boundary;
mod cost;
mod load;
mod mixed;
mod profile;
mod rank;
mod simulated;

pub use boundary::{Boundary, Place, Search, find_boundary};
pub use profile::{
    Depth, Estimate, Large, Latency, Mixed, PROFILE_VERSION, Profile, ProfileError, Regime, Throughput,
};
pub use simulated::Simulated;

use crate::Transfer;

/// A request to time. Offsets and lengths are multiples of the target's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its start, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The result of a run of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Seconds per request, in the order of the requests.
    pub latency_s: Vec<f64>,
    /// Seconds from the first request's start to the last request's end.
    pub elapsed_s: f64,
}

/// The reason for an unfinished run.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The limit of time or bytes is reached; earlier results count.
    #[error("the limit of time or bytes is reached: raise it to measure more")]
    LimitReached,
    /// The target failed.
    #[error("{0}")]
    Target(String),
    /// A write to a target that is only read.
    #[error("this target is only read")]
    ReadOnly,
    /// The target is too small for a measurement.
    #[error(
        "it is too small to measure: {bytes} bytes in whole blocks, and at least {least} are needed; name a larger one"
    )]
    TooSmall {
        /// The size of the target.
        bytes: u64,
        /// The required size.
        least: u64,
    },
}

/// A device, file or store whose requests can be timed.
pub trait Target {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// The unit of offsets and lengths, in bytes.
    fn block_bytes(&self) -> u64;

    /// Reads the samples in their order, `depth` requests at a time.
    ///
    /// # Errors
    /// If a read fails, or a limit is reached.
    fn read(&mut self, samples: &[Sample], depth: usize) -> Result<Run, ProbeError>;

    /// Reads and writes in the given order, `depth` at a time. The bytes that were read are written back, so
    /// the content stays the same unless another process writes to the same place at the same time.
    ///
    /// # Errors
    /// [`ProbeError::ReadOnly`] unless the target may be written to; as for [`read`](Self::read).
    fn mixed(&mut self, samples: &[(Sample, Transfer)], depth: usize) -> Result<Run, ProbeError> {
        let _ = (samples, depth);
        Err(ProbeError::ReadOnly)
    }
}

/// The selection and extent of measurements.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Seed of the drawn addresses.
    pub seed: u64,
    /// Requests per size or depth.
    pub samples: usize,
    /// The largest request to time.
    pub bytes_max: u64,
    /// The largest number of requests in flight to try.
    pub depth_max: usize,
    /// The search for boundaries.
    pub search: Search,
    /// True to measure reads beside writes; only for a target that may be written to.
    pub writes: bool,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        ProbeOptions {
            seed: 1,
            samples: 60,
            bytes_max: 4 << 20,
            depth_max: 64,
            search: Search::default(),
            writes: false,
        }
    }
}

/// Measures everything that `options` ask for, within the target's limits. `step` receives the name of each
/// step.
///
/// # Errors
/// If the target fails or is too small. A reached limit is not an error: the profile then has the results up
/// to that point.
pub fn probe(
    target: &mut dyn Target,
    options: &ProbeOptions,
    step: &mut dyn FnMut(&str),
) -> Result<Profile, ProbeError> {
    let (bytes, block) = (target.bytes(), target.block_bytes());
    let least = 64 * block;
    if bytes < least {
        return Err(ProbeError::TooSmall { bytes, least });
    }
    let mut profile = Profile::new(bytes, block);
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut measure = || -> Result<(), ProbeError> {
        step("cost of a request by size");
        cost::measure(target, options, &mut rng, &mut profile)?;
        step("requests in flight");
        load::measure_depth(target, options, &mut rng, &mut profile)?;
        step("random beside sequential");
        load::measure_sequential(target, options, &mut rng, &mut profile)?;
        step("boundaries");
        profile.boundary = find_boundary(target, &options.search, &mut rng)?;
        profile.boundaries_searched = true;
        if options.writes {
            step("reads beside writes");
            mixed::measure(target, options, &mut rng, &mut profile)?;
        }
        step("changes of regime");
        load::measure_regime(target, options, &mut rng, &mut profile)
    };
    match measure() {
        Ok(()) => profile.complete = true,
        Err(ProbeError::LimitReached) => {}
        Err(error) => return Err(error),
    }
    Ok(profile)
}

/// Measures only the cost of a request and the number that suffices at once, within the target's limits. It
/// is for callers that wait.
///
/// # Errors
/// As [`probe`].
pub fn first_look(target: &mut dyn Target, options: &ProbeOptions) -> Result<Profile, ProbeError> {
    let least = 64 * target.block_bytes();
    if target.bytes() < least {
        return Err(ProbeError::TooSmall { bytes: target.bytes(), least });
    }
    let mut profile = Profile::new(target.bytes(), target.block_bytes());
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut measure = || {
        cost::measure(target, options, &mut rng, &mut profile)?;
        load::measure_depth(target, options, &mut rng, &mut profile)
    };
    match measure() {
        Ok(()) | Err(ProbeError::LimitReached) => Ok(profile),
        Err(error) => Err(error),
    }
}

/// A random place for a request, at a multiple of the target's block.
fn anywhere(rng: &mut fastrand::Rng, target_bytes: u64, block: u64, bytes: u64) -> u64 {
    rng.u64(0..=(target_bytes - bytes) / block) * block
}
