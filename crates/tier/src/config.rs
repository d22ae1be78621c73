//! The definition of a tier, a file that a person writes.
//!
//! The definition is checked here, once. `placement.rs` makes a device model from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coscan_engine::settings::bytes;
use coscan_media::{Span, TapeQueueConfig};
use serde::Deserialize;
use url::Url;

use crate::error::TierError;
use crate::fragment::Fragment;

/// A slow tier: the location of its files, the way to make them readable, and their cache.
#[derive(Clone, Debug)]
pub struct TierConfig {
    /// The name of the tier in SQL and in `coscan tier`.
    pub name: String,
    /// The folder, or the prefix of a bucket, that lies in the tier.
    pub root: Url,
    /// The folder of the fragment cache, its journal and the saved footers.
    pub cache: PathBuf,
    /// Maximum bytes of fragments in the cache.
    pub cache_bytes: u64,
    /// Maximum cost of all restores of the last [`cost_days`](Self::cost_days). `None`: no limit.
    pub cost_limit: Option<f64>,
    /// The period over which costs are added up, in days.
    pub cost_days: u32,
    /// A restore that takes longer has failed.
    pub timeout: Duration,
    /// Number of attempts at a restore before queries get its error.
    pub attempts: u32,
    /// The order in which fragments are fetched; a policy of `coscan policies`.
    pub policy: String,
    /// A query that had nothing to do for this long goes first.
    pub patience: Duration,
    /// A hash join whose build side reads more bytes of this tier runs over pairs of fragments instead.
    pub build_bytes: u64,
    /// Conditions under which [`tape-queue`](Self::policy) mounts a medium.
    pub due: TapeQueueConfig,
    /// The file of this definition, if it was read from a file.
    pub definition: Option<PathBuf>,
    /// The way to make files readable.
    pub kind: Kind,
}

/// The kinds of tiers, by the way to make files readable.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Objects of an archive class.
    Archive(Archive),
    /// Files that commands recall.
    Folder(Folder),
}

/// An archive class of an object store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// `Bulk`, `Standard` or `Expedited`.
    #[serde(default = "Archive::default_speed")]
    pub speed: String,
    /// Number of days for which a restored copy stays.
    #[serde(default = "Archive::default_days")]
    pub days: u32,
    /// Interval at which the store is asked for the state of a restore.
    #[serde(deserialize_with = "time", default = "Archive::default_poll")]
    pub poll: Duration,
    /// Maximum number of restores in progress. The default is so large that the cache is the limit: 200 GB are 1000
    /// files of 200 MB. A smaller number makes waves, and each wave takes as long as a restore.
    #[serde(default = "Archive::default_at_once")]
    pub at_once: u32,
    /// Usual duration of a restore. Only the forecast uses it.
    #[serde(deserialize_with = "time", default = "Archive::default_expected")]
    pub expected: Duration,
    /// The price of a request.
    #[serde(default)]
    pub price_request: f64,
    /// The price of restoring a gigabyte (1e9 bytes), with its transfer.
    #[serde(default)]
    pub price_gb: f64,
    /// Bytes per second of one download. Only the forecast uses it.
    #[serde(deserialize_with = "size", default = "Archive::default_transfer")]
    pub transfer: u64,
    /// The store's endpoint. By default it comes from the environment.
    pub endpoint: Option<String>,
    /// The store's region. By default it comes from the environment.
    pub region: Option<String>,
}

impl Archive {
    fn default_speed() -> String {
        "Bulk".to_owned()
    }
    fn default_days() -> u32 {
        2
    }
    fn default_poll() -> Duration {
        Duration::from_secs(60)
    }
    fn default_at_once() -> u32 {
        1000
    }
    fn default_expected() -> Duration {
        Duration::from_secs(12 * 3600)
    }
    fn default_transfer() -> u64 {
        85_000_000
    }
}

