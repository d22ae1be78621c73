//! Tables of a scenario: conversion of rows, widths and sizes to the core's layout.

use std::sync::Arc;

use coscan_core::{ChunkNo, ColumnLayout, ColumnNo, ColumnSet, Span, TableLayout};

use super::error::KeyError;
use super::file::{ColumnFile, KeyFile, StorageFile, TableFile};
use super::units::{Cost, span};
use crate::operator::{ChunkKeys, ChunkRows, spread};
use crate::workload::Table;

/// A table and the facts for its costs.
#[derive(Clone, Debug)]
pub(super) struct TableInfo {
    pub table: Table,
    columns: Vec<(String, f64)>,
    /// Rows of each chunk, if the file gives the number of rows.
    rows: Option<Vec<u64>>,
    /// The fill of each chunk, 0 to 1.
    fill: Vec<f64>,
    bytes: Vec<u64>,
    /// The keys of each chunk, if the table is clustered by one.
    keys: Option<Vec<ChunkKeys>>,
}

impl TableInfo {
    /// The table that a scenario describes.
    ///
    /// # Errors
    /// The first implausible key.
    pub fn new(name: &str, file: &TableFile) -> Result<Self, KeyError> {
        let info = match file.storage {
            StorageFile::Row => row_table(name, file),
            StorageFile::Column => column_table(name, file),
        };
        info.and_then(|info| info.clustered(file.key))
            .map_err(|error| KeyError { key: format!("table.{name}{}", error.key), ..error })
    }

    fn clustered(self, key: Option<KeyFile>) -> Result<Self, KeyError> {
        let Some(key) = key else { return Ok(self) };
        let Some(rows) = &self.rows else {
            return Err(KeyError::new(".key", "a key needs the number of rows of the table: give rows"));
        };
        let keys = spread(rows, key.values.0, key.split.unwrap_or(true));
        let keys = keys.map_err(|error| KeyError::new(".key.values", error.to_string()))?;
        Ok(TableInfo { keys: Some(keys), ..self })
    }

    /// The facts for operators about each chunk, in these columns.
    ///
    /// # Errors
    /// If the table has no key.
    pub fn chunk_rows(&self, columns: &ColumnSet) -> Result<Arc<[ChunkRows]>, String> {
        let name = &self.table.name;
        let (Some(keys), Some(rows)) = (&self.keys, &self.rows) else {
            return Err(format!(
                "an operator needs a table that is clustered by a key: give table.{name} a key = {{ values = .. }}"
            ));
        };
        let bytes = |chunk| self.bytes_used(chunk, columns).round() as u64;
        let of = |(chunk, keys)| ChunkRows { keys, rows: rows[chunk], bytes: bytes(chunk) };
        Ok(keys.iter().copied().enumerate().map(of).collect())
    }

    pub fn chunks(&self) -> u32 {
        self.table.layout.chunk_count()
    }

    pub fn bytes_total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    pub fn largest_chunk_bytes(&self) -> u64 {
        self.bytes.iter().copied().max().unwrap_or(0)
    }

    /// The columns with these names; all columns without names.
    ///
    /// # Errors
    /// If a column is unknown.
    pub fn columns(&self, names: Option<&[String]>) -> Result<ColumnSet, String> {
        let Some(names) = names else { return Ok(ColumnSet::first(self.table.layout.column_count())) };
        if self.columns.is_empty() {
            return Err(format!("table '{}' stores rows: leave the columns out", self.table.name));
        }
        let column = |name: &String| {
            let known = || self.columns.iter().map(|c| c.0.as_str()).collect::<Vec<_>>().join(", ");
            let at = self.columns.iter().position(|c| c.0 == *name);
            at.map(|at| ColumnNo(at as u32)).ok_or_else(|| {
                format!("table '{}' has no column '{name}'; it has {}", self.table.name, known())
            })
        };
        names.iter().map(column).collect()
    }

