//! The form of a scenario file. `docs/scenarios.md` explains the keys. Their consistency is checked when a
//! [`Scenario`](super::Scenario) is made of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::device::DeviceFile;
use super::operator::OperatorFile;
use super::units::{BufferSize, Bytes, Cost, Count, Frequency, Percent, Time};

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub notes: String,
    /// Names of sharing policies; by default all.
    pub policies: Option<Vec<String>>,
    /// The policies that are compared with the paper's, by the paper's name, where their names differ.
    #[serde(default)]
    pub compared: BTreeMap<String, String>,
    pub seeds: Option<Seeds>,
    pub system: SystemFile,
    pub device: DeviceFile,
    /// In the order of their names, which is also their order on the device.
    pub table: BTreeMap<String, TableFile>,
    pub class: BTreeMap<String, ClassFile>,
    #[serde(default)]
    pub stream: Vec<StreamFile>,
    pub random: Option<RandomFile>,
    #[serde(default)]
    pub budget_changes: Vec<BudgetChangeFile>,
    #[serde(default)]
    pub sweep: Vec<SweepFile>,
    pub paper: Option<PaperFile>,
    #[serde(default)]
    pub expect: Vec<ExpectFile>,
}

/// Seeds of the runs: a number of runs, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Seeds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seeds such as 20, or a list such as [3, 5, 8]")
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Seeds, E> {
                let seeds: Vec<u64> = (1..=u64::try_from(count).unwrap_or(0)).collect();
                if seeds.is_empty() {
                    return Err(E::custom("at least one seed is needed"));
                }
                Ok(Seeds(seeds))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Seeds, A::Error> {
                let mut seeds = Vec::new();
                while let Some(seed) = list.next_element()? {
                    seeds.push(seed);
                }
                if seeds.is_empty() {
                    return Err(A::Error::custom("at least one seed is needed"));
                }
                Ok(Seeds(seeds))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The machine and the buffer manager.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemFile {
    pub cores: u32,
    #[serde(default)]
    pub scheduler: SchedulerFile,
    pub sleep_credit: Option<Time>,
    pub io_cost: Option<Time>,
    pub io_cost_per_mb: Option<Time>,
    pub clock: Option<Frequency>,
    pub buffer: BufferSize,
    pub loads_in_flight: Option<u32>,
    pub starved_below: Option<u32>,
    #[serde(default)]
    pub operator_memory: OperatorMemoryFile,
}

/// The source of operators' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorMemoryFile {
    #[default]
    Beside,
    OfBuffer,
}

/// The order of workers if there are more than processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerFile {
    #[default]
    ProcessorSharing,
    SleepersFirst,
}

/// A table. The required keys depend on its storage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    pub storage: StorageFile,
    pub chunks: Option<u32>,
    pub chunk_size: Option<Bytes>,
    pub size: Option<Bytes>,
    pub rows: Option<Count>,
    pub rows_per_chunk: Option<Count>,
    pub page: Option<Bytes>,
    pub columns: Option<Vec<ColumnFile>>,
    /// The column by which the table is clustered.
    pub key: Option<KeyFile>,
}

/// The values of a column by which a table is clustered.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    pub values: Count,
    /// True if a value may lie in several chunks; the default is true.
    pub split: Option<bool>,
}

/// The storage of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageFile {
    Row,
    Column,
}

/// A column and its width as stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnFile {
    pub name: String,
    pub bits: Option<f64>,
    pub bytes: Option<f64>,
}

/// A class of queries: their work on the chunks that they read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassFile {
    pub table: Option<String>,
    pub cost: Cost,
    pub columns: Option<Vec<String>>,
    #[serde(default)]
    pub in_order: bool,
    pub operator: Option<OperatorFile>,
    pub workers: Option<u32>,
    pub weight: Option<u32>,
}

/// A stream whose queries are written out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamFile {
    pub start: Time,
    pub queries: Vec<QueryFile>,
}

/// A query that is written out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryFile {
    pub class: String,
    pub name: Option<String>,
    pub ranges: Option<Vec<String>>,
    pub cancel_after: Option<Time>,
}

