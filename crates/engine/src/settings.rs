//! The settings of an engine.
//!
//! Each setting is one row of [`ENGINE_SETTINGS`] (`table.rs`). Command line, SQL, environment variables,
//! configuration files, help texts and tables in documents are made from these rows. [`EngineSettings`]
//! collects the given values, and [`EngineSettings::resolve`] fills in the rest. A default that depends on
//! other settings is computed last, from their final values. This module reads neither the environment nor
//! files: hosts do that.

mod table;
mod values;

use coscan_core::PolicyName;

use crate::config::{self, EngineConfig};
use crate::engine::Engine;
use crate::error::EngineError;
pub use crate::error::SettingError;
pub use table::ENGINE_SETTINGS;
pub use values::{bytes, number, truth};

/// The default policy of an engine.
pub const DEFAULT_POLICY: &str = "relevance";

/// The time at which a setting may change, and the sessions that see the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At any time; for the session that sets it.
    Session,
    /// At any time, by a session that may administer the engine; for every session on it.
    Engine,
    /// Only before the engine exists.
    Startup,
}

/// The description of a setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in SQL after `coscan.`. As a flag it has dashes, as an environment variable `COSCAN_` and
    /// capitals.
    pub name: &'static str,
    /// The time at which it may change.
    pub scope: Scope,
    /// The kind of its values: `BYTES`, `FILES`, `PRICES`, `N`, `MS`, `PERCENT`, `BOOL` or `NAME`.
    pub value: &'static str,
    /// Its effect, in one sentence without a full stop.
    pub summary: &'static str,
    /// Its default.
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

/// A setting of the engine: its description, and functions to set and show it.
#[derive(Debug)]
pub struct EngineSetting {
    /// Its description.
    pub about: Setting,
    set: fn(&mut EngineConfig, &str) -> Result<(), String>,
    show: fn(&EngineConfig) -> String,
}

impl EngineSetting {
    /// Sets a value, as a user writes it, in `config`.
    ///
    /// # Errors
    ///
    /// If the value is wrong or out of range; `config` does not change.
    pub fn set(&self, config: &mut EngineConfig, value: &str) -> Result<(), SettingError> {
        let value = value.trim();
        (self.set)(config, value).map_err(|wanted| SettingError {
            setting: self.about.name,
            value: value.to_owned(),
            wanted,
        })
    }

    /// The value in `config`, in the form that [`Self::set`] reads.
    pub fn show(&self, config: &EngineConfig) -> String {
        (self.show)(config)
    }
}

/// The setting of the engine with that name.
pub fn engine_setting(name: &str) -> Option<&'static EngineSetting> {
    ENGINE_SETTINGS.iter().find(|setting| setting.about.name == name)
}

/// The settings of an engine that were given explicitly. All others have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSettings {
    given: Vec<(&'static str, String)>,
}

impl EngineSettings {
    /// Sets a value, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// If the setting cannot have this value; then nothing changes.
    pub fn set(&mut self, setting: &'static EngineSetting, value: &str) -> Result<(), SettingError> {
        setting.set(&mut scratch(), value)?;
        self.given.retain(|(name, _)| *name != setting.about.name);
        self.given.push((setting.about.name, value.trim().to_owned()));
        Ok(())
    }

    /// The value as it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// The names and values that were given.
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
        config::set_by_processors(&mut config, processors);
        for setting in ENGINE_SETTINGS {
            if let Some(value) = self.get(setting.about.name) {
                setting.set(&mut config, value)?;
            }
        }
        // Defaults that depend on other settings come last.
        config.buffer_takes_offers = self.get("buffer").is_none();
        if self.get("decoded_share").is_some() {
            config.decoded_bytes_max = u64::MAX;
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
    /// The current settings: those at the start, and later changes.
    pub fn current_config(&self) -> EngineConfig {
        EngineConfig {
            policy: self.policy(),
            buffer_bytes: self.buffer_bytes(),
            buffer_takes_offers: self.takes_offers(),
            read_limit: self.read_limiter().and_then(|limiter| limiter.limit()),
            ..self.config().clone()
        }
    }

    /// Changes a setting of the running engine.
    ///
    /// # Errors
    ///
    /// If the setting cannot have this value, or can only be given before the engine starts.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::ReadLimit;

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
                "loads_in_flight" => assert!(stated.starts_with(&format!("{holds};")), "{stated}: {holds}"),
                "io_threads" => assert_eq!(config.io_threads, config.loads_in_flight),
                "coalesce_gap" => {
                    assert!(stated.starts_with("64 KiB,") && holds == "65536", "{stated}: {holds}")
                }
                "buffer_start" => assert_eq!(config.buffer_start_bytes, 4 * (256 << 20), "{stated}"),
                "page_cache" => assert_eq!((stated, config.page_cache_bytes), ("256 KiB", 256 << 10)),
                "chunk_size" => assert_eq!((stated, config.chunk_bytes), ("16 MiB", 16 << 20)),
                "decoded_share" => assert!(stated.starts_with(&format!("{holds},")), "{stated}: {holds}"),
                name => assert_eq!(holds, stated, "{name}"),
            }
        }
    }

    #[test]
    fn derived_defaults_follow_what_holds() {
        let config = given(&[("loads_in_flight", "9")]).resolve(16 << 30, 2).unwrap();
        assert_eq!((config.decoded_share_percent, config.decoded_bytes_max), (25, 512 << 20));
        assert_eq!((config.buffer_start_bytes, config.io_threads), (512 << 20, 9));
        assert!(config.buffer_takes_offers);
        let config = given(&[("decoded_share", "7"), ("io_threads", "2"), ("loads_in_flight", "9")]);
        let config = config.resolve(16 << 30, 2).unwrap();
        assert_eq!((config.decoded_share_percent, config.decoded_bytes_max), (7, u64::MAX));
        assert_eq!(config.io_threads, 2);
    }

    #[test]
    fn sizes_and_rates_are_read_as_people_write_them() {
        let limit = |value| given(&[("read_limit", value)]).resolve(1 << 30, 1).unwrap().read_limit;
        assert_eq!(limit("100MB/s").map(|limit| limit.bytes_per_s), Some(100_000_000));
        assert_eq!((limit("none"), limit("0")), (None, None));
        let config = given(&[("buffer", " 2 GiB")]).resolve(1, 1).unwrap();
        assert_eq!((config.buffer_bytes, config.buffer_takes_offers), (2 << 30, false));
        let latency = given(&[("read_limit", "5"), ("read_latency_ms", "7")]).resolve(1 << 30, 1).unwrap();
        let expected = ReadLimit { bytes_per_s: 5, latency: Duration::from_millis(7) };
        assert_eq!(latency.read_limit, Some(expected));
    }

    #[test]
    fn absurd_values_are_errors_with_name_value_and_range() {
        for (name, value, range) in [
            ("stall_ms", "18446744073710", "0 to 86400000"),
            ("stall_ms", "-1", "0 to 86400000"),
            ("idle_release_ms", "86400001", "0 to 86400000"),
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
