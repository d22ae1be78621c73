//! Tables as plain data: drawn from a seed, reduced by the shrinker, and written as Parquet files.
//!
//! Values are not stored. They follow from a column's seed and the row number ([`spread`]), and get their
//! type when they are written ([`values`]).

mod draw;
pub(crate) mod kind;
pub(crate) mod spread;
pub(crate) mod values;
mod write;

use std::fmt::{self, Write};

use datafusion::arrow::datatypes::DataType;

use kind::Kind;
use spread::{Code, Nulls, Spread};

pub(crate) use draw::draw;
pub(crate) use values::literal;
pub(crate) use write::{Writer, encode};

/// The tables of one seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    pub(crate) tables: Vec<Table>,
}

impl Database {
    /// Returns whether a column is nested.
    pub(crate) fn has_nested(&self) -> bool {
        self.has(DataType::is_nested)
    }

    fn has(&self, of: impl Fn(&DataType) -> bool) -> bool {
        self.tables.iter().flat_map(|table| &table.columns).any(|column| of(&column.kind.arrow()))
    }
}

/// A table and its files.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// The first is `id`, which has a distinct value in each row.
    pub(crate) columns: Vec<Column>,
    pub(crate) files: Vec<DataFile>,
    pub(crate) writer: Writer,
    /// Whether columns are declared. Then files may lack some or have narrower types.
    pub(crate) declared: bool,
    /// Whether the table is declared to be ordered by `id`. Each file is.
    pub(crate) ordered: bool,
    /// Whether files lie in folders `p=value`.
    pub(crate) hive: bool,
    /// The declaration in cooperative sessions that the table is clustered by a matching key. It may be
    /// wrong.
    pub(crate) clustered_with: Option<KeyMatch>,
}

/// A key of a table that is declared to match one of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyMatch {
    pub(crate) own: String,
    pub(crate) table: String,
    pub(crate) other: String,
}

impl fmt::Display for KeyMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} = {})", self.table, self.own, self.other)
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) spread: Spread,
    pub(crate) nulls: Nulls,
    pub(crate) seed: u64,
    /// Whether the file declares the column nullable.
    pub(crate) nullable: bool,
}

/// One file of a table.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    pub(crate) first_row: u64,
    /// The number of rows of each row group.
    pub(crate) row_groups: Vec<usize>,
    /// The file's versions of the table's columns, in their order.
    pub(crate) stored: Vec<Stored>,
    /// The value of the folder `p=value`.
    pub(crate) hive_value: u8,
}

/// A column in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    AsDeclared,
    As(Kind),
    Missing,
}

impl Table {
    pub(crate) fn rows(&self) -> usize {
        self.files.iter().map(DataFile::rows).sum()
    }

    /// Returns the path of a file below the folder of all tables.
    pub(crate) fn path(&self, file: usize) -> String {
        let folder = &self.name;
        if self.hive {
            format!("{folder}/p={}/{file}.parquet", self.files[file].hive_value)
        } else {
            format!("{folder}/{file}.parquet")
        }
    }

    /// Returns the statement that declares the table with its folder at `root`, for DataFusion or also with
    /// coscan's options.
    pub(crate) fn declaration(&self, root: &str, coscan: bool) -> String {
        let mut sql = format!("CREATE EXTERNAL TABLE {} ", self.name);
        let mut columns: Vec<String> = Vec::new();
        for column in self.columns.iter().filter(|_| self.declared) {
            let name = &column.name;
            let sql_type = column.kind.declared_as().unwrap_or_else(|| "VARCHAR".to_owned());
            columns.push(format!("{name} {sql_type}{}", if column.nullable { "" } else { " NOT NULL" }));
        }
        if self.declared {
            columns.extend(self.hive.then(|| "p INT".to_owned()));
            let _ = write!(sql, "({}) ", columns.join(", "));
        }
        sql += "STORED AS PARQUET ";
        if self.declared && self.hive {
            sql += "PARTITIONED BY (p) ";
        }
        if self.ordered {
            sql += "WITH ORDER (id ASC) ";
        }
        if let Some(clustered_with) = self.clustered_with.as_ref().filter(|_| coscan) {
            let _ = write!(sql, "OPTIONS ('coscan.clustered_with' '{clustered_with}') ");
        }
        let _ = write!(sql, "LOCATION '{root}{}/'", self.name);
        sql
    }
}

impl Column {
    pub(crate) fn code(&self, row: u64) -> Code {
        if self.nulls.is_null(self.seed, row) { Code::Null } else { self.spread.code(self.seed, row) }
    }

    pub(crate) fn unique(&self) -> bool {
        self.spread.unique() && self.nulls == Nulls::None
    }
}

impl DataFile {
    pub(crate) fn rows(&self) -> usize {
        self.row_groups.iter().sum()
    }
}
