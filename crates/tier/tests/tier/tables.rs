//! Tables, sessions and answers that the tests share.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use coscan_datafusion::CoscanContext;
use coscan_tier::{TierError, Tiers};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// Writes one table file with these batches.
pub fn write_file(path: &Path, batches: &[RecordBatch], rows_per_group: usize) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows_per_group)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

/// A session of plain DataFusion.
pub fn plain() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4))
}

/// A session over tiers, with an engine of its own.
pub fn over(tiers: &Tiers) -> CoscanContext {
    let coscan = CoscanContext::builder()
        .session_config(SessionConfig::new().with_target_partitions(4))
        .set("small_table_bytes", "0")
        .set("buffer", "64MB")
        .build()
        .unwrap();
    tiers.attach(&coscan.ctx, Some(coscan.engine.clone())).unwrap();
    coscan
}

/// Opens tiers while their last owner may still hold the lock.
pub async fn reopened(open: &dyn Fn() -> Result<Tiers, TierError>) -> Tiers {
    for _ in 0..6_000 {
        match open() {
            Err(TierError::CacheInUse { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
            opened => return opened.unwrap(),
        }
    }
    panic!("the cache is not let go");
}

/// Declares tables, each a folder below `root`.
pub async fn declare(ctx: &SessionContext, root: &str, tables: &[&str]) {
    for table in tables {
        let sql = format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{root}/{table}/'");
        ctx.plain_sql(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap();
    }
}

/// The rows of a query as text, sorted unless the query orders them. Floating-point sums depend on the order of
/// addition, so they are rounded to nine digits.
pub async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = ctx.plain_sql(sql).await?.collect().await?;
    let mut rows = Vec::new();
    let options = FormatOptions::default().with_null("NULL");
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> =
                columns.iter().map(|column| rounded(column.value(row).to_string())).collect();
            rows.push(values.join("|"));
        }
    }
    rows.sort();
    Ok(rows)
}

fn rounded(value: String) -> String {
    match value.parse::<f64>() {
        Ok(number) if value.contains('.') && value.len() > 12 => format!("{number:.9e}"),
        _ => value,
    }
}

/// All lines of a plan that name a node.
pub async fn nodes(ctx: &SessionContext, sql: &str, node: &str) -> Vec<String> {
    let plan = ctx.plain_sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    text.lines()
        .filter(|line| line.trim_start().starts_with(node))
        .map(|line| line.trim().to_owned())
        .collect()
}
