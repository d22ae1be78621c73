//! Operators by chunks wait only for the engine. Any partitions that are polled come to their end, also with
//! the smallest buffer, while others are not polled or are dropped.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coscan_core::registry;
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::ordered::{Layout, declared, write_both, write_table};
use crate::support::{self, LARGE_BUFFER, Variant};

/// A partition that does not end in this time waits for something that never happens.
const ENDS_AFTER: Duration = support::QUERY_ENDS_AFTER;

const QUERIES: [&str; 5] = [
    "SELECT k, count(*), sum(v) FROM c GROUP BY k",
    "SELECT DISTINCT k, g FROM c WHERE v > 0",
    "SELECT k, v, count(*) OVER (PARTITION BY k) FROM c",
    "SELECT c.k, c.v, d.v FROM c JOIN d ON c.k = d.k",
    "SELECT d.k, d.v, c.v FROM c RIGHT JOIN d ON c.k = d.k AND c.v < d.v",
];

/// The partitions of a plan.
struct Partitions {
    streams: Vec<Option<SendableRecordBatchStream>>,
    rows: Vec<String>,
}

impl Partitions {
    fn open(plan: &Arc<dyn ExecutionPlan>, ctx: &SessionContext) -> Self {
        let context = ctx.task_ctx();
        let partitions = 0..plan.output_partitioning().partition_count();
        let open = |at| Some(plan.execute(at, Arc::clone(&context)).expect("a stream"));
        Partitions { streams: partitions.map(open).collect(), rows: Vec::new() }
    }

    /// Polls a partition `times` times, giving the engine time in between.
    async fn poll(&mut self, at: usize, times: usize) {
        for _ in 0..times {
            let Some(stream) = &mut self.streams[at] else { return };
            match futures::poll!(stream.next()) {
                std::task::Poll::Pending => tokio::time::sleep(Duration::from_micros(200)).await,
                std::task::Poll::Ready(Some(batch)) => self.rows.extend(lines(batch)),
                std::task::Poll::Ready(None) => self.streams[at] = None,
            }
        }
    }

    /// Reads a partition to its end, while the others are not polled.
    async fn drain(&mut self, at: usize) {
        if let Some(stream) = self.streams[at].take() {
            let batches = tokio::time::timeout(ENDS_AFTER, stream.collect::<Vec<_>>()).await;
            let batches = batches.unwrap_or_else(|_| panic!("partition {at} comes to no end"));
            self.rows.extend(batches.into_iter().flat_map(lines));
        }
    }
}

fn lines(batch: Result<RecordBatch>) -> Vec<String> {
    let batch = batch.expect("a batch");
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
    let columns: Vec<_> = columns.collect::<std::result::Result<_, _>>().expect("values");
    let line = |row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" | ");
    (0..batch.num_rows()).map(line).collect()
}

/// Returns whether it was done by chunks.
async fn in_turns(
    ctx: &SessionContext,
    plain: &SessionContext,
    sql: &str,
    rng: &mut Rng,
    what: &str,
) -> bool {
    let plan = planned(ctx, sql).await;
    let by_chunks = by_chunks(&plan);
    let mut expected = support::rows(plain, sql).await.expect(sql);
    expected.sort_unstable();
    let mut partitions = Partitions::open(&plan, ctx);
    let mut order: Vec<usize> = (0..partitions.streams.len()).collect();
    rng.shuffle(&mut order);
    // Some begin and are left in any state.
    for &at in &order[..rng.usize(0..order.len())] {
        // Few polls leave one with a chunk of which it has no row yet.
        let most = *rng.choice(&[4, 8, 30]).expect("a number");
        partitions.poll(at, rng.usize(1..most)).await;
    }
    let dropped = rng.bool().then(|| order[0]);
    if let Some(at) = dropped {
        partitions.streams[at] = None;
    }
    rng.shuffle(&mut order);
    for at in order {
        partitions.drain(at).await;
    }
    let mut found = partitions.rows;
    found.sort_unstable();
    if dropped.is_none() {
        assert_eq!(found, expected, "{what}: {sql}");
    } else {
        assert_some_of(&found, &expected, &format!("{what}: {sql}"));
    }
    by_chunks
}

async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.plain_sql(sql).await.expect(sql).create_physical_plan().await.expect(sql)
}

fn by_chunks(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    let names = ["OrderedAggregateExec: ", "OrderedWindowExec: ", "OrderedJoinExec: "];
    shown.lines().take(2).any(|line| names.iter().any(|name| line.contains(name)))
}

/// The current rows of a dropped partition are lost. No row is wrong or duplicated.
fn assert_some_of(found: &[String], expected: &[String], what: &str) {
    let (all, some): (BTreeSet<_>, BTreeSet<_>) = (expected.iter().collect(), found.iter().collect());
    assert!(some.is_subset(&all), "{what}: {:?}", some.difference(&all).next());
    assert!(found.len() <= expected.len(), "{what}: rows are there twice");
}

/// A session whose plans have several partitions and work by chunks wherever that is right.
async fn always(engine: &Engine, tables: &[String]) -> SessionContext {
    let ctx = declared(support::cooperative(engine, Variant::Default), tables).await;
    // Under load control a plan has one partition. If chunks are not clustered, DataFusion's hash join waits
    // with its filter for the build sides of all partitions, including those that are not polled.
    for set in [
        "SET coscan.order_aware = 'always'",
        "SET coscan.load_control = false",
        "SET datafusion.optimizer.enable_join_dynamic_filter_pushdown = false",
    ] {
        ctx.plain_sql(set).await.expect(set).collect().await.expect(set);
    }
    ctx
}