    /// Processor time for every chunk. `hertz` is the clock for costs in cycles.
    ///
    /// # Errors
    /// If the cost needs a clock rate or a number of rows that is not given.
    pub fn work(&self, cost: Cost, columns: &ColumnSet, hertz: Option<f64>) -> Result<Arc<[Span]>, String> {
        let chunks = 0..self.chunks() as usize;
        let seconds: Vec<f64> = match cost {
            Cost::SecondsPerChunk(s) => chunks.map(|c| s * self.fill[c]).collect(),
            Cost::CyclesPerByte(cycles) => {
                let hertz = hertz.ok_or("a cost in cycles needs the clock rate: give system.clock")?;
                chunks.map(|c| cycles * self.bytes_used(c, columns) / hertz).collect()
            }
            Cost::SecondsPerMillionRows(s) => {
                let rows =
                    self.rows.as_ref().ok_or("a cost per row needs the number of rows of the table")?;
                chunks.map(|c| s * rows[c] as f64 / 1e6).collect()
            }
        };
        Ok(seconds.into_iter().map(span).collect())
    }

    /// The bytes of a chunk that a scan of these columns reads.
    fn bytes_used(&self, chunk: usize, columns: &ColumnSet) -> f64 {
        match &self.rows {
            Some(rows) if !self.columns.is_empty() => {
                let bits: f64 = columns.iter().map(|c| self.columns[c.index()].1).sum();
                rows[chunk] as f64 * bits / 8.0
            }
            _ => self.bytes[chunk] as f64,
        }
    }
}

/// The table with this name; the only one if no name is given. `path` is the key of the name.
pub(super) fn table_named(path: &str, name: Option<&str>, tables: &[TableInfo]) -> Result<usize, KeyError> {
    let known = || tables.iter().map(|info| info.table.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        Some(wanted) => tables.iter().position(|info| info.table.name == *wanted).ok_or_else(|| {
            KeyError::new(
                format!("{path}.table"),
                format!("there is no table '{wanted}'; there are {}", known()),
            )
        }),
        None if tables.len() == 1 => Ok(0),
        None => Err(KeyError::new(path, format!("there are several tables: say which of {}", known()))),
    }
}

/// Maximum number of parts of a table, in chunks and columns.
const PARTS_MAX: u64 = 1 << 26;

/// Maximum bytes: an exabyte.
const BYTES_MAX: u64 = 1 << 60;

/// Fails on a table that is too large to simulate.
fn check_size(chunks: u64, columns: u64, bytes: u64) -> Result<(), KeyError> {
    if chunks.saturating_mul(columns.max(1)) > PARTS_MAX {
        let message =
            format!("{chunks} chunks of {columns} columns are too many: {PARTS_MAX} parts are the most");
        return Err(KeyError::new("", message));
    }
    if bytes > BYTES_MAX {
        return Err(KeyError::new("", format!("{bytes} bytes are too many: {BYTES_MAX} are the most")));
    }
    Ok(())
}

fn row_table(name: &str, file: &TableFile) -> Result<TableInfo, KeyError> {
    let not_here = |key: &str, there: bool| {
        let message = "a table that stores rows has none: remove it, or set storage = \"column\"";
        if there { Err(KeyError::new(format!(".{key}"), message)) } else { Ok(()) }
    };
    not_here("page", file.page.is_some())?;
    not_here("columns", file.columns.is_some())?;
    not_here("rows_per_chunk", file.rows_per_chunk.is_some())?;
    let missing = |key: &str| KeyError::new("", format!("a table that stores rows needs {key}"));
    let chunk = file.chunk_size.ok_or_else(|| missing("chunk_size"))?.0;
    let chunks = match (file.chunks, file.size) {
        (Some(chunks), None) => u64::from(chunks),
        (None, Some(size)) if chunk > 0 => size.0.div_ceil(chunk),
        _ => 0,
    };
    check_size(chunks, 1, chunks.saturating_mul(chunk))?;
    let bytes: Vec<u64> = match (file.chunks, file.size) {
        (Some(chunks), None) => vec![chunk; chunks as usize],
        (None, Some(size)) if chunk > 0 => {
            (0..size.0.div_ceil(chunk)).map(|c| chunk.min(size.0 - c * chunk)).collect()
        }
        (None, Some(_)) => Vec::new(),
        _ => return Err(missing("either chunks or size, not both")),
    };
    if chunk == 0 || bytes.is_empty() {
        return Err(KeyError::new(".chunk_size", "a table needs at least one chunk of at least one byte"));
    }
    let layout = TableLayout::rows(bytes.iter().copied()).map_err(|e| KeyError::new("", e.to_string()))?;
    let total: u64 = bytes.iter().sum();
    let share = |b: &u64| *b as f64 / total as f64;
    let rows =
        file.rows.map(|rows| bytes.iter().map(|b| (rows.0 as f64 * share(b)).round() as u64).collect());
    Ok(TableInfo {
        table: Table { name: name.to_owned(), layout },
        columns: Vec::new(),
        rows,
        fill: bytes.iter().map(|b| *b as f64 / chunk as f64).collect(),
        bytes,
        keys: None,
    })
}

