//! What a device is to be like: plain numbers, checked once, from which devices are built.
//!
//! Reading them from files, with units, is the caller's business.

use coscan_core::Span;

use crate::Device;
use crate::disk::SeekDisk;
use crate::parallel::Parallel;
use crate::raid::{Raid, RaidLevel};
use crate::wrap::{Delay, Delayed, FaultRule, Faulty, Throttled};

/// A device as plain numbers, unchecked: a [`DeviceSpec`] is made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// A disk that serves one request after the other.
    SeekDisk {
        /// Bandwidth.
        bytes_per_s: u64,
        /// Cost of a request that does not begin where the last one ended: seek and rotation. Zero makes
        /// the perfect disk of Cooperative Scans 2004, §3.1.
        seek: Span,
    },
    /// An array of equal members.
    Raid {
        /// How it stores data.
        level: RaidLevel,
        /// Members, X in the tables of Cooperative Scans 2004, §3.2.
        disks: u32,
        /// Contiguous bytes on one member before the data goes on at the next.
        stripe_unit_bytes: u64,
        /// What each member is.
        member: Box<DeviceModel>,
    },
    /// A solid-state drive or object store that serves several requests at once.
    Parallel {
        /// Requests served at once; more wait in the order they came.
        places: u32,
        /// Fixed part of every request.
        latency: Span,
        /// Bandwidth of one request.
        bytes_per_s_each: u64,
        /// Bandwidth of all requests together.
        bytes_per_s: u64,
    },
    /// A device behind a token bucket, such as a volume with provisioned throughput.
    Throttled {
        /// Bandwidth in the long run.
        bytes_per_s: u64,
        /// Bytes that may pass at once after a rest.
        burst_bytes: u64,
        /// What is behind it.
        device: Box<DeviceModel>,
    },
    /// A device some of whose requests fail, after the time they would have taken.
    Faulty {
        /// A request fails if any of them says so.
        rules: Vec<FaultRule>,
        /// For rules that draw.
        seed: u64,
        /// What is behind it.
        device: Box<DeviceModel>,
    },
    /// A device whose completions arrive late.
    Delayed {
        /// By how much.
        delay: Delay,
        /// For the draws.
        seed: u64,
        /// What is behind it.
        device: Box<DeviceModel>,
    },
}

/// A model that makes sense: any number of devices can be built from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec(DeviceModel);

/// Why a model makes no sense, and what to change. Members and devices behind wrappers are checked too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A bandwidth of zero.
    #[error("{of}: a bandwidth must be at least 1 byte/s")]
    NoBandwidth {
        /// Which device.
        of: &'static str,
    },
    /// More than arithmetic in nanoseconds is exact for.
    #[error(
        "{of}: a bandwidth of {bytes_per_s} bytes/s is more than the model computes with: use at most 1 TiB/s"
    )]
    BandwidthTooHigh {
        /// Which device.
        of: &'static str,
        /// What was asked for.
        bytes_per_s: u64,
    },
    /// A fixed cost or delay that no run would outlast.
    #[error("{of}: a time of more than a day is not a cost of a request: use a shorter one")]
    TooLong {
        /// Which device.
        of: &'static str,
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

/// Bandwidths up to here keep every product of the models within 128 bits.
const BYTES_PER_S_MAX: u64 = 1 << 40;
/// Nothing that a request costs takes longer.
const COST_MAX: Span = Span::from_millis(24 * 3600 * 1000);

impl DeviceSpec {
    /// Checks a model.
    ///
    /// # Errors
    /// The first number in it that makes no sense, outermost device first.
    pub fn new(model: DeviceModel) -> Result<Self, SpecError> {
        check(&model)?;
        Ok(DeviceSpec(model))
    }

    /// The model it was made from.
    pub fn model(&self) -> &DeviceModel {
        &self.0
    }

    /// An idle device. Two devices of one spec behave alike, draws included.
    pub fn build(&self) -> Box<dyn Device> {
        build(&self.0)
    }
}

fn build(model: &DeviceModel) -> Box<dyn Device> {
    match model {
        DeviceModel::SeekDisk { bytes_per_s, seek } => Box::new(SeekDisk::new(*bytes_per_s, *seek)),
        DeviceModel::Raid { level, disks, stripe_unit_bytes, member } => {
            let members = (0..*disks).map(|_| build(member)).collect();
            Box::new(Raid::new(*level, *stripe_unit_bytes, members))
        }
        DeviceModel::Parallel { places, latency, bytes_per_s_each, bytes_per_s } => {
            Box::new(Parallel::new(*places, *latency, *bytes_per_s_each, *bytes_per_s))
        }
        DeviceModel::Throttled { bytes_per_s, burst_bytes, device } => {
            Box::new(Throttled::new(*bytes_per_s, *burst_bytes, build(device)))
        }
        DeviceModel::Faulty { rules, seed, device } => {
            Box::new(Faulty::new(rules.clone(), fastrand::Rng::with_seed(*seed), build(device)))
        }
        DeviceModel::Delayed { delay, seed, device } => {
            Box::new(Delayed::new(*delay, fastrand::Rng::with_seed(*seed), build(device)))
        }
    }
}

fn check(model: &DeviceModel) -> Result<(), SpecError> {
    match model {
        DeviceModel::SeekDisk { bytes_per_s, seek } => {
            check_bandwidth("disk", *bytes_per_s)?;
            check_cost("disk", *seek)
        }
        DeviceModel::Raid { level, disks, stripe_unit_bytes, member } => {
            level.check(*disks)?;
            if *stripe_unit_bytes < 512 {
                return Err(SpecError::StripeUnit(*stripe_unit_bytes));
            }
            check(member)
        }
        DeviceModel::Parallel { places, latency, bytes_per_s_each, bytes_per_s } => {
            if *places == 0 {
                return Err(SpecError::NoPlaces);
            }
            check_bandwidth("parallel device, one request", *bytes_per_s_each)?;
            check_bandwidth("parallel device, all requests", *bytes_per_s)?;
            check_cost("parallel device", *latency)
        }
        DeviceModel::Throttled { bytes_per_s, device, .. } => {
            check_bandwidth("throttle", *bytes_per_s)?;
            check(device)
        }
        DeviceModel::Faulty { rules, device, .. } => {
            rules.iter().try_for_each(FaultRule::check)?;
            check(device)
        }
        DeviceModel::Delayed { delay, device, .. } => {
            delay.check()?;
            check_cost("delay", delay.most)?;
            check_cost("delay", delay.rare)?;
            check(device)
        }
    }
}

fn check_bandwidth(of: &'static str, bytes_per_s: u64) -> Result<(), SpecError> {
    match bytes_per_s {
        0 => Err(SpecError::NoBandwidth { of }),
        1..=BYTES_PER_S_MAX => Ok(()),
        _ => Err(SpecError::BandwidthTooHigh { of, bytes_per_s }),
    }
}

fn check_cost(of: &'static str, cost: Span) -> Result<(), SpecError> {
    if cost > COST_MAX { Err(SpecError::TooLong { of }) } else { Ok(()) }
}
