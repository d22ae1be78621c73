//! The settings under `coscan.*`: in SQL (`SET coscan.policy = 'elevator'`), in the environment
//! (`COSCAN_POLICY=elevator`) and from a configuration file, one table for all three.
//!
//! Some settings belong to a session (`coscan.enabled`), others to the engine that all sessions share
//! (`coscan.buffer`). The latter take effect the moment they are set, for every session on that engine.
//! Reading configuration files is left to the caller, who hands the pairs to [`CoscanOptions::set_value`].

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use coscan_engine::{Engine, EngineConfig, PolicyName, ReadLimit};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};

use crate::error::from_engine;

/// Tables below this many bytes of files are read by DataFusion's own scan.
pub const SMALL_TABLE_BYTES: u64 = 4 << 20;

/// A row group of which the pages with wanted rows are less than one part in so many is read by its pages.
pub const POINT_THRESHOLD: u64 = 8;

/// When a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any time; for the session that sets it.
    Session,
    /// Any time; for every session on the same engine.
    Engine,
    /// Only before the engine exists: environment, configuration file, builder.
    Startup,
}

/// One line of the table of settings.
#[derive(Debug)]
pub struct Setting {
    /// The name behind `coscan.`.
    pub name: &'static str,
    /// When it may change.
    pub scope: Scope,
    /// What it does, in one sentence.
    pub summary: &'static str,
}

/// Every setting there is.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "enabled",
        scope: Scope::Session,
        summary: "read Parquet files cooperatively; false leaves plans as DataFusion makes them",
    },
    Setting {
        name: "small_table_bytes",
        scope: Scope::Session,
        summary: "tables with fewer bytes of files than this are read by DataFusion's own scan",
    },
    Setting {
        name: "point_threshold",
        scope: Scope::Session,
        summary: "a row group is read by single pages if these are at most one part in so many of its bytes; 0 for never",
    },
    Setting {
        name: "policy",
        scope: Scope::Engine,
        summary: "the sharing policy: which chunk next, and for whom",
    },
    Setting {
        name: "buffer",
        scope: Scope::Engine,
        summary: "bytes for everything held in memory: encoded, decoded, being read, being consumed",
    },
    Setting {
        name: "read_limit",
        scope: Scope::Engine,
        summary: "bytes per second that all reads together may take; 'none' for no limit",
    },
    Setting {
        name: "read_latency_ms",
        scope: Scope::Engine,
        summary: "milliseconds added to every read request, for experiments",
    },
    Setting {
        name: "loads_in_flight",
        scope: Scope::Startup,
        summary: "how many loads may be under way at once from each store",
    },
    Setting {
        name: "io_threads",
        scope: Scope::Startup,
        summary: "requests under way at once from each store",
    },
    Setting {
        name: "read_deadline_ms",
        scope: Scope::Startup,
        summary: "milliseconds after which a read fails, all attempts included",
    },
    Setting {
        name: "direct_io",
        scope: Scope::Startup,
        summary: "read local files past the page cache where the file system allows it",
    },
    Setting {
        name: "decoded_share",
        scope: Scope::Startup,
        summary: "percent of the buffer that decoded arrays may have",
    },
    Setting {
        name: "point_share",
        scope: Scope::Startup,
        summary: "percent of the buffer that point reads may have",
    },
    Setting {
        name: "point_latency_ms",
        scope: Scope::Startup,
        summary: "milliseconds a point read may wait before loads are held back for it; 0 for never",
    },
    Setting {
        name: "stall_ms",
        scope: Scope::Startup,
        summary: "milliseconds after which a chunk is asked back from a consumer that does not read",
    },
    Setting { name: "slice_rows", scope: Scope::Startup, summary: "rows decoded at a time" },
];

