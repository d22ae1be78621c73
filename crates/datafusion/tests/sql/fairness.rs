//! A long query gets its share beside streams of short ones.
//!
//! Processors are shared in the runtime's order, in which every ready task has its turn. With n queries in
//! progress, each needs about n times its time alone. For the device the policy's bound applies
//! (`coscan_core`, `tests/fairness.rs`), which is far weaker. If short queries do not saturate the device, a
//! long query gets its share there, too. This is measured here and not promised.
//!
//! The test measures processor time and bytes of a separate process instead of time, so that other programs
//! on the machine do not change the result.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coscan_datafusion::{CoscanContext, CoscanContextBuilder};
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::data::{row_groups, write};

const ROWS: i64 = 6_000_000;
const ROWS_OF_A_CHUNK: i64 = 20_000;

/// Short queries in progress at any time.
const STREAMS: usize = 4;

/// Bound on the cost of all queries together until the long query ends, relative to the long query alone
/// times the number of queries. With equal shares it would be 1. The rest is for caches that other queries
/// evict.
const SLACK: f64 = 2.0;

/// Set in the process that measures.
const CHILD: &str = "COSCAN_FAIRNESS_CHILD";

fn write_table(folder: &std::path::Path) {
    let id: ArrayRef = Arc::new((0..ROWS).collect::<Int64Array>());
    let x: ArrayRef = Arc::new((0..ROWS).map(|n| n * 7_919 % 1_000_003).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("id", id), ("x", x)]).expect("a batch");
    let properties = row_groups(ROWS_OF_A_CHUNK as usize).set_dictionary_enabled(false).build();
    write(&folder.join("t.parquet"), &batch, properties);
}

async fn open(builder: CoscanContextBuilder, folder: &tempfile::TempDir) -> CoscanContext {
    let builder = builder
        .set("small_table_bytes", "0")
        .set("chunk_size", "0")
        .session_config(SessionConfig::new().with_target_partitions(2));
    let coscan = builder.build().expect("a session");
    let path = folder.path().to_str().expect("a path");
    coscan.ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    coscan
}

/// The cost of a query and of everything beside it.
#[derive(Clone, Copy, Debug)]
struct Cost {
    processor_s: f64,
    bytes: f64,
}

/// The cost of this process so far.
fn cost(coscan: &CoscanContext) -> Cost {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this process");
    // After the name, which may hold any characters: user and system time are the fields 14 and 15, in
    // hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    Cost { processor_s: (ticks(11) + ticks(12)) / 100.0, bytes: coscan.engine.stats().bytes_read as f64 }
}

async fn run(ctx: &SessionContext, sql: &str) {
    ctx.plain_sql(sql).await.expect("a plan").collect().await.expect("rows");
}

/// Returns the total cost until a query ends.
async fn measured(coscan: &CoscanContext, sql: &str) -> Cost {
    let before = cost(coscan);
    run(&coscan.ctx, sql).await;
    let after = cost(coscan);
    Cost { processor_s: after.processor_s - before.processor_s, bytes: after.bytes - before.bytes }
}

/// All rows, with work for the processors above the scan.
const LONG: &str =
    "SELECT x % 100 AS g, count(DISTINCT x % 1000), max(sqrt(x)), min(x * 3) FROM t GROUP BY 1";

/// Some rows of one chunk, other ones each time.
fn short(number: usize) -> String {
    let first = (number as i64 * 7_919 * ROWS_OF_A_CHUNK) % ROWS;
    format!("SELECT max(x + {number}) FROM t WHERE id BETWEEN {first} AND {}", first + ROWS_OF_A_CHUNK / 2)
}

/// The long query alone, and beside streams of short ones, which do not end before it.
async fn measure(coscan: &CoscanContext) -> (Cost, Cost, usize) {
    let ctx = &coscan.ctx;
    run(ctx, LONG).await;
    let alone = measured(coscan, LONG).await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let streams: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (ctx, over, done) = (ctx.clone(), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    run(&ctx, &short(done.fetch_add(1, Ordering::Relaxed))).await;
                }
            })
        })
        .collect();
    while done.load(Ordering::Relaxed) < 2 * STREAMS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = done.load(Ordering::Relaxed);
    let beside = measured(coscan, LONG).await;
    let others = done.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for stream in streams {
        stream.await.expect("short queries");
    }
    (alone, beside, others)
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_query_has_its_share_beside_a_stream_of_short_ones() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("threads").block_on(share());
    }
    let this = "fairness::a_long_query_has_its_share_beside_a_stream_of_short_ones";
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output = child.args(["--exact", this, "--nocapture"]).env(CHILD, "1").output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

async fn share() {
    let folder = tempfile::tempdir().expect("a folder");
    write_table(folder.path());
    let builder = CoscanContext::builder;
    for (what, builder, is_device) in [
        ("everything in memory", builder().buffer_bytes(256 << 20), false),
        ("a buffer of few chunks", builder().buffer_bytes(2 << 20), false),
        ("a slow device", builder().buffer_bytes(4 << 20).set("read_limit", "40MB"), true),
    ] {
        let coscan = open(builder, &folder).await;
        let (alone, beside, others) = measure(&coscan).await;
        println!("{what}: alone {alone:?}, beside {STREAMS} streams {beside:?}, {others} others");
        let most = SLACK * (STREAMS as f64 + 1.0);
        assert!(beside.processor_s <= most * alone.processor_s, "{what}: {alone:?}, {beside:?}");
        assert!(!is_device || beside.bytes <= most * alone.bytes, "{what}: {alone:?}, {beside:?}");
    }
}
