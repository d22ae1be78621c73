//! The settings every subcommand shares: flag over environment over config file over default.
//!
//! `EngineArgs` is what the user wrote, [`Settings`] what holds. The config file is TOML with the
//! names of the flags; anything else in it is an error, because a misspelt limit is worse than none.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser, ValueParserFactory};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::failure::wrong_usage;
use crate::session::{PolicyName, registry};

/// Options of the engine.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Engine options")]
pub struct EngineArgs {
    /// Sharing policy; `coscan policies` says what each does [default: relevance]
    #[arg(long, env = "COSCAN_POLICY", value_name = "NAME")]
    pub policy: Option<Policy>,

    /// Bytes for everything the buffer manager holds, as in 512MB or 2GiB [default: half of the memory]
    #[arg(long, env = "COSCAN_BUFFER", value_name = "BYTES")]
    pub buffer: Option<Bytes>,

    /// Bytes per second that all reads together may take, 0 for no limit [default: 0]
    #[arg(long, env = "COSCAN_READ_LIMIT", value_name = "BYTES", value_parser = rate)]
    pub read_limit: Option<Bytes>,

    /// Milliseconds added to every read, to try out slow storage [default: 0]
    #[arg(long, env = "COSCAN_READ_LATENCY_MS", value_name = "MS")]
    pub read_latency_ms: Option<u64>,

    /// Reads in flight [default: 4]
    #[arg(long, env = "COSCAN_LOADS_IN_FLIGHT", value_name = "N")]
    pub loads_in_flight: Option<usize>,

    /// Read around the page cache where the file system can [default: true]
    #[arg(long, env = "COSCAN_DIRECT_IO", value_name = "BOOL")]
    pub direct_io: Option<bool>,

    /// Threads that run queries, and partitions of a query [default: one per core]
    #[arg(long, env = "COSCAN_THREADS", value_name = "N")]
    pub threads: Option<usize>,

    /// Bytes of memory the process has, 0 for what the machine and its cgroup allow [default: 0]
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

/// What holds after flags, environment, config file and defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    pub policy: PolicyName,
    /// `None`: the engine takes its default share of the memory.
    pub buffer_bytes: Option<u64>,
    /// `None`: no limit.
    pub read_limit_bytes_per_s: Option<u64>,
    pub read_latency: Duration,
    pub loads_in_flight: Option<usize>,
    pub direct_io: bool,
    pub threads: usize,
    /// `None`: what the machine and its cgroup allow.
    pub memory_bytes: Option<u64>,
    pub set: Vec<(String, String)>,
    /// Where the trace of this run goes, if it is recorded.
    pub record: Option<PathBuf>,
}

/// The policy that holds when nobody says otherwise.
const DEFAULT_POLICY: &str = "relevance";

/// The config file: the same names as the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ConfigFile {
    policy: Option<Policy>,
    buffer: Option<Bytes>,
    read_limit: Option<Bytes>,
    read_latency_ms: Option<u64>,
    loads_in_flight: Option<usize>,
    direct_io: Option<bool>,
    threads: Option<usize>,
    memory: Option<Bytes>,
    #[serde(default)]
    set: toml::Table,
}

impl EngineArgs {
    /// Fills in what the user left open.
    pub fn resolve(&self) -> anyhow::Result<Settings> {
        let file = self.config.as_deref().map(ConfigFile::read).transpose()?.unwrap_or_default();
        let positive = |bytes: Option<Bytes>| bytes.map(|b| b.0).filter(|&b| b > 0);
        let policy = match self.policy.or(file.policy) {
            Some(policy) => policy.0,
            None => DEFAULT_POLICY.parse()?,
        };
        // The last SET of a key holds: flags come after the file, and the session reads the environment.
        let in_environment = |key: &str| env_name(key).is_some_and(|name| std::env::var_os(name).is_some());
        let from_file = file.set.iter().filter(|(key, _)| !in_environment(key));
        let from_file = from_file.map(|(key, value)| (key.clone(), toml_text(value)));
        let from_flags = self.set.iter().map(|a| (a.key.clone(), a.value.clone()));
        let set: Vec<(String, String)> = from_file.chain(from_flags).collect();
        if let Some(flag) = set.iter().find_map(|(key, _)| flag_for(key)) {
            return Err(wrong_usage(format!(
                "there is an option for coscan.{flag}: use it instead of a SET"
            )));
        }
        Ok(Settings {
            policy,
            buffer_bytes: positive(self.buffer.or(file.buffer)),
            read_limit_bytes_per_s: positive(self.read_limit.or(file.read_limit)),
            read_latency: Duration::from_millis(self.read_latency_ms.or(file.read_latency_ms).unwrap_or(0)),
            loads_in_flight: self.loads_in_flight.or(file.loads_in_flight),
            direct_io: self.direct_io.or(file.direct_io).unwrap_or(true),
            threads: self.threads.or(file.threads).filter(|&n| n > 0).unwrap_or_else(cores),
            memory_bytes: positive(self.memory.or(file.memory)),
            set,
            record: self.record.clone(),
        })
    }
}

