//! Scenarios of slow media: a library, a disk cache, tables on its media, and users. `docs/scenarios.md`,
//! "Slow media", explains every key. A file with a table `[library]` is such a scenario.
//!
//! The places of tables and the requests of users are drawn from the seed, the same for every policy.
//! **Choice**: each table is placed independently, so two tables may overlap; their bytes are not read.

use std::collections::BTreeMap;
use std::path::Path;

use coscan_media::model::{Archive, Lto, LtoGeneration, Robot};
use coscan_media::{
    Fragment, FragmentId, Library, LibraryError, MediumId, PolicyName, Price, SchedulerConfig, Span, Subquery,
};
use fastrand::Rng;
use serde::Deserialize;
use toml::Table;

use super::error::{KeyError, ScenarioError, Source};
use super::file::Seeds;
use super::overrides::Setting;
use super::units::{Bytes, Percent, Rate, Time};
use super::{changed, read};
use crate::media::{MediaQuery, MediaStart, MediaUser, MediaWorld};

/// More fragments than this are a mistake in a unit.
const FRAGMENTS_MAX: u64 = 1_000_000;
/// More combinations than this in one query are a mistake.
const PAIRS_MAX: usize = 1_000_000;

/// An experiment on slow media, ready to run.
#[derive(Clone, Debug)]
pub struct MediaScenario {
    /// Its name in figures and tables.
    pub title: String,
    /// Its source.
    pub source: String,
    /// The policies to compare.
    pub policies: Vec<PolicyName>,
    /// Seeds: one run of each policy per seed.
    pub seeds: Vec<u64>,
    file: MediaFile,
    library: Library,
}

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaFile {
    #[serde(rename = "name")]
    _name: String,
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default, rename = "notes")]
    _notes: String,
    policies: Option<Vec<String>>,
    seeds: Option<Seeds>,
    library: LibraryFile,
    cache: CacheFile,
    table: BTreeMap<String, TableFile>,
    user: Vec<UserFile>,
}

