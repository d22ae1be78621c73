//! How reads of a device are shaped: how many at once, how far apart parts may lie that one request reads, how much it
//! may read.
//!
//! Constants hold unless a device has a profile ([`coscan_device::probe::Profile`]). Then reading `n` bytes takes
//! t0 + n / B, so that a gap is worth reading if it is shorter than t0 x B, and a request is efficient when its bytes
//! take nine times as long as it takes to begin. What requests really take corrects t0 and B while the engine runs.
//! What was set by hand wins. Nothing is measured here on purpose: see `coscan device probe`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coscan_device::probe::Profile;

use super::Source;
use super::coalesce::{Joins, REQUEST_BYTES_MAX};
use crate::config::{EngineConfig, ReadLimit};
use crate::error::EngineError;
use crate::stats::DeviceUse;

/// Gaps are never longer than this, whatever a device costs: their bytes pass through memory.
const GAP_BYTES_MAX: u64 = 4 << 20;
/// Requests of a profiled device may always be as large as this.
const REQUEST_BYTES_MIN: u64 = 1 << 20;
/// Reads under way at once: one more than the device serves keeps it busy while the next is prepared.
const REQUESTS: std::ops::RangeInclusive<usize> = 2..=64;
/// What was learned leaves t0 and B within this factor of the profile.
const CORRECTION_MAX: f64 = 8.0;

/// Time of a read: t0 + n / B.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    fixed_s: f64,
    bytes_per_s: f64,
}

impl Line {
    fn seconds(self, bytes: u64) -> f64 {
        self.fixed_s + bytes as f64 / self.bytes_per_s
    }
}

/// A device with a profile.
#[derive(Debug)]
struct Profiled {
    ids: Vec<String>,
    file: String,
    requests: usize,
    line: Line,
    /// Where requests to the file that was measured, or to any object, should not cross; and whether that costs more
    /// than another request.
    boundary: Option<(u64, u64)>,
    measured: PathBuf,
    learned: Learned,
}

/// How each device is read: by number, with 0 for those without a profile.
#[derive(Debug)]
pub(crate) struct Shapes {
    by_profile: crate::config::ByProfile,
    requests: usize,
    gap: u64,
    profiled: Vec<Profiled>,
}

impl Shapes {
    /// Every device as the constants say.
    #[cfg(test)]
    pub(crate) fn constant(requests: usize) -> Self {
        Shapes { by_profile: Default::default(), requests, gap: 0, profiled: Vec::new() }
    }

