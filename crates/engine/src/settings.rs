//! The settings of an engine: one row each, from which the command line, SQL, environment variables, configuration
//! files, help texts and tables in documents are made.
//!
//! [`EngineSettings`] collects what was said explicitly, from wherever; [`EngineSettings::resolve`] fills in the rest.
//! Defaults that follow from other settings are worked out last, so that they follow from what holds and not from other
//! defaults. Nothing is read from environment or files here: hosts do that.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use coscan_core::PolicyName;

use crate::config::{self, EngineConfig, ReadLimit};
use crate::engine::Engine;
use crate::error::EngineError;
pub use crate::error::SettingError;

/// The policy of an engine for which none was chosen.
pub const DEFAULT_POLICY: &str = "relevance";

/// When a setting may change, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any time; for the session that sets it.
    Session,
    /// Any time, by a session that may administer the engine; for every session on it.
    Engine,
    /// Only before the engine exists.
    Startup,
}

/// What a setting is, for people.
#[derive(Debug)]
pub struct Setting {
    /// Its name in SQL behind `coscan.`; a flag has dashes, an environment variable `COSCAN_` and capitals.
    pub name: &'static str,
    /// When it may change.
    pub scope: Scope,
    /// What a value is: `BYTES`, `FILES`, `N`, `MS`, `PERCENT`, `BOOL` or `NAME`.
    pub value: &'static str,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// What holds if nothing is said.
    pub default: &'static str,
}

impl Setting {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("COSCAN_{}", self.name.to_uppercase())
    }

    /// The long option of the command line, without its dashes, and the key in a configuration file.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// A setting of the engine: what it is, and how it gets into a configuration and out of it.
#[derive(Debug)]
pub struct EngineSetting {
    /// What it is.
    pub about: Setting,
    set: fn(&mut EngineConfig, &str) -> Result<(), String>,
    show: fn(&EngineConfig) -> String,
}

impl EngineSetting {
    /// Puts a value as people write it into `config`.
    ///
    /// # Errors
    ///
    /// If it is none, or out of range; `config` is as it was.
    pub fn set(&self, config: &mut EngineConfig, value: &str) -> Result<(), SettingError> {
        let value = value.trim();
        (self.set)(config, value).map_err(|wanted| SettingError {
            setting: self.about.name,
            value: value.to_owned(),
            wanted,
        })
    }

    /// The value in `config`, as [`Self::set`] reads it.
    pub fn show(&self, config: &EngineConfig) -> String {
        (self.show)(config)
    }
}

