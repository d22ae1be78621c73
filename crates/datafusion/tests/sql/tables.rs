//! Tables of a few small files, read in all ways.

use std::path::Path;
use std::sync::Arc;

use coscan_datafusion::{CoscanOptions, install};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::data;
use crate::support::{self, LARGE_BUFFER, Variant};

/// Sessions that read small tables by DataFusion's own scan and by cooperative scans, with filters above the
/// scan and in it.
pub fn sessions() -> Vec<(&'static str, SessionContext)> {
    let ways = [
        ("plain scan", 4 << 20, Variant::Default),
        ("plain scan with filters", 4 << 20, Variant::PushdownFilters),
        ("cooperative scan", 0, Variant::Default),
        ("cooperative scan with filters", 0, Variant::PushdownFilters),
    ];
    ways.into_iter().map(|(name, small, variant)| (name, session(small, variant))).collect()
}

fn session(small_table_bytes: u64, variant: Variant) -> SessionContext {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let mut config = support::config(variant);
    let mut options = CoscanOptions::default();
    options.small_table_bytes = small_table_bytes;
    config.options_mut().extensions.insert(options);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(install(builder, engine).build())
}

/// Writes a file of these columns. Columns that are not required may be null.
pub fn write(path: &Path, columns: &[(&str, ArrayRef)], required: &[&str]) {
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), !required.contains(name))
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let batch = RecordBatch::try_new(schema, arrays).expect("a batch");
    data::write(path, &batch, WriterProperties::builder().build());
}

/// Returns a folder of files of these columns.
pub fn folder(files: &[(&str, &[(&str, ArrayRef)])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, columns) in files {
        write(&folder.path().join(name), columns, &[]);
    }
    folder
}

/// Declares the files at a location as a table.
pub async fn declare(ctx: &SessionContext, name: &str, location: &str) -> Result<()> {
    let _ = ctx.deregister_table(name)?;
    let sql =
        format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", location.replace('\'', "''"));
    ctx.plain_sql(&sql).await?.collect().await.map(drop)
}

/// Returns the rows of a query over the files at a location as its table `t`.
pub async fn rows_of(ctx: &SessionContext, location: &str, sql: &str) -> Result<Vec<String>> {
    declare(ctx, "t", location).await?;
    support::rows(ctx, sql).await
}

/// Expects the same rows in all sessions.
pub async fn expect(location: &Path, sql: &str, rows: &[&str]) {
    let location = location.to_str().expect("a path");
    for (name, ctx) in sessions() {
        let found = rows_of(&ctx, location, sql).await;
        assert_eq!(found.unwrap_or_else(|error| vec![error.to_string()]), rows, "{name}: {sql}");
    }
}

/// Expects an error with all these parts in all sessions.
pub async fn expect_error(location: &Path, sql: &str, parts: &[&str]) {
    let location = location.to_str().expect("a path");
    for (name, ctx) in sessions() {
        let error = rows_of(&ctx, location, sql).await.expect_err(sql).to_string();
        for part in parts {
            assert!(error.contains(part), "{name}: {sql}: {part} is not in {error}");
        }
    }
}
