//! Specification of a device: plain numbers, checked once, from which devices are built.
//!
//! The caller reads them from files, with units.

use coscan_base::Span;

use crate::Device;
use crate::disk::SeekDisk;
use crate::error::{MEMBERS_MAX, Part, SpecError};
use crate::hard_disk::{BLOCK_BYTES, HardDisk, HardDiskModel};
use crate::parallel::Parallel;
use crate::raid::{Raid, RaidLevel};
use crate::solid_state::{SolidState, SolidStateModel};
use crate::wrap::{Boundaries, Delay, Delayed, FaultRule, Faulty, Lateness, Throttled};

/// A device as plain numbers, unchecked: a [`DeviceSpec`] is made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// A disk that serves one request after the other.
    SeekDisk {
        /// Bandwidth.
        bytes_per_s: u64,
        /// Cost of a request that does not begin at the end of the last one: seek and rotation. Zero gives
        /// the perfect disk of Cooperative Scans 2004, §3.1.
        seek: Span,
    },
    /// A disk accurate to the sector.
    HardDisk(Box<HardDiskModel>),
    /// An array of equal members.
    Raid {
        /// The storage of its data.
        level: RaidLevel,
        /// Members, X in the tables of Cooperative Scans 2004, §3.2.
        disks: u32,
        /// Contiguous bytes on one member before the data continues at the next.
        stripe_unit_bytes: u64,
        /// The model of each member.
        member: Box<DeviceModel>,
    },
    /// A solid-state drive of channels and planes.
    SolidState(SolidStateModel),
    /// A solid-state drive or object store that serves several requests at once.
    Parallel {
        /// Requests served at once; further ones wait in the order of arrival.
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
        /// The device behind it.
        device: Box<DeviceModel>,
    },
    /// A device whose requests sometimes fail, after the time that they would have taken.
    Faulty {
        /// A request fails if at least one rule applies.
        rules: Vec<FaultRule>,
        /// Seed of rules that draw random numbers.
        seed: u64,
        /// The device behind it.
        device: Box<DeviceModel>,
    },
    /// A device that charges for crossing a boundary: parts of an object, chunks of a controller.
    Bounded {
        /// The boundaries and the charge.
        boundaries: Boundaries,
        /// The device behind it.
        device: Box<DeviceModel>,
    },
    /// A device whose completions arrive late.
    Delayed {
        /// The delay.
        delay: Delay,
        /// Seed of the drawn delays.
        seed: u64,
        /// The device behind it.
        device: Box<DeviceModel>,
    },
}

/// A checked model: any number of devices can be built from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec(DeviceModel);

/// Bandwidths up to this value keep every product of the models within 128 bits.
const BYTES_PER_S_MAX: u64 = 1 << 40;
/// Upper bound of every cost of a request.
const COST_MAX: Span = Span::from_millis(24 * 3600 * 1000);

impl DeviceSpec {
    /// Checks a model.
    ///
    /// # Errors
    /// The first implausible number in it, outermost device first.
    pub fn new(model: DeviceModel) -> Result<Self, SpecError> {
        check(&model)?;
        Ok(DeviceSpec(model))
    }

    /// The model of the specification.
    pub fn model(&self) -> &DeviceModel {
        &self.0
    }

    /// The size in bytes, if the device has an end: disks accurate to the sector do, and devices made of
    /// them. A request must not exceed it.
    pub fn bytes(&self) -> Option<u64> {
        bytes(&self.0)
    }

    /// An idle device. Two devices of one spec behave alike, including their draws.
    pub fn build(&self) -> Box<dyn Device> {
        build(&self.0)
    }
}

fn bytes(model: &DeviceModel) -> Option<u64> {
    match model {
        DeviceModel::SeekDisk { .. } | DeviceModel::Parallel { .. } | DeviceModel::SolidState(_) => None,
        DeviceModel::HardDisk(model) => Some(model.blocks() * BLOCK_BYTES),
        DeviceModel::Raid { level, disks, stripe_unit_bytes, member } => {
            let units = bytes(member)? / stripe_unit_bytes;
            Some(units * stripe_unit_bytes * u64::from(level.data_disks(*disks)))
        }
        DeviceModel::Throttled { device, .. }
        | DeviceModel::Faulty { device, .. }
        | DeviceModel::Bounded { device, .. }
        | DeviceModel::Delayed { device, .. } => bytes(device),
    }
}

