//! Rewritten plans: their nodes, the order in which fragments are requested, and the fragments that are never
//! requested.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use coscan_tier::{Tiers, forecast, keep_footers};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlanProperties;
use futures::{StreamExt, TryStreamExt};

use crate::archive::{self, Glacier};
use crate::tables::{declare, nodes, over, plain, reopened, rows, write_file};

/// About the bytes of seven files of [`write_table`].
const SEVEN_FILES: u64 = 27_000;

/// A table with files of 100 rows: `id` ascends over all files, `k` is `id % 10`.
pub fn write_table(folder: &Path, name: &str, files: i64) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]));
    for file in 0..files {
        let ids: Vec<i64> = (file * 100..(file + 1) * 100).collect();
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(Int64Array::from(ids.clone())),
                Arc::new(Int64Array::from_iter(ids.iter().map(|id| (id % 7 != 0).then_some(id % 10)))),
                Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("row {id}")))),
            ],
        );
        write_file(&folder.join(name).join(format!("{file:03}.parquet")), &[batch.unwrap()], 50);
    }
}

struct World {
    _dir: tempfile::TempDir,
    tiers: Tiers,
    coscan: coscan_datafusion::CoscanContext,
    plain: datafusion::prelude::SessionContext,
    glacier: Arc<Glacier>,
}

/// Tables `r` (6 files) and `s` (4 files) in an archive class, nothing restored, footers kept.
async fn world(more: &str, archive: &str) -> World {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    write_table(&bucket, "r", 6);
    write_table(&bucket, "s", 4);
    let plain = plain();
    declare(&plain, &bucket.display().to_string(), &["r", "s"]).await;
    let (endpoint, glacier) = archive::serve(dir.path(), Duration::from_millis(50)).await;
    let cache = dir.path().join("cache");
    {
        let tiers = Tiers::of_open([archive::open(&endpoint, &cache, "", "").unwrap()]).unwrap();
        let coscan = over(&tiers);
        for table in ["r", "s"] {
            keep_footers(&coscan.ctx, &tiers, &format!("s3://bucket/{table}/"), |_, _| ()).await.unwrap();
        }
    }
    std::fs::remove_dir_all(cache.join("fragments")).unwrap();
    // Forgets the cost of the footers.
    std::fs::remove_file(cache.join("journal")).unwrap();
    glacier.expire();
    let tiers = reopened(&|| Tiers::of_open([archive::open(&endpoint, &cache, more, archive)?])).await;
    let coscan = over(&tiers);
    declare(&coscan.ctx, "s3://bucket", &["r", "s"]).await;
    World { _dir: dir, tiers, coscan, plain, glacier }
}