/// Settings of the engine that were given explicitly; what is `None` keeps the engine's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineSettings {
    /// `coscan.policy`
    pub policy: Option<PolicyName>,
    /// `coscan.buffer`
    pub buffer_bytes: Option<u64>,
    /// `coscan.read_limit`, zero for none
    pub read_limit_bytes_per_s: Option<u64>,
    /// `coscan.read_latency_ms`
    pub read_latency_ms: Option<u64>,
    /// `coscan.loads_in_flight`
    pub loads_in_flight: Option<usize>,
    /// `coscan.io_threads`
    pub io_threads: Option<usize>,
    /// `coscan.read_deadline_ms`
    pub read_deadline_ms: Option<u64>,
    /// `coscan.direct_io`
    pub direct_io: Option<bool>,
    /// `coscan.decoded_share`
    pub decoded_share_percent: Option<u8>,
    /// `coscan.point_share`
    pub point_share_percent: Option<u8>,
    /// `coscan.point_latency_ms`
    pub point_latency_ms: Option<u64>,
    /// `coscan.stall_ms`
    pub stall_ms: Option<u64>,
    /// `coscan.slice_rows`
    pub slice_rows: Option<usize>,
}

impl EngineSettings {
    /// `config` with everything that was given explicitly put in its place.
    pub fn apply(&self, mut config: EngineConfig) -> EngineConfig {
        if let Some(policy) = self.policy {
            config.policy = policy.into();
        }
        config.buffer_bytes = self.buffer_bytes.unwrap_or(config.buffer_bytes);
        if self.read_limit_bytes_per_s.is_some() || self.read_latency_ms.is_some() {
            config.read_limit = self.read_limit();
        }
        if let Some(loads) = self.loads_in_flight {
            config.loads_in_flight = loads;
            config.io_threads = loads;
        }
        config.io_threads = self.io_threads.unwrap_or(config.io_threads);
        config.read_deadline = self.read_deadline_ms.map_or(config.read_deadline, Duration::from_millis);
        config.direct_io = self.direct_io.unwrap_or(config.direct_io);
        config.decoded_share_percent = self.decoded_share_percent.unwrap_or(config.decoded_share_percent);
        config.point_share_percent = self.point_share_percent.unwrap_or(config.point_share_percent);
        config.point_latency = self.point_latency_ms.map_or(config.point_latency, Duration::from_millis);
        config.stall_after = self.stall_ms.map_or(config.stall_after, Duration::from_millis);
        config.slice_rows = self.slice_rows.unwrap_or(config.slice_rows);
        config
    }

    fn read_limit(&self) -> Option<ReadLimit> {
        let bytes_per_s = self.read_limit_bytes_per_s.unwrap_or(0);
        let latency = Duration::from_millis(self.read_latency_ms.unwrap_or(0));
        (bytes_per_s > 0 || !latency.is_zero()).then_some(ReadLimit { bytes_per_s, latency })
    }
}

/// The configuration extension `coscan`.
#[derive(Clone)]
pub struct CoscanOptions {
    /// `coscan.enabled`
    pub enabled: bool,
    /// `coscan.small_table_bytes`
    pub small_table_bytes: u64,
    /// `coscan.point_threshold`
    pub point_threshold: u64,
    /// What was said about the engine.
    pub engine_settings: EngineSettings,
    engine: Option<Engine>,
}

impl Default for CoscanOptions {
    fn default() -> Self {
        CoscanOptions {
            enabled: true,
            small_table_bytes: SMALL_TABLE_BYTES,
            point_threshold: POINT_THRESHOLD,
            engine_settings: EngineSettings::default(),
            engine: None,
        }
    }
}

impl fmt::Debug for CoscanOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoscanOptions")
            .field("enabled", &self.enabled)
            .field("small_table_bytes", &self.small_table_bytes)
            .field("point_threshold", &self.point_threshold)
            .field("engine_settings", &self.engine_settings)
            .field("attached", &self.engine.is_some())
            .finish()
    }
}

impl CoscanOptions {
    /// The defaults, overridden by the environment: `COSCAN_` and the setting's name in capitals.
    pub fn from_env() -> Result<Self> {
        let mut options = CoscanOptions::default();
        for setting in SETTINGS {
            let variable = format!("COSCAN_{}", setting.name.to_uppercase());
            if let Ok(value) = std::env::var(&variable) {
                options
                    .set_value(setting.name, &value)
                    .map_err(|e| e.context(format!("environment variable {variable}")))?;
            }
        }
        Ok(options)
    }

    /// From now on, engine settings go to `engine` as soon as they are set.
    pub fn attach(&mut self, engine: Engine) {
        self.engine = Some(engine);
    }