fn build(model: &DeviceModel) -> Box<dyn Device> {
    match model {
        DeviceModel::SeekDisk { bytes_per_s, seek } => Box::new(SeekDisk::new(*bytes_per_s, *seek)),
        DeviceModel::HardDisk(model) => Box::new(HardDisk::new(model)),
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
            let lateness = Lateness::Drawn(*delay, fastrand::Rng::with_seed(*seed));
            Box::new(Delayed::new(lateness, build(device)))
        }
        DeviceModel::Bounded { boundaries, device } => {
            Box::new(Delayed::new(Lateness::Crossing(*boundaries), build(device)))
        }
        DeviceModel::SolidState(model) => Box::new(SolidState::new(model)),
    }
}

fn check(model: &DeviceModel) -> Result<(), SpecError> {
    match model {
        DeviceModel::SeekDisk { bytes_per_s, seek } => {
            check_bandwidth(Part::Disk, *bytes_per_s)?;
            check_cost(Part::Disk, *seek)
        }
        DeviceModel::HardDisk(model) => model.check().map_err(SpecError::Rule),
        DeviceModel::Raid { level, disks, stripe_unit_bytes, member } => {
            level.check(*disks)?;
            if *stripe_unit_bytes < 512 {
                return Err(SpecError::StripeUnit(*stripe_unit_bytes));
            }
            check(member)?;
            match members(model) {
                0..=MEMBERS_MAX => Ok(()),
                count => Err(SpecError::TooManyDisks(count)),
            }
        }
        DeviceModel::Parallel { places, latency, bytes_per_s_each, bytes_per_s } => {
            if *places == 0 {
                return Err(SpecError::NoPlaces);
            }
            check_bandwidth(Part::ParallelEach, *bytes_per_s_each)?;
            check_bandwidth(Part::Parallel, *bytes_per_s)?;
            check_cost(Part::Parallel, *latency)
        }
        DeviceModel::Throttled { bytes_per_s, device, .. } => {
            check_bandwidth(Part::Throttle, *bytes_per_s)?;
            check(device)
        }
        DeviceModel::Faulty { rules, device, .. } => {
            rules.iter().try_for_each(FaultRule::check)?;
            check(device)
        }
        DeviceModel::SolidState(model) => {
            model.check().map_err(SpecError::Rule)?;
            check_bandwidth(Part::ParallelEach, model.channel_bytes_per_s)?;
            check_bandwidth(Part::Parallel, model.link_bytes_per_s)
        }
        DeviceModel::Bounded { boundaries, device } => {
            boundaries.check()?;
            check_cost(Part::Delay, boundaries.penalty)?;
            check(device)
        }
        DeviceModel::Delayed { delay, device, .. } => {
            delay.check()?;
            check_cost(Part::Delay, delay.most)?;
            check_cost(Part::Delay, delay.rare)?;
            check(device)
        }
    }
}

/// Number of devices that a model builds beneath its arrays and wrappers.
fn members(model: &DeviceModel) -> u64 {
    match model {
        DeviceModel::SeekDisk { .. }
        | DeviceModel::HardDisk(_)
        | DeviceModel::SolidState(_)
        | DeviceModel::Parallel { .. } => 1,
        DeviceModel::Raid { disks, member, .. } => u64::from(*disks).saturating_mul(members(member)),
        DeviceModel::Throttled { device, .. }
        | DeviceModel::Faulty { device, .. }
        | DeviceModel::Bounded { device, .. }
        | DeviceModel::Delayed { device, .. } => members(device),
    }
}

fn check_bandwidth(of: Part, bytes_per_s: u64) -> Result<(), SpecError> {
    match bytes_per_s {
        0 => Err(SpecError::NoBandwidth { of }),
        1..=BYTES_PER_S_MAX => Ok(()),
        _ => Err(SpecError::BandwidthTooHigh { of, bytes_per_s }),
    }
}

fn check_cost(of: Part, cost: Span) -> Result<(), SpecError> {
    if cost > COST_MAX { Err(SpecError::TooLong { of }) } else { Ok(()) }
}
