//! The settings that all subcommands share: flag over environment over config file over default.
//!
//! The settings under `coscan.*` come from their table ([`settings`]): each has a flag, an environment variable and
//! a key in the config file. The file is TOML with the names of the flags. An unknown key is an error, so that a
//! misspelt limit is not ignored. `EngineArgs` has the given values, [`Settings`] the effective ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;

use anyhow::Context;
use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser, ValueParserFactory};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use coscan_datafusion::CoscanOptions;
use datafusion::common::DataFusionError;

pub use coscan_datafusion::options::{Setting, settings};
pub use coscan_engine::settings::{EngineSettings, engine_setting};
pub use coscan_engine::{ConfigError, EngineConfig, PolicyName, memory_bytes, registry};

use crate::failure::{squeeze, wrong_usage};

/// Options of the engine.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Engine options")]
pub struct EngineArgs {
    #[command(flatten)]
    pub coscan: SettingArgs,

    /// Threads that run queries, and partitions of a query [default: one per core]
    #[arg(long, env = "COSCAN_THREADS", value_name = "N")]
    pub threads: Option<usize>,

    /// Bytes of memory for the process; 0 for the memory that the machine and its cgroup allow [default: 0]
    #[arg(long, env = "COSCAN_MEMORY", value_name = "BYTES")]
    pub memory: Option<Bytes>,

    /// Any setting of SQL's SET, as in datafusion.execution.batch_size=4096; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<Assignment>,