/// The library, and its numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum LibraryFile {
    #[serde(rename = "tape-stacker-1996")]
    TapeStacker1996 {
        drives: Option<u32>,
    },
    #[serde(rename = "optical-jukebox-1996")]
    OpticalJukebox1996 {
        drives: Option<u32>,
    },
    #[serde(rename = "lto-7")]
    Lto7(LtoFile),
    #[serde(rename = "lto-9")]
    Lto9(LtoFile),
    Robot(RobotFile),
    Archive(ArchiveFile),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LtoFile {
    drives: u32,
    #[serde(default = "one")]
    arms: u32,
    bandwidth: Option<Rate>,
    media: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RobotFile {
    drives: u32,
    #[serde(default = "one")]
    arms: u32,
    switch: Time,
    exchange: Option<Time>,
    seek_startup: Time,
    seek_rate: Option<Rate>,
    bandwidth: Rate,
    medium: Bytes,
    media: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArchiveFile {
    at_once: u32,
    restore: Time,
    bandwidth: Rate,
    #[serde(default)]
    price_request: f64,
    #[serde(default)]
    price_gib: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheFile {
    size: Bytes,
    patience: Option<Time>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    size: Bytes,
    fragment: Bytes,
    #[serde(default = "one")]
    media: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    #[serde(default = "one")]
    count: u32,
    #[serde(default = "one")]
    queries: u32,
    tables: Vec<String>,
    #[serde(default)]
    reads: Reads,
    share: Option<Percent>,
    processing: Option<Rate>,
    start: Option<Time>,
    within: Option<Time>,
    after_first: Option<Bytes>,
}

/// The tables that a query reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reads {
    /// One of them, drawn.
    #[default]
    One,
    /// All tables, one after the other, such as the build and the probe side of a hash join.
    InTurn,
    /// All combinations of their fragments, as for a join without a hash table.
    Pairs,
}

fn one() -> u32 {
    1
}

impl MediaScenario {
    /// True if the file is a scenario of slow media.
    pub fn is_one(path: &Path) -> bool {
        let document = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<Table>().ok());
        document.is_some_and(|document| document.contains_key("library"))
    }

    /// Reads a scenario from a file, with settings on top.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn load(path: &Path, settings: &[Setting]) -> Result<Self, ScenarioError> {
        Self::parse(&path.display().to_string(), &read(path)?, settings)
    }

    /// Reads a scenario from text; errors name it `origin`.
    ///
    /// # Errors
    /// The first mistake, with line and key.
    pub fn parse(origin: &str, text: &str, settings: &[Setting]) -> Result<Self, ScenarioError> {
        let source = Source { origin, text };
        let mut file: MediaFile = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        if !settings.is_empty() {
            let mut document: Table = text.parse().map_err(|error| source.toml_error(&error))?;
            for setting in settings {
                setting.apply(&mut document).map_err(|error| source.locate(error))?;
            }
            file = changed(&source, &document)?;
        }
        Self::build(file).map_err(|error| source.locate(error))
    }

    fn build(file: MediaFile) -> Result<Self, KeyError> {
        let refuse = |key: &str, error: LibraryError| KeyError::new(key, error.to_string());
        let library = library(&file.library).map_err(|error| refuse("library", error))?;
        let named = |(at, name): (usize, &String)| {
            let unknown =
                |error: coscan_media::ConfigError| KeyError::new(format!("policies.{at}"), error.to_string());
            name.parse::<PolicyName>().map_err(unknown)
        };
        let policies = match &file.policies {
            Some(names) => names.iter().enumerate().map(named).collect::<Result<_, _>>()?,
            None => PolicyName::all().collect(),
        };
        let seeds = file.seeds.clone().map_or_else(|| vec![1], |seeds| seeds.0);
        if file.cache.size.0 == 0 {
            return Err(KeyError::new("cache.size", "a cache needs at least a byte"));
        }
        check_tables(&file, &library)?;
        check_users(&file)?;
        Ok(MediaScenario {
            title: file.title.clone(),
            source: file.source.clone(),
            policies,
            seeds,
            file,
            library,
        })
    }

    /// The world of a seed.
    pub fn world(&self, seed: u64) -> MediaWorld {
        let mut rng = Rng::with_seed(seed);
        let mut fragments = Vec::new();
        let tables: BTreeMap<&str, Vec<FragmentId>> = self
            .file
            .table
            .iter()
            .map(|(name, of)| (name.as_str(), self.lay(of, &mut fragments, &mut rng)))
            .collect();
        let mut users = Vec::new();
        for of in &self.file.user {
            let mine: Vec<&Vec<FragmentId>> = of.tables.iter().map(|name| &tables[name.as_str()]).collect();
            for _ in 0..of.count {
                let start = start(of, &mut rng);
                let queries = (0..of.queries).map(|_| query(of, &mine, &mut rng)).collect();
                users.push(MediaUser { start, queries });
            }
        }
        let mut config = SchedulerConfig::new(self.file.cache.size.0);
        if let Some(Time(patience)) = self.file.cache.patience {
            config.patience = patience;
        }
        MediaWorld { library: self.library.clone(), config, fragments, users }
    }

    /// Places a table's fragments in equal runs on drawn media, each run at a drawn place.
    fn lay(&self, table: &TableFile, fragments: &mut Vec<Fragment>, rng: &mut Rng) -> Vec<FragmentId> {
        let bytes = table.fragment.0;
        let count = table.size.0.div_ceil(bytes);
        let per_medium = count.div_ceil(u64::from(table.media)).max(1);
        let mut media: Vec<u32> = (0..media_of(&self.file.library)).collect();
        rng.shuffle(&mut media);
        let room = self.library.medium_bytes().unwrap_or(u64::MAX);
        let mut ids = Vec::new();
        for run in 0..count.div_ceil(per_medium) {
            let in_run = per_medium.min(count - run * per_medium);
            let free = room.saturating_sub(in_run * bytes) / bytes;
            let first = if self.library.mounts() { rng.u64(0..=free) } else { 0 };
            for at in 0..in_run {
                let id = FragmentId(fragments.len() as u64);
                let medium = MediumId(media[run as usize % media.len()]);
                fragments.push(Fragment { id, medium, position: (first + at) * bytes, bytes });
                ids.push(id);
            }
        }
        ids
    }
}

