//! Equal concurrent queries run once. Queries that are unequal, whose results differ between sessions, or
//! whose results are large run separately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use coscan_datafusion::{CoscanContext, CoscanContextBuilder};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, create_udf};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::future::join_all;
use object_store::limit::LimitStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::support;

const ROWS: i64 = 40_000;

/// Every tenth row of a group of ten thousand belongs to the same `g`. Numbers begin at `first`.
fn write(folder: &std::path::Path, first: i64) {
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new((first..first + ROWS).collect::<Int64Array>())),
        ("g", Arc::new((0..ROWS).map(|n| n % 10).collect::<Int64Array>())),
        (
            "s",
            Arc::new(
                (0..ROWS).map(|n| Some(format!("{:0>90}", n * 7919 % 100_003))).collect::<StringArray>(),
            ),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let file = std::fs::File::create(folder.join("t.parquet")).expect("a file");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2000)).build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a footer");
}

fn folder(first: i64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), first);
    folder
}

fn builder() -> CoscanContextBuilder {
    CoscanContext::builder()
        .set("small_table_bytes", "0")
        .session_config(SessionConfig::new().with_target_partitions(2))
}

/// An engine that takes seconds for the table every time, so that queries overlap.
fn slow() -> CoscanContextBuilder {
    builder().buffer_bytes(2 << 20).set("read_limit", "1MB")
}

async fn open(builder: CoscanContextBuilder, folder: &tempfile::TempDir) -> CoscanContext {
    let coscan = builder.build().expect("a session");
    let path = folder.path().to_str().expect("a path");
    coscan.ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    coscan
}

async fn plain(folder: &tempfile::TempDir) -> SessionContext {
    let ctx = SessionContext::new();
    let path = folder.path().to_str().expect("a path");
    ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    ctx
}

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    support::rows(ctx, sql).await.expect(sql)
}

