//! The shape of a device's reads: the number at the same time, the gaps that are read, and the largest
//! request. `fit.rs` has the consequences for chunks, ranges of objects and point reads.
//!
//! Constants are used unless a device has a profile ([`coscan_device::probe::Profile`]). With a profile,
//! reading `n` bytes takes t0 + n / B. A gap is worth reading if it is shorter than t0 x B. A request is
//! efficient when its bytes take nine times as long as t0. For a busy device only a part of that gap counts,
//! because the rest of t0 passes while it serves other requests. Measured times of requests correct t0 and B
//! while the engine runs; requests that share the device take longer, as the profile states. Settings that
//! were given have priority. `coscan device probe` measures devices, or the environment does at a device's
//! first use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coscan_device::probe::{Depth, Profile};

use super::Source;
use super::coalesce::Joins;
use super::fit;
use super::level::Level;
use crate::config::{ByProfile, EngineConfig, ReadLimit};
use crate::error::EngineError;
use crate::io::BLOCK_BYTES;
use crate::io::identity::LocalFile;
use crate::io::usage::DeviceUse;

/// The maximum gap, because the bytes of gaps pass through memory.
const GAP_BYTES_MAX: u64 = 4 << 20;
/// Boundaries further apart than any file is long are ignored.
const PERIOD_MAX: u64 = 1 << 48;
/// The range of reads at the same time. A probe has its next read ready when one ends. A scan hands bytes
/// over and looks for its next load first, and the device must not wait for that. So the minimum is the
/// default without a profile.
const REQUESTS: std::ops::RangeInclusive<usize> = 4..=64;
/// The divisor of the buffer that limits the bytes of requests whose number is found.
const IN_PROGRESS_SHARE: u64 = 4;
/// The maximum factor between learned values and the profile's t0 and B.
const CORRECTION_MAX: f64 = 8.0;

/// The time of a read: t0 + n / B.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    fixed_s: f64,
    bytes_per_s: f64,
}

impl Line {
    fn seconds(self, bytes: u64) -> f64 {
        self.fixed_s + bytes as f64 / self.bytes_per_s
    }

    /// The size at which nine tenths of the time are for the bytes.
    fn request_bytes(self) -> u64 {
        fit::request_bytes(self.fixed_s, self.bytes_per_s)
    }
}

/// The profile's numbers for many requests at the same time.
#[derive(Clone, Debug, PartialEq)]
struct Together {
    /// Numbers of requests at the same time, ascending, with the factor by which each takes longer than one
    /// alone.
    slowdown: Vec<(f64, f64)>,
    /// The cost of a gap and of a request on a busy device, relative to those on an idle one.
    gap_share: f64,
}

impl Together {
    /// Derives these numbers from the throughput of several requests at the same time. A request of `n` bytes
    /// occupies a busy device for `n` over the throughput of such requests. The time beyond that of its
    /// bytes, at the throughput of large requests, is the cost of a further request. If large ones were not
    /// measured, bytes are assumed to be as fast as for one alone. If many small ones are faster than that,
    /// nothing is known.
    fn new(depth: &Depth, line: Line) -> Self {
        let known = depth.throughput.iter().filter(|seen| seen.requests > 0 && seen.bytes_per_s.value > 0.0);
        let rates: Vec<(f64, f64)> =
            known.map(|seen| (seen.requests as f64, seen.bytes_per_s.value)).collect();
        let alone = rates.iter().find(|(requests, _)| *requests == 1.0).map(|(_, rate)| *rate);
        let slowdown = |alone: f64| -> Vec<(f64, f64)> {
            rates.iter().map(|(requests, rate)| (*requests, (requests * alone / rate).max(1.0))).collect()
        };
        let small = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let large = depth.large.map(|large| large.bytes_per_s.value.max(small));
        let gap = depth.request_bytes as f64 * (large.unwrap_or(line.bytes_per_s) / small - 1.0);
        let share = gap / (line.fixed_s * line.bytes_per_s);
        let gap_share = match large {
            _ if !share.is_finite() => 1.0,
            None if share <= 0.0 => 1.0,
            _ => share.clamp(0.0, 1.0),
        };
        Together { slowdown: alone.map_or_else(Vec::new, slowdown), gap_share }
    }

