//! Point queries: the same rows as from a plain scan, read by pages where that is worthwhile.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use coscan_datafusion::{CoscanOptions, engine_error, install};
use coscan_engine::{Engine, EngineConfig, EngineError};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant, rows};

const GROUPS: i64 = 3;
const ROWS: i64 = 20_000;

/// Sorted by `key`, each key three times; with nulls, few and many strings.
fn write(path: &Path, page_index: bool) {
    // Dictionaries of distinct values would be most of the file.
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(400)
        .set_write_batch_size(100)
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled("kind".into(), true);
    let properties = match page_index {
        true => properties,
        false => properties.set_statistics_enabled(EnabledStatistics::Chunk).set_offset_index_disabled(true),
    };
    let batch = |group: i64| {
        let ids: Vec<i64> = (group * ROWS..(group + 1) * ROWS).collect();
        let of = |value: fn(i64) -> Option<i64>| ids.iter().map(move |&id| value(id));
        let key: ArrayRef = Arc::new(Int64Array::from_iter(of(|id| Some(id / 3))));
        let value: ArrayRef = Arc::new(Float64Array::from_iter(
            of(|id| (id % 7 != 0).then_some(id)).map(|v| v.map(|v| v as f64 / 4.0)),
        ));
        let kind: ArrayRef = Arc::new(StringArray::from_iter(
            of(|id| (id % 5 != 0).then_some(id)).map(|v| v.map(|v| ["red", "green", "blue"][v as usize % 3])),
        ));
        let text: ArrayRef = Arc::new(StringArray::from_iter(
            of(Some).map(|v| v.map(|v| format!("{:x}", v.wrapping_mul(0x9e37_79b9)))),
        ));
        let day: ArrayRef = Arc::new(Date32Array::from_iter(of(Some).map(|v| v.map(|v| (v % 9000) as i32))));
        let price: ArrayRef = Arc::new(
            Decimal128Array::from_iter(of(|id| (id % 11 != 1).then_some(id)).map(|v| v.map(i128::from)))
                .with_precision_and_scale(15, 2)
                .unwrap(),
        );
        let columns =
            [("key", key), ("value", value), ("kind", kind), ("text", text), ("day", day), ("price", price)];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    };
    let schema = batch(0).schema();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), schema, Some(properties.build())).unwrap();
    for group in 0..GROUPS {
        writer.write(&batch(group)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

async fn declare(ctx: &SessionContext, path: &Path) {
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'", path.display());
    ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
}

fn cooperative(engine: &Engine, variant: Variant, threshold: u64) -> SessionContext {
    let mut config = support::config(variant);
    let mut options = CoscanOptions::default();
    options.small_table_bytes = 0;
    options.point_threshold = threshold;
    config.options_mut().extensions.insert(options);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(install(builder, engine.clone()).build())
}

const QUERIES: [&str; 9] = [
    "SELECT * FROM t WHERE key = 1234 ORDER BY text",
    "SELECT * FROM t WHERE key = 6666 ORDER BY text",
    "SELECT text, kind FROM t WHERE key IN (5, 7000, 19999) ORDER BY text",
    "SELECT count(*), sum(price), min(day), max(value) FROM t WHERE key BETWEEN 6600 AND 6700",
    "SELECT kind, count(*) FROM t WHERE key >= 13300 AND key < 13400 GROUP BY kind ORDER BY kind",
    "SELECT * FROM t WHERE key = 50000",
    "SELECT count(*) FROM t WHERE key = 100 OR key = 15000",
    "SELECT key, price FROM t WHERE key = 9000 AND kind IS NULL",
    "SELECT a.key, b.text FROM t a JOIN t b ON a.key = b.key WHERE a.key = 42 ORDER BY b.text LIMIT 4",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_are_those_of_a_plain_scan() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let plain = support::plain(Variant::Default);
    declare(&plain, &path).await;
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(rows(&plain, sql).await.unwrap());
    }
    for variant in VARIANTS {
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let (by_pages, by_scans) = (cooperative(&engine, variant, 16), cooperative(&engine, variant, 0));
        declare(&by_pages, &path).await;
        declare(&by_scans, &path).await;
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(&rows(&by_pages, sql).await.unwrap(), expected, "{variant:?}: {sql}");
        }
        let points = engine.stats().point_reads;
        assert!(points >= 7, "{variant:?}: {points} point reads");
        // With a buffer that holds a few pages only, and with chunks that are resident or being loaded.
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            let all = "SELECT count(value), count(text) FROM t";
            let (scanned, got) = tokio::join!(rows(&by_scans, all), rows(&by_pages, sql));
            assert_eq!(&got.unwrap(), expected, "{variant:?} beside a scan: {sql}");
            scanned.unwrap();
        }
        let before = engine.stats().point_reads;
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(&rows(&by_scans, sql).await.unwrap(), expected, "{variant:?} by scans: {sql}");
        }
        assert_eq!(engine.stats().point_reads, before, "0 switches point reads off");
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_room_or_page_index_a_scan_answers() {
    let dir = tempfile::tempdir().unwrap();
    let plain = support::plain(Variant::Default);
    for (page_index, share) in [(false, 10), (true, 0)] {
        let path = dir.path().join(format!("{page_index}.parquet"));
        write(&path, page_index);
        let (policy, ctx) = (support::policy("relevance"), &plain);
        let _ = ctx.deregister_table("t");
        declare(ctx, &path).await;
        let mut config = EngineConfig::new(policy, LARGE_BUFFER);
        config.point_share_percent = share;
        let engine = Engine::new(config).unwrap();
        let coscan = cooperative(&engine, Variant::Default, 16);
        declare(&coscan, &path).await;
        for sql in QUERIES {
            assert_eq!(rows(&coscan, sql).await.unwrap(), rows(ctx, sql).await.unwrap(), "{sql}");
        }
        assert_eq!(engine.stats().point_reads, 0);
        assert!(engine.stats().chunks_delivered > 0);
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_replaced_between_plan_and_read_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = cooperative(&engine, Variant::Default, 16);
    declare(&ctx, &path).await;
    let sql = QUERIES[0];
    let planned = ctx.plain_sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    // The same file with another time: its pages must not be trusted.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let outcome = datafusion::physical_plan::collect(planned, ctx.task_ctx()).await;
    let error = outcome.expect_err("the file is another one");
    assert!(matches!(engine_error(&error), Some(EngineError::FileReplaced { .. })), "{error}");
    assert_eq!(rows(&ctx, sql).await.unwrap().len(), 3, "run again it works");
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_point_queries_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = cooperative(&engine, Variant::Default, 16);
    declare(&ctx, &path).await;
    for n in 0..60u64 {
        let sql = format!("SELECT * FROM t WHERE key = {}", n * 331);
        let _ = tokio::time::timeout(std::time::Duration::from_micros(n * 150), rows(&ctx, &sql)).await;
    }
    assert_eq!(rows(&ctx, QUERIES[0]).await.unwrap().len(), 3);
    support::settled(&engine).await;
    engine.set_buffer(1).unwrap();
    assert_eq!(engine.usage().points, 0, "frames are given back when the buffer shrinks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_are_found_in_a_buffer_that_holds_their_pages_but_no_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let policy = support::policy("relevance");
    let engine = support::engine(policy, LARGE_BUFFER);
    let scans = cooperative(&engine, Variant::Single, 0);
    declare(&scans, &path).await;
    let needed = support::minimum_buffer(&scans, &engine, &["SELECT * FROM t"]).await;
    for share in [30, 40, 60] {
        let mut config = EngineConfig::new(policy, needed * 9 / 10);
        (config.point_share_percent, config.slice_rows) = (share, 256);
        let engine = Engine::new(config).unwrap();
        let ctx = cooperative(&engine, Variant::Single, 16);
        declare(&ctx, &path).await;
        let found = |n: i64| {
            let ctx = ctx.clone();
            async move { rows(&ctx, &format!("SELECT * FROM t WHERE key = {}", n * 331)).await }
        };
        for (n, found) in support::at_a_time((0..60).map(found).collect(), 12).await.into_iter().enumerate() {
            assert_eq!(found.unwrap().len(), 3, "share {share}, query {n}");
        }
        assert_eq!(engine.stats().chunks_delivered, 0, "no row group fits");
        support::settled(&engine).await;
    }
}

/// A profile of a file's device, in which a request costs as much as 2.5 MB.
fn profile(path: &Path) -> std::path::PathBuf {
    let device = rustix::fs::stat(path).unwrap().st_dev;
    let text = format!(
        r#"
        version = 1
        device_ids = ["{}:{}"]
        bytes = 1000000000
        block_bytes = 4096
        complete = true
        boundaries_searched = true
        regime_searched = true
        fixed_cost_s = {{ value = 0.03, low = 0.03, high = 0.03 }}
        bytes_per_s = {{ value = 85e6, low = 85e6, high = 85e6 }}
        depth = {{ request_bytes = 1048576, enough = {{ value = 4.0, low = 4.0, high = 4.0 }}, throughput = [] }}
        "#,
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let profile = path.with_extension("toml");
    std::fs::write(&profile, text).unwrap();
    profile
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pages_that_are_more_requests_than_their_chunk_are_left_to_scans_by_a_profile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let mut config = EngineConfig::new(support::policy("relevance"), LARGE_BUFFER);
    config.device_profiles = vec![profile(&path)];
    let engine = Engine::new(config).unwrap();
    let coscan = cooperative(&engine, Variant::Default, 16);
    declare(&coscan, &path).await;
    let read = async |sql: &str| {
        let before = engine.stats().point_reads;
        assert_eq!(rows(&coscan, sql).await.unwrap().len(), 3);
        engine.stats().point_reads - before
    };
    // Six columns are six requests, and one for their chunk. One column is one request either way.
    assert_eq!(read("SELECT * FROM t WHERE key = 1234").await, 0);
    assert_eq!(read("SELECT key FROM t WHERE key = 1234").await, 1);
    let explained = "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE value > 0";
    let shown = rows(&coscan, explained).await.unwrap().concat();
    for metric in [
        "device_requests=4",
        "device_chunk_bytes=",
        "device_point_latency_ms=60",
        "device_request_cost_bytes=",
    ] {
        assert!(shown.contains(metric), "{metric}: {shown}");
    }
    coscan.plain_sql("SET coscan.point_threshold = 16").await.unwrap();
    assert_eq!(read("SELECT * FROM t WHERE key = 5234").await, 1, "what is set by hand wins");
    support::settled(&engine).await;
}

/// Partitions that are opened late, as on a busy machine, have their own registration. The shown device
/// values are not added up.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn partitions_that_are_read_one_after_the_other_show_one_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write(&path, true);
    let mut config = EngineConfig::new(support::policy("relevance"), LARGE_BUFFER);
    config.device_profiles = vec![profile(&path)];
    let engine = Engine::new(config).unwrap();
    let coscan = cooperative(&engine, Variant::Default, 16);
    declare(&coscan, &path).await;
    let frame = coscan.plain_sql("SELECT value FROM t WHERE value > 0").await.unwrap();
    let mut scan = frame.create_physical_plan().await.unwrap();
    while let Some(child) = scan.children().first().map(|child| Arc::clone(child)) {
        scan = child;
    }
    let partitions = scan.output_partitioning().partition_count();
    assert!(partitions > 1, "{scan:?}");
    for partition in 0..partitions {
        let stream = scan.execute(partition, coscan.task_ctx()).unwrap();
        stream.try_collect::<Vec<_>>().await.unwrap();
        support::settled(&engine).await;
    }
    let shown = scan.metrics().unwrap();
    let requests = shown.sum_by_name("device_requests").map(|requests| requests.as_usize());
    assert_eq!(requests, Some(4), "{shown}");
}