fn column_table(name: &str, file: &TableFile) -> Result<TableInfo, KeyError> {
    let not_here = |key: &str, there: bool| {
        let message = "a table that stores columns is given by rows, rows_per_chunk and columns: remove it";
        if there { Err(KeyError::new(format!(".{key}"), message)) } else { Ok(()) }
    };
    not_here("chunk_size", file.chunk_size.is_some())?;
    not_here("size", file.size.is_some())?;
    not_here("chunks", file.chunks.is_some())?;
    let missing = |key: &str| KeyError::new("", format!("a table that stores columns needs {key}"));
    let total = file.rows.ok_or_else(|| missing("rows"))?.0;
    let per_chunk = file.rows_per_chunk.ok_or_else(|| missing("rows_per_chunk"))?.0;
    if total == 0 || per_chunk == 0 {
        return Err(KeyError::new(".rows_per_chunk", "a table needs at least one chunk of at least one row"));
    }
    let files = file.columns.as_ref().ok_or_else(|| missing("columns"))?;
    let columns: Result<Vec<(String, f64)>, KeyError> = files.iter().enumerate().map(column).collect();
    let columns = columns?;
    let bits: f64 = columns.iter().map(|(_, bits)| bits).sum();
    check_size(total.div_ceil(per_chunk), columns.len() as u64, (total as f64 * bits / 8.0) as u64)?;
    let rows: Vec<u64> =
        (0..total.div_ceil(per_chunk)).map(|c| per_chunk.min(total - c * per_chunk)).collect();
    let layouts: Result<Vec<ColumnLayout>, _> = columns
        .iter()
        .map(|(_, bits)| match file.page {
            None => Ok(ColumnLayout::separate(rows.iter().map(|r| (*r as f64 * bits / 8.0).ceil() as u64))),
            Some(page) => paged(total, per_chunk, *bits, page.0.max(1)),
        })
        .collect();
    let layout = layouts.and_then(|columns| TableLayout::columns(rows.len() as u32, columns));
    let layout = layout.map_err(|e| KeyError::new("", e.to_string()))?;
    let all = ColumnSet::first(layout.column_count());
    Ok(TableInfo {
        columns,
        fill: rows.iter().map(|r| *r as f64 / per_chunk as f64).collect(),
        bytes: (0..layout.chunk_count()).map(|c| layout.chunk_bytes(ChunkNo(c), &all)).collect(),
        rows: Some(rows),
        table: Table { name: name.to_owned(), layout },
        keys: None,
    })
}

/// A column's name and its width in bits.
fn column((at, file): (usize, &ColumnFile)) -> Result<(String, f64), KeyError> {
    let key = format!(".columns.{at}");
    let bits = match (file.bits, file.bytes) {
        (Some(bits), None) => bits,
        (None, Some(bytes)) => bytes * 8.0,
        _ => return Err(KeyError::new(key, "a column needs its width: either bits or bytes, not both")),
    };
    if !(bits > 0.0 && bits.is_finite()) {
        return Err(KeyError::new(key, "a column's width must be above 0"));
    }
    Ok((file.name.clone(), bits))
}

/// A column whose values cross chunk boundaries, so that neighbours share the page between them.
fn paged(rows: u64, per_chunk: u64, bits: f64, page: u64) -> Result<ColumnLayout, coscan_core::ConfigError> {
    let byte = |row: u64| (row.min(rows) as f64 * bits / 8.0).ceil() as u64;
    let total = byte(rows);
    let pages: Vec<u64> = (0..total.div_ceil(page)).map(|p| page.min(total - p * page)).collect();
    let chunks = rows.div_ceil(per_chunk);
    let span = |c: u64| (byte(c * per_chunk) / page) as u32..byte((c + 1) * per_chunk).div_ceil(page) as u32;
    ColumnLayout::paged(pages, (0..chunks).map(span).collect())
}
