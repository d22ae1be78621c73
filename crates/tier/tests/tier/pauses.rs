//! Readers that pause, such as clients that do not fetch. Other readers continue, and the paused readers later
//! continue at the same row.

use std::fs;
use std::path::Path;
use std::time::Duration;

use coscan_tier::{Tiers, keep_footers};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};

use crate::folder::Hsm;
use crate::plans::write_table;
use crate::tables::{declare, over, rows};

/// The tier's patience with a paused reader.
const PATIENCE: Duration = Duration::from_secs(1);

struct World {
    dir: tempfile::TempDir,
    tiers: Tiers,
}

/// Tables `r` (6 files) and `s` (4 files), with a cache that has room for two and a half.
async fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    write_table(&files, "r", 6);
    write_table(&files, "s", 4);
    let room = largest(&files.join("r")).max(largest(&files.join("s"))) * 5 / 2;
    let hsm = Hsm::archive(dir.path(), &files, 1, Duration::ZERO, Duration::ZERO);
    let more = format!("cache_bytes = '{room}B'\npatience = '{}ms'", PATIENCE.as_millis());
    let tiers = Tiers::open([hsm.config("cache", &more)]).unwrap();
    let coscan = over(&tiers);
    for table in ["r", "s"] {
        let location = hsm.root().join(table).display().to_string();
        keep_footers(&coscan.ctx, &tiers, &location, |_, _| ()).await.unwrap();
    }
    World { dir, tiers }
}

fn largest(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap()
}

impl World {
    /// A session whose plans have one partition.
    async fn session(&self) -> SessionContext {
        let ctx = over(&self.tiers).ctx;
        declare(&ctx, &self.dir.path().join("root").display().to_string(), &["r", "s"]).await;
        ctx.plain_sql("SET datafusion.execution.target_partitions = 1")
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        ctx
    }
}

/// The number of rows, and the sum of their first column.
fn summed(batches: &[RecordBatch]) -> (usize, i64) {
    let sum = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    (batches.iter().map(RecordBatch::num_rows).sum(), batches.iter().map(sum).sum())
}

/// Reads at least `at_least` rows.
async fn read(rows: &mut SendableRecordBatchStream, at_least: usize) -> Vec<RecordBatch> {
    let mut read = Vec::new();
    while summed(&read).0 < at_least {
        read.push(rows.next().await.expect("more rows").unwrap());
    }
    read
}

/// Reads a query's first rows until it holds all fragments that the cache has room for, and pauses.
async fn paused(ctx: &SessionContext, sql: &str) -> (SendableRecordBatchStream, Vec<RecordBatch>) {
    let mut stream = ctx.plain_sql(sql).await.unwrap().execute_stream().await.unwrap();
    let mut first = read(&mut stream, 100).await;
    // In the meantime the cache fills, and then holds only the next batch of fragments.
    tokio::time::sleep(PATIENCE / 2).await;
    first.extend(read(&mut stream, 1).await);
    (stream, first)
}

async fn rest(mut stream: SendableRecordBatchStream, mut read: Vec<RecordBatch>) -> (usize, i64) {
    while let Some(batch) = stream.next().await {
        read.push(batch.unwrap());
    }
    summed(&read)
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pauses_keeps_no_other_from_the_cache() {
    let world = world().await;
    let (one, two) = (world.session().await, world.session().await);
    let (stream, first) = paused(&one, "SELECT id FROM r").await;
    let other = tokio::time::timeout(LONG, rows(&two, "SELECT count(*), sum(id) FROM s")).await;
    assert_eq!(other.expect("waits for nobody who pauses").unwrap(), ["400|79800"]);
    let all = tokio::time::timeout(LONG, rest(stream, first)).await;
    assert_eq!(all.expect("reads on"), (600, 179_700));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_in_passes_that_pauses_keeps_no_other_from_the_cache() {
    let world = world().await;
    let (one, two) = (world.session().await, world.session().await);
    let sql = "SELECT r.id FROM r JOIN s ON r.id <= s.id";
    let expected = (0..400).fold((0, 0), |(rows, sum), id| (rows + (400 - id), sum + (400 - id) * id));
    let (stream, first) = paused(&one, sql).await;
    let other = tokio::time::timeout(LONG, rows(&two, "SELECT count(*), sum(id) FROM s")).await;
    assert_eq!(other.expect("waits for nobody who pauses").unwrap(), ["400|79800"]);
    let (rows, sum) = tokio::time::timeout(LONG, rest(stream, first)).await.expect("reads on");
    assert_eq!((rows as i64, sum), expected);
}

/// Fragments that become ready for a stream that is not polled any more are not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_left_alone_while_it_waits_keeps_no_other_from_the_cache() {
    let world = world().await;
    let (one, two) = (world.session().await, world.session().await);
    let sql = "SELECT r.id FROM r JOIN s ON r.id <= s.id";
    let mut alone = one.plain_sql(sql).await.unwrap().execute_stream().await.unwrap();
    assert!(alone.next().now_or_never().is_none(), "nothing can have come");
    let other = tokio::time::timeout(LONG, rows(&two, "SELECT count(*), sum(id) FROM s")).await;
    assert_eq!(other.expect("waits for nobody who pauses").unwrap(), ["400|79800"]);
    let (rows, _) = tokio::time::timeout(LONG, rest(alone, Vec::new())).await.expect("reads on");
    assert_eq!(rows, (0..400).map(|id| 400 - id).sum::<usize>());
}

/// More readers pause than the cache has fragments.
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_that_pause_keep_no_other_from_the_cache() {
    let world = world().await;
    let (mut sessions, mut pausing) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        sessions.push(world.session().await);
    }
    for session in &sessions[1..] {
        let mut stream = session.plain_sql("SELECT id FROM r").await.unwrap().execute_stream().await.unwrap();
        let first = tokio::time::timeout(LONG, read(&mut stream, 1)).await.expect("is served");
        pausing.push((stream, first));
    }
    let other = tokio::time::timeout(LONG, rows(&sessions[0], "SELECT count(*), sum(id) FROM s")).await;
    assert_eq!(other.expect("waits for nobody who pauses").unwrap(), ["400|79800"]);
    for (stream, first) in pausing {
        let all = tokio::time::timeout(LONG, rest(stream, first)).await;
        assert_eq!(all.expect("reads on"), (600, 179_700));
    }
}