fn library(file: &LibraryFile) -> Result<Library, LibraryError> {
    let rate = |rate: &Rate| rate.0.round() as u64;
    let with = |library: Library, drives: &Option<u32>| match drives {
        Some(drives) => library.with_drives(*drives),
        None => Ok(library),
    };
    let lto = |of: &LtoFile, generation: LtoGeneration| {
        let mut lto = Lto { generation, ..Lto::nine(of.drives, of.arms) };
        if let Some(bandwidth) = &of.bandwidth {
            lto.bytes_per_s = rate(bandwidth);
        }
        Library::lto(lto)
    };
    let price = |amount: f64| Price::from_millionths((amount * 1e6).round() as u64);
    match file {
        LibraryFile::TapeStacker1996 { drives } => with(Library::tape_stacker_1996(), drives),
        LibraryFile::OpticalJukebox1996 { drives } => with(Library::optical_jukebox_1996(), drives),
        LibraryFile::Lto7(of) => lto(of, LtoGeneration::Seven),
        LibraryFile::Lto9(of) => lto(of, LtoGeneration::Nine),
        LibraryFile::Robot(of) => Library::robot(Robot {
            drives: of.drives,
            arms: of.arms,
            switch: of.switch.0,
            exchange: of.exchange.map_or(Span::ZERO, |time| time.0),
            seek_startup: of.seek_startup.0,
            seek_bytes_per_s: of.seek_rate.as_ref().map(rate),
            bytes_per_s: rate(&of.bandwidth),
            medium_bytes: of.medium.0,
            media: of.media,
        }),
        LibraryFile::Archive(of) => Library::archive(Archive {
            restores_at_once: of.at_once,
            restore: of.restore.0,
            bytes_per_s: rate(&of.bandwidth),
            per_request: price(of.price_request),
            per_gib: price(of.price_gib),
        }),
    }
}

fn media_of(file: &LibraryFile) -> u32 {
    match file {
        LibraryFile::TapeStacker1996 { .. } => Robot::tape_stacker_1996().media,
        LibraryFile::OpticalJukebox1996 { .. } => Robot::optical_jukebox_1996().media,
        LibraryFile::Lto7(of) | LibraryFile::Lto9(of) => of.media,
        LibraryFile::Robot(of) => of.media,
        LibraryFile::Archive(_) => 1,
    }
}

fn check_tables(file: &MediaFile, library: &Library) -> Result<(), KeyError> {
    let media = media_of(&file.library);
    if media == 0 {
        return Err(KeyError::new("library.media", "a library needs at least one medium"));
    }
    for (name, table) in &file.table {
        let refuse = |key: &str, message: String| Err(KeyError::new(format!("table.{name}.{key}"), message));
        if table.fragment.0 == 0 || table.size.0 == 0 {
            return refuse("size", "a table has at least one fragment, of at least one byte".to_owned());
        }
        let count = table.size.0.div_ceil(table.fragment.0);
        if count > FRAGMENTS_MAX {
            return refuse(
                "fragment",
                format!("{count} fragments are more than {FRAGMENTS_MAX}: use larger ones"),
            );
        }
        if table.fragment.0 > file.cache.size.0 {
            return refuse(
                "fragment",
                "a fragment has to fit the cache: use smaller ones, or a larger cache".to_owned(),
            );
        }
        let spread = if library.mounts() { table.media } else { 1 };
        if spread == 0 || spread > media {
            return refuse(
                "media",
                format!("a table lies on 1 to {media} media, the library's, not {spread}"),
            );
        }
        let run = count.div_ceil(u64::from(spread)).saturating_mul(table.fragment.0);
        if library.medium_bytes().is_some_and(|room| run > room) {
            return refuse(
                "size",
                format!("{run} bytes on each medium are more than it holds: use more media"),
            );
        }
    }
    Ok(())
}