    /// The factor by which a request takes longer with this many running, including itself. Interpolated
    /// between measurements; beyond them the device is assumed to be full.
    fn slowdown(&self, requests: f64) -> f64 {
        let Some(above) = self.slowdown.iter().position(|(measured, _)| *measured >= requests) else {
            return self.slowdown.last().map_or(1.0, |(measured, slower)| slower * requests / measured);
        };
        let (to, slower) = self.slowdown[above];
        let (from, before) = if above == 0 { (to, slower) } else { self.slowdown[above - 1] };
        if to > from { before + (slower - before) * (requests - from) / (to - from) } else { slower }
    }
}

/// A device with a profile.
#[derive(Debug)]
struct Profiled {
    ids: Vec<String>,
    file: String,
    requests: usize,
    line: Line,
    /// Present if it was measured.
    together: Option<Together>,
    /// Boundaries for requests to the file that was measured, or to any object, and whether crossing one
    /// costs more than a further request.
    boundary: Option<(u64, u64)>,
    measured: PathBuf,
    learned: Learned,
}

/// The values without a profile.
#[derive(Clone, Copy, Debug)]
struct Constants {
    requests: usize,
    gap: u64,
    chunk_bytes: u64,
    point_latency: Duration,
    /// The buffer, which all devices share.
    buffer_bytes: u64,
}

impl From<&EngineConfig> for Constants {
    fn from(config: &EngineConfig) -> Self {
        Constants {
            requests: config.io_threads,
            gap: config.coalesce_gap_bytes,
            chunk_bytes: config.chunk_bytes,
            point_latency: config.point_latency,
            buffer_bytes: config.buffer_bytes,
        }
    }
}

/// The shape of each device's reads, by number; 0 for devices without a profile.
#[derive(Debug)]
pub(crate) struct Shapes {
    by_profile: ByProfile,
    constants: Constants,
    profiled: Vec<Profiled>,
    /// Devices without a profile that were measured, or are being measured.
    tried: BTreeSet<String>,
}

impl Shapes {
    /// All devices by the constants.
    #[cfg(test)]
    pub(crate) fn constant(requests: usize) -> Self {
        let point_latency = Duration::ZERO;
        let constants = Constants { requests, gap: 0, chunk_bytes: 0, point_latency, buffer_bytes: 0 };
        let by_profile = ByProfile { requests: false, ..ByProfile::default() };
        Shapes { by_profile, constants, profiled: Vec::new(), tried: BTreeSet::new() }
    }

    /// Stores whose number of requests is found.
    #[cfg(test)]
    pub(crate) fn found() -> Self {
        let mut shapes = Shapes::constant(1);
        shapes.by_profile.requests = true;
        shapes.constants.buffer_bytes = 1 << 40;
        shapes
    }

