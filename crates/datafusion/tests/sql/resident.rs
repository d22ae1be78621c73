//! The ledger compared with the resident set, for shapes of tables that need much memory. Several concurrent
//! queries in a separate process read each.
//!
//! The promise (docs/memory.md): the resident set grows by no more than the buffer, the memory of queries and
//! a constant of the shape. A query that cannot fit fails with an error; that is part of the promise. `cargo
//! test --release --workspace --test sql -- --nocapture --include-ignored the_resident_set` prints the table.
//! `COSCAN_SHAPES=files` runs only the shapes with that in their names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coscan_datafusion::CoscanContext;
use datafusion::common::Result;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;

use crate::resident_shapes::{Refused, SHAPES, Shape};

const BUFFER_BYTES: u64 = 32 << 20;
const QUERY_BYTES: u64 = 32 << 20;

/// The C library keeps freed blocks below a size that grows with the freed sizes, up to 32 MiB. The test
/// measures memory in use, so larger blocks are returned at once, as in the program while memory is short.
const ALLOCATOR: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "262144");

/// Concurrent queries of a table.
const QUERIES: usize = 3;

/// The test's name for the child process.
const TEST: &str = "resident::the_resident_set_keeps_to_the_ledger_and_a_constant";

/// The report of a child.
struct Measured {
    /// The peak of the ledger.
    ledger: u64,
    /// The largest growth of the resident set; 0 if the system does not report it.
    grown: u64,
    failed: usize,
}

#[test]
fn the_resident_set_keeps_to_the_ledger_and_a_constant() {
    check(false);
}

#[test]
#[ignore = "minutes"]
fn the_resident_set_of_large_shapes() {
    check(true);
}

fn check(large: bool) {
    if let Ok(name) = std::env::var("COSCAN_SHAPE") {
        let dir = PathBuf::from(std::env::var("COSCAN_SHAPE_DIR").unwrap());
        let shape = SHAPES.iter().find(|shape| shape.name == name).expect("a shape of that name");
        let Measured { ledger, grown, failed } = measure(shape, &dir);
        println!("MEASURED {ledger} {grown} {failed}");
        return;
    }
    println!("{:30} {:>7} {:>7} {:>7} {:>7}  (MiB, seconds)", "shape", "ledger", "grown", "refused", "took");
    let only = std::env::var("COSCAN_SHAPES").unwrap_or_default();
    let mut wrongs = Vec::new();
    for shape in SHAPES.iter().filter(|shape| shape.is_large == large && shape.name.contains(&only)) {
        let begun = Instant::now();
        let Measured { ledger, grown, failed } = in_a_child(shape);
        let took = begun.elapsed().as_secs_f64();
        println!("{:30} {:>7} {:>7} {failed:>7} {took:>7.1}", shape.name, ledger >> 20, grown >> 20);
        let most = BUFFER_BYTES + QUERY_BYTES + shape.beside_bytes;
        let refused_as_expected = match shape.refused {
            Refused::None => failed == 0,
            Refused::Some => failed > 0,
            Refused::Any => true,
        };
        let wrong = [
            (ledger > BUFFER_BYTES, "the ledger exceeds the buffer"),
            (ledger == 0 && shape.refused != Refused::Some, "nothing went through the buffer"),
            (grown > most, "it grew by too much"),
            (!refused_as_expected, "queries failed or did not"),
        ];
        wrongs.extend(wrong.iter().filter(|(is, _)| *is).map(|(_, what)| format!("{}: {what}", shape.name)));
    }
    assert!(wrongs.is_empty(), "{wrongs:?}");
}

/// Writes the table and reads it in a separate process.
fn in_a_child(shape: &Shape) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    (shape.write)(dir.path(), 0);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env("COSCAN_SHAPE", shape.name)
        .env("COSCAN_SHAPE_DIR", dir.path())
        .env(ALLOCATOR.0, ALLOCATOR.1)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {:?} {text}\n{errors}", shape.name, output.status);
    let line = text.lines().find_map(|line| line.strip_prefix("MEASURED ")).expect("a measurement");
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [ledger, grown, failed] = numbers[..] else { panic!("{line}") };
    Measured { ledger, grown, failed: failed as usize }
}

fn measure(shape: &Shape, dir: &Path) -> Measured {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let coscan = CoscanContext::builder()
        .buffer_bytes(BUFFER_BYTES)
        .memory_limit(QUERY_BYTES as usize)
        .set("small_table_bytes", "0")
        .set("load_control", "true")
        .session_config(SessionConfig::new().with_target_partitions(2))
        .build()
        .unwrap();
    runtime.block_on(coscan.register_parquet("t", dir.to_str().unwrap())).unwrap();
    let watch = Watch::start(&coscan);
    let mut before = reset_peak();
    let mut failed = 0;
    for version in 0..shape.versions {
        if version > 0 {
            (shape.write)(dir, version);
        }
        // Caches have their size after a tenth of the time. After that nothing may grow.
        if version > 0 && version == shape.versions / 10 {
            before = reset_peak();
        }
        let queries = (0..if shape.versions > 100 { 1 } else { QUERIES }).map(|_| rows(&coscan, shape.sql));
        let outcomes = runtime.block_on(futures::future::join_all(queries));
        failed += outcomes.iter().filter(|outcome| outcome.is_err()).count();
        outcomes.into_iter().filter_map(Result::err).for_each(|error| println!("{error}"));
    }
    let grown = before.map_or(0, |before| status("VmHWM").saturating_sub(before));
    Measured { ledger: watch.stop(), grown, failed }
}

/// Returns the number of rows of a query, batch after batch.
async fn rows(coscan: &CoscanContext, sql: &str) -> Result<usize> {
    let mut stream = coscan.sql(sql).await?.execute_stream().await?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// Resets the peak of the resident set. Returns its current size, if the system supports that.
fn reset_peak() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok().map(|()| status("VmRSS"))
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Watches the ledger continuously.
struct Watch {
    ends: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Watch {
    fn start(coscan: &CoscanContext) -> Self {
        let (engine, ends) = (coscan.engine.clone(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(engine.usage().total());
                std::thread::sleep(Duration::from_micros(300));
            }
            most
        });
        Watch { ends, thread }
    }

    /// Returns the peak of the ledger.
    fn stop(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