/// A folder whose files are recalled by a command. `{path}` in an argument is replaced by the file's path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// Makes a file readable, and ends when the file is readable.
    pub recall: Vec<String>,
    /// Tells the tier that the file's disk copy is not needed any more.
    pub release: Option<Vec<String>>,
    /// Exits with 0 if the file can be read without a recall. Without this command every file is recalled.
    pub online: Option<Vec<String>>,
    /// Interval at which a file is checked whose recall ended but which is not there yet. The first checks come
    /// sooner.
    #[serde(deserialize_with = "time", default = "Folder::default_poll")]
    pub poll: Duration,
    /// A CSV file with lines `path,medium,position`. Paths are relative to `root`, positions are in bytes.
    pub placement: Option<PathBuf>,
    /// Maximum number of recalls at the same time.
    #[serde(default = "Folder::default_drives")]
    pub drives: u32,
    /// Duration of a change of medium.
    #[serde(deserialize_with = "time", default = "Folder::default_switch")]
    pub switch: Duration,
    /// Positioning time of a recall.
    #[serde(deserialize_with = "time", default = "Folder::default_seek")]
    pub seek: Duration,
    /// Bytes per second.
    #[serde(deserialize_with = "size", default = "Folder::default_transfer")]
    pub transfer: u64,
    /// The price of a recall.
    #[serde(default)]
    pub price_request: f64,
    /// The price of a gigabyte (1e9 bytes).
    #[serde(default)]
    pub price_gb: f64,
}

impl Folder {
    fn default_poll() -> Duration {
        Duration::from_secs(30)
    }
    fn default_drives() -> u32 {
        1
    }
    fn default_switch() -> Duration {
        Duration::from_secs(100)
    }
    fn default_seek() -> Duration {
        Duration::from_secs(50)
    }
    fn default_transfer() -> u64 {
        300_000_000
    }
}

/// The definition as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    root: String,
    cache: PathBuf,
    cache_bytes: String,
    cost_limit: Option<f64>,
    #[serde(default = "Written::default_cost_days")]
    cost_days: u32,
    #[serde(deserialize_with = "time", default = "Written::default_timeout")]
    timeout: Duration,
    #[serde(default = "Written::default_attempts")]
    attempts: u32,
    #[serde(default = "Written::default_policy")]
    policy: String,
    #[serde(deserialize_with = "time", default = "Written::default_patience")]
    patience: Duration,
    #[serde(deserialize_with = "size", default = "Written::default_build_bytes")]
    build_bytes: u64,
    #[serde(deserialize_with = "size", default = "Written::default_due_bytes")]
    due_bytes: u64,
    #[serde(default = "Written::default_due_files")]
    due_files: usize,
    #[serde(deserialize_with = "time", default = "Written::default_due_age")]
    due_age: Duration,
    archive: Option<Archive>,
    folder: Option<Folder>,
}

impl Written {
    fn default_cost_days() -> u32 {
        30
    }
    fn default_timeout() -> Duration {
        Duration::from_secs(49 * 3600)
    }
    fn default_attempts() -> u32 {
        3
    }
    fn default_policy() -> String {
        "reorder".to_owned()
    }
    fn default_patience() -> Duration {
        Duration::from_secs(3600)
    }
    fn default_build_bytes() -> u64 {
        8 << 30
    }
    fn default_due_bytes() -> u64 {
        TapeQueueConfig::default().due_bytes
    }
    fn default_due_files() -> usize {
        TapeQueueConfig::default().due_requests
    }
    fn default_due_age() -> Duration {
        Duration::from_nanos(TapeQueueConfig::default().due_age.as_nanos())
    }
}

impl TierConfig {
    /// Reads a definition from a file. Relative paths in it start at the file's folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if a setting is wrong.
    pub fn read(path: &Path) -> Result<Self, TierError> {
        let text = fs::read_to_string(path).map_err(TierError::io("read the tier definition", path))?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let folder = folder.canonicalize().map_err(TierError::io("find the folder of", path))?;
        let config = TierConfig::parse(&text, &folder).map_err(|error| match error {
            TierError::Config { tier, setting, problem } if tier.is_empty() => {
                TierError::Config { tier: path.display().to_string(), setting, problem }
            }
            other => other,
        })?;
        Ok(TierConfig { definition: Some(path.to_owned()), ..config })
    }