    /// Sets the setting of that name (without `coscan.`).
    ///
    /// Fails if there is no such setting, the value does not parse, the engine refuses it, or the
    /// engine runs already and the setting can only be given before.
    pub fn set_value(&mut self, name: &str, value: &str) -> Result<()> {
        let value = value.trim();
        let setting = SETTINGS.iter().find(|s| s.name == name).ok_or_else(|| unknown(name))?;
        if setting.scope == Scope::Startup && self.engine.is_some() {
            return Err(DataFusionError::Configuration(format!(
                "coscan.{name} is fixed once the engine runs; give it at start (COSCAN_{})",
                name.to_uppercase()
            )));
        }
        let mut next = self.clone();
        next.parse(name, value)?;
        if setting.scope == Scope::Engine
            && let Some(engine) = &self.engine
        {
            next.push(engine, name)?;
        }
        *self = next;
        Ok(())
    }

    fn parse(&mut self, name: &str, value: &str) -> Result<()> {
        let engine = &mut self.engine_settings;
        match name {
            "enabled" => self.enabled = number(name, value, "true or false")?,
            "small_table_bytes" => self.small_table_bytes = bytes(name, value)?,
            "point_threshold" => self.point_threshold = number(name, value, "a number, or 0 for never")?,
            "point_share" => engine.point_share_percent = Some(number(name, value, "a percentage")?),
            "point_latency_ms" => engine.point_latency_ms = Some(number(name, value, "milliseconds")?),
            "policy" => {
                let policy = PolicyName::from_str(&value.to_lowercase())
                    .map_err(|e| DataFusionError::Configuration(format!("coscan.policy: {e}")))?;
                engine.policy = Some(policy);
            }
            "buffer" => engine.buffer_bytes = Some(bytes(name, value)?),
            "read_limit" => engine.read_limit_bytes_per_s = Some(rate(name, value)?),
            "read_latency_ms" => engine.read_latency_ms = Some(number(name, value, "milliseconds")?),
            "loads_in_flight" => engine.loads_in_flight = Some(number(name, value, "a number")?),
            "io_threads" => engine.io_threads = Some(number(name, value, "a number")?),
            "read_deadline_ms" => engine.read_deadline_ms = Some(number(name, value, "milliseconds")?),
            "direct_io" => engine.direct_io = Some(number(name, value, "true or false")?),
            "decoded_share" => engine.decoded_share_percent = Some(number(name, value, "a percentage")?),
            "stall_ms" => engine.stall_ms = Some(number(name, value, "milliseconds")?),
            "slice_rows" => engine.slice_rows = Some(number(name, value, "a number of rows")?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn push(&self, engine: &Engine, name: &str) -> Result<()> {
        let settings = &self.engine_settings;
        match name {
            "policy" => {
                if let Some(policy) = settings.policy {
                    engine.set_policy(policy).map_err(from_engine)?;
                }
            }
            "buffer" => {
                if let Some(buffer_bytes) = settings.buffer_bytes {
                    engine.set_buffer(buffer_bytes).map_err(from_engine)?;
                }
            }
            _ => engine.set_read_limit(settings.read_limit()).map_err(from_engine)?,
        }
        Ok(())
    }

    /// What is in force: the engine's word where it has one.
    fn value(&self, name: &str) -> Option<String> {
        let Some(engine) = &self.engine else { return self.pending(name) };
        let config = engine.config();
        let limit = engine.read_limiter().and_then(|limiter| limiter.limit());
        Some(match name {
            "policy" => engine.policy().to_string(),
            "buffer" => engine.buffer_bytes().to_string(),
            "read_limit" => match limit {
                Some(limit) if limit.bytes_per_s > 0 => limit.bytes_per_s.to_string(),
                _ => "none".to_owned(),
            },
            "read_latency_ms" => limit.map_or(0, |limit| limit.latency.as_millis()).to_string(),
            "loads_in_flight" => config.loads_in_flight.to_string(),
            "io_threads" => config.io_threads.to_string(),
            "read_deadline_ms" => config.read_deadline.as_millis().to_string(),
            "direct_io" => config.direct_io.to_string(),
            "decoded_share" => config.decoded_share_percent.to_string(),
            "point_share" => config.point_share_percent.to_string(),
            "point_latency_ms" => config.point_latency.as_millis().to_string(),
            "stall_ms" => config.stall_after.as_millis().to_string(),
            "slice_rows" => config.slice_rows.to_string(),
            _ => return self.pending(name),
        })
    }

    fn pending(&self, name: &str) -> Option<String> {
        let engine = &self.engine_settings;
        match name {
            "enabled" => Some(self.enabled.to_string()),
            "small_table_bytes" => Some(self.small_table_bytes.to_string()),
            "point_threshold" => Some(self.point_threshold.to_string()),
            "point_share" => engine.point_share_percent.map(|p| p.to_string()),
            "point_latency_ms" => engine.point_latency_ms.map(|l| l.to_string()),
            "policy" => engine.policy.map(|p| p.to_string()),
            "buffer" => engine.buffer_bytes.map(|b| b.to_string()),
            "read_limit" => engine.read_limit_bytes_per_s.map(|b| b.to_string()),
            "read_latency_ms" => engine.read_latency_ms.map(|l| l.to_string()),
            "loads_in_flight" => engine.loads_in_flight.map(|l| l.to_string()),
            "io_threads" => engine.io_threads.map(|t| t.to_string()),
            "read_deadline_ms" => engine.read_deadline_ms.map(|d| d.to_string()),
            "direct_io" => engine.direct_io.map(|d| d.to_string()),
            "decoded_share" => engine.decoded_share_percent.map(|d| d.to_string()),
            "stall_ms" => engine.stall_ms.map(|s| s.to_string()),
            "slice_rows" => engine.slice_rows.map(|r| r.to_string()),
            _ => None,
        }
    }
}

impl ConfigExtension for CoscanOptions {
    const PREFIX: &'static str = "coscan";
}

impl ExtensionOptions for CoscanOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_value(key, value)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        SETTINGS
            .iter()
            .map(|setting| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, setting.name),
                value: self.value(setting.name),
                description: setting.summary,
            })
            .collect()
    }
}

