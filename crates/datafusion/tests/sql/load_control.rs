//! Queries that want more memory than there is: they wait, spill and run again. If no setting makes a query
//! fit, the error names the query and the amount.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coscan_datafusion::{CoscanContext, CoscanContextBuilder};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::StreamExt;

use crate::support::QUERY_ENDS_AFTER;

const ROWS: i64 = 30_000;

/// A table of long strings. `id` and `g` differ in every row, `h` in every tenth.
fn table() -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    let text = |n: i64, salt: i64| format!("{:08}-{salt}", n * 7919 % 99_999_989).repeat(12);
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new((0..ROWS).collect::<Int64Array>())),
        ("g", Arc::new((0..ROWS).map(|n| Some(text(n, 1))).collect::<StringArray>())),
        ("h", Arc::new((0..ROWS).map(|n| Some(text(n / 10, 2))).collect::<StringArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(file.reopen().unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(2)
}

async fn coscan(file: &tempfile::NamedTempFile, builder: CoscanContextBuilder) -> CoscanContext {
    let builder = builder.buffer_bytes(64 << 20).set("small_table_bytes", "0").set("load_control", "true");
    let builder = builder.session_config(config());
    let coscan = builder.build().unwrap();
    let path = file.path().to_str().unwrap();
    coscan.ctx.register_parquet("t", path, ParquetReadOptions::default()).await.unwrap();
    coscan
}

async fn rows(ctx: &SessionContext, sql: &str) -> datafusion::common::Result<String> {
    let batches = ctx.plain_sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

async fn plain(file: &tempfile::NamedTempFile) -> SessionContext {
    let plain = SessionContext::new_with_config(config());
    plain.register_parquet("t", file.path().to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    plain
}

/// Waits until no query is waiting or admitted and the buffer has grown back. Operators end in tasks of their
/// own.
async fn nothing_is_left(coscan: &CoscanContext) {
    nothing_is_left_beside(coscan, coscan.engine.buffer_bytes()).await;
}

/// The same with a buffer of so many bytes.
async fn nothing_is_left_beside(coscan: &CoscanContext, buffer: u64) {
    for _ in 0..30_000 {
        let left = rows(&coscan.ctx, "SELECT count(*) AS n FROM coscan_queries()").await.unwrap();
        if left.contains("| 0 |") && coscan.engine.usage().budget == buffer {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let left = rows(&coscan.ctx, "SELECT * FROM coscan_queries()").await.unwrap();
    panic!("{left}\n{:?}, of {}", coscan.engine.usage(), coscan.engine.buffer_bytes());
}

fn queries() -> Vec<String> {
    let grouped = (0..6).map(|n| {
        format!("SELECT g, h, count(*) AS n, max(id) AS m FROM t WHERE id >= {n} GROUP BY g, h ORDER BY m DESC LIMIT 3")
    });
    let joined = (0..3).map(|n| {
        format!(
            "SELECT count(*), min(a.h), max(b.g) FROM t a JOIN t b ON a.g = b.g WHERE a.id > b.id - {}",
            n + 1
        )
    });
    grouped.chain(joined).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_do_not_fit_beside_each_other_finish_all_the_same() {
    let file = table();
    let plain = plain(&file).await;
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(24 << 20)).await;
    let queries = queries();
    let all = queries.iter().map(|sql| rows(&coscan.ctx, sql));
    let answers = futures::future::join_all(all).await;
    for (sql, answer) in queries.iter().zip(answers) {
        assert_eq!(answer.expect(sql), rows(&plain, sql).await.unwrap(), "{sql}");
    }
    nothing_is_left(&coscan).await;
}

/// A buffer of default size gets the memory that operators leave, and returns it when they need it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_buffer_has_what_operators_leave_until_they_need_it() {
    const MIB: u64 = 1 << 20;
    let file = table();
    let builder = CoscanContext::builder().process_memory(16 << 30).set("buffer_start", "16GiB");
    let builder = builder.set("small_table_bytes", "0").set("query_memory", "24MiB").session_config(config());
    let coscan = builder.build().unwrap();
    let path = file.path().to_str().unwrap();
    coscan.ctx.register_parquet("t", path, ParquetReadOptions::default()).await.unwrap();
    let usual = coscan.engine.buffer_bytes();
    assert_eq!(coscan.engine.usage().budget, usual + 18 * MIB, "three quarters of query_memory");
    let engine = coscan.engine.clone();
    let (done, mut least) = (Arc::new(AtomicBool::new(false)), u64::MAX);
    let watcher = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                least = least.min(engine.usage().budget);
                std::thread::yield_now();
            }
            least
        }
    });
    let queries = queries();
    let answers = futures::future::join_all(queries.iter().map(|sql| rows(&coscan.ctx, sql))).await;
    done.store(true, Ordering::Relaxed);
    let plain = plain(&file).await;
    for (sql, answer) in queries.iter().zip(answers) {
        assert_eq!(answer.expect(sql), rows(&plain, sql).await.unwrap(), "{sql}");
    }
    let least = watcher.join().unwrap();
    assert!(least <= usual, "operators that need all of their memory got back {least} of {usual}");
    nothing_is_left_beside(&coscan, usual + 18 * MIB).await;
    coscan.sql("SET coscan.query_memory = '64MiB'").await.unwrap();
    assert_eq!(coscan.engine.usage().budget, usual + 48 * MIB);
    coscan.sql("SET coscan.query_memory = '4MiB'").await.unwrap();
    assert_eq!(coscan.engine.usage().budget, usual + 3 * MIB);
    coscan.sql("SET coscan.buffer = '64MiB'").await.unwrap();
    coscan.sql("SET coscan.query_memory = '64MiB'").await.unwrap();
    assert_eq!(coscan.engine.usage().budget, 64 * MIB, "somebody wants this much");
}

/// A plan keeps the hash join of a small table with its memory, also when the query runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_runs_again_does_not_wait_for_what_its_own_plan_keeps() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(6 << 20)).await;
    coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
    let plain = plain(&file).await;
    let sql = "SELECT count(*) AS n, max(a.h), min(b.g) FROM (VALUES (0, 'x'), (1, 'y'), (2, 'z')) AS s(k, name) \
               JOIN t a ON s.k = a.id % 1000 JOIN t b ON a.g = b.g WHERE b.h > s.name OR b.id >= 0";
    let frame = coscan.sql(sql).await.unwrap();
    let task = Arc::new(frame.task_ctx());
    let kept = frame.create_physical_plan().await.unwrap();
    let again = tokio::time::timeout(QUERY_ENDS_AFTER, collect(kept.clone(), task));
    let batches = again.await.expect("it waits for itself").unwrap();
    assert_eq!(pretty_format_batches(&batches).unwrap().to_string(), rows(&plain, sql).await.unwrap());
    // Another query wants all memory while the plan is kept.
    let other = "SELECT count(*), min(a.h) FROM t a JOIN t b ON a.g = b.g WHERE a.id > b.id - 1";
    let other_rows = tokio::time::timeout(QUERY_ENDS_AFTER, rows(&coscan.ctx, other)).await;
    assert_eq!(other_rows.expect("it waits for a plan").unwrap(), rows(&plain, other).await.unwrap());
    drop(kept);
}