    /// Reads a definition from text. Relative paths start at `folder`.
    ///
    /// # Errors
    ///
    /// If a setting is wrong.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, TierError> {
        let written: Written = toml::from_str(text).map_err(|error| TierError::Config {
            tier: String::new(),
            setting: "definition".to_owned(),
            problem: format!("cannot be read: {error}"),
        })?;
        let wrong = |setting: &str, problem: String| TierError::Config {
            tier: written.name.clone(),
            setting: format!("'{setting}'"),
            problem,
        };
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if !is_name(&written.name) {
            return Err(wrong("name", "is made of a-z, 0-9 and -, and begins with a letter".to_owned()));
        }
        let kind = match (written.archive, written.folder) {
            (Some(archive), None) => Kind::Archive(archive.checked(&wrong)?),
            (None, Some(recalled)) => Kind::Folder(recalled.checked(folder, &wrong)?),
            _ => return Err(wrong("archive", "or [folder] has to be there, one of them".to_owned())),
        };
        let root = root(&written.root, folder, &kind).map_err(|problem| wrong("root", problem))?;
        let cache_bytes = bytes(&written.cache_bytes, 1..=u64::MAX)
            .map_err(|wanted| wrong("cache_bytes", format!("is not {wanted}")))?;
        if written.timeout.is_zero() || written.attempts == 0 {
            return Err(wrong("timeout", "and 'attempts' are above zero".to_owned()));
        }
        if written.cost_limit.is_some_and(|limit| limit.is_nan() || limit < 0.0) {
            return Err(wrong("cost_limit", "is not a sum of money".to_owned()));
        }
        Ok(TierConfig {
            root,
            cache: folder.join(&written.cache),
            cache_bytes,
            cost_limit: written.cost_limit,
            cost_days: written.cost_days,
            timeout: written.timeout,
            attempts: written.attempts,
            policy: written.policy,
            patience: written.patience,
            build_bytes: written.build_bytes,
            due: TapeQueueConfig {
                due_bytes: written.due_bytes,
                due_requests: written.due_files,
                due_age: Span::from_nanos(u64::try_from(written.due_age.as_nanos()).unwrap_or(u64::MAX)),
                ..TapeQueueConfig::default()
            },
            definition: None,
            kind,
            name: written.name,
        })
    }

    /// The price of restoring a file of `bytes` bytes.
    pub fn price(&self, bytes: u64) -> f64 {
        let (request, gb) = match &self.kind {
            Kind::Archive(archive) => (archive.price_request, archive.price_gb),
            Kind::Folder(folder) => (folder.price_request, folder.price_gb),
        };
        request + gb * bytes as f64 / 1e9
    }

    /// The price of restoring files of these sizes.
    pub fn prices(&self, bytes: impl IntoIterator<Item = u64>) -> f64 {
        // `sum` of no floating-point numbers is -0.
        bytes.into_iter().fold(0.0, |sum, bytes| sum + self.price(bytes))
    }

    /// The name of a file of the tier in messages.
    pub fn shown(&self, fragment: &Fragment) -> String {
        self.prefix() + &fragment.location
    }

    /// The error with its file as messages name it: [`shown`](Self::shown).
    pub(crate) fn in_messages(&self, mut error: TierError) -> TierError {
        if let Some(file) = error.file_mut() {
            let prefix = self.prefix();
            if !file.starts_with(&prefix) {
                file.insert_str(0, &prefix);
            }
        }
        error
    }

    /// The prefix that messages put before the location of a fragment.
    pub(crate) fn prefix(&self) -> String {
        match (&self.kind, self.root.host_str()) {
            (Kind::Archive(_), Some(bucket)) => format!("s3://{bucket}/"),
            // In a store of the whole file system, locations have no leading slash.
            _ => "/".to_owned(),
        }
    }

    /// Maximum number of files that are made readable at the same time.
    pub fn at_once(&self) -> u32 {
        match &self.kind {
            Kind::Archive(archive) => archive.at_once,
            Kind::Folder(folder) => folder.drives,
        }
    }
}

impl Archive {
    fn checked(self, wrong: &dyn Fn(&str, String) -> TierError) -> Result<Self, TierError> {
        if !["Bulk", "Standard", "Expedited"].contains(&self.speed.as_str()) {
            return Err(wrong("archive.speed", "is Bulk, Standard or Expedited".to_owned()));
        }
        if self.days == 0 || self.at_once == 0 || self.poll.is_zero() || self.transfer == 0 {
            return Err(wrong("archive", "has a zero among days, at_once, poll and transfer".to_owned()));
        }
        Ok(self)
    }
}

