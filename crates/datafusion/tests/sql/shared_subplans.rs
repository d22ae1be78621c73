//! Repeated subplans of a query run once. Subplans that only look the same, may differ or are large run
//! separately.

use std::sync::Arc;

use coscan_datafusion::{CoscanContext, CoscanContextBuilder};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::StreamExt;

use crate::support;

const ROWS: i64 = 20_000;

/// `id` begins at `first`, `g` has seven values and nulls, `s` has a hundred bytes and differs in every row.
fn folder(first: i64) -> tempfile::TempDir {
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new((first..first + ROWS).collect::<Int64Array>())),
        ("g", Arc::new((0..ROWS).map(|n| (n % 8 != 3).then_some(n % 8)).collect::<Int64Array>())),
        ("s", Arc::new((0..ROWS).map(|n| Some(format!("{n:0>100}"))).collect::<StringArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("t.parquet")).expect("a file");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2000)).build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a footer");
    folder
}

fn builder() -> CoscanContextBuilder {
    let config = SessionConfig::new().with_target_partitions(2);
    CoscanContext::builder().set("small_table_bytes", "0").session_config(config)
}

async fn declare(ctx: &SessionContext, folder: &tempfile::TempDir) {
    let path = folder.path().to_str().expect("a path");
    ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
}

async fn open(builder: CoscanContextBuilder, folder: &tempfile::TempDir) -> SessionContext {
    let ctx = builder.build().expect("a session").ctx;
    declare(&ctx, folder).await;
    ctx
}

async fn plain(folder: &tempfile::TempDir) -> SessionContext {
    let ctx = SessionContext::new();
    declare(&ctx, folder).await;
    ctx
}

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    support::rows(ctx, sql).await.expect(sql)
}

/// Returns how many uses of shared subplans the plan has, and how many of them took the rows of another one.
async fn uses(ctx: &SessionContext, sql: &str) -> (usize, usize) {
    let analyzed = rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let uses = analyzed.lines().filter(|line| line.contains("SharedSubplanExec"));
    uses.fold((0, 0), |(all, joined), line| (all + 1, joined + usize::from(line.contains("joined=1"))))
}