/// The largest number of bytes that makes sense: sums of a few of them do not overflow.
const BYTES_MAX: u64 = 1 << 50;
/// A day.
const MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Every setting of the engine.
pub const ENGINE_SETTINGS: &[EngineSetting] = &[
    EngineSetting {
        about: Setting {
            name: "policy",
            scope: Scope::Engine,
            value: "NAME",
            summary: "sharing policy: which chunk next, and for whom; `coscan policies` says what each does",
            default: "relevance",
        },
        set: |config, value| {
            let name = PolicyName::from_str(&value.to_lowercase());
            config.policy = name.map_err(|error| format!("a sharing policy: {error}"))?.into();
            Ok(())
        },
        show: |config| config.policy.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "buffer",
            scope: Scope::Engine,
            value: "BYTES",
            summary: "bytes for everything held in memory: encoded, decoded, being read, being consumed",
            default: "half of the memory that the machine and its cgroup allow, less 48 MiB",
        },
        set: |config, value| {
            config.buffer_bytes = bytes(value, 1..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.buffer_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "read_limit",
            scope: Scope::Engine,
            value: "BYTES",
            summary: "bytes per second that all reads together may take; 0 or 'none' for no limit",
            default: "none",
        },
        set: |config, value| {
            let none = ["none", "off"].iter().any(|none| value.eq_ignore_ascii_case(none));
            let bytes_per_s = if none { 0 } else { bytes(value.trim_end_matches("/s"), 0..=BYTES_MAX)? };
            limit_reads(config, |limit| limit.bytes_per_s = bytes_per_s);
            Ok(())
        },
        show: |config| match config.read_limit.map_or(0, |limit| limit.bytes_per_s) {
            0 => "none".to_owned(),
            bytes_per_s => bytes_per_s.to_string(),
        },
    },
    EngineSetting {
        about: Setting {
            name: "read_latency_ms",
            scope: Scope::Engine,
            value: "MS",
            summary: "milliseconds added to every read request, to try out slow storage",
            default: "0",
        },
        set: |config, value| {
            let latency = milliseconds(value)?;
            limit_reads(config, |limit| limit.latency = latency);
            Ok(())
        },
        show: |config| config.read_limit.map_or(0, |limit| limit.latency.as_millis()).to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "loads_in_flight",
            scope: Scope::Startup,
            value: "N",
            summary: "loads that may be under way at once from each store",
            default: "4",
        },
        set: |config, value| {
            config.loads_in_flight = number(value, 1..=1024)?;
            Ok(())
        },
        show: |config| config.loads_in_flight.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "io_threads",
            scope: Scope::Startup,
            value: "N",
            summary: "requests under way at once from each store",
            default: "as many as loads_in_flight",
        },
        set: |config, value| {
            config.io_threads = number(value, 1..=1024)?;
            Ok(())
        },
        show: |config| config.io_threads.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "coalesce_gap",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "parts of one load that lie no further apart are read by one request",
            default: "64 KiB, or what the device's profile says",
        },
        set: |config, value| {
            config.coalesce_gap_bytes = bytes(value, 0..=16 << 20)?;
            Ok(())
        },
        show: |config| config.coalesce_gap_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "device_profile",
            scope: Scope::Startup,
            value: "FILES",
            summary: "profiles of devices by `coscan device probe`, separated by commas: they decide how those are read",
            default: "none",
        },
        set: |config, value| {
            let none = value.is_empty() || value.eq_ignore_ascii_case("none");
            let files = value.split(',').map(str::trim).filter(|file| !none && !file.is_empty());
            config.device_profiles = files.map(PathBuf::from).collect();
            Ok(())
        },
        show: |config| match config.device_profiles.as_slice() {
            [] => "none".to_owned(),
            files => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(","),
        },
    },
    EngineSetting {
        about: Setting {
            name: "device_probe_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds for which a device without a profile may be measured when it is first read; 0: never",
            default: "0",
        },
        set: |config, value| {
            config.device_probe = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.device_probe.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "read_deadline_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds after which a read fails, all attempts included",
            default: "60000",
        },
        set: |config, value| {
            config.read_deadline = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.read_deadline.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "direct_io",
            scope: Scope::Startup,
            value: "BOOL",
            summary: "read local files past the page cache where the file system can",
            default: "true",
        },
        set: |config, value| {
            config.direct_io = truth(value)?;
            Ok(())
        },
        show: |config| config.direct_io.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "decoded_share",
            scope: Scope::Startup,
            value: "PERCENT",
            summary: "percent of the buffer that decoded arrays may have",
            default: "25, but no more than 512 MiB for each processor",
        },
        set: |config, value| {
            config.decoded_share_percent = number(value, 0..=100)?;
            Ok(())
        },
        show: |config| config.decoded_share_percent.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "point_share",
            scope: Scope::Startup,
            value: "PERCENT",
            summary: "percent of the buffer that point reads may have; 0 for no point reads",
            default: "10",
        },
        set: |config, value| {
            config.point_share_percent = number(value, 0..=100)?;
            Ok(())
        },
        show: |config| config.point_share_percent.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "point_latency_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds a point read may wait before loads are held back for it; 0 for never",
            default: "20",
        },
        set: |config, value| {
            config.point_latency = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.point_latency.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "stall_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds after which a chunk is asked back from a consumer that does not read",
            default: "1000",
        },
        set: |config, value| {
            config.stall_after = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.stall_after.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "chunk_size",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "encoded bytes of a chunk: larger row groups are cut between pages, small ones are read together; 0 for neither",
            default: "16 MiB",
        },
        set: |config, value| {
            config.chunk_bytes = bytes(value, 0..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.chunk_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "slice_rows",
            scope: Scope::Startup,
            value: "N",
            summary: "rows decoded at a time",
            default: "8192",
        },
        set: |config, value| {
            config.slice_rows = number(value, 1..=1 << 20)?;
            Ok(())
        },
        show: |config| config.slice_rows.to_string(),
    },
];

/// The setting of the engine with that name.
pub fn engine_setting(name: &str) -> Option<&'static EngineSetting> {
    ENGINE_SETTINGS.iter().find(|setting| setting.about.name == name)
}

/// Settings of an engine that were given explicitly; everything else has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSettings {
    given: Vec<(&'static str, String)>,
}

