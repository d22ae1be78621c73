//! Settings, plans in EXPLAIN, and scans that are left to DataFusion.

use std::sync::Arc;

use coscan_datafusion::CoscanContext;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::cache::cache_manager::{
    DEFAULT_FILE_STATISTICS_MEMORY_LIMIT, DEFAULT_METADATA_CACHE_LIMIT,
};
use datafusion::physical_plan::{ExecutionPlanProperties, collect, displayable};
use futures::StreamExt;

use crate::support::Variant;
use crate::{data, support};

async fn explain(coscan: &CoscanContext, sql: &str) -> String {
    support::rows(&coscan.ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n")
}

async fn set(coscan: &CoscanContext, name: &str, value: &str) -> datafusion::common::Result<()> {
    coscan.sql(&format!("SET coscan.{name} = '{value}'")).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_reaches_the_engine() {
    let coscan = support::context(&[]).await;
    for policy in coscan_core::registry::sharing() {
        set(&coscan, "policy", policy.as_str()).await.expect("a policy");
        assert_eq!(coscan.engine.policy(), policy);
        let plan = explain(&coscan, "SELECT id FROM events").await;
        assert!(plan.contains(&format!("CScan: policy={policy}, file_groups=")), "{plan}");
        assert_eq!(support::number(&coscan.ctx, "SELECT count(id) FROM events WHERE id < 100").await, 100);
    }
    set(&coscan, "buffer", "64MiB").await.expect("a buffer");
    set(&coscan, "read_limit", "100MB").await.expect("a limit");
    assert_eq!(coscan.engine.usage().budget, 64 << 20);
    let limit = coscan.engine.read_limiter().and_then(|limiter| limiter.limit());
    assert_eq!(limit.map(|limit| limit.bytes_per_s), Some(100_000_000));
    let shown = support::rows(&coscan.ctx, "SHOW coscan.buffer").await.expect("SHOW");
    assert!(shown[0].contains("67108864"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_settings_are_refused() {
    let coscan = support::context(&[]).await;
    for (name, value) in [("policy", "fifo"), ("buffer", "lots"), ("nonsense", "1"), ("io_threads", "3")] {
        let error = set(&coscan, name, value).await.expect_err(name).to_string();
        assert!(error.contains(&format!("coscan.{name}")), "{error}");
    }
    assert_eq!(coscan.engine.policy().as_str(), "relevance");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_values_are_refused_with_their_range() {
    for (name, value) in [("stall_ms", "18446744073710"), ("point_share", "200"), ("slice_rows", "0")] {
        let error = CoscanContext::builder().set(name, value).build().err().expect(name).to_string();
        assert!(error.contains(&format!("coscan.{name}: '{value}' is not a whole number from")), "{error}");
    }
    let coscan = support::context(&[]).await;
    let error = set(&coscan, "read_latency_ms", "18446744073710").await.expect_err("too much").to_string();
    assert!(error.contains("0 to 86400000"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_engine_are_changed_by_administrators_only() {
    let coscan = support::context(&[]).await;
    let before = coscan.engine.usage().budget;
    let guest = coscan.new_session(support::config(Variant::Default));
    let another = CoscanContext::builder().engine(coscan.engine.clone()).build().expect("a context");
    for session in [&guest, &another.ctx] {
        for (name, value) in
            [("buffer", "1MB"), ("policy", "normal"), ("read_limit", "1"), ("read_latency_ms", "9")]
        {
            let statement = format!("SET coscan.{name} = '{value}'");
            let error = session.plain_sql(&statement).await.expect_err(name).to_string();
            assert!(error.contains(&format!("coscan.{name}")) && error.contains("administrator"), "{error}");
        }
        // It may set its own settings, and see the shared ones.
        session.plain_sql("SET coscan.small_table_bytes = '1MB'").await.expect("its own");
        let shown = support::rows(session, "SHOW coscan.buffer").await.expect("SHOW");
        assert!(shown[0].contains(&before.to_string()), "{shown:?}");
    }
    assert_eq!((coscan.engine.usage().budget, coscan.engine.policy().as_str()), (before, "relevance"));
    set(&coscan, "buffer", "300MB").await.expect("it started the engine");
    let builder = CoscanContext::builder().engine(coscan.engine.clone()).administrator(true);
    set(&builder.build().expect("a context"), "buffer", "301MB").await.expect("it may");
    assert_eq!(coscan.engine.usage().budget, 301_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn derived_defaults_follow_what_was_given() {
    let builder = CoscanContext::builder().process_memory(16 << 30).target_partitions(2);
    let config = |builder: coscan_datafusion::CoscanContextBuilder| {
        builder.build().expect("a context").engine.config().clone()
    };
    // Half of the memory minus 48 MiB, as the README states.
    let usual = config(builder);
    assert_eq!((usual.buffer_bytes, usual.decoded_bytes_max), ((8 << 30) - (48 << 20), 512 << 20));
    let builder = CoscanContext::builder().process_memory(16 << 30).target_partitions(2);
    let config = config(builder.buffer_bytes(400_000_000).set("loads_in_flight", "7"));
    assert_eq!((config.decoded_share_percent, config.io_threads), (25, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn footers_of_thousands_of_files_fit_beside_a_large_buffer() {
    let limits = |buffer: u64| {
        let coscan = CoscanContext::builder().buffer_bytes(buffer).build().expect("a context");
        let caches = coscan.ctx.runtime_env().cache_manager.clone();
        (caches.get_metadata_cache_limit(), caches.get_file_statistic_cache_limit())
    };
    assert_eq!(limits(4 << 30), (256 << 20, 128 << 20));
    assert_eq!(limits(64 << 20), (DEFAULT_METADATA_CACHE_LIMIT, DEFAULT_FILE_STATISTICS_MEMORY_LIMIT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_left_alone_when_asked() {
    let coscan = support::context(&[]).await;
    assert!(explain(&coscan, "SELECT * FROM dims").await.contains("CScan"));
    set(&coscan, "small_table_bytes", "1GB").await.expect("small_table_bytes");
    assert!(!explain(&coscan, "SELECT * FROM events").await.contains("CScan"));
    set(&coscan, "small_table_bytes", "0").await.expect("small_table_bytes");
    set(&coscan, "enabled", "false").await.expect("enabled");
    assert!(!explain(&coscan, "SELECT * FROM events").await.contains("CScan"));
    set(&coscan, "enabled", "true").await.expect("enabled");
    assert!(explain(&coscan, "SELECT * FROM events").await.contains("CScan"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_the_counters() {
    let coscan = support::context(&[]).await;
    let sql = "EXPLAIN ANALYZE SELECT sum(tiny), min(code) FROM events WHERE id >= 6000";
    let cold = support::rows(&coscan.ctx, sql).await.expect(sql).join("\n");
    for name in [
        "chunks_delivered=10",
        "chunks_loaded=",
        "slices_decoded=",
        "wait_time=",
        "decode_time=",
        "output_rows=",
    ] {
        assert!(cold.contains(name), "{name} is missing in\n{cold}");
    }
    assert!(cold.contains("row_groups_pruned_statistics=20 total → 10 matched"), "{cold}");
    let warm = support::rows(&coscan.ctx, sql).await.expect(sql).join("\n");
    assert!(warm.contains("chunks_from_buffer=10"), "{warm}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_can_be_run_again_while_it_runs() {
    let coscan = support::context(&[]).await;
    let frame = coscan.sql("SELECT id, code FROM events").await.expect("a frame");
    let plan = frame.clone().create_physical_plan().await.expect("a plan");
    let partitions = plan.output_partitioning().partition_count();
    assert!(partitions > 1, "{}", displayable(plan.as_ref()).indent(false));
    let open = || -> Vec<SendableRecordBatchStream> {
        let context = Arc::new(frame.task_ctx());
        (0..partitions).map(|p| plan.execute(p, Arc::clone(&context)).expect("a stream")).collect()
    };
    // All partitions of the first are open and one has begun before the second begins.
    let (mut first, mut rows) = (open(), 0);
    rows += first[0].next().await.expect("a batch").expect("a batch").num_rows();
    let again = collect(Arc::clone(&plan), Arc::new(frame.task_ctx())).await.expect("the second");
    assert_eq!(again.iter().map(RecordBatch::num_rows).sum::<usize>(), data::EVENTS as usize);
    for mut stream in first {
        while let Some(batch) = stream.next().await {
            rows += batch.expect("a batch").num_rows();
        }
    }
    assert_eq!(rows, data::EVENTS as usize);
    let third = collect(plan, Arc::new(frame.task_ctx())).await.expect("the third");
    assert_eq!(third.iter().map(RecordBatch::num_rows).sum::<usize>(), data::EVENTS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_order_needs_no_sort() {
    let coscan = support::context(&[]).await;
    let plan = explain(&coscan, "SELECT at, value FROM readings ORDER BY at").await;
    assert!(plan.contains("CScan") && plan.contains("output_ordering=[at"), "{plan}");
    assert!(!plan.contains("SortExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_can_be_queried_by_path() {
    let builder =
        CoscanContext::builder().policy("elevator").buffer_bytes(64 << 20).set("small_table_bytes", "0");
    let coscan = builder.url_tables(true).build().expect("a context");
    let path = data::folder().join("events.parquet");
    let sql = format!("SELECT count(*) FROM '{}' WHERE id >= 9000", path.display());
    assert!(explain(&coscan, &sql).await.contains("CScan: policy=elevator"));
    assert_eq!(support::number(&coscan.ctx, &sql).await, 3000);
    coscan.register_parquet("p", &data::folder().join("parts/").to_string_lossy()).await.expect("a folder");
    assert_eq!(support::number(&coscan.ctx, "SELECT count(*) FROM p WHERE year = '2023'").await, 2000);

    // There is a folder of this name, but it is no path.
    assert!(std::path::Path::new("src").is_dir());
    let unknown = coscan.sql("SELECT * FROM src").await.expect_err("no table").to_string();
    assert!(unknown.contains("not found"), "{unknown}");
    coscan.sql("CREATE VIEW src AS SELECT 7 AS a").await.expect("a view");
    assert_eq!(support::number(&coscan.ctx, "SELECT a FROM src").await, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_that_are_special_are_left_alone() {
    let coscan = support::context(&[]).await;
    let numbered = explain(&coscan, "SELECT file_row_index(), id FROM events").await;
    assert!(!numbered.contains("CScan"), "{numbered}");
}