/// Under any limit the answer is right or an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_limits_change_no_answer() {
    let file = table();
    let plain = plain(&file).await;
    let queries = [
        "SELECT g, h, id FROM t ORDER BY h DESC, id",
        "SELECT h, count(*) AS n, sum(id) FROM t GROUP BY h ORDER BY h",
        "SELECT a.id, b.h FROM t a JOIN t b ON a.g = b.g AND a.id < b.id + 1 WHERE b.id % 3 = 0 ORDER BY a.id",
        "SELECT id FROM t WHERE g NOT IN (SELECT g FROM t WHERE id % 2 = 0) ORDER BY id DESC LIMIT 20",
        "SELECT h, id, row_number() OVER (PARTITION BY h ORDER BY id) AS r FROM t ORDER BY h, r LIMIT 50",
        "SELECT a.id FROM t a LEFT JOIN t b ON a.g = b.h WHERE b.id IS NULL ORDER BY a.id LIMIT 20",
        "SELECT count(DISTINCT g), min(h) FROM t",
    ];
    let mut answers = 0;
    for mib in [1, 3, 9, 40] {
        let coscan = coscan(&file, CoscanContext::builder().memory_limit(mib << 20)).await;
        coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
        let all = queries.iter().map(|sql| rows(&coscan.ctx, sql));
        for (sql, answer) in queries.iter().zip(futures::future::join_all(all).await) {
            match answer {
                Ok(answer) => assert_eq!(answer, rows(&plain, sql).await.unwrap(), "{mib} MiB: {sql}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("does not fit") && error.contains("It is: "), "{sql}: {error}");
                    assert!(mib < 40, "{sql}: {error}");
                    continue;
                }
            }
            answers += 1;
        }
        nothing_is_left(&coscan).await;
    }
    assert!(answers > queries.len(), "only {answers} had room");
}