impl World {
    async fn same(&self, sql: &str) {
        assert_eq!(
            rows(&self.coscan.ctx, sql).await.unwrap(),
            rows(&self.plain, sql).await.unwrap(),
            "{sql}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_is_combined_and_scheduled() {
    let world = world("", "").await;
    let sql = "SELECT k, count(*), sum(id) FROM r GROUP BY k";
    assert_eq!(nodes(&world.coscan.ctx, sql, "ScheduleExec").await, ["ScheduleExec: subqueries=6"]);
    let combine = nodes(&world.coscan.ctx, sql, "CombineExec").await;
    assert!(combine[0].contains("fragments=6") && combine[0].contains("AggregateExec"), "{combine:?}");
    world.same(sql).await;
    assert_eq!(world.glacier.requests().len(), 6);
    world.same("SELECT * FROM r WHERE id < 250 ORDER BY id").await;
    assert_eq!(world.glacier.requests().len(), 6, "everything is cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_footers_do_not_rule_out_is_restored() {
    let world = world("", "").await;
    world.same("SELECT id, s FROM r WHERE id BETWEEN 150 AND 210").await;
    assert_eq!(world.glacier.requests().len(), 2, "{:?}", world.glacier.requests());
    // The build side, one file of s, decides at run time which files of r are needed.
    world.same("SELECT r.id, s.s FROM s JOIN r ON r.id = s.id WHERE s.id < 20").await;
    let requests = world.glacier.requests();
    assert_eq!(requests[2..], ["s/000.parquet", "r/000.parquet"]);
}

/// A resolve node hands on a list of more than 256 fragments in parts, and the second part is not forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_many_fragments_are_resolved_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    write_table(&dir.path().join("bucket"), "r", 300);
    let (endpoint, glacier) = archive::serve(dir.path(), Duration::ZERO).await;
    let tiers =
        Tiers::of_open([archive::open(&endpoint, &dir.path().join("cache"), "", "").unwrap()]).unwrap();
    let coscan = over(&tiers);
    let sql = "CREATE EXTERNAL TABLE r (id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET LOCATION 's3://bucket/r/'";
    coscan.ctx.plain_sql(sql).await.unwrap().collect().await.unwrap();
    // No restore finishes before all fragments of the first part are requested: they do not wait for each other in
    // waves.
    let keys: Vec<String> = (0..300).map(|at| format!("r/{at:03}.parquet")).collect();
    glacier.never.lock().unwrap().extend(keys);
    let all_asked_for = async {
        while glacier.requests().len() < 256 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        glacier.never.lock().unwrap().clear();
    };
    let query = rows(&coscan.ctx, "SELECT count(*), sum(id) FROM r WHERE k >= 0 OR k IS NULL");
    let (found, ()) = tokio::join!(query, all_asked_for);
    assert_eq!(found.unwrap(), ["30000|449985000"]);
    assert_eq!(glacier.requests().len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_restores_no_more_than_it_needs_in_the_end() {
    let world = world("", "at_once = 1").await;
    // Even if the rows of the first files are read late, not all of these restores are requested.
    world.glacier.never.lock().unwrap().extend((3..6).map(|at| format!("r/{at:03}.parquet")));
    let found = rows(&world.coscan.ctx, "SELECT id FROM r LIMIT 5").await.unwrap();
    assert_eq!(found.len(), 5);
    assert!(world.glacier.requests().len() < 6, "{:?}", world.glacier.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_without_a_hash_table_run_in_passes() {
    let world = world("", "").await;
    let sql = "SELECT count(*), sum(r.id), sum(s.id) FROM r JOIN s ON r.id < s.id AND r.k < 3";
    let schedule = nodes(&world.coscan.ctx, sql, "ScheduleExec").await;
    assert!(schedule.iter().any(|line| line.contains("in passes")), "{schedule:?}");
    world.same(sql).await;
    assert_eq!(world.glacier.requests().len(), 10);
    world.same("SELECT count(*) FROM r CROSS JOIN s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_side_that_is_too_large_is_joined_pair_by_pair() {
    let world = world("build_bytes = '1B'", "").await;
    let sql = "SELECT r.id, r.s, s.k FROM r JOIN s ON r.id = s.id WHERE r.k <> 3";
    let schedule = nodes(&world.coscan.ctx, sql, "ScheduleExec").await;
    assert!(schedule.iter().any(|line| line.contains("in passes")), "{schedule:?}");
    world.same(sql).await;
    for join in ["LEFT", "RIGHT", "FULL"] {
        let sql = format!("SELECT r.id, s.k FROM r {join} JOIN s ON r.id = s.id + 350");
        let schedule = nodes(&world.coscan.ctx, &sql, "ScheduleExec").await;
        assert!(!schedule.iter().any(|line| line.contains("in passes")), "{join}: {schedule:?}");
        world.same(&sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outer_joins_without_a_hash_table_see_all_pairs_at_once() {
    let world = world("", "").await;
    for join in ["LEFT", "RIGHT", "FULL"] {
        let sql = format!(
            "SELECT count(*), count(r.id), count(s.id) FROM r {join} JOIN s ON r.id > s.id + 300 AND r.k < s.k"
        );
        let schedule = nodes(&world.coscan.ctx, &sql, "ScheduleExec").await;
        assert!(!schedule.iter().any(|line| line.contains("in passes")), "{join}: {schedule:?}");
        world.same(&sql).await;
    }
}

/// In one partition, a limit belongs to the scan alone and an aggregation has one step.
#[tokio::test(flavor = "multi_thread")]
async fn in_one_partition_limits_and_aggregations_are_those_of_all_fragments() {
    let world = world("", "").await;
    for session in [&world.coscan.ctx, &world.plain] {
        let set = session.plain_sql("SET datafusion.execution.target_partitions = 1").await.unwrap();
        set.collect().await.unwrap();
    }
    for sql in [
        "SELECT count(DISTINCT id) FROM (SELECT id FROM r LIMIT 150)",
        // Every second row of a file passes, for every place at which the limit cuts the file.
        "SELECT count(DISTINCT id) FROM (SELECT id FROM r LIMIT 150) WHERE id % 2 = 0",
        "SELECT k, count(*), sum(id) FROM r GROUP BY k",
        "SELECT k, min(s) FROM s WHERE id > 20 GROUP BY k",
    ] {
        world.same(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_smaller_than_the_table_is_enough() {
    let world = world("cache_bytes = '10kB'", "").await;
    for sql in [
        "SELECT count(*), sum(id), min(s) FROM r",
        "SELECT count(*), sum(r.id) FROM r JOIN s ON r.id < s.id",
        "SELECT r.k, count(*) FROM r JOIN s ON r.id = s.id GROUP BY r.k",
        "SELECT id FROM r UNION ALL SELECT id FROM s",
    ] {
        world.same(sql).await;
    }
    let status = world.tiers.all().next().unwrap().status();
    assert!(status.used_bytes <= 10_000, "{status:?}");
    assert!(status.fetches > 10, "fragments had to be fetched again: {}", status.fetches);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_order_need_all_fragments_at_once() {
    let world = world("", "").await;
    let location = "STORED AS PARQUET LOCATION 's3://bucket/r/'";
    let sql = format!(
        "CREATE EXTERNAL TABLE sorted (id BIGINT NOT NULL, k BIGINT, s VARCHAR) {location} WITH ORDER (id)"
    );
    world.coscan.ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
    let sql = "SELECT id, row_number() OVER (ORDER BY id) FROM sorted ORDER BY id LIMIT 450";
    assert_eq!(nodes(&world.coscan.ctx, sql, "MergeCombineExec").await.len(), 1);
    let plain = rows(&world.plain, &sql.replace("sorted", "r")).await.unwrap();
    assert_eq!(rows(&world.coscan.ctx, sql).await.unwrap(), plain);
}

/// The stream that was polled first began to restore all fragments and is not polled any more, like a stream of a
/// join's waiting side. The other streams continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_left_alone_keeps_no_other_waiting_for_fragments() {
    let world = world("", "").await;
    let sql = "CREATE EXTERNAL TABLE sorted (id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET \
               LOCATION 's3://bucket/r/' WITH ORDER (id)";
    world.coscan.ctx.plain_sql(sql).await.unwrap().collect().await.unwrap();
    let plan = world.coscan.ctx.plain_sql("SELECT id FROM sorted ORDER BY id").await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let mut merge = None;
    plan.apply(|node| {
        merge = (node.name() == "MergeCombineExec").then(|| Arc::clone(node)).or(merge.take());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    let merge = merge.expect("a scan in order is a merge-combine node");
    let context = world.coscan.ctx.task_ctx();
    let partitions = merge.output_partitioning().partition_count();
    assert!(partitions > 1, "{merge:?}");
    let mut streams: Vec<_> =
        (0..partitions).map(|at| merge.execute(at, Arc::clone(&context)).unwrap()).collect();
    let mut alone = streams.remove(0);
    assert!(alone.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    for others in streams {
        let read = tokio::time::timeout(Duration::from_secs(600), others.try_collect::<Vec<_>>()).await;
        assert!(!read.expect("waits for nobody").unwrap().is_empty());
    }
    assert!(!alone.try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(world.glacier.requests().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_restores_nothing_and_a_limit_on_cost_holds() {
    let world = world("cost_limit = 3.5", "price_request = 1.0").await;
    let plan = world.coscan.ctx.plain_sql("SELECT count(*) FROM r WHERE id < 200").await.unwrap();
    let forecasts = forecast(&plan.create_physical_plan().await.unwrap()).await.unwrap();
    assert_eq!(forecasts.len(), 1);
    let forecast = &forecasts[0];
    assert_eq!(
        (forecast.restores.len(), forecast.cached, forecast.price, forecast.left),
        (2, 0, 2.0, Some(3.5))
    );
    assert_eq!(world.glacier.requests().len(), 0);
    let error = rows(&world.coscan.ctx, "SELECT sum(id) FROM r").await.unwrap_err().to_string();
    assert!(error.contains("cost_limit") && error.contains("6.0000 more"), "{error}");
    assert_eq!(world.glacier.requests().len(), 0, "refused before anything is restored");
    world.same("SELECT sum(id) FROM r WHERE id < 200").await;
    let error = rows(&world.coscan.ctx, "SELECT sum(id) FROM s").await.unwrap_err().to_string();
    assert!(error.contains("2.0000 spent"), "{error}");
}

/// The needs of a query are known before the first request. Several lists belong to one query: those of joined
/// scans, and those of partitions that are opened late.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_cost_is_that_of_the_whole_query() {
    let world = world("cost_limit = 9.5", "price_request = 1.0").await;
    for sql in [
        "SELECT count(*) FROM r JOIN s ON r.id = s.id + 5",
        "SELECT count(*) FROM r JOIN s ON r.id < s.id",
        "SELECT id FROM s UNION ALL SELECT id FROM r",
        "SELECT (SELECT sum(k) FROM s) - sum(k) FROM r",
    ] {
        let error = rows(&world.coscan.ctx, sql).await.unwrap_err().to_string();
        assert!(error.contains("cost_limit") && error.contains("10.0000 more"), "{sql}: {error}");
        assert_eq!(world.glacier.requests().len(), 0, "{sql}: refused before anything is restored");
    }
    world.same("SELECT count(*) FROM r JOIN s ON r.id = s.id + 5 WHERE r.id >= 100 AND s.id >= 100").await;
    let spent = world.glacier.requests().len();
    assert!((1..=8).contains(&spent), "{:?}", world.glacier.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_opened_alone_counts_what_the_others_cost() {
    let world = world("cost_limit = 5.5", "price_request = 1.0").await;
    let plan = world.coscan.ctx.plain_sql("SELECT id FROM r").await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    assert!(plan.output_partitioning().partition_count() > 1, "{plan:?}");
    let alone = plan.execute(0, world.coscan.ctx.task_ctx()).unwrap();
    let error = alone.try_collect::<Vec<_>>().await.unwrap_err().to_string();
    assert!(error.contains("cost_limit") && error.contains("6.0000 more"), "{error}");
    assert_eq!(world.glacier.requests().len(), 0, "refused before anything is restored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_in_passes_restores_only_what_footers_do_not_rule_out() {
    let world = world("", "").await;
    let sql =
        "SELECT count(*), sum(r.id), sum(s.id) FROM r JOIN s ON r.id < s.id WHERE r.id < 100 AND s.id < 200";
    let schedule = nodes(&world.coscan.ctx, sql, "ScheduleExec").await;
    assert!(schedule.iter().any(|line| line.contains("in passes")), "{schedule:?}");
    world.same(sql).await;
    let mut requests = world.glacier.requests();
    requests.sort();
    assert_eq!(requests, ["r/000.parquet", "s/000.parquet", "s/001.parquet"]);
    world.same("SELECT count(*) FROM r JOIN s ON r.id < s.id WHERE r.id > 9999").await;
    assert_eq!(world.glacier.requests().len(), 3, "an empty side needs nothing");
}

/// With one request at a time, the first of two tables would take the room that the second one needs, and then wait
/// for it forever.
#[tokio::test(flavor = "multi_thread")]
async fn tables_in_order_that_are_merged_are_in_the_cache_together_or_refused_at_once() {
    for (cache_bytes, fits) in [(SEVEN_FILES, false), (3 * SEVEN_FILES, true)] {
        let world = world(&format!("cache_bytes = '{cache_bytes}B'"), "").await;
        for (table, of) in [("ordered_r", "r"), ("ordered_s", "s")] {
            let sql = format!(
                "CREATE EXTERNAL TABLE {table} (id BIGINT NOT NULL, k BIGINT, s VARCHAR) STORED AS PARQUET LOCATION \
                 's3://bucket/{of}/' WITH ORDER (id)"
            );
            world.coscan.ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for setting in ["execution.target_partitions = 1", "execution.split_file_groups_by_statistics = true"]
        {
            let set = world.coscan.ctx.plain_sql(&format!("SET datafusion.{setting}")).await.unwrap();
            set.collect().await.unwrap();
        }
        let sql = "SELECT id FROM ordered_r UNION ALL SELECT id FROM ordered_s ORDER BY id";
        assert_eq!(nodes(&world.coscan.ctx, sql, "MergeCombineExec").await.len(), 2);
        // Inputs that are sorted are read one after the other.
        let fits = fits || !nodes(&world.coscan.ctx, sql, "SortExec").await.is_empty();
        let found = tokio::time::timeout(Duration::from_secs(600), rows(&world.coscan.ctx, sql)).await;
        match found.expect("no deadlock") {
            Ok(found) => {
                assert!(fits);
                assert_eq!(found, rows(&world.plain, &sql.replace("ordered_", "")).await.unwrap());
            }
            Err(error) => {
                let error = error.to_string();
                assert!(!fits && error.contains("merged with 1 more"), "{error}");
                assert!(error.contains("'cache_bytes'"), "{error}");
                assert_eq!(world.glacier.requests().len(), 0);
            }
        }
        world.same("SELECT id FROM r UNION ALL SELECT id FROM s ORDER BY id").await;
    }
}
