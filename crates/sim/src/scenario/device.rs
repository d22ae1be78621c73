//! The `[device]` section: the keys of each kind of device, and the device that they describe.
//!
//! `coscan-device` defines the devices and checks their numbers. This module has their keys, and assigns each
//! mistake to its key. A device is built from the inside out: members of arrays, the device, then faults,
//! throttle and delay around it. Each is checked as it is added.

use coscan_core::Span;
use coscan_device::hard_disk::{DRIVES, Schedule};
use coscan_device::{Delay, DeviceModel, DeviceSpec, FaultRule, Part, RaidLevel, SpecError};
use serde::Deserialize;

use super::error::KeyError;
use super::units::{Bytes, Percent, Rate, Time};

/// The device. The required keys depend on its kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    pub kind: String,
    pub bandwidth: Option<Rate>,
    pub seek: Option<Time>,
    pub level: Option<u32>,
    pub disks: Option<u32>,
    pub stripe_unit: Option<Bytes>,
    /// The model of each disk of an array.
    pub member: Option<Box<DeviceFile>>,
    /// Requests served at once.
    pub requests: Option<u32>,
    pub latency: Option<Time>,
    pub bandwidth_each: Option<Rate>,
    /// The name of a drive that is known to the sector.
    pub drive: Option<String>,
    pub queue_depth: Option<u32>,
    pub schedule: Option<ScheduleFile>,
    /// The share of a command's waiting time that counts as positioning saved.
    pub aging: Option<Percent>,
    pub faults: Option<FaultsFile>,
    pub throttle: Option<ThrottleFile>,
    pub delay: Option<DelayFile>,
}

/// The order in which a drive serves its commands.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleFile {
    Fcfs,
    Sstf,
    CLook,
    Sptf,
    AgedSptf,
}

/// Requests that fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultsFile {
    pub probability: Option<Percent>,
    /// One request in n fails.
    pub every: Option<u64>,
    pub seed: Option<u64>,
}

/// A token bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThrottleFile {
    pub limit: Rate,
    /// A second's worth if absent.
    pub burst: Option<Bytes>,
}

/// Delayed completions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayFile {
    pub least: Time,
    pub most: Time,
    pub rare: Option<Percent>,
    pub rare_delay: Option<Time>,
    pub seed: Option<u64>,
}

/// A kind of device: its name, its keys, and its construction from them.
struct Kind {
    name: &'static str,
    keys: &'static [&'static str],
    model: fn(&Keys<'_>) -> Result<DeviceModel, KeyError>,
}

const KINDS: [Kind; 5] = [
    Kind { name: "perfect", keys: &["bandwidth"], model: perfect },
    Kind { name: "disk", keys: &["bandwidth", "seek"], model: disk },
    Kind { name: "hard-disk", keys: &["drive", "queue_depth", "schedule", "aging"], model: hard_disk },
    Kind { name: "raid", keys: &["level", "disks", "stripe_unit", "member"], model: raid },
    Kind { name: "parallel", keys: &["requests", "latency", "bandwidth_each", "bandwidth"], model: parallel },
];

/// The seed of draws if the file gives none.
const SEED: u64 = 1;

/// The device that a section with this path describes.
pub(super) fn device(path: &str, file: &DeviceFile) -> Result<DeviceSpec, KeyError> {
    let keys = Keys { path, file };
    let kind = KINDS.iter().find(|kind| kind.name == file.kind).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        keys.refuse("kind", format!("there is no device '{}'; there are {}", file.kind, known.join(", ")))
    })?;
    if let Some(key) = keys.given().into_iter().find(|key| !kind.keys.contains(key)) {
        let message = format!(
            "a device of kind '{}' has no {key}: remove it, or choose another kind; it has {}",
            kind.name,
            kind.keys.join(", ")
        );
        return Err(keys.refuse(key, message));
    }
    let bare = (kind.model)(&keys)?;
    let mut spec = keys.check(bare, |error| key_of(kind.name, error))?;
    if let Some(faults) = &file.faults {
        spec = keys.check(faulty(&keys, faults, &spec)?, |_| "faults")?;
    }
    if let Some(throttle) = &file.throttle {
        spec = keys.check(throttled(throttle, &spec), |_| "throttle.limit")?;
    }
    if let Some(delay) = &file.delay {
        spec = keys.check(delayed(&keys, delay, &spec)?, |_| "delay")?;
    }
    Ok(spec)
}