/// Reads `512MB`, `1.5 GiB` or a plain number of bytes.
pub fn parse_bytes(value: &str) -> Result<u64, String> {
    value.trim().parse::<ByteSize>().map(|size| size.as_u64())
}

fn bytes(name: &str, value: &str) -> Result<u64> {
    parse_bytes(value).map_err(|_| {
        DataFusionError::Configuration(format!(
            "coscan.{name}: '{value}' is not a number of bytes such as 512MB, 2GiB or 1048576"
        ))
    })
}

fn rate(name: &str, value: &str) -> Result<u64> {
    match value.to_lowercase().as_str() {
        "none" | "off" | "" => Ok(0),
        value => bytes(name, value.trim_end_matches("/s")),
    }
}

fn number<T: FromStr>(name: &str, value: &str, wanted: &str) -> Result<T> {
    value
        .to_lowercase()
        .parse()
        .map_err(|_| DataFusionError::Configuration(format!("coscan.{name}: '{value}' is not {wanted}")))
}

fn unknown(name: &str) -> DataFusionError {
    let known: Vec<_> = SETTINGS.iter().map(|s| s.name).collect();
    DataFusionError::Configuration(format!(
        "there is no setting coscan.{name}; there are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_read_as_people_write_them() {
        let mut options = CoscanOptions::default();
        options.set_value("buffer", "512MB").unwrap();
        options.set_value("read_limit", "100MB/s").unwrap();
        assert_eq!(options.engine_settings.buffer_bytes, Some(512_000_000));
        assert_eq!(options.engine_settings.read_limit().map(|l| l.bytes_per_s), Some(100_000_000));
        options.set_value("read_limit", "none").unwrap();
        assert_eq!(options.engine_settings.read_limit(), None);
    }

    #[test]
    fn mistakes_name_the_setting() {
        let mut options = CoscanOptions::default();
        let error = options.set_value("polcy", "normal").unwrap_err().to_string();
        assert!(error.contains("coscan.polcy") && error.contains("small_table_bytes"), "{error}");
        let error = options.set_value("policy", "fifo").unwrap_err().to_string();
        assert!(error.contains("relevance"), "{error}");
        assert!(options.set_value("buffer", "much").is_err());
        assert!(options.set_value("direct_io", "perhaps").is_err());
    }

    #[test]
    fn a_setting_that_fails_changes_nothing() {
        let mut options = CoscanOptions::default();
        options.set_value("stall_ms", "50").unwrap();
        options.set_value("stall_ms", "soon").unwrap_err();
        assert_eq!(options.engine_settings.stall_ms, Some(50));
    }
}