#[tokio::test]
async fn a_partition_that_is_dropped_after_any_poll_leaves_no_half_of_a_group() {
    let sql = "SELECT k, count(*), sum(v) FROM c GROUP BY k";
    let mut dropped_early = 0;
    for seed in 0..3 {
        let mut rng = Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::draw(&mut rng);
        let tables = [write_table(folder.path(), "c", &mut rng, layout, 30)];
        let plain = declared(support::plain(Variant::Default), &tables).await;
        let expected = support::rows(&plain, sql).await.expect(sql);
        let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
        let ctx = always(&engine, &tables).await;
        let smallest = support::minimum_buffer(&ctx, &engine, &[sql]).await;
        for buffer in [smallest, LARGE_BUFFER] {
            engine.set_buffer(buffer).expect("a buffer");
            for polls in 1..40 {
                let plan = planned(&ctx, sql).await;
                let mut partitions = Partitions::open(&plan, &ctx);
                // The others begin, too, so that chunks are taken back from the one that is dropped.
                for turn in 0..polls {
                    partitions.poll(0, 1).await;
                    partitions.poll(1 + turn % (partitions.streams.len() - 1), 1).await;
                }
                dropped_early += usize::from(partitions.streams[0].take().is_some());
                for at in 1..partitions.streams.len() {
                    partitions.drain(at).await;
                }
                assert_some_of(
                    &partitions.rows,
                    &expected,
                    &format!("seed {seed}, {buffer} bytes, {polls} polls"),
                );
            }
        }
        support::settled(&engine).await;
    }
    // The engine's progress between two polls depends on the machine. After one poll nothing has ended.
    assert!(dropped_early >= 6, "{dropped_early}");
}

/// Writes row groups of a thousand rows, each with the second half of a key's rows and the first half of the
/// next one's. The rows at its ends are marked, by column `e`: a few pages.
fn with_marked_ends(folder: &Path) -> String {
    const GROUPS: i64 = 10;
    const ROWS: i64 = 1000;
    let column = |value: fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..GROUPS * ROWS).map(value)))
    };
    let marked = |row| i64::from(row % ROWS < 20 || row % ROWS >= ROWS - 20);
    let columns =
        [("k", column(|row| (row + ROWS / 2) / ROWS)), ("v", column(|row| row)), ("e", column(marked))];
    let all = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROWS as usize))
        .set_data_page_row_count_limit(50)
        .set_write_batch_size(50)
        .set_dictionary_enabled(false)
        .build();
    let path = folder.join("c.parquet");
    let file = File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, all.schema(), Some(properties)).expect("a writer");
    writer.write(&all).expect("rows");
    writer.close().expect("a footer");
    format!("CREATE EXTERNAL TABLE c STORED AS PARQUET LOCATION '{}'", path.display())
}

/// While pages of a chunk are read, no other partition gets it, and no row of it has been output.
#[tokio::test]
async fn a_partition_that_is_dropped_while_pages_are_read_leaves_no_half_of_a_group() {
    let sql = "SELECT k, count(*), sum(v) FROM c WHERE e = 1 GROUP BY k";
    let folder = tempfile::tempdir().expect("a folder");
    let tables = [with_marked_ends(folder.path())];
    let plain = declared(support::plain(Variant::Default), &tables).await;
    let expected = support::rows(&plain, sql).await.expect(sql);
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = always(&engine, &tables).await;
    let set = "SET coscan.point_threshold = 4";
    ctx.plain_sql(set).await.expect(set).collect().await.expect(set);
    let mut dropped_early = 0;
    for polls in 1..40 {
        // Nothing is in memory, so a read takes time.
        engine.set_buffer(1).expect("a buffer");
        while engine.usage().total() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        engine.set_buffer(LARGE_BUFFER).expect("a buffer");
        let plan = planned(&ctx, sql).await;
        assert!(by_chunks(&plan), "{sql}");
        let mut partitions = Partitions::open(&plan, &ctx);
        partitions.poll(0, polls).await;
        dropped_early += usize::from(partitions.streams[0].take().is_some());
        for at in 1..partitions.streams.len() {
            partitions.drain(at).await;
        }
        assert_some_of(&partitions.rows, &expected, &format!("{polls} polls"));
    }
    let points = engine.stats().point_reads;
    assert!(dropped_early >= 1 && points > 100, "{dropped_early}, {points} point reads");
}

#[tokio::test]
async fn partitions_that_are_left_alone_or_dropped_keep_nobody_waiting() {
    let mut by_chunks = [0; QUERIES.len()];
    for seed in 0..5 {
        let mut rng = Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let (_, tables) = write_both(folder.path(), &mut rng);
        let plain = declared(support::plain(Variant::Default), &tables).await;
        for policy in registry::sharing() {
            let engine = support::engine(policy, LARGE_BUFFER);
            let ctx = always(&engine, &tables).await;
            let smallest = support::minimum_buffer(&ctx, &engine, &QUERIES).await;
            for buffer in [smallest, LARGE_BUFFER] {
                engine.set_buffer(buffer).expect("a buffer");
                for (sql, by_chunks) in QUERIES.into_iter().zip(&mut by_chunks) {
                    let what = format!("seed {seed}, {policy}, {buffer} bytes");
                    *by_chunks += usize::from(in_turns(&ctx, &plain, sql, &mut rng, &what).await);
                }
            }
            support::settled(&engine).await;
        }
    }
    assert!(by_chunks.iter().all(|times| *times > 0), "{by_chunks:?}");
}