/// Streams whose queries are drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomFile {
    pub streams: u32,
    pub queries: u32,
    pub stagger: Time,
    pub classes: Option<Vec<String>>,
    pub shares: Option<Vec<Percent>>,
    #[serde(default)]
    pub assign: Assign,
    /// True if queries read whole chunks; the default is true.
    pub aligned: Option<bool>,
    #[serde(default)]
    pub counts: Vec<CountFile>,
}

/// The assignment of classes to queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Each query is of a random class.
    #[default]
    Random,
    /// One after another over streams and queries.
    RoundRobin,
}

/// A number of queries of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountFile {
    pub class: String,
    pub share: Percent,
    pub count: u32,
}

/// The buffer's size from a point in time on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetChangeFile {
    pub at: Time,
    pub buffer: BufferSize,
}

/// A key that takes several values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFile {
    pub key: String,
    pub values: Vec<toml::Value>,
    pub labels: Option<Vec<String>>,
}

/// The paper's values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFile {
    /// The policy that ratios refer to.
    pub baseline: String,
    /// The tolerated relative deviation from the paper's values.
    pub tolerance: Percent,
    /// Seconds per query of each kind alone.
    #[serde(default)]
    pub alone_s: BTreeMap<String, f64>,
    /// The paper's values, by policy.
    #[serde(default)]
    pub policies: BTreeMap<String, PaperValues>,
    /// The reason why a quantity of the scoreboard, such as `relevance.loads_ratio`, is outside the
    /// tolerance.
    #[serde(default)]
    pub explain: BTreeMap<String, String>,
    /// The parameter that was fitted to a quantity of the scoreboard, such as `relevance.loads_ratio`, or to
    /// a figure under all policies, such as `cpu_use`. These do not count as reproduced.
    #[serde(default)]
    pub fitted: BTreeMap<String, String>,
}

/// The basis of a paper's value, which decides whether it can be reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The paper gives the number.
    #[default]
    Stated,
    /// The paper gives a range or a limit; the comparison uses its middle.
    Range,
    /// A number derived from the paper's words, or from a figure without numbers.
    Reading,
    /// A parameter was chosen to give the value: it tests nothing.
    Fitted,
    /// The measured value comes from the compared value itself, or cannot differ: it tests nothing.
    Input,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Stated => "stated",
            Basis::Range => "range",
            Basis::Reading => "reading",
            Basis::Fitted => "fitted",
            Basis::Input => "input",
        })
    }
}

impl Basis {
    /// All bases, those that count first.
    pub const ALL: [Basis; 5] = [Basis::Stated, Basis::Range, Basis::Reading, Basis::Fitted, Basis::Input];

    /// True if the value counts: the paper gives a number or a range, and the measurement may differ.
    pub fn is_judged(self) -> bool {
        matches!(self, Basis::Stated | Basis::Range)
    }
}

/// The paper's values for one policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperValues {
    /// Mean time of a stream, in seconds.
    pub stream_time_s: Option<f64>,
    /// Mean ratio of times to times alone.
    pub normalised_latency: Option<f64>,
    /// Time from the first query to the end of the last, in seconds.
    pub total_time_s: Option<f64>,
    /// Share of the processors' time that was used.
    pub cpu_use: Option<Percent>,
    /// Chunk loads.
    pub loads: Option<f64>,
    /// Reads of a column of a chunk.
    pub requests: Option<f64>,
    /// Mean time of a query, in seconds.
    pub latency_s: Option<f64>,
    /// The same by kind of query.
    #[serde(default)]
    pub latencies_s: BTreeMap<String, f64>,
}

/// An expected value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectFile {
    /// `POLICY.FIGURE`, `POLICY.FIGURE_ratio` or `POLICY.leads`.
    pub quantity: String,
    /// The point of a sweep.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The value.
    pub paper: f64,
    /// The tolerated relative deviation from the paper's value.
    pub tolerance: Percent,
    /// The paper's sentence.
    #[serde(default)]
    pub sentence: String,
    /// An explanation.
    #[serde(default)]
    pub note: String,
    /// The basis of the value.
    #[serde(default)]
    pub basis: Basis,
}
