//! Reading ahead of scans of many small files.

use std::path::Path;

use coscan_engine::{DeliveryOrder, Engine, EngineConfig, ScanRequest};

use crate::gate::{Gate, until};
use crate::support::*;

const FILES: usize = 60;
const LOADS: usize = 12;

/// As many reads at the same time as loads.
fn deep(policy: &str, buffer_bytes: u64, chunk_bytes: u64) -> EngineConfig {
    let config = config(policy, buffer_bytes);
    EngineConfig { chunk_bytes, loads_in_flight: LOADS, io_threads: LOADS, ..config }
}

async fn small_files(engine: &Engine, dir: &Path) -> Vec<Open> {
    let mut files = Vec::new();
    for at in 0..FILES {
        let path = dir.join(format!("{at:02}.parquet"));
        if !path.exists() {
            sample(dir, &format!("{at:02}.parquet"), 1, 50);
        }
        files.push(open(engine, &path).await);
    }
    files
}

/// Returns two numbers of loads: those in flight before any read ends, which must be `at_least`, and all
/// loads when the first chunk has arrived and nothing more is requested. Then reads the rest, and compares it
/// with the files.
async fn first_chunk(
    config: EngineConfig,
    dir: &Path,
    order: DeliveryOrder,
    at_least: usize,
) -> (usize, u64) {
    let what = format!("{}, {order:?}", config.policy);
    let (engine, gate) = Gate::engine(config);
    let files = small_files(&engine, dir).await;
    let scan = engine.scan(ScanRequest { order, ..request(&files, None) }).unwrap();
    let mut worker = scan.worker();
    let most = {
        let first = worker.next();
        tokio::pin!(first);
        assert!(futures::poll!(&mut first).is_pending(), "{what}: no read passes the gate");
        until("loads in flight", || engine.loads_in_flight() >= at_least).await;
        let most = engine.loads_in_flight();
        gate.open();
        drop(first.await.unwrap().expect("a chunk"));
        most
    };
    // The requested chunks arrive.
    until("all loads", || engine.loads_in_flight() == 0).await;
    let loads = engine.stats().loads;
    drop((worker, scan));
    assert_idle(&engine).await;
    let scan = engine.scan(ScanRequest { order, ..request(&files, None) }).unwrap();
    let paths: Vec<_> = (0..FILES).map(|at| dir.join(format!("{at:02}.parquet"))).collect();
    let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
    assert_eq!(scan_all(&scan, 1).await.unwrap(), plain(&paths, None), "{what}");
    (most, loads)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_files_keep_loads_under_way_and_a_scan_that_ends_early_reads_few() {
    let dir = tempfile::tempdir().unwrap();
    for policy in ["relevance", "normal", "attach"] {
        for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
            let (most, loads) = first_chunk(deep(policy, 64 << 20, 16 << 20), dir.path(), order, LOADS).await;
            assert_eq!(most, LOADS, "{policy}, {order:?}");
            assert!(loads <= LOADS as u64 + 3, "{policy}, {order:?}: {loads} loads for one chunk");
            // Without a size of chunks: the chunk in use and the next one.
            let (most, loads) = first_chunk(deep(policy, 64 << 20, 0), dir.path(), order, 1).await;
            assert!(most <= 2 && loads <= 3, "{policy}, {order:?}: {most} at once, {loads} in all");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_buffer_reads_less_ahead_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    for policy in policies() {
        let settings = deep(policy.as_str(), 1 << 20, 16 << 20);
        first_chunk(settings.clone(), dir.path(), DeliveryOrder::Any, 1).await;
        let engine = Engine::new(settings).unwrap();
        let files = small_files(&engine, dir.path()).await;
        let scans: Vec<_> = (0..4).map(|_| engine.scan(request(&files, None)).unwrap()).collect();
        let tasks: Vec<_> =
            scans.into_iter().map(|scan| tokio::spawn(async move { scan_all(&scan, 2).await })).collect();
        for task in tasks {
            let chunks = tokio::time::timeout(ENDS, task).await.expect("stuck").unwrap();
            assert_eq!(chunks.unwrap().len(), FILES, "{policy}");
        }
        let usage = engine.usage();
        assert!(usage.total() <= usage.budget, "{policy}: {usage:?}");
    }
}
