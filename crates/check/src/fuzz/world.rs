//! A world as data: configuration, tables, scans and the decisions of its host, one after another.
//!
//! A run depends only on its world. So a world can be written to a file, read by a person, shrunk and kept as
//! a regression test. Steps name items by position (`q0` is the first scan, `l0` the oldest load in flight).
//! A step that does not apply at its turn is skipped, so that the shrinker can remove others. `draw.rs` draws
//! worlds, and `host.rs` plays them.

use coscan_core::{
    AbmConfig, ChunkNo, ChunkSet, ColumnNo, ConfigError, DeliveryOrder, MatchingChunks, PolicyName, ScanSpec,
    Span, TableId, TableLayout,
};
use coscan_trace::{Layout, Runs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::step::Step;

/// The reason why a file is not a world.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The text is not TOML or has unknown keys.
    #[error("not a world: {0}")]
    Text(#[from] toml::de::Error),
    /// A setting or a layout is impossible.
    #[error("not a possible world: {0}")]
    Config(#[from] ConfigError),
    /// A scan or an addition names a missing table.
    #[error("{what} {at} names table {table}, but there are {tables} tables, counted from 0")]
    NoSuchTable {
        /// `scan` or `addition`.
        what: &'static str,
        /// Its position, counted from 0.
        at: usize,
        /// The table it names.
        table: usize,
        /// The number of tables.
        tables: usize,
    },
    /// A scan without workers never requests a chunk.
    #[error("scan {0} has no workers; give it at least 1")]
    NoWorkers(usize),
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// A small closed world and all its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// The failure that this world once caused, for the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The seed it was drawn from, before it was shrunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The host's steps, in order. Afterwards the host lets everything run to its end.
    pub steps: Vec<Step>,
    /// The settings of the manager, and the speed of time.
    pub config: Config,
    /// The tables that are open from the start.
    #[serde(rename = "table")]
    pub tables: Vec<Layout>,
    /// Chunks that may join them.
    #[serde(default, rename = "addition", skip_serializing_if = "Vec::is_empty")]
    pub additions: Vec<Addition>,
    /// The scans that may register.
    #[serde(default, rename = "scan")]
    pub scans: Vec<WorldScan>,
}

/// The settings: those of [`AbmConfig`], and the time that passes with every event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of a sharing policy.
    pub policy: String,
    /// The budget in bytes.
    pub buffer_bytes: u64,
    /// Loads in flight at once, at least 1.
    pub loads_in_flight_max: u32,
    /// A scan is starved below this many chunks per worker, at least 1.
    pub starved_below: u32,
    /// A scan may have more small chunks ahead while they have fewer bytes than this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ahead_bytes: u64,
    /// The time after which a worker counts as stalled, in nanoseconds.
    pub stall_after_ns: u64,
    /// The share of workspaces in percent.
    pub workspace_share_percent: u8,
    /// Workers that can run at once.
    pub processors: u32,
    /// The share of decoded arrays in percent.
    pub decoded_share_percent: u8,
    /// The time before every event, in nanoseconds.
    pub tick_ns: u64,
}

/// Chunks that can join a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// The table's position.
    pub table: usize,
    /// The new chunks; of the table's storage model.
    pub layout: Layout,
}

/// A scan that can register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldScan {
    /// The table's position.
    pub table: usize,
    /// The columns; columns missing in the table when the scan registers are left out.
    pub columns: Vec<u32>,
    /// The chunks as `[first, end)`; chunks missing in the table when the scan registers are left out.
    pub chunks: Runs,
    /// Its workers, at least 1.
    pub workers: u32,
    /// True if it takes chunks in table order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_order: bool,
    /// Its weight, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
    /// The workspace of a worker in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workspace_bytes: u64,
    /// True if its workers never finish a chunk. They return it when asked and make no further requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stops: bool,
    /// Its matching chunks in other tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matching: Vec<WorldMatching>,
}

