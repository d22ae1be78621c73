//! Tables of many small files: planned in batches, and read ahead only as far as is acceptable for a query
//! that ends early.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan_datafusion::engine_error;
use coscan_engine::{Engine, EngineError};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;

use crate::data;
use crate::support::{self, LARGE_BUFFER, Variant, rows};

const FILES: i64 = 150;
const ROWS: i64 = 40;

/// A file with one of six schemas, some of which have the same columns in Parquet.
fn write(dir: &Path, at: i64) {
    let ids = || at * ROWS..(at + 1) * ROWS;
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids()));
    let short: ArrayRef = Arc::new(Int32Array::from_iter_values(ids().map(|id| id as i32)));
    let name: ArrayRef =
        Arc::new(StringArray::from_iter(ids().map(|id| (id % 5 > 0).then(|| format!("n{}", id % 9)))));
    let as_type = |of: &DataType| cast(&name, of).expect("another type of string");
    let few = as_type(&DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
    let price = |precision| {
        let price = Decimal128Array::from_iter_values(ids().map(|id| i128::from(id * 7 % 1_000)));
        Arc::new(price.with_precision_and_scale(precision, 2).expect("a decimal")) as ArrayRef
    };
    let columns = match at % 6 {
        0 => vec![("id", id), ("name", name), ("price", price(15))],
        1 => vec![("id", id), ("name", as_type(&DataType::LargeUtf8)), ("price", price(15))],
        2 => vec![("id", id), ("name", few), ("price", price(15))],
        3 => vec![("price", price(15)), ("name", name), ("id", id)],
        4 => vec![("id", short), ("name", name), ("price", price(9))],
        _ => vec![("id", id), ("name", name)],
    };
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)));
    let note = KeyValue::new("note".to_owned(), format!("file {}", at / 20));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![note])).build();
    data::write(&dir.join(format!("{at:03}.parquet")), &batch.expect("a batch"), properties);
}

async fn declare(ctx: &SessionContext, dir: &Path) {
    let sql = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, name VARCHAR, price DECIMAL(15,2)) STORED AS PARQUET LOCATION '{}/'",
        dir.display()
    );
    ctx.plain_sql(&sql).await.expect("a table").collect().await.expect("a table");
}

fn engine(chunk_bytes: u64) -> Engine {
    support::cutting_engine(support::policy("relevance"), LARGE_BUFFER, chunk_bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_of_several_schemas_are_read_as_each_says() {
    let dir = tempfile::tempdir().unwrap();
    (0..FILES).for_each(|at| write(dir.path(), at));
    let plain = support::plain(Variant::Default);
    declare(&plain, dir.path()).await;
    let queries = [
        "SELECT id, name, price FROM t ORDER BY id",
        "SELECT name, count(*), sum(price), min(id) FROM t WHERE price > 3 GROUP BY name ORDER BY name",
        "SELECT count(*), count(price), sum(price * 2) FROM t WHERE name = 'n4' OR id < 1000",
    ];
    for variant in [Variant::Default, Variant::PushdownFilters, Variant::Single] {
        let ctx = support::cooperative(&engine(16 << 20), variant);
        declare(&ctx, dir.path()).await;
        for sql in queries {
            let expected = rows(&plain, sql).await.unwrap();
            assert_eq!(rows(&ctx, sql).await.unwrap(), expected, "{variant:?}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replaced_file_among_many_is_reported_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    (0..FILES).for_each(|at| write(dir.path(), at));
    let engine = engine(16 << 20);
    let ctx = support::cooperative(&engine, Variant::Default);
    declare(&ctx, dir.path()).await;
    for at in ["000", "077", "149"] {
        let planned =
            ctx.plain_sql("SELECT sum(id) FROM t").await.unwrap().create_physical_plan().await.unwrap();
        let path = dir.path().join(format!("{at}.parquet"));
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        let outcome = datafusion::physical_plan::collect(planned, ctx.task_ctx()).await;
        let error = outcome.expect_err("the file is another one");
        let Some(EngineError::FileReplaced { file, .. }) = engine_error(&error) else { panic!("{error}") };
        assert!(file.ends_with(&format!("{at}.parquet")), "{error}");
    }
    let planned = ctx.plain_sql("SELECT sum(id) FROM t").await.unwrap().create_physical_plan().await.unwrap();
    std::fs::remove_file(dir.path().join("100.parquet")).unwrap();
    let outcome = datafusion::physical_plan::collect(planned, ctx.task_ctx()).await;
    let error = outcome.expect_err("the file is gone").to_string();
    assert!(error.contains("100.parquet"), "{error}");
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_limit_reads_few_of_many_files() {
    let dir = tempfile::tempdir().unwrap();
    (0..FILES).for_each(|at| write(dir.path(), at));
    for sql in ["SELECT id FROM t LIMIT 3", "SELECT id FROM t WHERE id + 1 > 0 AND name IS NOT NULL LIMIT 3"]
    {
        let engine = engine(16 << 20);
        let ctx = support::cooperative(&engine, Variant::Default);
        declare(&ctx, dir.path()).await;
        assert_eq!(rows(&ctx, sql).await.unwrap().len(), 3);
        support::settled(&engine).await;
        // The chunks of four workers, two chunks ahead for each, and as many more as may be loaded at once.
        let loads = engine.stats().loads;
        assert!(loads <= 4 + 2 * 4 + 4, "{loads} loads of {FILES} files: {sql}");
    }
}