impl EngineSettings {
    /// Gives a setting a value, in place of the one it may have.
    ///
    /// # Errors
    ///
    /// If it cannot have this value; then nothing changes.
    pub fn set(&mut self, setting: &'static EngineSetting, value: &str) -> Result<(), SettingError> {
        setting.set(&mut scratch(), value)?;
        self.given.retain(|(name, _)| *name != setting.about.name);
        self.given.push((setting.about.name, value.trim().to_owned()));
        Ok(())
    }

    /// The value that was given, as it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// What was given, name and value.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The configuration of an engine for this many processors and this much memory.
    ///
    /// # Errors
    ///
    /// None for settings that came through [`Self::set`].
    pub fn resolve(&self, memory_bytes: u64, processors: usize) -> Result<EngineConfig, SettingError> {
        let mut config = scratch();
        config.buffer_bytes = config::default_buffer_bytes(memory_bytes);
        config.processors = processors;
        for setting in ENGINE_SETTINGS {
            if let Some(value) = self.get(setting.about.name) {
                setting.set(&mut config, value)?;
            }
        }
        // What follows from other settings comes last.
        if self.get("decoded_share").is_none() {
            config.decoded_share_percent = config::decoded_share_percent(config.buffer_bytes, processors);
        }
        config.by_profile.requests =
            ["loads_in_flight", "io_threads"].iter().all(|name| self.get(name).is_none());
        config.by_profile.gap = self.get("coalesce_gap").is_none();
        config.by_profile.chunks = self.get("chunk_size").is_none();
        config.by_profile.point_latency = self.get("point_latency_ms").is_none();
        if self.get("io_threads").is_none() {
            config.io_threads = config.loads_in_flight;
        }
        Ok(config)
    }
}

/// A configuration with all defaults, for a buffer of no size.
fn scratch() -> EngineConfig {
    let policy: PolicyName =
        DEFAULT_POLICY.parse().unwrap_or_else(|_| unreachable!("{DEFAULT_POLICY} is registered"));
    EngineConfig::new(policy, 0)
}

impl Engine {
    /// The settings in force: those it was started with, and those that were changed since.
    pub fn current_config(&self) -> EngineConfig {
        EngineConfig {
            policy: self.policy(),
            buffer_bytes: self.buffer_bytes(),
            read_limit: self.read_limiter().and_then(|limiter| limiter.limit()),
            ..self.config().clone()
        }
    }

    /// Changes a setting of the running engine.
    ///
    /// # Errors
    ///
    /// If it cannot have this value, or can only be given before the engine starts.
    pub fn set(&self, setting: &'static EngineSetting, value: &str) -> Result<(), EngineError> {
        let mut config = self.current_config();
        setting.set(&mut config, value)?;
        match setting.about.name {
            "policy" => self.set_policy(config.policy)?,
            "buffer" => self.set_buffer(config.buffer_bytes)?,
            "read_limit" | "read_latency_ms" => self.set_read_limit(config.read_limit)?,
            name => return Err(EngineError::FixedSetting { setting: name }),
        }
        Ok(())
    }
}

/// Changes the limit on reads; one that limits nothing is none.
fn limit_reads(config: &mut EngineConfig, change: impl FnOnce(&mut ReadLimit)) {
    let mut limit = config.read_limit.unwrap_or(ReadLimit { bytes_per_s: 0, latency: Duration::ZERO });
    change(&mut limit);
    config.read_limit = (limit.bytes_per_s > 0 || !limit.latency.is_zero()).then_some(limit);
}

/// Reads `512MB`, `1.5 GiB` or a plain number of bytes.
///
/// # Errors
/// What is wanted instead.
pub fn bytes(value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let wanted = || {
        format!(
            "a number of bytes such as 512MB, 2GiB or 1048576, from {} to {}",
            range.start(),
            bytesize::ByteSize(*range.end())
        )
    };
    let size: bytesize::ByteSize = value.parse().map_err(|_| wanted())?;
    if range.contains(&size.as_u64()) { Ok(size.as_u64()) } else { Err(wanted()) }
}

/// Reads a whole number in a range.
///
/// # Errors
/// What is wanted instead.
pub fn number<T>(value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
}

/// Reads `true` or `false`.
///
/// # Errors
/// What is wanted instead.
pub fn truth(value: &str) -> Result<bool, String> {
    value.to_lowercase().parse().map_err(|_| "true or false".to_owned())
}