/// Rows that were output are not output again: a query that is then refused memory fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_is_not_output_twice() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(2 << 20)).await;
    coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
    // The first part is three megabytes of rows, the second a join whose table does not fit.
    let seen_first = "SELECT id, g FROM (SELECT id, g FROM t UNION ALL SELECT id, g FROM t) WHERE id < 15000";
    let no_room = "SELECT sum(x.id), max(y.g) FROM t x CROSS JOIN t y WHERE x.g > y.h AND x.id < 0";
    let sql = format!("{seen_first} UNION ALL {no_room}");
    let config = config().with_target_partitions(1);
    let session = coscan.new_session(config);
    session.plain_sql("SET coscan.load_control = true").await.unwrap();
    session
        .register_parquet("t", file.path().to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let mut stream = session.plain_sql(&sql).await.unwrap().execute_stream().await.unwrap();
    let (mut seen, mut error) = (std::collections::HashMap::<i64, usize>::new(), None);
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) => {
                let ids = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                ids.iter().flatten().for_each(|id| *seen.entry(id).or_default() += 1);
            }
            Err(failed) => error = Some(failed.to_string()),
        }
    }
    assert!(seen.values().all(|times| *times <= 2), "rows came again");
    if let Some(error) = error {
        assert!(error.contains("does not fit"), "{error}");
    } else {
        assert_eq!(seen.len(), 15_000);
    }
    drop(stream);
    nothing_is_left(&coscan).await;
}

/// A query that is dropped after any number of polls, while it waits, while it runs and between runs, leaves
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_up_anywhere_leaves_nothing() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(6 << 20)).await;
    coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
    let sql = "SELECT a.id, b.g FROM t a JOIN t b ON a.g = b.g ORDER BY b.h";
    for polls in 0..40 {
        let mut first = coscan.sql(sql).await.unwrap().execute_stream().await.unwrap();
        let mut second = coscan.sql(sql).await.unwrap().execute_stream().await.unwrap();
        for poll in 0..polls {
            let _ = futures::poll!(first.next());
            let _ = futures::poll!(second.next());
            tokio::time::sleep(Duration::from_millis(poll % 7)).await;
        }
    }
    nothing_is_left(&coscan).await;
}

/// The query of a reader that has stopped keeps its memory, and other queries do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_keeps_nobody_at_the_door() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(64 << 20)).await;
    let sorted = "SELECT g, h, id FROM t ORDER BY h, g";
    let mut stopped = coscan.sql(sorted).await.unwrap().execute_stream().await.unwrap();
    stopped.next().await.unwrap().unwrap();
    // The first one's promise is more than half of this, so the next must wait.
    coscan.sql("SET coscan.query_memory = '10MB'").await.unwrap();
    let next = tokio::time::timeout(
        QUERY_ENDS_AFTER,
        rows(&coscan.ctx, "SELECT h, max(id) FROM t GROUP BY h ORDER BY h LIMIT 3"),
    );
    assert_eq!(next.await.expect("it waits for a reader").unwrap().lines().count(), 7);
    let rest: usize =
        stopped.map(|batch| batch.unwrap().num_rows()).fold(0, async |sum, rows| sum + rows).await;
    assert!(rest > 0, "who was not waited for goes on");
    nothing_is_left(&coscan).await;
}

/// A session's own limit does not make other queries wait: its queries manage with less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_a_session_makes_its_own_queries_frugal() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(256 << 20)).await;
    let mut holder =
        coscan.sql("SELECT g, h, id FROM t ORDER BY h").await.unwrap().execute_stream().await.unwrap();
    holder.next().await.unwrap().unwrap();
    let sql = "SELECT count(*), min(a.h), max(b.g) FROM t a JOIN t b ON a.g = b.g WHERE a.id > b.id - 1";
    let plain = plain(&file).await;
    for mib in [3, 12] {
        let builder = CoscanContext::builder().engine(coscan.engine.clone()).memory_limit(mib << 20);
        let limited = self::coscan(&file, builder).await;
        // It must not wait for the holder, because that wait is longer than this.
        limited.sql("SET coscan.queue_timeout_s = 1").await.unwrap();
        match rows(&limited.ctx, sql).await {
            Ok(answer) => assert_eq!(answer, rows(&plain, sql).await.unwrap()),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("in run 2") && error.contains("the session's own limit"), "{error}");
            }
        }
    }
    drop(holder);
    nothing_is_left(&coscan).await;
}