    /// Record every scheduling event of the run, for `coscan sim replay`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// TOML file with these options
    #[arg(long, env = "COSCAN_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A flag and an environment variable for every setting under `coscan.*`.
#[derive(Clone, Debug, Default)]
pub struct SettingArgs {
    given: Vec<Given>,
}

#[derive(Clone, Debug)]
struct Given {
    name: &'static str,
    value: String,
    on_command_line: bool,
}

/// A setting with its flag and its environment variable.
struct Named {
    setting: &'static Setting,
    flag: String,
    variable: String,
}

static NAMED: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let named =
        |setting: &'static Setting| Named { setting, flag: setting.flag(), variable: setting.variable() };
    settings().map(named).collect()
});

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        NAMED.iter().fold(command, |command, Named { setting, flag, variable }| {
            let help = format!("{} [default: {}]", capitalised(setting.summary), setting.default);
            let arg = Arg::new(setting.name).long(flag.as_str()).env(variable.as_str());
            let arg = arg.value_name(setting.value).help(help).help_heading("Engine options");
            command.arg(arg.value_parser(value_parser(setting)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = settings().filter_map(|setting| {
            let value = matches.get_one::<String>(setting.name)?.clone();
            let on_command_line = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
            Some(Given { name: setting.name, value, on_command_line })
        });
        Ok(SettingArgs { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Checks values while arguments are parsed. Help texts list the policies that the engine can run.
fn value_parser(setting: &'static Setting) -> ValueParser {
    if setting.name == "policy" {
        return PossibleValuesParser::new(registry::sharing().map(PolicyName::as_str)).into();
    }
    ValueParser::from(move |text: &str| check_setting(setting.name, text).map(|()| text.to_owned()))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The effective values after flags, environment and config file. Other settings have their defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The given settings of the engine.
    pub engine: EngineSettings,
    pub threads: usize,
    /// The memory of this process in bytes.
    pub memory_bytes: u64,
    /// Settings of the session, in the order in which they are set.
    pub set: Vec<(String, String)>,
    /// The trace file of this run, if it is recorded.
    pub record: Option<PathBuf>,
    /// The table of the config file for `coscan serve`.
    pub serve: toml::Table,
}

impl Settings {
    /// Sets a setting by its key in SQL.
    pub fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let name = key.strip_prefix("coscan.");
        if let Some(setting) = name.and_then(engine_setting) {
            return self.engine.set(setting, value).map_err(|error| wrong_usage(error.to_string()));
        }
        if let Some(name) = name {
            check_setting(name, value).map_err(wrong_usage)?;
        }
        self.set.retain(|(known, _)| known != key);
        self.set.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    /// A copy of the settings with another value.
    pub fn with(&self, key: &str, value: &str) -> anyhow::Result<Settings> {
        let mut settings = self.clone();
        settings.set(key, value)?;
        Ok(settings)
    }

    /// Returns true if a setting of the engine was given.
    pub fn is_given(&self, name: &str) -> bool {
        let in_session = |(key, _): &(String, String)| key.strip_prefix("coscan.") == Some(name);
        self.engine.get(name).is_some() || self.set.iter().any(in_session)
    }

    /// The configuration of the engine with these settings.
    pub fn engine_config(&self) -> anyhow::Result<EngineConfig> {
        let config = self.engine.resolve(self.memory_bytes, self.threads);
        config.map_err(|error| wrong_usage(error.to_string()))
    }
}

impl EngineArgs {
    /// Fills in the defaults.
    pub fn resolve(&self) -> anyhow::Result<Settings> {
        let file = self.config.as_deref().map(ConfigFile::read).transpose()?.unwrap_or_default();
        let memory = self.memory.or(file.memory).map(|bytes| bytes.0).filter(|&bytes| bytes > 0);
        let mut settings = Settings {
            engine: EngineSettings::default(),
            threads: self.threads.or(file.threads).filter(|&n| n > 0).unwrap_or_else(cores),
            memory_bytes: memory.unwrap_or_else(memory_bytes),
            set: Vec::new(),
            record: self.record.clone(),
            serve: file.serve,
        };
        // The last value takes precedence.
        for (key, value) in &file.set {
            settings.set(key, value)?;
        }
        for Given { name, value, .. } in &self.coscan.given {
            settings.set(&format!("coscan.{name}"), value)?;
        }
        for Assignment { key, value } in &self.set {
            let name = key.strip_prefix("coscan.").unwrap_or_default();
            if self.coscan.given.iter().any(|given| given.name == name && given.on_command_line) {
                return Err(wrong_usage(format!("{key} is given twice, as an option and by --set")));
            }
            settings.set(key, value)?;
        }
        Ok(settings)
    }
}

/// The config file: keys with the names of the flags, and a table of other settings.
#[derive(Debug, Default)]
struct ConfigFile {
    threads: Option<usize>,
    memory: Option<Bytes>,
    set: Vec<(String, String)>,
    serve: toml::Table,
}

impl ConfigFile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the config file {}", path.display()))?;
        let wrong = |what: String| wrong_usage(format!("config file {}: {what}", path.display()));
        let table: toml::Table = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let mut file = ConfigFile::default();
        for (key, value) in &table {
            file.add(key, value).map_err(wrong)?;
        }
        Ok(file)
    }

    fn add(&mut self, key: &str, value: &toml::Value) -> Result<(), String> {
        let text = toml_text(value);
        match (key, value) {
            ("threads", _) => {
                let threads = text.parse().map_err(|_| format!("threads: {text:?} is no number"))?;
                self.threads = Some(threads);
            }
            ("memory", _) => {
                self.memory = Some(text.parse().map_err(|error| format!("memory: {error}"))?);
            }
            ("set", toml::Value::Table(set)) => {
                self.set.extend(set.iter().map(|(key, value)| (key.clone(), toml_text(value))));
            }
            ("serve", toml::Value::Table(serve)) => self.serve.clone_from(serve),
            _ => {
                let Some(Named { setting, .. }) = NAMED.iter().find(|named| named.flag == key) else {
                    let known: Vec<&str> = NAMED.iter().map(|named| named.flag.as_str()).collect();
                    let known = known.join(", ");
                    return Err(format!("there is no {key:?}; there are threads, memory, set, {known}"));
                };
                check_setting(setting.name, &text)?;
                self.set.push((format!("coscan.{}", setting.name), text));
            }
        }
        Ok(())
    }
}

fn toml_text(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks a value of the setting `coscan.<name>`.
fn check_setting(name: &str, value: &str) -> Result<(), String> {
    CoscanOptions::default().set_value(name, value).map_err(|error| match error {
        DataFusionError::Configuration(text) => text,
        other => squeeze(&other.strip_backtrace()),
    })
}

/// Number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number of bytes in readable form: `65536`, `512MB`, `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<ByteSize>()
            .map(|size| Bytes(size.as_u64()))
            .map_err(|_| format!("{text:?} is no number of bytes; write 65536, 512MB or 2GiB"))
    }
}

/// The name of a sharing policy, checked when it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(pub PolicyName);

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.parse().map(Policy).map_err(|error: ConfigError| error.to_string())
    }
}

/// Help texts list the policies that the scan engine can run.
impl ValueParserFactory for Policy {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let names = registry::sharing().map(PolicyName::as_str);
        PossibleValuesParser::new(names).try_map(|name| name.parse::<Policy>()).into()
    }
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub key: String,
    pub value: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Assignment { key: key.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("{text:?} is no KEY=VALUE")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArgs,
    }

    fn resolved(line: &[&str]) -> anyhow::Result<Settings> {
        Line::try_parse_from([&["coscan"], line].concat()).unwrap().engine.resolve()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let file = file(
            "buffer = \"64MiB\"\nread-limit = 1000\nthreads = 3\ndirect-io = false\n\
             [set]\n\"datafusion.x\" = 5\n\"coscan.stall_ms\" = 7\n",
        );
        let path = file.path().to_str().unwrap();
        let settings = resolved(&["--buffer", "7", "--config", path, "--set", "datafusion.x=6"]).unwrap();
        let config = settings.engine_config().unwrap();
        assert_eq!((config.buffer_bytes, settings.threads, config.processors), (7, 3, 3));
        assert_eq!(config.read_limit.map(|limit| limit.bytes_per_s), Some(1000));
        assert_eq!((config.direct_io, config.stall_after.as_millis()), (false, 7));
        assert_eq!(config.policy.as_str(), "relevance");
        assert_eq!(settings.set, [("datafusion.x".to_owned(), "6".to_owned())]);
    }

    #[test]
    fn mistakes_in_the_file_are_wrong_usage() {
        let mistakes =
            [("bufer = 5\n", "bufer"), ("stall-ms = \"soon\"\n", "coscan.stall_ms"), ("x", "config")];
        for (text, named) in mistakes {
            let file = file(text);
            let error = resolved(&["--config", file.path().to_str().unwrap()]).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert!(error.is::<crate::failure::WrongUsage>());
        }
    }

    #[test]
    fn an_option_and_a_set_are_the_same_but_not_both() {
        let buffer = |line: &[&str]| anyhow::Ok(resolved(line)?.engine_config()?.buffer_bytes);
        assert_eq!(buffer(&["--buffer", "5kB"]).unwrap(), 5000);
        assert_eq!(buffer(&["--set", "coscan.buffer=5kB"]).unwrap(), 5000);
        let error = buffer(&["--buffer", "5kB", "--set", "coscan.buffer=6kB"]).unwrap_err();
        assert!(error.to_string().contains("coscan.buffer is given twice"), "{error}");
        assert!(buffer(&["--set", "coscan.bufer=1"]).unwrap_err().to_string().contains("coscan.bufer"));
    }

    #[test]
    fn every_setting_has_a_flag_a_variable_and_a_default_in_the_help() {
        let help = Line::command().term_width(0).render_long_help().to_string();
        for setting in settings() {
            let flag = format!("--{} <{}>", setting.flag(), setting.value);
            for part in [&flag, &setting.variable(), &format!("[default: {}]", setting.default)] {
                assert!(help.contains(part.as_str()), "{part} is not in\n{help}");
            }
        }
    }

    #[test]
    fn what_holds_by_default_is_what_the_table_says() {
        let config = |line: &[&str]| resolved(line).unwrap().engine_config().unwrap();
        assert_eq!(config(&["--memory", "1GiB"]).buffer_bytes, 464 << 20);
        let small = config(&["--memory", "16GiB", "--buffer", "400MB", "--threads", "2"]);
        assert_eq!(small.decoded_share_percent, 25);
    }

    #[test]
    fn bytes_as_people_write_them() {
        assert_eq!("512MB".parse(), Ok(Bytes(512_000_000)));
        assert_eq!("100M".parse(), Ok(Bytes(100_000_000)));
        assert_eq!("2GiB".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("65536".parse(), Ok(Bytes(65536)));
        assert!("lots".parse::<Bytes>().is_err());
    }
}