/// A section and its path.
struct Keys<'a> {
    path: &'a str,
    file: &'a DeviceFile,
}

impl Keys<'_> {
    fn refuse(&self, key: &str, message: impl Into<String>) -> KeyError {
        KeyError::new(format!("{}.{key}", self.path), message)
    }

    fn wanted<T>(&self, key: &str, value: Option<T>) -> Result<T, KeyError> {
        let message = || format!("a device of kind '{}' needs {key}", self.file.kind);
        value.ok_or_else(|| KeyError::new(self.path, message()))
    }

    /// The given keys, except those of every kind.
    fn given(&self) -> Vec<&'static str> {
        let file = self.file;
        let all = [
            ("bandwidth", file.bandwidth.is_some()),
            ("seek", file.seek.is_some()),
            ("level", file.level.is_some()),
            ("disks", file.disks.is_some()),
            ("stripe_unit", file.stripe_unit.is_some()),
            ("member", file.member.is_some()),
            ("requests", file.requests.is_some()),
            ("latency", file.latency.is_some()),
            ("bandwidth_each", file.bandwidth_each.is_some()),
            ("drive", file.drive.is_some()),
            ("queue_depth", file.queue_depth.is_some()),
            ("schedule", file.schedule.is_some()),
            ("aging", file.aging.is_some()),
        ];
        all.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }

    fn check(
        &self,
        model: DeviceModel,
        key: impl FnOnce(&SpecError) -> &'static str,
    ) -> Result<DeviceSpec, KeyError> {
        DeviceSpec::new(model).map_err(|error| self.refuse(key(&error), error.to_string()))
    }

    /// A share as millionths; one that rounds to zero is a mistake.
    fn per_million(&self, key: &str, Percent(share): Percent) -> Result<u32, KeyError> {
        let millionths = (share * 1e6).round() as u32;
        if millionths == 0 && share > 0.0 {
            return Err(self.refuse(key, "a share below one in a million counts as none: use 0.0001% or 0%"));
        }
        Ok(millionths)
    }
}

/// The key of an error in a device without wrappers; those of members are found before.
fn key_of(kind: &str, error: &SpecError) -> &'static str {
    match error {
        SpecError::NoBandwidth { of: Part::ParallelEach }
        | SpecError::BandwidthTooHigh { of: Part::ParallelEach, .. } => "bandwidth_each",
        SpecError::NoBandwidth { .. } | SpecError::BandwidthTooHigh { .. } => "bandwidth",
        SpecError::TooLong { .. } if kind == "parallel" => "latency",
        SpecError::TooLong { .. } => "seek",
        SpecError::Disks { .. } | SpecError::TooManyDisks(_) => "disks",
        SpecError::StripeUnit(_) => "stripe_unit",
        SpecError::NoPlaces => "requests",
        SpecError::Rule(_) if kind == "hard-disk" => "queue_depth",
        SpecError::Rule(_) => "kind",
    }
}

fn rate(rate: Rate) -> u64 {
    rate.0.round() as u64
}

fn perfect(keys: &Keys<'_>) -> Result<DeviceModel, KeyError> {
    let bytes_per_s = rate(keys.wanted("bandwidth", keys.file.bandwidth)?);
    Ok(DeviceModel::SeekDisk { bytes_per_s, seek: Span::ZERO })
}

fn disk(keys: &Keys<'_>) -> Result<DeviceModel, KeyError> {
    let bytes_per_s = rate(keys.wanted("bandwidth", keys.file.bandwidth)?);
    Ok(DeviceModel::SeekDisk { bytes_per_s, seek: keys.wanted("seek", keys.file.seek)?.0 })
}

fn hard_disk(keys: &Keys<'_>) -> Result<DeviceModel, KeyError> {
    let name = keys.wanted("drive", keys.file.drive.as_deref())?;
    let drive = DRIVES.iter().find(|drive| drive.name == name).ok_or_else(|| {
        let known = DRIVES.map(|drive| drive.name).join(", ");
        keys.refuse("drive", format!("there is no drive '{name}'; there are {known}"))
    })?;
    let mut model = (drive.model)();
    model.queue_depth = keys.file.queue_depth.unwrap_or(model.queue_depth);
    model.schedule = schedule(keys)?.unwrap_or(model.schedule);
    Ok(DeviceModel::HardDisk(Box::new(model)))
}