    /// Devices by the profiles that the configuration names.
    ///
    /// # Errors
    /// [`EngineError::DeviceProfile`] if one cannot be read or lacks numbers.
    pub(crate) fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let profiled = config.device_profiles.iter().map(|path| Profiled::read(path));
        Ok(Shapes {
            by_profile: config.by_profile,
            constants: config.into(),
            profiled: profiled.collect::<Result<_, _>>()?,
            tried: BTreeSet::new(),
        })
    }

    /// The maximum number of reads in progress that any profile allows; 0 without profiles.
    pub(crate) fn profiled_requests_max(&self) -> usize {
        self.profiled.iter().map(|profiled| profiled.requests).max().unwrap_or(0)
    }

    /// The device of a file.
    pub(crate) fn of(&self, source: &Source) -> usize {
        self.at(&source.name, source.local.as_ref())
    }

    /// The device of the file with that address.
    fn at(&self, name: &str, local: Option<&LocalFile>) -> usize {
        self.profiled.iter().position(|profiled| profiled.has(name, local)).map_or(0, |at| at + 1)
    }

    /// The size to which row groups of the file with that address are cut; zero if they are not.
    pub(crate) fn chunk_bytes(&self, name: &str, local: Option<&LocalFile>) -> u64 {
        self.profiled(self.at(name, local))
            .map_or(self.constants.chunk_bytes, |profiled| self.chunk_bytes_of(profiled))
    }

    /// The size of the ranges in which parts of that object are read; `None` if each part is one range.
    pub(crate) fn range_bytes(&self, name: &str, local: Option<&LocalFile>) -> Option<u64> {
        let profiled = self.profiled(self.at(name, local)).filter(|_| local.is_none());
        profiled.and_then(|profiled| self.range_bytes_of(profiled))
    }

    /// The time that point reads of a device with a profile may wait before loads are delayed for them.
    pub(crate) fn point_latency(&self, device: usize) -> Option<Duration> {
        self.profiled(device).map(|profiled| self.point_latency_of(profiled))
    }

    /// The id of a file's device, if it has no profile and was not asked for before. The caller has to
    /// measure it.
    pub(crate) fn first_use(&mut self, source: &Source) -> Option<String> {
        let id = device_id(&source.name, source.local.as_ref());
        (self.of(source) == 0 && self.tried.insert(id.clone())).then_some(id)
    }

    /// Enters the profile of a device that was measured at its first use. Ignored if it lacks numbers.
    pub(crate) fn measured(&mut self, id: String, mut profile: Profile) {
        profile.device_ids = vec![id];
        match Profiled::new("measured at first use".to_owned(), &profile) {
            Ok(profiled) => self.profiled.push(profiled),
            Err(reason) => tracing::debug!(device = ?profile.device_ids, reason, "measured in vain"),
        }
    }

    /// The number of bulk reads at the same time.
    pub(crate) fn requests(&self, device: usize) -> usize {
        match self.profiled(device) {
            Some(profiled) if self.by_profile.requests => profiled.requests,
            _ => self.constants.requests,
        }
    }

    /// The level of a store for which neither a profile nor a setting gives the number of requests.
    pub(super) fn level(&self, now: Instant, source: &Source) -> Option<Level> {
        let found = self.by_profile.requests && source.local.is_none() && self.of(source) == 0;
        found.then(|| Level::new(now, self.constants.buffer_bytes / IN_PROGRESS_SHARE))
    }

    /// The largest gap that one request reads, for a store whose level is found.
    pub(super) fn gap_by(&self, level: &Level) -> u64 {
        let Constants { gap, .. } = self.constants;
        if self.by_profile.gap { level.gap_bytes(gap) } else { gap }
    }

    /// The parts that requests for a file may join, under the current limit on reading.
    pub(crate) fn joins(&self, source: &Source, limit: Option<ReadLimit>) -> Joins {
        match self.profiled(self.of(source)) {
            Some(profiled) => {
                let gap = self.gap_of(profiled, limit);
                Joins { gap, bytes_max: profiled.request_bytes(), boundary: profiled.boundary_of(source) }
            }
            None => Joins::within(self.constants.gap),
        }
    }

    /// Notes that a read of this many bytes took this long, with a mean of `at_once` running, including
    /// itself.
    pub(crate) fn observe(&mut self, device: usize, bytes: u64, at_once: f64, took: Duration) {
        if let Some(profiled) = device.checked_sub(1).and_then(|at| self.profiled.get_mut(at)) {
            let alone_s = took.as_secs_f64()
                / profiled.together.as_ref().map_or(1.0, |together| together.slowdown(at_once));
            profiled.learned.add(bytes, alone_s, profiled.line.seconds(bytes));
        }
    }

    /// The use of the devices with profiles.
    pub(crate) fn uses(&self, limit: Option<ReadLimit>) -> Vec<DeviceUse> {
        let of = |(at, profiled): (usize, &Profiled)| DeviceUse {
            device: profiled.ids.join(" "),
            profile: profiled.file.clone(),
            requests: self.requests(at + 1),
            gap_bytes: self.gap_of(profiled, limit),
            request_bytes: profiled.request_bytes(),
            chunk_bytes: self.chunk_bytes_of(profiled),
            range_bytes: self.range_bytes_of(profiled),
            request_cost_bytes: self.request_cost_of(profiled, limit),
            point_latency: self.point_latency_of(profiled),
            reads: profiled.learned.reads,
            over_profile: profiled.learned.over_profile(),
        };
        self.profiled.iter().enumerate().map(of).collect()
    }

    /// The gap that is read on a device with a profile. If the profile has no numbers for many requests, the
    /// gap is at most the constant: the bytes of a gap may cost more than a request.
    fn gap_of(&self, profiled: &Profiled, limit: Option<ReadLimit>) -> u64 {
        if self.by_profile.gap { self.request_cost_of(profiled, limit) } else { self.constants.gap }
    }

    /// The cost of a further request on a busy device, in bytes.
    fn request_cost_of(&self, profiled: &Profiled, limit: Option<ReadLimit>) -> u64 {
        match profiled.together.as_ref() {
            Some(_) => profiled.gap(limit),
            None => profiled.gap(limit).min(self.constants.gap),
        }
    }

    fn chunk_bytes_of(&self, profiled: &Profiled) -> u64 {
        let requests = if self.by_profile.requests { profiled.requests } else { self.constants.requests };
        let Constants { chunk_bytes, buffer_bytes, .. } = self.constants;
        match self.by_profile.chunks && chunk_bytes > 0 {
            true => fit::chunk_bytes(profiled.line.request_bytes(), requests, buffer_bytes, chunk_bytes),
            false => chunk_bytes,
        }
    }

    fn range_bytes_of(&self, profiled: &Profiled) -> Option<u64> {
        let objects = self.by_profile.requests && profiled.ids.iter().any(|id| id.contains("://"));
        objects.then(|| profiled.line.request_bytes())
    }

    fn point_latency_of(&self, profiled: &Profiled) -> Duration {
        let constant = self.constants.point_latency;
        let alone = Duration::try_from_secs_f64(profiled.line.seconds(BLOCK_BYTES)).unwrap_or(constant);
        if self.by_profile.point_latency { fit::point_latency(constant, alone) } else { constant }
    }

    fn profiled(&self, device: usize) -> Option<&Profiled> {
        device.checked_sub(1).and_then(|at| self.profiled.get(at))
    }
}