fn check_users(file: &MediaFile) -> Result<(), KeyError> {
    for (at, user) in file.user.iter().enumerate() {
        let refuse = |key: &str, message: String| Err(KeyError::new(format!("user.{at}.{key}"), message));
        if user.tables.is_empty() {
            return refuse("tables", "a user reads at least one table".to_owned());
        }
        for (number, name) in user.tables.iter().enumerate() {
            if !file.table.contains_key(name) {
                let known = file.table.keys().cloned().collect::<Vec<_>>().join(", ");
                return refuse(
                    &format!("tables.{number}"),
                    format!("there is no table '{name}'; there are {known}"),
                );
            }
        }
        let sizes =
            user.tables.iter().map(|name| file.table[name].size.0.div_ceil(file.table[name].fragment.0));
        let pairs = sizes.fold(1u64, |all, one| all.saturating_mul(one));
        if user.reads == Reads::Pairs && pairs > PAIRS_MAX as u64 {
            return refuse(
                "reads",
                format!("{pairs} combinations are more than {PAIRS_MAX}: use larger fragments"),
            );
        }
        if user.after_first.is_some() && (user.start.is_some() || user.within.is_some()) {
            return refuse("after_first", "a user starts at a time or behind the first, not both".to_owned());
        }
        if user.processing.is_some_and(|rate| rate.0 < 1.0) {
            return refuse("processing", "a byte a second is the least".to_owned());
        }
    }
    if file.user.iter().all(|user| user.count == 0 || user.queries == 0) {
        return Err(KeyError::new("user", "nobody asks for anything"));
    }
    if file.user[0].after_first.is_some() {
        return Err(KeyError::new("user.0.after_first", "the first user cannot start behind itself"));
    }
    Ok(())
}

fn start(user: &UserFile, rng: &mut Rng) -> MediaStart {
    if let Some(Bytes(bytes)) = user.after_first {
        return MediaStart::AfterFirst { bytes };
    }
    let start = user.start.map_or(Span::ZERO, |time| time.0);
    let within = user.within.map_or(0, |time| time.0.as_nanos());
    MediaStart::At(Span::from_nanos(start.as_nanos().saturating_add(rng.u64(0..=within))))
}

fn query(user: &UserFile, tables: &[&Vec<FragmentId>], rng: &mut Rng) -> MediaQuery {
    let some = |table: &[FragmentId], rng: &mut Rng| {
        let share = user.share.map_or(1.0, |share| share.0);
        let count = ((table.len() as f64 * share).round() as usize).clamp(1, table.len());
        // A run of neighbours, like a range of a clustered key.
        let first = rng.usize(0..=table.len() - count);
        table[first..first + count].to_vec()
    };
    let lists = match user.reads {
        Reads::One => vec![some(tables[rng.usize(0..tables.len())], rng)],
        Reads::InTurn | Reads::Pairs => tables.iter().map(|table| some(table, rng)).collect(),
    };
    let of =
        |ids: Vec<FragmentId>| -> Vec<Subquery> { ids.into_iter().map(|id| Subquery::of([id])).collect() };
    let lists = if user.reads == Reads::Pairs {
        let pairs = lists.into_iter().fold(vec![Vec::new()], |pairs: Vec<Vec<FragmentId>>, ids| {
            pairs
                .iter()
                .flat_map(|pair| ids.iter().map(move |id| [pair.as_slice(), &[*id]].concat()))
                .collect()
        });
        vec![pairs.into_iter().map(Subquery::of).collect()]
    } else {
        lists.into_iter().map(of).collect()
    };
    MediaQuery { lists, picos_per_byte: user.processing.map_or(0, |rate| (1e12 / rate.0).round() as u64) }
}