impl Folder {
    fn checked(
        mut self,
        folder: &Path,
        wrong: &dyn Fn(&str, String) -> TierError,
    ) -> Result<Self, TierError> {
        let commands = [
            ("recall", Some(&self.recall)),
            ("release", self.release.as_ref()),
            ("online", self.online.as_ref()),
        ];
        for (name, command) in commands {
            let Some(command) = command else { continue };
            let names_path = command.iter().skip(1).any(|argument| argument.contains("{path}"));
            if command.is_empty() || !names_path {
                let problem = "is a program and its arguments, one of which holds {path}".to_owned();
                return Err(wrong(&format!("folder.{name}"), problem));
            }
        }
        if self.drives == 0 || self.transfer == 0 || self.poll.is_zero() {
            return Err(wrong("folder.drives", "and 'transfer' and 'poll' are above zero".to_owned()));
        }
        self.placement = self.placement.map(|placement| folder.join(placement));
        Ok(self)
    }
}

/// The root as an address that ends with a slash.
fn root(text: &str, folder: &Path, kind: &Kind) -> Result<Url, String> {
    let mut url = match kind {
        Kind::Archive(_) => {
            let url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
            if !matches!(url.scheme(), "s3" | "s3a") {
                return Err("of an [archive] is s3://BUCKET/..".to_owned());
            }
            url
        }
        Kind::Folder(_) => {
            let path = text.strip_prefix("file://").unwrap_or(text);
            let path = folder.join(path).canonicalize().map_err(|error| format!("{text}: {error}"))?;
            Url::from_directory_path(&path).map_err(|()| format!("{} is no folder", path.display()))?
        }
    };
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Reads `250ms`, `2s`, `90 s`, `5min`, `12h` or `2d`.
fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("'{text}' is no time such as 250ms, 2s, 5min, 12h or 2d"))
    })
}

/// Parses a duration such as `250ms`, `2s`, `90 s`, `5min`, `12h` or `2d`.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let seconds = match text[digits..].trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

fn size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    bytes(&text, 1..=u64::MAX).map_err(|wanted| serde::de::Error::custom(format!("'{text}' is not {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCHIVE: &str =
        "name = 'glacier'\nroot = 's3://bucket/tpch'\ncache = 'cache'\ncache_bytes = '10GB'\n[archive]\n";

    #[test]
    fn a_short_definition_is_enough() {
        let tier = TierConfig::parse(ARCHIVE, Path::new("/etc")).expect("a definition");
        assert_eq!((tier.root.as_str(), tier.cache.to_str()), ("s3://bucket/tpch/", Some("/etc/cache")));
        assert!(matches!(&tier.kind, Kind::Archive(archive) if archive.speed == "Bulk"));
    }

    #[test]
    fn prices_are_of_requests_and_gigabytes() {
        let text = format!("{ARCHIVE}price_request = 0.5\nprice_gb = 2.0\n");
        let tier = TierConfig::parse(&text, Path::new("/etc")).expect("a definition");
        assert_eq!(tier.price(3_000_000_000), 6.5);
    }

    #[test]
    fn mistakes_name_the_key() {
        for (change, with, key) in [
            ("[archive]", "[archive]\nspeed = 'fast'", "archive.speed"),
            ("[archive]", "[archive]\npoll = 'soon'", "'soon' is no time"),
            ("[archive]", "[archive]\nsped = 'Bulk'", "sped"),
            ("[archive]", "", "archive"),
            ("10GB", "much", "cache_bytes"),
            ("'glacier'", "'My Tier'", "name"),
            ("s3://bucket/tpch", "/tpch", "root"),
        ] {
            let error = TierConfig::parse(&ARCHIVE.replace(change, with), Path::new("/etc"));
            let error = error.expect_err(with).to_string();
            assert!(error.contains(key), "{with}: {error}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [("250ms", 250), ("2s", 2_000), ("1.5 min", 90_000), ("12h", 43_200_000)] {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        assert!(duration("12").is_none() && duration("-1s").is_none() && duration("s").is_none());
    }
}