/// The name of a file's device in profiles: `major:minor`, or the beginning of an object's address.
pub(super) fn device_id(name: &str, local: Option<&LocalFile>) -> String {
    match local {
        Some(file) => {
            let device = file.version.device();
            format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
        }
        None => {
            let host = name.find("://").map_or(0, |at| at + 3);
            let end = name[host..].find('/').map_or(name.len(), |at| host + at);
            name[..end].to_owned()
        }
    }
}

impl Profiled {
    fn read(path: &Path) -> Result<Self, EngineError> {
        let failed = |reason: String| EngineError::DeviceProfile { path: path.display().to_string(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let profile = Profile::from_toml(&text).map_err(|error| failed(error.to_string()))?;
        Self::new(path.display().to_string(), &profile).map_err(failed)
    }

    fn new(file: String, profile: &Profile) -> Result<Self, String> {
        if profile.device_ids.is_empty() {
            return Err("it does not say which device it is of: give it device_ids, such as \"259:1\" or \
                        \"s3://bucket\", or measure again"
                .to_owned());
        }
        let (Some(fixed), Some(bytes_per_s)) = (profile.fixed_cost_s, profile.bytes_per_s) else {
            return Err("it has no fixed_cost_s and bytes_per_s: measure again with more time".to_owned());
        };
        let line = Line { fixed_s: fixed.value.max(0.0), bytes_per_s: bytes_per_s.value };
        if !(line.fixed_s.is_finite() && line.bytes_per_s.is_finite() && line.bytes_per_s >= 1.0) {
            return Err("fixed_cost_s and bytes_per_s must be positive numbers".to_owned());
        }
        let enough = profile.depth.as_ref().map_or(4.0, |depth| depth.enough.high.max(depth.enough.value));
        let worth = |boundary: &&coscan_device::probe::Boundary| {
            (1..PERIOD_MAX).contains(&boundary.period_bytes) && boundary.penalty_s.value > line.fixed_s
        };
        Ok(Profiled {
            ids: profile.device_ids.clone(),
            file,
            requests: (enough.ceil() as usize).clamp(*REQUESTS.start(), *REQUESTS.end()),
            together: profile.depth.as_ref().map(|depth| Together::new(depth, line)),
            line,
            boundary: profile.boundary.as_ref().filter(worth).map(|b| (b.period_bytes, b.offset_bytes)),
            measured: std::fs::canonicalize(&profile.device)
                .unwrap_or_else(|_| profile.device.clone().into()),
            learned: Learned::new(line),
        })
    }

    fn has(&self, name: &str, local: Option<&LocalFile>) -> bool {
        match local {
            Some(_) => self.ids.contains(&device_id(name, local)),
            None => self.ids.iter().any(|id| {
                let rest = name.strip_prefix(id.trim_end_matches('/'));
                !id.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
        }
    }

    /// The boundaries of a file, which are known only for the file that was measured: those of other files
    /// are elsewhere on the device.
    fn boundary_of(&self, source: &Source) -> Option<(u64, u64)> {
        let known = source.local.as_ref().is_none_or(|file| file.path == self.measured);
        self.boundary.filter(|_| known)
    }

    fn gap(&self, limit: Option<ReadLimit>) -> u64 {
        let Line { mut fixed_s, mut bytes_per_s } = self.learned.line(self.line);
        fixed_s *= self.together.as_ref().map_or(1.0, |together| together.gap_share);
        if let Some(limit) = limit {
            fixed_s += limit.latency.as_secs_f64();
            if limit.bytes_per_s > 0 {
                bytes_per_s = bytes_per_s.min(limit.bytes_per_s as f64);
            }
        }
        ((fixed_s * bytes_per_s) as u64).min(GAP_BYTES_MAX)
    }

    fn request_bytes(&self) -> u64 {
        self.learned.line(self.line).request_bytes()
    }
}

/// Sums for a line through times by size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, x: f64, y: f64) {
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }
}

/// Measured times of reads with decreasing weight, in addition to the profile.
#[derive(Debug)]
struct Learned {
    prior: Sums,
    seen: Sums,
    reads: u64,
    took_s: f64,
    expected_s: f64,
}

/// The factor by which the weight of a read decreases with every later one.
const FADING: f64 = 0.98;
/// The profile counts as this many reads of each of two sizes.
const PRIOR_READS: f64 = 4.0;
const PRIOR_BYTES: [u64; 2] = [64 << 10, 8 << 20];

impl Learned {
    fn new(line: Line) -> Self {
        let mut prior = Sums::default();
        PRIOR_BYTES.iter().for_each(|bytes| prior.add(PRIOR_READS, *bytes as f64, line.seconds(*bytes)));
        Learned { prior, seen: Sums::default(), reads: 0, took_s: 0.0, expected_s: 0.0 }
    }

    fn add(&mut self, bytes: u64, took_s: f64, expected_s: f64) {
        let Sums { weight, x, y, xx, xy } = &mut self.seen;
        for sum in [weight, x, y, xx, xy, &mut self.took_s, &mut self.expected_s] {
            *sum *= FADING;
        }
        self.seen.add(1.0, bytes as f64, took_s);
        (self.took_s, self.expected_s) = (self.took_s + took_s, self.expected_s + expected_s);
        self.reads += 1;
    }

    /// The factor by which reads take longer than the profile states for as many at the same time; 1 before
    /// the first read.
    fn over_profile(&self) -> f64 {
        if self.expected_s > 0.0 { self.took_s / self.expected_s } else { 1.0 }
    }

    /// The line through all reads, within the bounds around the profile's.
    fn line(&self, profile: Line) -> Line {
        let [weight, x, y, xx, xy] = [
            self.prior.weight + self.seen.weight,
            self.prior.x + self.seen.x,
            self.prior.y + self.seen.y,
            self.prior.xx + self.seen.xx,
            self.prior.xy + self.seen.xy,
        ];
        let slope = (weight * xy - x * y) / (weight * xx - x * x);
        let fixed_s = (y - slope * x) / weight;
        let within = |value: f64, of: f64| {
            let value = if value.is_finite() { value } else { of };
            value.clamp(of / CORRECTION_MAX, of * CORRECTION_MAX)
        };
        let fixed_s = within(fixed_s, profile.fixed_s);
        // A slope that is not positive means that size did not matter.
        let bytes_per_s = if slope > 0.0 { 1.0 / slope } else { f64::MAX };
        Line { fixed_s, bytes_per_s: within(bytes_per_s, profile.bytes_per_s) }
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
pub(crate) mod tests;
