//! Workloads and their results as JSON files, which external benchmarks also read and write.
//!
//! This module has only the formats; `run.rs` runs workloads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::wrong_usage;
use crate::rows::Row;

/// The version of both formats.
pub const VERSION: u32 = 1;

/// Streams of queries over some tables.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Workload {
    pub version: u32,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub seed: u64,
    pub tables: BTreeMap<String, Table>,
    pub streams: Vec<Stream>,
}

/// A table and its files.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Table {
    pub format: String,
    pub files: Vec<PathBuf>,
}

/// Queries that run one after another.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stream {
    pub id: u64,
    /// Start of the first query, in seconds after the beginning.
    #[serde(default)]
    pub start_s: f64,
    pub queries: Vec<Query>,
}

/// One query. `kind` only describes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Query {
    pub id: String,
    #[serde(default)]
    pub kind: String,
    pub sql: String,
}

impl Workload {
    /// Reads and checks a workload file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the workload {}", path.display()))?;
        let workload: Workload = serde_json::from_str(&text)
            .with_context(|| format!("{} is no workload as `coscan bench` reads it", path.display()))?;
        workload.check().with_context(|| format!("workload {}", path.display()))?;
        Ok(workload)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.version != VERSION {
            return Err(wrong_usage(format!(
                "is version {}, this coscan reads version {VERSION}",
                self.version
            )));
        }
        for (name, table) in &self.tables {
            if !table.format.eq_ignore_ascii_case("parquet") {
                return Err(wrong_usage(format!(
                    "table {name} is {}, only parquet can be read",
                    table.format
                )));
            }
            if table.files.is_empty() {
                return Err(wrong_usage(format!("table {name} has no files")));
            }
        }
        if let Some(stream) = self.streams.iter().find(|s| !(s.start_s >= 0.0 && s.start_s.is_finite())) {
            return Err(wrong_usage(format!("stream {} starts at {} s", stream.id, stream.start_s)));
        }
        Ok(())
    }

    /// Number of queries.
    pub fn query_count(&self) -> u64 {
        self.streams.iter().map(|stream| stream.queries.len() as u64).sum()
    }
}

/// The result of a workload.
#[derive(Debug, Serialize)]
pub struct Results {
    pub version: u32,
    pub engine: &'static str,
    pub engine_version: &'static str,
    /// The start of the clock, in seconds since 1970.
    pub t0_unix_s: f64,
    pub queries: Vec<Outcome>,
    pub stats: Map<String, Value>,
}

/// The result of one query. Times are seconds since the clock started.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub id: String,
    pub start_s: f64,
    pub end_s: f64,
    pub rows: Option<Vec<Row>>,
    pub error: Option<String>,
}

impl Outcome {
    /// Seconds from submission to the last row.
    pub fn latency_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

impl Results {
    /// Writes the results. An existing file is replaced.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self)?;
        fs::write(path, text).with_context(|| format!("cannot write the results to {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Workload> {
        let workload: Workload = serde_json::from_str(text)?;
        workload.check()?;
        Ok(workload)
    }

    #[test]
    fn fields_that_only_describe_may_be_missing_or_unknown() {
        let workload = parse(
            r#"{"version": 1, "digest": "x", "tables": {"t": {"format": "parquet", "files": ["/a"], "rows": 5}},
                "streams": [{"id": 0, "queries": [{"id": "0.0", "key_lo": 1, "sql": "SELECT 1"}]}]}"#,
        )
        .unwrap();
        assert_eq!(workload.query_count(), 1);
        assert_eq!(workload.streams[0].start_s, 0.0);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let of = |version: u32, format: &str, start: f64| {
            format!(
                r#"{{"version": {version}, "tables": {{"t": {{"format": "{format}", "files": ["/a"]}}}},
                    "streams": [{{"id": 0, "start_s": {start}, "queries": []}}]}}"#
            )
        };
        assert!(parse(&of(1, "parquet", 0.5)).is_ok());
        assert!(parse(&of(2, "parquet", 0.5)).unwrap_err().to_string().contains("version 2"));
        assert!(parse(&of(1, "csv", 0.5)).unwrap_err().to_string().contains("csv"));
        assert!(parse(&of(1, "parquet", -1.0)).is_err());
    }
}