impl ConfigFile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the config file {}", path.display()))?;
        toml::from_str(&text).map_err(|error| wrong_usage(format!("config file {}: {error}", path.display())))
    }
}

/// The settings of the engine that have an option of their own.
const FLAGS: [&str; 6] =
    ["policy", "buffer", "read_limit", "read_latency_ms", "loads_in_flight", "direct_io"];

fn flag_for(key: &str) -> Option<&'static str> {
    let name = key.strip_prefix("coscan.")?;
    FLAGS.into_iter().find(|flag| *flag == name)
}

fn env_name(key: &str) -> Option<String> {
    key.strip_prefix("coscan.").map(|name| format!("COSCAN_{}", name.to_uppercase()))
}

fn toml_text(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A number of bytes as people write it: `65536`, `512MB`, `2GiB`.
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

/// Bytes per second: `100MB`, `100MB/s`, `none`.
fn rate(text: &str) -> Result<Bytes, String> {
    if text.eq_ignore_ascii_case("none") { Ok(Bytes(0)) } else { text.trim_end_matches("/s").parse() }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(input)? {
            Either::Number(bytes) => Ok(Bytes(bytes)),
            Either::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// The name of a sharing policy, checked when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(pub PolicyName);

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.parse().map(Policy).map_err(|error: crate::session::ConfigError| error.to_string())
    }
}

/// Help texts list the policies that the scan engine can run, and no others.
impl ValueParserFactory for Policy {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        let names = registry::sharing().map(PolicyName::as_str);
        PossibleValuesParser::new(names).try_map(|name| name.parse::<Policy>()).into()
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(de::Error::custom)
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
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let file = file("buffer = \"64MiB\"\nread-limit = 1000\nthreads = 3\n[set]\n\"datafusion.x\" = 5\n");
        let args = EngineArgs {
            buffer: Some(Bytes(7)),
            config: Some(file.path().to_owned()),
            set: vec!["datafusion.x=6".parse().unwrap()],
            ..EngineArgs::default()
        };
        let settings = args.resolve().unwrap();
        assert_eq!(settings.buffer_bytes, Some(7));
        assert_eq!(settings.read_limit_bytes_per_s, Some(1000));
        assert_eq!(settings.threads, 3);
        assert_eq!(settings.policy.as_str(), DEFAULT_POLICY);
        let set: Vec<&str> = settings.set.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(set, ["5", "6"]);
    }

    #[test]
    fn a_misspelt_key_in_the_file_is_wrong_usage() {
        let file = file("bufer = 5\n");
        let args = EngineArgs { config: Some(file.path().to_owned()), ..EngineArgs::default() };
        let error = args.resolve().unwrap_err();
        assert!(error.to_string().contains("bufer"), "{error}");
        assert!(error.is::<crate::failure::WrongUsage>());
    }

    #[test]
    fn what_has_an_option_cannot_be_set_otherwise() {
        let args = EngineArgs { set: vec!["coscan.buffer=5".parse().unwrap()], ..EngineArgs::default() };
        assert!(args.resolve().unwrap_err().to_string().contains("coscan.buffer"));
    }

    #[test]
    fn zero_means_no_limit() {
        let args = EngineArgs { read_limit: Some(Bytes(0)), ..EngineArgs::default() };
        assert_eq!(args.resolve().unwrap().read_limit_bytes_per_s, None);
    }

    #[test]
    fn bytes_as_people_write_them() {
        assert_eq!("512MB".parse(), Ok(Bytes(512_000_000)));
        assert_eq!("100M".parse(), Ok(Bytes(100_000_000)));
        assert_eq!("2GiB".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("65536".parse(), Ok(Bytes(65536)));
        assert!("lots".parse::<Bytes>().is_err());
        assert_eq!(rate("100MB/s"), Ok(Bytes(100_000_000)));
        assert_eq!(rate("none"), Ok(Bytes(0)));
    }
}
