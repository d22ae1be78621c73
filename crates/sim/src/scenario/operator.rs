//! The `operator` of a class: the keys of each kind of operator, and the operator that they describe.
//!
//! `crate::operator` defines the operators. This module has their keys, and assigns each mistake to its key.

use std::sync::Arc;

use coscan_core::{ColumnSet, DeliveryOrder, TableId};
use serde::Deserialize;

use super::error::KeyError;
use super::table::{TableInfo, table_named};
use super::units::{Bytes, Cost, Count, Percent};
use crate::operator::{ChunkRows, Input, MergeStart, Operator};

/// The work of a class of queries on its chunks. The required keys depend on its kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorFile {
    pub kind: String,
    /// Size of the state of a group.
    pub group: Option<Bytes>,
    /// The build side of a hash join.
    pub build: Option<InputFile>,
    /// The inner side of a merge join or a join by chunks.
    pub inner: Option<InputFile>,
    pub start: Option<StartFile>,
    /// True if the buffer manager knows the inner chunks from the start; the default is true.
    pub announced: Option<bool>,
    /// Size of a row that is kept.
    pub row: Option<Bytes>,
    /// Memory for waiting chunks.
    pub memory: Option<Bytes>,
    /// Number of wanted rows.
    pub limit: Option<Count>,
    /// Share of the rows that pass the query's filter; the default is all.
    pub pass: Option<Percent>,
}

/// The input of an operator besides its query's own chunks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    pub table: Option<String>,
    pub cost: Cost,
    pub columns: Option<Vec<String>>,
}

/// The start of a merge join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartFile {
    Beginning,
    Matching,
}

/// A kind of operator: its name, its required and optional keys, and its construction from them.
struct Kind {
    name: &'static str,
    wanted: &'static [&'static str],
    optional: &'static [&'static str],
    make: fn(&Maker<'_>) -> Result<Operator, KeyError>,
}

const KINDS: [Kind; 8] = [
    Kind { name: "ordered-aggregation", wanted: &["group"], optional: &[], make: ordered_aggregation },
    Kind { name: "hash-aggregation", wanted: &["group"], optional: &[], make: hash_aggregation },
    Kind { name: "hash-join", wanted: &["build", "row"], optional: &[], make: hash_join },
    Kind { name: "merge-join", wanted: &["inner", "start"], optional: &[], make: merge_join },
    Kind { name: "join-by-chunks", wanted: &["inner"], optional: &["announced"], make: join_by_chunks },
    Kind { name: "cooperative-merge-join", wanted: &[], optional: &[], make: cooperative_merge_join },
    Kind { name: "sorted", wanted: &["memory"], optional: &[], make: sorted },
    Kind { name: "top", wanted: &["limit", "row"], optional: &["pass"], make: top },
];

/// The known facts about the class of an operator.
pub(super) struct ClassInfo<'a> {
    /// The path of the class in the file.
    pub path: &'a str,
    pub table: &'a TableInfo,
    pub columns: &'a ColumnSet,
    pub order: DeliveryOrder,
    pub workers: u32,
}

/// The parts of an operator.
struct Maker<'a> {
    class: &'a ClassInfo<'a>,
    file: &'a OperatorFile,
    /// The rows of the class's own chunks.
    rows: Arc<[ChunkRows]>,
    input: &'a dyn Fn(&str, &InputFile) -> Result<Input, KeyError>,
}

/// The operator of a class. `tables` are all tables, and `hertz` is the clock for costs in cycles.
pub(super) fn operator(
    class: &ClassInfo<'_>,
    file: &OperatorFile,
    tables: &[TableInfo],
    hertz: Option<f64>,
) -> Result<Operator, KeyError> {
    let path = format!("{}.operator", class.path);
    let refuse = |key: &str, message: String| KeyError::new(format!("{path}{key}"), message);
    let kind = KINDS.iter().find(|kind| kind.name == file.kind).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        refuse(".kind", format!("there is no operator '{}'; there are {}", file.kind, known.join(", ")))
    })?;
    let given = file.given();
    if let Some(key) = given.iter().find(|key| !kind.wanted.contains(key) && !kind.optional.contains(key)) {
        let message = format!("'{}' has no {key}: remove it, or choose another kind", kind.name);
        return Err(refuse(&format!(".{key}"), message));
    }
    if let Some(key) = kind.wanted.iter().find(|key| !given.contains(key)) {
        return Err(refuse("", format!("'{}' needs {key}", kind.name)));
    }
    let rows = class.table.chunk_rows(class.columns).map_err(|message| refuse("", message))?;
    let input = |key: &str, input: &InputFile| {
        let key = |end: &str| format!("{path}.{key}{end}");
        let table = table_named(&key(""), input.table.as_deref(), tables)?;
        let info = &tables[table];
        let columns =
            info.columns(input.columns.as_deref()).map_err(|e| KeyError::new(key(".columns"), e))?;
        let work = info.work(input.cost, &columns, hertz).map_err(|e| KeyError::new(key(".cost"), e))?;
        let rows = info.chunk_rows(&columns).map_err(|e| KeyError::new(key(""), e))?;
        Ok(Input { table: TableId(table as u32), columns, work, rows })
    };
    (kind.make)(&Maker { class, file, rows, input: &input })
}