/// Matching chunks of a scan that can register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldMatching {
    /// The other table's position.
    pub table: usize,
    /// Its columns; columns missing when the scan registers are left out.
    pub columns: Vec<u32>,
    /// Chunks of the scan, each with its matching chunks; chunks missing in the tables are left out.
    pub with: Vec<(u32, Runs)>,
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl World {
    /// Reads a world from text.
    ///
    /// # Errors
    /// If the text is not a world.
    pub fn parse(text: &str) -> Result<Self, WorldError> {
        let world: World = toml::from_str(text)?;
        world.check()?;
        Ok(world)
    }

    /// The world as readable text.
    pub fn to_toml(&self) -> String {
        lines_for_steps(&toml::to_string(self).expect("a world has nothing TOML cannot say"))
    }

    /// Checks that tables are possible and that names refer to existing items.
    ///
    /// # Errors
    /// The first table or name that is impossible.
    pub fn check(&self) -> Result<(), WorldError> {
        self.policy()?;
        for layout in self.tables.iter().chain(self.additions.iter().map(|a| &a.layout)) {
            TableLayout::try_from(layout)?;
        }
        let additions = self.additions.iter().enumerate().map(|(at, a)| ("addition", at, a.table));
        let scans = self
            .scans
            .iter()
            .enumerate()
            .flat_map(|(at, s)| s.tables().map(move |table| ("scan", at, table)));
        for (what, at, table) in additions.chain(scans) {
            let tables = self.tables.len();
            if table >= tables {
                return Err(WorldError::NoSuchTable { what, at, table, tables });
            }
        }
        match self.scans.iter().position(|s| s.workers == 0) {
            Some(at) => Err(WorldError::NoWorkers(at)),
            None => Ok(()),
        }
    }

    /// The manager's settings.
    pub fn abm_config(&self) -> AbmConfig {
        let config = &self.config;
        AbmConfig {
            buffer_bytes: config.buffer_bytes,
            loads_in_flight_max: config.loads_in_flight_max,
            starved_below: config.starved_below,
            ahead_bytes: config.ahead_bytes,
            stall_after: Span::from_nanos(config.stall_after_ns),
            workspace_share_percent: config.workspace_share_percent,
            processors: config.processors,
            decoded_share_percent: config.decoded_share_percent,
            decoded_bytes_max: u64::MAX,
        }
    }

    /// The manager's policy.
    ///
    /// # Errors
    /// If there is no policy with that name.
    pub fn policy(&self) -> Result<PolicyName, ConfigError> {
        self.config.policy.parse()
    }
}

impl WorldScan {
    /// The scan's announcement for tables with these layouts.
    pub fn spec<'a>(&self, layout: impl Fn(usize) -> &'a TableLayout) -> ScanSpec {
        let columns = |table: usize, columns: &[u32]| {
            let known = |column: &u32| *column < layout(table).column_count();
            columns.iter().copied().filter(known).map(ColumnNo).collect()
        };
        let matching = self.matching.iter().map(|matching| {
            let count = layout(matching.table).chunk_count();
            let with = matching.with.iter().map(|(chunk, with)| (ChunkNo(*chunk), clipped(with, count)));
            MatchingChunks {
                table: TableId(matching.table as u32),
                columns: columns(matching.table, &matching.columns),
                chunks: with.collect(),
            }
        });
        ScanSpec {
            table: TableId(self.table as u32),
            columns: columns(self.table, &self.columns),
            chunks: clipped(&self.chunks, layout(self.table).chunk_count()),
            workers: self.workers,
            order: if self.in_order { DeliveryOrder::Table } else { DeliveryOrder::Any },
            weight: self.weight,
            workspace_bytes: self.workspace_bytes,
            matching: matching.collect(),
        }
    }

    /// The tables that it reads.
    pub(crate) fn tables(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.table).chain(self.matching.iter().map(|matching| matching.table))
    }
}

/// The chunks of some runs below `count`.
pub(crate) fn clipped(runs: &[(u32, u32)], count: u32) -> ChunkSet {
    runs.iter().map(|(from, to)| *from..(*to).min(count)).filter(|run| run.start < run.end).collect()
}

/// Puts every step on a separate line.
fn lines_for_steps(toml: &str) -> String {
    let split = |line: &str| match line.strip_prefix("steps = [\"") {
        Some(rest) => {
            let steps = rest.trim_end_matches("\"]").split("\", \"");
            let lines: String = steps.map(|step| format!("    \"{step}\",\n")).collect();
            format!("steps = [\n{lines}]\n")
        }
        None => format!("{line}\n"),
    };
    toml.lines().map(split).collect()
}
