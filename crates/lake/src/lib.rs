//! Tables of lake formats as cooperative scans.
//!
//! A snapshot (`snapshot.rs`) is one version of a table: its columns, its files with constants, bounds and deleted
//! rows. `delta/` reads it from a log, `iceberg/` from manifests, and `ducklake/` from a database. `table.rs` plans it as
//! a scan of Parquet files, which the cooperative rule of `coscan-datafusion` takes in: deleted rows are a selection of
//! rows, so that queries on several snapshots share pages and arrays. `catalog/` shows catalogs of tables to a session.
//! This crate reads no data and writes nothing.
#![deny(missing_docs)]

mod attach;
mod catalog;
mod deleted_rows;
mod delta;
mod ducklake;
mod field_ids;
mod file_columns;
mod history;
mod iceberg;
mod options;
mod place;
mod pruning;
mod refresh;
mod snapshot;
mod source;
mod table;

use std::sync::Arc;

use datafusion::prelude::SessionContext;

pub use attach::attach;

/// Adds the lake formats to a session, for `CREATE EXTERNAL TABLE .. STORED AS DELTA` and for folders that are
/// tables of a lake format, and the table function `coscan_refresh`.
pub fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    state.register_udtf(refresh::NAME, Arc::new(refresh::RefreshFunction));
    let factories = state.table_factories_mut();
    factories.insert(delta::FORMAT.to_owned(), Arc::new(delta::DeltaTables));
    factories.insert(ducklake::FORMAT.to_owned(), Arc::new(ducklake::DuckLakeTables));
    factories.insert(iceberg::FORMAT.to_owned(), Arc::new(iceberg::IcebergTables));
}