fn schedule(keys: &Keys<'_>) -> Result<Option<Schedule>, KeyError> {
    let plain = keys.file.schedule.map(|schedule| match schedule {
        ScheduleFile::Fcfs => Schedule::Fcfs,
        ScheduleFile::Sstf => Schedule::Sstf,
        ScheduleFile::CLook => Schedule::CLook,
        ScheduleFile::Sptf => Schedule::Sptf,
        ScheduleFile::AgedSptf => Schedule::AgedSptf { per_mille: 0 },
    });
    match (plain, keys.file.aging) {
        (Some(Schedule::AgedSptf { .. }), aging) => {
            let Percent(share) = keys.wanted("aging", aging)?;
            Ok(Some(Schedule::AgedSptf { per_mille: (share * 1000.0).round() as u32 }))
        }
        (_, Some(_)) => {
            Err(keys.refuse("aging", "no other order knows it: set schedule = \"aged-sptf\", or remove it"))
        }
        (plain, None) => Ok(plain),
    }
}

fn raid(keys: &Keys<'_>) -> Result<DeviceModel, KeyError> {
    let level = match keys.wanted("level", keys.file.level)? {
        0 => RaidLevel::Zero,
        1 => RaidLevel::One,
        4 => RaidLevel::Four,
        5 => RaidLevel::Five,
        other => {
            return Err(keys.refuse("level", format!("there is no RAID-{other} here; there are 0, 1, 4, 5")));
        }
    };
    let disks = keys.wanted("disks", keys.file.disks)?;
    let stripe_unit_bytes = keys.wanted("stripe_unit", keys.file.stripe_unit)?.0;
    let member = keys.wanted("member", keys.file.member.as_deref())?;
    let member = device(&format!("{}.member", keys.path), member)?;
    Ok(DeviceModel::Raid { level, disks, stripe_unit_bytes, member: Box::new(member.model().clone()) })
}

fn parallel(keys: &Keys<'_>) -> Result<DeviceModel, KeyError> {
    Ok(DeviceModel::Parallel {
        places: keys.wanted("requests", keys.file.requests)?,
        latency: keys.wanted("latency", keys.file.latency)?.0,
        bytes_per_s_each: rate(keys.wanted("bandwidth_each", keys.file.bandwidth_each)?),
        bytes_per_s: rate(keys.wanted("bandwidth", keys.file.bandwidth)?),
    })
}

fn faulty(keys: &Keys<'_>, faults: &FaultsFile, device: &DeviceSpec) -> Result<DeviceModel, KeyError> {
    let mut rules = Vec::new();
    if let Some(probability) = faults.probability {
        rules.push(FaultRule::Chance { per_million: keys.per_million("faults.probability", probability)? });
    }
    rules.extend(faults.every.map(FaultRule::EveryNth));
    if rules.is_empty() {
        return Err(keys.refuse("faults", "faults need a rule: give probability or every"));
    }
    let device = Box::new(device.model().clone());
    Ok(DeviceModel::Faulty { rules, seed: faults.seed.unwrap_or(SEED), device })
}

fn throttled(throttle: &ThrottleFile, device: &DeviceSpec) -> DeviceModel {
    let bytes_per_s = rate(throttle.limit);
    let burst_bytes = throttle.burst.map_or(bytes_per_s, |burst| burst.0);
    DeviceModel::Throttled { bytes_per_s, burst_bytes, device: Box::new(device.model().clone()) }
}

fn delayed(keys: &Keys<'_>, delay: &DelayFile, device: &DeviceSpec) -> Result<DeviceModel, KeyError> {
    let (rare_per_million, rare) = match (delay.rare, delay.rare_delay) {
        (None, None) => (0, Span::ZERO),
        (Some(share), Some(time)) => (keys.per_million("delay.rare", share)?, time.0),
        _ => {
            let message = "rare delays need both how many, rare, and how long, rare_delay";
            return Err(keys.refuse("delay", message));
        }
    };
    let drawn = Delay { least: delay.least.0, most: delay.most.0, rare_per_million, rare };
    let device = Box::new(device.model().clone());
    Ok(DeviceModel::Delayed { delay: drawn, seed: delay.seed.unwrap_or(SEED), device })
}
