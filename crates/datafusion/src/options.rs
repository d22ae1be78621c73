//! The settings under `coscan.*`: in SQL (`SET coscan.policy = 'elevator'`), in the environment
//! (`COSCAN_POLICY=elevator`) and from a configuration file.
//!
//! Settings belong to a session ([`SESSION_SETTINGS`]) or to the engine that all sessions share
//! ([`ENGINE_SETTINGS`]). Engine settings take effect at once and for all sessions. Only sessions that may
//! administer the engine can set them. The caller reads configuration files and passes the pairs to
//! [`CoscanOptions::set_value`].

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use coscan_engine::settings::{
    ENGINE_SETTINGS, EngineSettings, SettingError, bytes, engine_setting, number, truth,
};
pub use coscan_engine::settings::{Scope, Setting};
use coscan_engine::{Engine, memory_bytes};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};

use crate::load_control::{Lender, lender_of};

/// DataFusion's own scan reads tables with fewer bytes of files than this.
pub const SMALL_TABLE_BYTES: u64 = 4 << 20;

/// A row group is read by its pages if the pages with wanted rows are at most 1/N of its bytes.
pub const POINT_THRESHOLD: u64 = 8;

/// A setting of a session, with its conversion from and to text.
#[derive(Debug)]
pub struct SessionSetting {
    /// Its name and description.
    pub about: Setting,
    set: fn(&mut CoscanOptions, &str) -> Result<(), String>,
    show: fn(&CoscanOptions) -> String,
}

/// Longest wait of a query for other queries, in seconds.
pub const QUEUE_TIMEOUT_S: u64 = 3600;

/// The value of a setting that is derived from others.
const AUTO: &str = "auto";

/// Declares a boolean session setting for the field of this name. The default is true.
macro_rules! switch {
    ($field:ident, $summary:literal) => {
        SessionSetting {
            about: Setting {
                name: stringify!($field),
                scope: Scope::Session,
                value: "BOOL",
                summary: $summary,
                default: "true",
            },
            set: |options, value| {
                options.$field = truth(value)?;
                Ok(())
            },
            show: |options| options.$field.to_string(),
        }
    };
}

/// Every setting of a session, and the engine settings outside the buffer manager.
pub const SESSION_SETTINGS: &[SessionSetting] = &[
    switch!(enabled, "read Parquet files cooperatively; false leaves plans as DataFusion makes them"),
    SessionSetting {
        about: Setting {
            name: "small_table_bytes",
            scope: Scope::Session,
            value: "BYTES",
            summary: "tables with fewer bytes of files are read by DataFusion's own scan, unless a join filters them",
            default: "4 MiB",
        },
        set: |options, value| {
            options.small_table_bytes = bytes(value, 0..=u64::MAX)?;
            Ok(())
        },
        show: |options| options.small_table_bytes.to_string(),
    },
    SessionSetting {
        about: Setting {
            name: "point_threshold",
            scope: Scope::Session,
            value: "N",
            summary: "a row group is read by single pages if these are at most 1/N of its bytes; 0 for never",
            default: "8",
        },
        set: |options, value| {
            options.point_threshold = number(value, 0..=u64::MAX)?;
            options.point_threshold_by_hand = true;
            Ok(())
        },
        show: |options| options.point_threshold.to_string(),
    },
    SessionSetting {
        about: Setting {
            name: "order_aware",
            scope: Scope::Session,
            value: "WHEN",
            summary: "operators work chunk by chunk where tables are clustered by their key: auto (where it is worth \
                      it), always (where it is right) or never",
            default: "auto",
        },
        set: |options, value| {
            options.order_aware = value.parse()?;
            Ok(())
        },
        show: |options| options.order_aware.to_string(),
    },
    switch!(
        share_results,
        "equal queries that run at the same time over the same versions of the same files run once, and so do equal aggregations and windows of one query"
    ),
    switch!(
        share_aggregates,
        "queries that run at the same time and aggregate in the same way, with any filters, add up slices of a table once"
    ),
    switch!(
        share_filters,
        "queries that run at the same time and filter by the same condition on strings evaluate it once"
    ),
    switch!(load_control, "queries wait for each other's memory and run again when it was refused them"),
    SessionSetting {
        about: Setting {
            name: "queue_timeout_s",
            scope: Scope::Session,
            value: "N",
            summary: "seconds after which a query that waits for memory fails; 0 for never",
            default: "3600",
        },
        set: |options, value| {
            options.queue_timeout_s = number(value, 0..=u64::MAX)?;
            Ok(())
        },
        show: |options| options.queue_timeout_s.to_string(),
    },
    SessionSetting {
        about: Setting {
            name: QUERY_MEMORY,
            scope: Scope::Engine,
            value: "BYTES",
            summary: "memory for the operators of all queries together; auto for what the buffer leaves of three quarters \
                      of the memory less 128 MiB, a tenth at least",
            default: AUTO,
        },
        set: |options, value| {
            let memory = if value == AUTO { None } else { Some(bytes(value, 1..=u64::MAX / 4)?) };
            if let (Some(lender), Some(engine)) = (&options.lender, &options.engine) {
                lender.set_limit(engine, memory.unwrap_or(lender.default_limit));
            }
            options.query_memory = memory;
            Ok(())
        },
        show: |options| match (&options.lender, options.query_memory) {
            (Some(lender), _) => lender.control.limit().to_string(),
            (None, Some(memory)) => memory.to_string(),
            (None, None) => AUTO.to_owned(),
        },
    },
];