impl OperatorFile {
    /// The keys in the file, besides the kind.
    fn given(&self) -> Vec<&'static str> {
        let keys = [
            ("group", self.group.is_some()),
            ("build", self.build.is_some()),
            ("inner", self.inner.is_some()),
            ("start", self.start.is_some()),
            ("announced", self.announced.is_some()),
            ("row", self.row.is_some()),
            ("memory", self.memory.is_some()),
            ("limit", self.limit.is_some()),
            ("pass", self.pass.is_some()),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
    }
}

impl Maker<'_> {
    fn refuse<T>(&self, key: &str, message: impl Into<String>) -> Result<T, KeyError> {
        Err(KeyError::new(format!("{}{key}", self.class.path), message))
    }

    fn has_one_worker(&self, what: &str) -> Result<(), KeyError> {
        match self.class.workers {
            1 => Ok(()),
            _ => self
                .refuse(".workers", format!("{what} has one worker: remove it, or choose another operator")),
        }
    }

    fn input(&self, key: &str, file: Option<&InputFile>) -> Result<Input, KeyError> {
        (self.input)(key, file.expect("the key is wanted"))
    }

    fn bytes(file: Option<Bytes>) -> u64 {
        file.expect("the key is wanted").0
    }
}

fn ordered_aggregation(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    Ok(Operator::OrderedAggregation { rows: maker.rows.clone(), group_bytes: Maker::bytes(maker.file.group) })
}

fn hash_aggregation(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    Ok(Operator::HashAggregation { rows: maker.rows.clone(), group_bytes: Maker::bytes(maker.file.group) })
}

fn hash_join(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    Ok(Operator::HashJoin {
        build: maker.input("build", maker.file.build.as_ref())?,
        rows: maker.rows.clone(),
        row_bytes: Maker::bytes(maker.file.row),
    })
}

fn merge_join(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    maker.has_one_worker("a merge join")?;
    if maker.class.order == DeliveryOrder::Table {
        return maker.refuse(
            ".in_order",
            "a merge join keeps to an order anyway: remove it, and say where it starts",
        );
    }
    let start = match maker.file.start.expect("the key is wanted") {
        StartFile::Beginning => MergeStart::Beginning,
        StartFile::Matching => MergeStart::Matching,
    };
    let inner = maker.input("inner", maker.file.inner.as_ref())?;
    Ok(Operator::MergeJoin { inner, rows: maker.rows.clone(), start })
}

fn join_by_chunks(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    maker.has_one_worker("a join by chunks")?;
    Ok(Operator::JoinByChunks {
        inner: maker.input("inner", maker.file.inner.as_ref())?,
        rows: maker.rows.clone(),
        announced: maker.file.announced.unwrap_or(true),
    })
}

/// A scan over a table that has the columns of both, in chunks whose rows match: no data is kept.
fn cooperative_merge_join(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    let apart = maker.rows.windows(2).all(|pair| pair[0].keys.last < pair[1].keys.first);
    if !apart {
        let message = "a cooperative merge join needs chunks with keys of their own: set split = false in the key of its \
                       table";
        return maker.refuse(".operator", message);
    }
    Ok(Operator::Scan)
}

fn sorted(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    Ok(Operator::Sorted { rows: maker.rows.clone(), memory: Maker::bytes(maker.file.memory) })
}

fn top(maker: &Maker<'_>) -> Result<Operator, KeyError> {
    let limit = maker.file.limit.expect("the key is wanted").0;
    if limit == 0 {
        return maker.refuse(".operator.limit", "must be at least 1");
    }
    let pass = maker.file.pass.map_or(1.0, |share| share.0);
    Ok(Operator::Top {
        rows: maker.rows.clone(),
        limit,
        pass_per_mille: (pass * 1000.0).round() as u64,
        row_bytes: Maker::bytes(maker.file.row),
    })
}