const BY_G: &str = "WITH r AS (SELECT g, sum(id) AS n FROM t WHERE id % 3 < 2 GROUP BY g)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_has_several_times_runs_once() {
    let folder = folder(0);
    let (ctx, plain) = (open(builder(), &folder).await, plain(&folder).await);
    for (rest, all, joined) in [
        ("SELECT g, n FROM r WHERE n = (SELECT max(n) FROM r)", 2, 1),
        ("SELECT a.g, b.n FROM r a JOIN r b ON a.g < b.g AND a.n < b.n ORDER BY 1, 2", 2, 1),
        ("SELECT a.g, b.n FROM r a FULL JOIN r b ON a.n = b.n + 1 AND a.g = b.g ORDER BY 1, 2", 2, 1),
        ("SELECT g, n FROM r UNION ALL SELECT g, n FROM r UNION ALL SELECT g, -n FROM r ORDER BY 1, 2", 3, 2),
        ("SELECT g, n FROM r WHERE g IN (SELECT g + 1 FROM r WHERE n > 0) ORDER BY 1", 0, 0),
        (
            "SELECT g, n FROM r WHERE NOT EXISTS (SELECT 1 FROM r q WHERE q.g = r.g AND q.n > r.n) ORDER BY 1",
            2,
            1,
        ),
        (
            "SELECT * FROM (SELECT g, n FROM r ORDER BY n LIMIT 2) UNION ALL SELECT g, n FROM r ORDER BY 1, 2",
            2,
            1,
        ),
        ("SELECT g, n, (SELECT max(n) FROM r), (SELECT max(n) FROM r) AS m FROM r ORDER BY 1", 2, 1),
    ] {
        let sql = format!("{BY_G} {rest}");
        assert_eq!(rows(&ctx, &sql).await, rows(&plain, &sql).await, "{sql}");
        let found = uses(&ctx, &sql).await;
        if all > 0 {
            assert_eq!(found, (all, joined), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_and_subplans_below_shared_ones() {
    let folder = folder(0);
    let (ctx, plain) = (open(builder(), &folder).await, plain(&folder).await);
    let windows = "WITH r AS (SELECT id, row_number() OVER (PARTITION BY g ORDER BY id DESC) AS n FROM t) \
         SELECT a.id, b.id FROM r a JOIN r b ON a.n = b.n + 1 AND a.id < b.id WHERE a.id < 50 ORDER BY 1, 2";
    let nested = format!(
        "{BY_G}, q AS (SELECT a.g, count(*) AS m, sum(b.n) AS n FROM r a JOIN r b ON a.n <> b.n GROUP BY a.g) \
         SELECT x.g, y.m, y.n FROM q x JOIN q y ON x.m = y.m AND x.n = y.n AND x.g = y.g ORDER BY 1, 2, 3"
    );
    for sql in [windows, &nested] {
        assert_eq!(rows(&ctx, sql).await, rows(&plain, sql).await, "{sql}");
    }
    // One use of `q` took the rows of the other, in which one use of `r` took those of the other.
    assert_eq!(uses(&ctx, &nested).await, (6, 2));
}

/// Equal texts with different meanings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_is_not_shared() {
    let (one, two) = (folder(0), folder(1_000_000));
    let (ctx, plain) = (open(builder(), &one).await, plain(&one).await);
    for ctx in [&ctx, &plain] {
        // The view is over the first table. Another table gets its name later.
        rows(ctx, "CREATE VIEW before AS SELECT g, sum(id) AS n FROM t GROUP BY g").await;
        ctx.deregister_table("t").expect("the table");
        declare(ctx, &two).await;
        let value = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(1i64.into()));
        let stable =
            create_udf("who", vec![DataType::Int64], DataType::Int64, Volatility::Stable, Arc::new(value));
        ctx.register_udf(stable);
        let batch = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
        let batch = batch.expect("a batch");
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("a table");
        ctx.register_table("memory", Arc::new(table)).expect("a table");
    }
    for sql in [
        "SELECT a.g, a.n, b.n FROM before a JOIN (SELECT g, sum(id) AS n FROM t GROUP BY g) b ON a.g = b.g ORDER BY 1",
        "WITH r AS (SELECT g, sum(id) AS n FROM t GROUP BY g) \
         SELECT a.n, b.n FROM r a JOIN r b ON a.n = b.n WHERE a.g < 4 AND b.g > 1 ORDER BY 1",
        "SELECT max(id) FROM t WHERE g = 1 UNION ALL SELECT max(id) FROM t WHERE g = 2 ORDER BY 1",
        "WITH r AS (SELECT g, max(who(id)) AS n FROM t GROUP BY g) SELECT a.n FROM r a JOIN r b ON a.n = b.n AND a.g = b.g",
        "WITH r AS (SELECT x % 2 AS g, sum(x) AS n FROM memory GROUP BY 1) SELECT a.n FROM r a JOIN r b ON a.n = b.n ORDER BY 1",
        "SELECT id FROM t a WHERE id < 1000010 AND id > (SELECT min(id) FROM t b WHERE b.g = a.g) \
         AND id <= (SELECT min(id) FROM t b WHERE b.g = a.g) + 8 ORDER BY 1",
    ] {
        let (found, expected) = (rows(&ctx, sql).await, rows(&plain, sql).await);
        assert_eq!(found, expected, "{sql}");
    }
    for sql in [
        "SELECT a.g, a.n, b.n FROM before a JOIN (SELECT g, sum(id) AS n FROM t GROUP BY g) b ON a.g = b.g",
        "SELECT max(id) FROM t WHERE g = 1 UNION ALL SELECT max(id) FROM t WHERE g = 2",
        "WITH r AS (SELECT g, max(who(id)) AS n FROM t GROUP BY g) SELECT a.n FROM r a JOIN r b ON a.n = b.n AND a.g = b.g",
        "WITH r AS (SELECT g, max(random()) AS n FROM t GROUP BY g) SELECT a.n FROM r a JOIN r b ON a.n = b.n AND a.g = b.g",
        "WITH r AS (SELECT x % 2 AS g, sum(x) AS n FROM memory GROUP BY 1) SELECT a.n FROM r a JOIN r b ON a.n = b.n",
    ] {
        assert_eq!(uses(&ctx, sql).await.0, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_switch_it_off() {
    let folder = folder(0);
    let ctx = open(builder(), &folder).await;
    let sql = format!("{BY_G} SELECT g, n FROM r WHERE n = (SELECT max(n) FROM r)");
    for setting in
        ["coscan.share_results", "coscan.enabled", "datafusion.execution.enable_file_stream_work_stealing"]
    {
        assert_eq!(uses(&ctx, &sql).await.0, 2);
        rows(&ctx, &format!("SET {setting} = false")).await;
        assert_eq!(uses(&ctx, &sql).await.0, 0, "{setting}");
        rows(&ctx, &format!("SET {setting} = true")).await;
    }
}

/// More rows than are kept, and more than fit in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_subplans_give_all_their_rows_to_everybody() {
    let folder = folder(0);
    let plain = plain(&folder).await;
    let sql = "WITH r AS (SELECT id % 15000 AS k, max(repeat(s, 60)) AS s, count(*) AS n FROM t GROUP BY 1) \
         SELECT count(*), sum(a.n + b.n), min(a.s), max(b.s) FROM r a JOIN r b ON a.s = b.s AND a.n = b.n AND a.k = b.k";
    let expected = rows(&plain, sql).await;
    for memory in [4 << 30, 96 << 20] {
        let ctx = open(builder().memory_limit(memory), &folder).await;
        match support::rows(&ctx, sql).await {
            Ok(found) => assert_eq!(found, expected, "{memory}"),
            Err(error) => assert!(error.to_string().contains("memory"), "{memory}: {error}"),
        }
    }
    let ctx = open(builder(), &folder).await;
    let few = sql.replace("repeat(s, 60)", "s");
    assert_eq!(rows(&ctx, sql).await, expected);
    assert_eq!(uses(&ctx, &few).await, (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_said() {
    let folder = folder(0);
    let ctx = open(builder(), &folder).await;
    let sql = "WITH r AS (SELECT g, sum(1 / (id - 777)) AS n FROM t GROUP BY g) SELECT a.n FROM r a JOIN r b ON a.n = b.n AND a.g = b.g";
    let error = support::rows(&ctx, sql).await.expect_err("a division by zero").to_string();
    assert!(error.to_lowercase().contains("divide by zero"), "{error}");
}

fn run(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> impl Future<Output = usize> {
    let rows = collect(Arc::clone(plan), context);
    async move { rows.await.expect("rows").iter().map(RecordBatch::num_rows).sum() }
}

/// Executions of one plan are independent: two at once, one after one that was dropped, and one after one
/// that ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plan_executed_several_times() {
    let folder = folder(0);
    // DataFusion's exchanges cannot be executed again.
    let ctx = open(builder().session_config(SessionConfig::new().with_target_partitions(1)), &folder).await;
    let sql = format!("{BY_G} SELECT g, n FROM r UNION ALL SELECT g, n FROM r");
    let plan = ctx.plain_sql(&sql).await.expect("a frame").create_physical_plan().await.expect("a plan");
    assert_eq!(futures::join!(run(&plan, ctx.task_ctx()), run(&plan, ctx.task_ctx())), (16, 16));
    let mut first = execute_stream(Arc::clone(&plan), ctx.task_ctx()).expect("a stream");
    assert!(first.next().await.is_some_and(|batch| batch.is_ok()));
    drop(first);
    assert_eq!(run(&plan, ctx.task_ctx()).await, 16);
    let same = ctx.task_ctx();
    assert_eq!(run(&plan, Arc::clone(&same)).await, 16);
    assert_eq!(run(&plan, same).await, 16);
}

/// Every step of a recursive query executes its plan again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_recursive_queries() {
    let folder = folder(0);
    let (ctx, plain) = (open(builder(), &folder).await, plain(&folder).await);
    let sql = "WITH RECURSIVE r AS (SELECT g, sum(id) AS n FROM t GROUP BY g), steps AS (\
         SELECT 0 AS at UNION ALL \
         SELECT steps.at + 1 FROM steps JOIN r a ON steps.at = a.g JOIN r b ON b.n = a.n AND b.g = a.g WHERE steps.at < 5) \
         SELECT at FROM steps ORDER BY at";
    assert_eq!(rows(&ctx, sql).await, rows(&plain, sql).await);
}