/// The setting for the memory of operators.
const QUERY_MEMORY: &str = "query_memory";

/// The use of the order of rows by operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderAware {
    /// Where it is right and worthwhile.
    #[default]
    Auto,
    /// Wherever it is right.
    Always,
    /// Nowhere.
    Never,
}

impl fmt::Display for OrderAware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OrderAware::Auto => "auto",
            OrderAware::Always => "always",
            OrderAware::Never => "never",
        })
    }
}

impl FromStr for OrderAware {
    type Err = String;

    fn from_str(value: &str) -> Result<Self, String> {
        match value {
            "auto" => Ok(OrderAware::Auto),
            "always" => Ok(OrderAware::Always),
            "never" => Ok(OrderAware::Never),
            _ => Err("auto, always or never".to_owned()),
        }
    }
}

/// Returns all settings.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    let engine = ENGINE_SETTINGS.iter().map(|setting| &setting.about);
    engine.chain(SESSION_SETTINGS.iter().map(|setting| &setting.about))
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
    /// Whether that was set by the user. Then the request cost in a device's profile does not count.
    pub point_threshold_by_hand: bool,
    /// `coscan.order_aware`
    pub order_aware: OrderAware,
    /// `coscan.share_results`
    pub share_results: bool,
    /// `coscan.share_aggregates`
    pub share_aggregates: bool,
    /// `coscan.share_filters`
    pub share_filters: bool,
    /// `coscan.load_control`
    pub load_control: bool,
    /// `coscan.queue_timeout_s`
    pub queue_timeout_s: u64,
    /// `coscan.query_memory`, as given.
    pub query_memory: Option<u64>,
    /// The settings of the engine before its start.
    pub engine_settings: EngineSettings,
    /// Whether this session may change the settings of a running engine, which apply to all its sessions.
    pub administrator: bool,
    engine: Option<Engine>,
    lender: Option<Arc<Lender>>,
}

impl Default for CoscanOptions {
    fn default() -> Self {
        CoscanOptions {
            enabled: true,
            small_table_bytes: SMALL_TABLE_BYTES,
            point_threshold: POINT_THRESHOLD,
            point_threshold_by_hand: false,
            order_aware: OrderAware::default(),
            share_results: true,
            share_aggregates: true,
            share_filters: true,
            load_control: true,
            queue_timeout_s: QUEUE_TIMEOUT_S,
            query_memory: None,
            engine_settings: EngineSettings::default(),
            administrator: false,
            engine: None,
            lender: None,
        }
    }
}

impl fmt::Debug for CoscanOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoscanOptions")
            .field("enabled", &self.enabled)
            .field("small_table_bytes", &self.small_table_bytes)
            .field("point_threshold", &self.point_threshold)
            .field("point_threshold_by_hand", &self.point_threshold_by_hand)
            .field("order_aware", &self.order_aware)
            .field("share_results", &self.share_results)
            .field("share_aggregates", &self.share_aggregates)
            .field("share_filters", &self.share_filters)
            .field("load_control", &self.load_control)
            .field("queue_timeout_s", &self.queue_timeout_s)
            .field("query_memory", &self.query_memory)
            .field("engine_settings", &self.engine_settings)
            .field("administrator", &self.administrator)
            .field("attached", &self.engine.is_some())
            .finish()
    }
}