/// Returns how many of these concurrent queries took the result of another one.
async fn joined(asked: &[(&SessionContext, &str)]) -> usize {
    let analyzed =
        asked.iter().map(async |(ctx, sql)| rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n"));
    let texts = join_all(analyzed).await;
    texts.iter().filter(|text| text.contains("SharedResultExec") && text.contains("joined=1")).count()
}

async fn shares(ctx: &SessionContext, sql: &str) -> bool {
    let plan = ctx.plain_sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
    displayable(plan.as_ref()).indent(false).to_string().contains("SharedResultExec")
}

const SUMS: &str = "SELECT g, sum(id) AS n, max(s) AS s FROM t WHERE id % 3 = 1 GROUP BY g ORDER BY g";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_queries_at_once_run_once() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let expected = rows(&plain(&folder).await, SUMS).await;
    for answer in join_all((0..16).map(|_| rows(&ctx, SUMS))).await {
        assert_eq!(answer, expected);
    }
    assert_eq!(joined(&[(&ctx, SUMS); 16]).await, 15);
    // One after the other, each runs itself.
    assert_eq!(joined(&[(&ctx, SUMS)]).await, 0);
    assert_eq!(joined(&[(&ctx, SUMS)]).await, 0);
    rows(&ctx, "SET coscan.share_results = false").await;
    assert_eq!(joined(&[(&ctx, SUMS); 4]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_what_is_the_same_file_and_nothing_else() {
    let (one, two) = (folder(0), folder(1_000_000));
    let CoscanContext { ctx: first, engine, .. } = open(slow(), &one).await;
    let same = open(builder().engine(engine.clone()), &one).await.ctx;
    let other_file = open(builder().engine(engine.clone()), &two).await.ctx;
    let other_settings = open(builder().engine(engine), &one).await.ctx;
    rows(&other_settings, "SET datafusion.execution.time_zone = '+02:00'").await;
    assert_eq!(joined(&[(&first, SUMS), (&same, SUMS)]).await, 1);
    assert_eq!(joined(&[(&first, SUMS), (&other_settings, SUMS)]).await, 0);
    let answers = futures::join!(rows(&first, SUMS), rows(&other_file, SUMS), rows(&same, SUMS));
    assert_eq!(answers.0, rows(&plain(&one).await, SUMS).await);
    assert_eq!(answers.1, rows(&plain(&two).await, SUMS).await);
    assert_eq!(answers.2, answers.0);
    assert_ne!(answers.1, answers.0);
}

/// Two stores may list the same objects and return other bytes, because of credentials, encryption or a
/// cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_with_other_stores_share_nothing_however_alike_their_files_look() {
    let folder = folder(0);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let bytes = std::fs::read(folder.path().join("t.parquet")).expect("a file");
    objects.put(&Path::from("t/t.parquet"), bytes.into()).await.expect("put");
    let engine = slow().build().expect("a session").engine;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let ctx = builder().engine(engine.clone()).build().expect("a session").ctx;
        let store = Arc::new(LimitStore::new(Arc::clone(&objects), 8));
        ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), store);
        rows(&ctx, "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://bucket/t/'").await;
        sessions.push(ctx);
    }
    let [first, second] = &sessions[..] else { unreachable!("two were made") };
    assert_eq!(joined(&[(first, SUMS), (first, SUMS)]).await, 1);
    assert_eq!(joined(&[(first, SUMS), (second, SUMS)]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_differ_in_a_literal_a_type_or_a_column_are_not_equal() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let plain = plain(&folder).await;
    let queries = [
        "SELECT sum(id) AS n FROM t WHERE g < 5 AND s >= ''",
        "SELECT sum(id) AS n FROM t WHERE g < 6 AND s >= ''",
        "SELECT sum(g) AS n FROM t WHERE g < 5 AND s >= ''",
        "SELECT sum(CAST(id AS INT)) AS n FROM t WHERE g < 5 AND s >= ''",
        "SELECT count(id) AS n FROM t WHERE g < 5 AND s >= ''",
        "SELECT sum(id) AS n FROM t WHERE g < (SELECT max(g) FROM t WHERE id < 4)",
        "SELECT sum(id) AS n FROM t WHERE g < (SELECT max(g) FROM t WHERE id < 5)",
    ];
    let asked: Vec<_> = queries.iter().flat_map(|sql| [*sql, *sql]).collect();
    for (sql, answer) in asked.iter().zip(join_all(asked.iter().map(|sql| rows(&ctx, sql))).await) {
        assert_eq!(answer, rows(&plain, sql).await, "{sql}");
    }
    let each_once: Vec<_> = queries.iter().map(|sql| (&ctx, *sql)).collect();
    assert_eq!(joined(&each_once).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_the_same_for_everybody_or_not_at_the_end_is_not_shared() {
    let folder = folder(0);
    let ctx = open(builder(), &folder).await.ctx;
    let named = |name, volatility| {
        let value = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(1i64.into()));
        create_udf(name, vec![DataType::Int64], DataType::Int64, volatility, Arc::new(value))
    };
    ctx.register_udf(named("who", Volatility::Stable));
    ctx.register_udf(named("one", Volatility::Immutable));
    assert!(shares(&ctx, SUMS).await);
    assert!(shares(&ctx, "SELECT id FROM t ORDER BY id DESC LIMIT 10").await);
    assert!(shares(&ctx, "SELECT max(id) FROM t WHERE id > one(g)").await);
    assert!(
        shares(&ctx, "SELECT g, max(n) FROM t, (SELECT 1 AS n) AS one GROUP BY g ORDER BY g LIMIT 2").await
    );
    for sql in [
        "SELECT max(id) FROM t WHERE id > who(g)",
        "SELECT max(id) FROM t WHERE random() < 0.5",
        "SELECT max(id) FROM t WHERE g IN (SELECT g FROM t WHERE random() < 0.5)",
        "SELECT id FROM t WHERE g = 1",
        "SELECT id FROM t LIMIT 5",
        "SELECT id, s FROM t ORDER BY s",
        "SELECT 1",
        "SHOW TABLES",
        // Statistics of some version of the file answer the subquery.
        "SELECT g, max(rows) FROM t, (SELECT count(*) AS rows FROM t) AS of_all GROUP BY g ORDER BY g LIMIT 2",
    ] {
        assert!(!shares(&ctx, sql).await, "{sql}");
    }
    rows(&ctx, "SET coscan.enabled = false").await;
    assert!(!shares(&ctx, SUMS).await);
}

/// A table that gives each session its own rows, like tables with row-level security.
#[derive(Debug)]
struct Own(Arc<dyn TableProvider>);

#[async_trait]
impl TableProvider for Own {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(session, projection, filters, limit).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_may_give_each_session_other_rows_are_not_shared() {
    let folder = folder(0);
    let ctx = open(builder(), &folder).await.ctx;
    let inner = ctx.table_provider("t").await.expect("the table");
    ctx.register_table("own", Arc::new(Own(inner))).expect("a table");
    assert!(!shares(&ctx, &SUMS.replace("FROM t", "FROM own")).await);
    // A view is its query.
    rows(&ctx, "CREATE VIEW v AS SELECT * FROM t WHERE id > 5").await;
    assert!(shares(&ctx, &SUMS.replace("FROM t", "FROM v")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_join_finish_when_the_first_is_cancelled_or_reads_no_more() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let expected = rows(&plain(&folder).await, SUMS).await;
    for cancelled in [true, false] {
        let mut first = Box::pin(rows(&ctx, SUMS));
        let begun = tokio::time::timeout(Duration::from_millis(100), &mut first).await;
        assert!(begun.is_err(), "it is over too early");
        let others = join_all((0..3).map(|_| rows(&ctx, SUMS)));
        if cancelled {
            drop(first);
            assert_eq!(others.await, vec![expected.clone(); 3]);
        } else {
            assert_eq!(others.await, vec![expected.clone(); 3]);
            assert_eq!(first.await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_come_to_everybody_whole() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let sql = "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s";
    assert!(shares(&ctx, sql).await);
    let expected = rows(&plain(&folder).await, sql).await;
    assert!(expected.len() > 20_000);
    for _ in 0..2 {
        for answer in join_all((0..4).map(|_| rows(&ctx, sql))).await {
            assert!(answer == expected, "{} rows", answer.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_said_to_everybody_and_a_panic_is_the_first_ones() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let sql = "SELECT g, sum(1 / (id - 39999)) AS n FROM t GROUP BY g ORDER BY g";
    assert!(shares(&ctx, sql).await);
    for answer in join_all((0..4).map(|_| support::rows(&ctx, sql))).await {
        let error = answer.expect_err("a division by zero").to_string();
        assert!(error.to_lowercase().contains("divide by zero"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_replaced_are_another_query() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let first = tokio::spawn({
        let ctx = ctx.clone();
        async move { support::rows(&ctx, SUMS).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let other = tempfile::tempdir().expect("a folder");
    write(other.path(), 1_000_000);
    std::fs::rename(other.path().join("t.parquet"), folder.path().join("t.parquet")).expect("a new file");
    assert_eq!(rows(&ctx, SUMS).await, rows(&plain(&folder).await, SUMS).await);
    // The first reads the file that it opened, or reports that it was replaced.
    let _ = first.await.expect("no panic");
}

/// The first has all its data in the buffer, so it ends with the rows of the old file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_asks_after_a_file_was_replaced_gets_its_rows_from_nobody_who_asked_before() {
    let begun = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&begun);
    let slow = move |values: &[ColumnarValue]| {
        seen.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
        Ok(values[0].clone())
    };
    let slow =
        create_udf("slow", vec![DataType::Int64], DataType::Int64, Volatility::Immutable, Arc::new(slow));
    let sql = "SELECT g, sum(slow(id)) AS n FROM t GROUP BY g ORDER BY g";
    let quick = sql.replace("slow(id)", "id");
    let folder = folder(0);
    let ctx = open(builder(), &folder).await.ctx;
    ctx.register_udf(slow);
    let before = rows(&ctx, &quick).await;
    let first = tokio::spawn({
        let ctx = ctx.clone();
        async move { rows(&ctx, sql).await }
    });
    // At that time it has its file.
    while !begun.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let other = tempfile::tempdir().expect("a folder");
    write(other.path(), 1_000_000);
    std::fs::rename(other.path().join("t.parquet"), folder.path().join("t.parquet")).expect("a new file");
    assert_eq!(rows(&ctx, sql).await, rows(&plain(&folder).await, &quick).await);
    assert_eq!(first.await.expect("no panic"), before);
}

/// Two concurrent executions of one plan are one query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plan_executed_twice() {
    let folder = folder(0);
    let ctx = open(slow(), &folder).await.ctx;
    let frame = ctx.plain_sql(SUMS).await.expect("a frame");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let [one, two] = [0, 1].map(|_| collect(Arc::clone(&plan), ctx.task_ctx()));
    let (one, two) = futures::join!(one, two);
    assert_eq!(one.expect("rows"), two.expect("rows"));
}