/// Queries without load control are within the limit, too, and are not charged twice when they come through a
/// session's own pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_without_load_control_are_refused_what_is_beyond_the_limit() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(2 << 20)).await;
    coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
    coscan.sql("SET coscan.load_control = false").await.unwrap();
    let sql = "SELECT count(*), min(a.h), max(b.g) FROM t a JOIN t b ON a.g = b.g WHERE a.id > b.id - 1";
    let error = rows(&coscan.ctx, sql).await.unwrap_err().to_string();
    assert!(
        error.contains("a query without load control") && error.contains("coscan.query_memory is 2097152"),
        "{error}"
    );
    coscan.sql("SET coscan.load_control = true").await.unwrap();
    let error = rows(&coscan.ctx, sql).await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.is_empty() || error.contains("does not fit"), "{error}");
    nothing_is_left(&coscan).await;
}

/// Refuses plans with sort-merge joins, as DataFusion does occasionally.
#[derive(Debug)]
struct HashJoinsOnly;

impl PhysicalOptimizerRule for HashJoinsOnly {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        if config.optimizer.prefer_hash_join { Ok(plan) } else { internal_err!("no joins by sorting here") }
    }

    fn name(&self) -> &str {
        "hash_joins_only"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_sorting_that_fail_are_not_what_a_query_fails_of() {
    let file = table();
    let plain = plain(&file).await;
    let sql = "SELECT count(*), min(a.h) FROM t a JOIN t b ON a.g = b.g WHERE a.id > b.id - 1";
    let mut refused = 0;
    for mib in [1, 40] {
        let coscan = coscan(&file, CoscanContext::builder().memory_limit(mib << 20)).await;
        coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
        let state = SessionStateBuilder::new_from_existing(coscan.ctx.state());
        let state = state.with_physical_optimizer_rule(Arc::new(HashJoinsOnly)).build();
        match rows(&SessionContext::new_with_state(state), sql).await {
            Ok(answer) => assert_eq!(answer, rows(&plain, sql).await.unwrap(), "{mib} MiB"),
            Err(error) => {
                assert!(error.to_string().contains("does not fit"), "{mib} MiB: {error}");
                refused += 1;
            }
        }
        nothing_is_left(&coscan).await;
    }
    assert_eq!(refused, 1, "a hash join of 4 MB fits into 40 MiB, and not into one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_fit_says_which_query_and_how_much() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(1 << 20)).await;
    coscan.sql("SET coscan.buffer = '20MB'").await.unwrap();
    // The collected values of this aggregate cannot be spilled.
    let sql = "SELECT count(*) FROM (SELECT array_agg(g) OVER (ORDER BY id) AS a FROM t) WHERE a IS NOT NULL";
    let sql = format!("{sql} UNION ALL SELECT sum(x.id) FROM t x CROSS JOIN t y WHERE x.g < y.h");
    let error = rows(&coscan.ctx, &sql).await.unwrap_err().to_string();
    assert!(
        error.contains("does not fit") && error.contains("coscan.query_memory is 1048576 bytes"),
        "{error}"
    );
    // A run with half of the memory is skipped if the first one had more than a quarter.
    let last_run = error.contains("in run 4") || error.contains("in run 5");
    assert!(error.contains("It is: ") && last_run, "{error}");
    rows(&coscan.ctx, "SELECT count(*) FROM t").await.expect("the session has its tables");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_seen_with_whom_it_waits_for_and_gives_up_when_told_to() {
    let file = table();
    let coscan = coscan(&file, CoscanContext::builder().memory_limit(8 << 20)).await;
    let sorted = "SELECT g, h, id FROM t ORDER BY h, g";
    // A reader reads a little and then stops.
    let mut holder = coscan.sql(sorted).await.unwrap().execute_stream().await.unwrap();
    holder.next().await.unwrap().unwrap();
    coscan.sql("SET coscan.query_memory = 4194304").await.unwrap();
    coscan.sql("SET coscan.queue_timeout_s = 3600").await.unwrap();
    let waiting = tokio::spawn({
        let ctx = coscan.ctx.clone();
        async move { rows(&ctx, sorted).await }
    });
    let view =
        "SELECT state, run, waits_for, plan LIKE 'Sort: t.h %' AS mine FROM coscan_queries() ORDER BY query";
    let waits = "| waiting | 1   | 1         | true |";
    let deadline = Instant::now() + QUERY_ENDS_AFTER;
    let mut seen = rows(&coscan.ctx, view).await.unwrap();
    while !seen.contains(waits) {
        assert!(Instant::now() < deadline, "{seen}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        seen = rows(&coscan.ctx, view).await.unwrap();
    }
    assert!(seen.contains("| running | 1   |           | true |"), "{seen}");
    let other = coscan.new_session(config());
    let seen = rows(&other, view).await.unwrap();
    assert!(seen.contains("| waiting | 1   | 1         |      |"), "others do not see the plan: {seen}");
    waiting.abort();
    let _ = waiting.await;
    coscan.sql("SET coscan.queue_timeout_s = 1").await.unwrap();
    let error = rows(&coscan.ctx, sorted).await.unwrap_err().to_string();
    assert!(error.contains(" waited for") && error.contains("coscan.queue_timeout_s"), "{error}");
    assert!(error.contains("query 1 has"), "{error}");
    drop(holder);
    rows(&coscan.ctx, sorted).await.unwrap();
}

/// DataFusion's nested loop join answers wrongly if it is refused memory and joins in parts. This is
/// prevented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_loop_join_without_memory_fails_or_runs_again() {
    let file = table();
    let plain = plain(&file).await;
    let queries = [
        "SELECT id, g, h FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id < 3) ORDER BY id",
        "SELECT a.id, a.g, a.h, b.id FROM t a LEFT JOIN (SELECT id FROM t WHERE id % 9000 = 5) b ON a.id < b.id ORDER BY 1, 4",
        "SELECT id, g, h FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.id = 5 AND a.id > b.id + 9) ORDER BY id",
    ];
    let mut answers = [0, 0];
    for (load_control, mib) in [("true", 1), ("true", 200), ("false", 1), ("false", 200)] {
        let coscan = coscan(&file, CoscanContext::builder().memory_limit(mib << 20)).await;
        let set = format!("SET coscan.load_control = {load_control}");
        for sql in
            ["SET coscan.buffer = '20MB'", "SET datafusion.optimizer.join_reordering = false", set.as_str()]
        {
            coscan.sql(sql).await.unwrap();
        }
        for sql in queries {
            match rows(&coscan.ctx, sql).await {
                Ok(answer) => {
                    assert_eq!(answer, rows(&plain, sql).await.unwrap(), "{mib} MiB: {sql}");
                    answers[usize::from(load_control == "true")] += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(mib == 1 && error.contains("NestedLoopJoin"), "{sql}: {error}");
                    assert_eq!(error.contains("does not fit"), load_control == "true", "{sql}: {error}");
                }
            }
        }
        nothing_is_left(&coscan).await;
    }
    assert!(answers[0] >= queries.len() && answers[1] >= queries.len(), "{answers:?}");
}

/// DataFusion's partial aggregation over grouping sets declares an order that its rows do not have. If it is
/// refused memory, it emits groups more than once, and the final one relies on the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_sets_come_once_without_memory() {
    let file = table();
    let declaration = format!(
        "CREATE EXTERNAL TABLE s (id BIGINT, g VARCHAR, h VARCHAR) STORED AS PARQUET WITH ORDER (id ASC) LOCATION '{}'",
        file.path().display()
    );
    let groups = |from: &str, keys: &str| {
        format!(
            "SELECT count(*), sum(n) FROM (SELECT {keys}, count(*) AS n FROM {from} GROUP BY CUBE ({keys}))"
        )
    };
    let queries = [
        groups("s", "id, h"),
        groups("(SELECT id % 2 AS k, id % 7 AS l, g FROM t WHERE id % 2 = 1)", "k, l, g"),
        groups("(SELECT id / 3000 AS k, h FROM s)", "k, h"),
    ];
    let one_partition = "SET datafusion.execution.target_partitions = 1";
    let plain = plain(&file).await;
    rows(&plain, &declaration).await.unwrap();
    rows(&plain, one_partition).await.unwrap();
    for (load_control, mib) in
        [("true", 1), ("true", 2), ("true", 8), ("true", 200), ("false", 8), ("false", 200)]
    {
        let coscan = coscan(&file, CoscanContext::builder().memory_limit(mib << 20)).await;
        let set = format!("SET coscan.load_control = {load_control}");
        for sql in [declaration.as_str(), "SET coscan.buffer = '20MB'", one_partition, set.as_str()] {
            rows(&coscan.ctx, sql).await.unwrap();
        }
        for sql in &queries {
            match rows(&coscan.ctx, sql).await {
                Ok(answer) => assert_eq!(answer, rows(&plain, sql).await.unwrap(), "{mib} MiB: {sql}"),
                Err(error) => assert!(mib < 200, "{load_control} {mib} MiB: {sql}: {error}"),
            }
        }
        nothing_is_left(&coscan).await;
    }
}