impl CoscanOptions {
    /// Returns the defaults, overridden by the environment: `COSCAN_` and the setting's name in capitals.
    ///
    /// # Errors
    ///
    /// If a variable has an invalid value for its setting.
    pub fn from_env() -> Result<Self> {
        let mut options = CoscanOptions::default();
        for setting in settings() {
            let variable = setting.variable();
            if let Ok(value) = std::env::var(&variable) {
                options
                    .set_value(setting.name, &value)
                    .map_err(|e| e.context(format!("environment variable {variable}")))?;
            }
        }
        Ok(options)
    }

    /// Connects the options to `engine`. From then on, engine settings take effect as soon as they are set.
    pub fn attach(&mut self, engine: Engine) {
        self.lender = Some(lender_of(&engine, self.query_memory, memory_bytes()));
        self.engine = Some(engine);
    }

    /// Sets the setting with this name (without `coscan.`).
    ///
    /// # Errors
    ///
    /// If the setting is unknown or the value is invalid. If the setting can be given only before the engine
    /// starts, or belongs to a running engine that this session must not administer.
    pub fn set_value(&mut self, name: &str, value: &str) -> Result<()> {
        let value = value.trim();
        if let Some(setting) = SESSION_SETTINGS.iter().find(|setting| setting.about.name == name) {
            if setting.about.scope == Scope::Engine && self.engine.is_some() {
                self.check_administrator(name)?;
            }
            let wrong =
                |wanted| SettingError { setting: setting.about.name, value: value.to_owned(), wanted };
            return (setting.set)(self, value).map_err(wrong).map_err(configuration);
        }
        let setting = engine_setting(name).ok_or_else(|| unknown(name))?;
        let Some(engine) = &self.engine else {
            return self.engine_settings.set(setting, value).map_err(configuration);
        };
        if setting.about.scope == Scope::Startup {
            let variable = setting.about.variable();
            let message =
                format!("coscan.{name} is fixed once the engine runs; give it at start ({variable})");
            return Err(DataFusionError::Configuration(message));
        }
        self.check_administrator(name)?;
        engine.set(setting, value).map_err(configuration)
    }

    fn check_administrator(&self, name: &str) -> Result<()> {
        match self.administrator {
            true => Ok(()),
            false => Err(DataFusionError::Configuration(format!(
                "coscan.{name} holds for all sessions on the engine, and this one may not change it: ask who runs the \
                 engine, or open the session as its administrator (CoscanContextBuilder::administrator)"
            ))),
        }
    }

    /// Returns the effective value. For engine settings of a running engine this is the engine's.
    fn value(&self, name: &str) -> Option<String> {
        if let Some(setting) = SESSION_SETTINGS.iter().find(|setting| setting.about.name == name) {
            return Some((setting.show)(self));
        }
        match &self.engine {
            Some(engine) => engine_setting(name).map(|setting| setting.show(&engine.current_config())),
            None => self.engine_settings.get(name).map(str::to_owned),
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
        settings()
            .map(|setting| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, setting.name),
                value: self.value(setting.name),
                description: setting.summary,
            })
            .collect()
    }
}

fn configuration(error: impl std::error::Error) -> DataFusionError {
    DataFusionError::Configuration(error.to_string())
}

fn unknown(name: &str) -> DataFusionError {
    let known: Vec<_> = settings().map(|setting| setting.name).collect();
    DataFusionError::Configuration(format!(
        "there is no setting coscan.{name}; there are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_once_and_shows_what_it_reads() {
        let mut options = CoscanOptions::default();
        let mut names: Vec<_> = settings().map(|setting| setting.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), settings().count());
        for setting in SESSION_SETTINGS {
            let value = (setting.show)(&options);
            options.set_value(setting.about.name, &value).unwrap();
            let default = setting.about.default;
            let read = (setting.set)(&mut options, default);
            assert_eq!(read.map(|()| (setting.show)(&options)), Ok(value), "{default} is the default");
        }
    }

    #[test]
    fn mistakes_name_the_setting() {
        let mut options = CoscanOptions::default();
        let error = options.set_value("polcy", "normal").unwrap_err().to_string();
        assert!(error.contains("coscan.polcy") && error.contains("small_table_bytes"), "{error}");
        for (name, value) in
            [("policy", "fifo"), ("buffer", "much"), ("enabled", "perhaps"), ("stall_ms", "-1")]
        {
            let error = options.set_value(name, value).unwrap_err().to_string();
            assert!(error.contains(&format!("coscan.{name}: '{value}' is not")), "{error}");
        }
    }
}