    /// By the profiles that the configuration names.
    ///
    /// # Errors
    /// [`EngineError::DeviceProfile`] if one cannot be read or does not say enough.
    pub(crate) fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let profiled = config.device_profiles.iter().map(|path| Profiled::read(path));
        Ok(Shapes {
            by_profile: config.by_profile,
            requests: config.io_threads,
            gap: config.coalesce_gap_bytes,
            profiled: profiled.collect::<Result<_, _>>()?,
        })
    }

    /// The most reads under way that any profile allows; 0 without profiles.
    pub(crate) fn profiled_requests_max(&self) -> usize {
        self.profiled.iter().map(|profiled| profiled.requests).max().unwrap_or(0)
    }

    /// The device of a file.
    pub(crate) fn of(&self, source: &Source) -> usize {
        self.profiled.iter().position(|profiled| profiled.has(source)).map_or(0, |at| at + 1)
    }

    /// Bulk reads under way at once.
    pub(crate) fn requests(&self, device: usize) -> usize {
        match self.profiled(device) {
            Some(profiled) if self.by_profile.requests => profiled.requests,
            _ => self.requests,
        }
    }

    /// What requests for a file may join, under the limit on reading in force.
    pub(crate) fn joins(&self, source: &Source, limit: Option<ReadLimit>) -> Joins {
        match self.profiled(self.of(source)) {
            Some(profiled) => {
                let gap = if self.by_profile.gap { profiled.gap(limit) } else { self.gap };
                Joins { gap, bytes_max: profiled.request_bytes(), boundary: profiled.boundary_of(source) }
            }
            None => Joins::within(self.gap),
        }
    }

    /// A read of so many bytes took so long.
    pub(crate) fn observe(&mut self, device: usize, bytes: u64, took: Duration) {
        if let Some(profiled) = device.checked_sub(1).and_then(|at| self.profiled.get_mut(at)) {
            let line = profiled.line;
            profiled.learned.add(bytes, took.as_secs_f64(), line.seconds(bytes));
        }
    }

    /// What is known of the devices with profiles.
    pub(crate) fn uses(&self, limit: Option<ReadLimit>) -> Vec<DeviceUse> {
        let of = |(at, profiled): (usize, &Profiled)| DeviceUse {
            device: profiled.ids.join(" "),
            profile: profiled.file.clone(),
            requests: self.requests(at + 1),
            gap_bytes: if self.by_profile.gap { profiled.gap(limit) } else { self.gap },
            request_bytes: profiled.request_bytes(),
            reads: profiled.learned.reads,
            over_profile: profiled.learned.over_profile(),
        };
        self.profiled.iter().enumerate().map(of).collect()
    }

    fn profiled(&self, device: usize) -> Option<&Profiled> {
        device.checked_sub(1).and_then(|at| self.profiled.get(at))
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
            boundary.period_bytes > 0 && boundary.penalty_s.value > line.fixed_s
        };
        Ok(Profiled {
            ids: profile.device_ids.clone(),
            file,
            requests: (enough.ceil() as usize).clamp(*REQUESTS.start(), *REQUESTS.end()),
            line,
            boundary: profile.boundary.as_ref().filter(worth).map(|b| (b.period_bytes, b.offset_bytes)),
            measured: std::fs::canonicalize(&profile.device)
                .unwrap_or_else(|_| profile.device.clone().into()),
            learned: Learned::new(line),
        })
    }

    fn has(&self, source: &Source) -> bool {
        match &source.local {
            Some(file) => {
                let device = file.version.device();
                self.ids.contains(&format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
            }
            None => self.ids.iter().any(|id| {
                let rest = source.name.strip_prefix(id.trim_end_matches('/'));
                !id.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
        }
    }

    /// Boundaries of a file are known of the file that was measured only: others lie elsewhere on the device.
    fn boundary_of(&self, source: &Source) -> Option<(u64, u64)> {
        let known = source.local.as_ref().is_none_or(|file| file.path == self.measured);
        self.boundary.filter(|_| known)
    }

    fn gap(&self, limit: Option<ReadLimit>) -> u64 {
        let Line { mut fixed_s, mut bytes_per_s } = self.learned.line(self.line);
        if let Some(limit) = limit {
            fixed_s += limit.latency.as_secs_f64();
            if limit.bytes_per_s > 0 {
                bytes_per_s = bytes_per_s.min(limit.bytes_per_s as f64);
            }
        }
        ((fixed_s * bytes_per_s) as u64).min(GAP_BYTES_MAX)
    }

    /// What takes nine tenths of its time for its bytes.
    fn request_bytes(&self) -> u64 {
        let Line { fixed_s, bytes_per_s } = self.learned.line(self.line);
        ((9.0 * fixed_s * bytes_per_s) as u64).clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX)
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

/// What reads really took, the older the less it counts, beside what the profile says.
#[derive(Debug)]
struct Learned {
    prior: Sums,
    seen: Sums,
    reads: u64,
    took_s: f64,
    expected_s: f64,
}

/// How much less a read counts with every later one.
const FADING: f64 = 0.98;
/// The profile counts as so many reads of each of two sizes.
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

    /// How much longer reads take than the profile says; 1 before there are any.
    fn over_profile(&self) -> f64 {
        if self.expected_s > 0.0 { self.took_s / self.expected_s } else { 1.0 }
    }

    /// The line through all, within bounds of the profile's.
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
        // A slope that is not positive says that size did not matter.
        let bytes_per_s = if slope > 0.0 { 1.0 / slope } else { f64::MAX };
        Line { fixed_s, bytes_per_s: within(bytes_per_s, profile.bytes_per_s) }
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