fn milliseconds(value: &str) -> Result<Duration, String> {
    number(value, 0..=MS_MAX).map(Duration::from_millis).map_err(|wanted| format!("{wanted} (milliseconds)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(settings: &[(&str, &str)]) -> EngineSettings {
        let mut all = EngineSettings::default();
        for (name, value) in settings {
            all.set(engine_setting(name).unwrap(), value).unwrap();
        }
        all
    }

    #[test]
    fn what_a_row_shows_it_reads() {
        let config = EngineSettings::default().resolve(8 << 30, 4).unwrap();
        for setting in ENGINE_SETTINGS {
            let mut again = scratch();
            setting.set(&mut again, &setting.show(&config)).unwrap();
            assert_eq!(setting.show(&again), setting.show(&config), "{}", setting.about.name);
        }
    }

    #[test]
    fn stated_defaults_are_those_that_hold() {
        let config = EngineSettings::default().resolve(2 << 30, 4).unwrap();
        for setting in ENGINE_SETTINGS {
            let (stated, holds) = (setting.about.default, setting.show(&config));
            match setting.about.name {
                "buffer" => assert_eq!(config.buffer_bytes, (2048 - 96) / 2 * (1 << 20), "{stated}"),
                "io_threads" => assert_eq!(config.io_threads, config.loads_in_flight),
                "coalesce_gap" => {
                    assert!(stated.starts_with("64 KiB,") && holds == "65536", "{stated}: {holds}")
                }
                "chunk_size" => assert_eq!((stated, config.chunk_bytes), ("16 MiB", 16 << 20)),
                "decoded_share" => assert!(stated.starts_with(&format!("{holds},")), "{stated}: {holds}"),
                name => assert_eq!(holds, stated, "{name}"),
            }
        }
    }

    #[test]
    fn derived_defaults_follow_what_holds() {
        // Of 16 GiB, the default buffer of which would leave decoded arrays 12 percent on two processors.
        let config = given(&[("buffer", "400MB"), ("loads_in_flight", "9")]).resolve(16 << 30, 2).unwrap();
        assert_eq!((config.decoded_share_percent, config.io_threads), (25, 9));
        let config = given(&[("decoded_share", "7"), ("io_threads", "2"), ("loads_in_flight", "9")]);
        let config = config.resolve(16 << 30, 2).unwrap();
        assert_eq!((config.decoded_share_percent, config.io_threads), (7, 2));
    }

    #[test]
    fn sizes_and_rates_are_read_as_people_write_them() {
        let limit = |value| given(&[("read_limit", value)]).resolve(1 << 30, 1).unwrap().read_limit;
        assert_eq!(limit("100MB/s").map(|limit| limit.bytes_per_s), Some(100_000_000));
        assert_eq!((limit("none"), limit("0")), (None, None));
        assert_eq!(given(&[("buffer", " 2 GiB")]).resolve(1, 1).unwrap().buffer_bytes, 2 << 30);
        let latency = given(&[("read_limit", "5"), ("read_latency_ms", "7")]).resolve(1 << 30, 1).unwrap();
        let expected = ReadLimit { bytes_per_s: 5, latency: Duration::from_millis(7) };
        assert_eq!(latency.read_limit, Some(expected));
    }

    #[test]
    fn absurd_values_are_errors_with_name_value_and_range() {
        for (name, value, range) in [
            ("stall_ms", "18446744073710", "0 to 86400000"),
            ("stall_ms", "-1", "0 to 86400000"),
            ("point_share", "101", "0 to 100"),
            ("decoded_share", "many", "0 to 100"),
            ("io_threads", "0", "1 to 1024"),
            ("slice_rows", "0", "1 to 1048576"),
            ("buffer", "0", "from 1 to"),
            ("buffer", "9EiB", "from 1 to"),
            ("direct_io", "perhaps", "true or false"),
            ("policy", "fifo", "relevance"),
        ] {
            let error = engine_setting(name).unwrap().set(&mut scratch(), value).unwrap_err().to_string();
            assert!(error.contains(&format!("coscan.{name}: '{value}'")) && error.contains(range), "{error}");
        }
    }

    #[test]
    fn the_last_value_holds_and_a_wrong_one_changes_nothing() {
        let mut settings = given(&[("stall_ms", "5"), ("stall_ms", "50")]);
        settings.set(engine_setting("stall_ms").unwrap(), "soon").unwrap_err();
        assert_eq!(settings.get("stall_ms"), Some("50"));
    }
}
