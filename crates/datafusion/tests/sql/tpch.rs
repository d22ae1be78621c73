//! All 22 queries of TPC-H give the same result as plain DataFusion. The test uses every policy 16 at a time with a
//! buffer just above the minimum, and, in turn, one query alone and a large buffer.
//!
//! The scale factor is 0.05, or `COSCAN_TEST_SF`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use tpchgen::generators as generate;
use tpchgen_arrow as arrow;

use crate::data::row_groups;
use crate::support::{self, Variant};

/// The tables of TPC-H.
pub const TABLES: [&str; 8] =
    ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

macro_rules! queries {
    ($($n:literal)*) => {
        [$(include_str!(concat!("../tpch/q", $n, ".sql"))),*]
    };
}

/// The queries with the parameters of the benchmark's validation run.
pub const QUERIES: [&str; 22] = queries!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

/// The scale factor of the test data.
pub fn scale_factor() -> f64 {
    match std::env::var("COSCAN_TEST_SF") {
        Ok(factor) => factor.parse().expect("COSCAN_TEST_SF is a number"),
        Err(_) => 0.05,
    }
}

/// Writes a table with about thirty row groups of the largest one's size.
fn write(folder: &Path, table: &str, rows: usize, batches: impl RecordBatchReader) {
    let path = folder.join(table).join("part-0.parquet");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("create the folder");
    let file = File::create(path).expect("create the file");
    let mut writer =
        ArrowWriter::try_new(file, batches.schema(), Some(row_groups(rows).build())).expect("a writer");
    for batch in batches {
        let batch: RecordBatch = batch.expect("a generated batch");
        writer.write(&batch).expect("write");
    }
    writer.close().expect("close");
}

/// Writes the eight tables, a folder each.
pub fn write_tables(folder: &Path, factor: f64) {
    let rows = ((factor * 200_000.0) as usize).clamp(1000, 200_000);
    let write = |table: &str, batches: Box<dyn RecordBatchReader>| write(folder, table, rows, batches);
    write("nation", Box::new(arrow::NationArrow::new(generate::NationGenerator::new(factor, 1, 1))));
    write("region", Box::new(arrow::RegionArrow::new(generate::RegionGenerator::new(factor, 1, 1))));
    write("part", Box::new(arrow::PartArrow::new(generate::PartGenerator::new(factor, 1, 1))));
    write("supplier", Box::new(arrow::SupplierArrow::new(generate::SupplierGenerator::new(factor, 1, 1))));
    write("partsupp", Box::new(arrow::PartSuppArrow::new(generate::PartSuppGenerator::new(factor, 1, 1))));
    write("customer", Box::new(arrow::CustomerArrow::new(generate::CustomerGenerator::new(factor, 1, 1))));
    write("orders", Box::new(arrow::OrderArrow::new(generate::OrderGenerator::new(factor, 1, 1))));
    write("lineitem", Box::new(arrow::LineItemArrow::new(generate::LineItemGenerator::new(factor, 1, 1))));
}

/// Declares the eight tables.
pub async fn declare(ctx: &SessionContext, folder: &Path) {
    for table in TABLES {
        let location = folder.join(table);
        let sql =
            format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{}/'", location.display());
        ctx.plain_sql(&sql).await.expect(&sql).collect().await.expect(&sql);
    }
}

async fn one(ctx: SessionContext, query: usize, expected: Arc<Vec<Vec<String>>>) -> Result<(), String> {
    let found = support::rows(&ctx, QUERIES[query]).await.map_err(|e| format!("Q{}: {e}", query + 1))?;
    if found == expected[query] {
        return Ok(());
    }
    let shown = |rows: &[String]| rows.iter().take(5).cloned().collect::<Vec<_>>().join("\n    ");
    Err(format!("Q{}: expected\n    {}\n  found\n    {}", query + 1, shown(&expected[query]), shown(&found)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_22_queries_under_every_policy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write_tables(folder, scale_factor());
    let plain = support::plain(Variant::Default);
    declare(&plain, folder).await;
    let mut expected = Vec::new();
    for (query, sql) in QUERIES.iter().enumerate() {
        let rows = support::rows(&plain, sql).await.unwrap_or_else(|e| panic!("plain Q{}: {e}", query + 1));
        expected.push(rows);
    }
    let expected = Arc::new(expected);
    for (turn, policy) in registry::sharing().enumerate() {
        let begin = std::time::Instant::now();
        let engine = support::engine(policy, support::LARGE_BUFFER);
        let ctx = support::cooperative(&engine, Variant::Default);
        declare(&ctx, folder).await;
        let smallest = support::minimum_buffer(&ctx, &engine, &QUERIES).await * 21 / 20;
        let large = support::LARGE_BUFFER * (1 + scale_factor() as u64);
        let easier = [(1, smallest), (16, large), (1, large)];
        for (concurrency, buffer) in [(16, smallest), easier[turn % easier.len()]] {
            let engine = support::engine(policy, buffer);
            let ctx = support::cooperative(&engine, Variant::Default);
            declare(&ctx, folder).await;
            let jobs =
                (0..QUERIES.len()).map(|query| one(ctx.clone(), query, Arc::clone(&expected))).collect();
            let results = support::at_a_time(jobs, concurrency).await;
            let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
            let wrong = wrong.join("\n");
            assert!(wrong.is_empty(), "{policy}, {concurrency} at a time, {buffer} bytes:\n{wrong}");
            support::settled(&engine).await;
        }
        println!("{policy}: smallest buffer {smallest}, {:?}", begin.elapsed());
    }
}
