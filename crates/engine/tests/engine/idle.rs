//! An idle engine gives its memory back after its idle time, and not earlier.

use std::time::Duration;

use coscan_engine::{Engine, EngineConfig};

use crate::support::*;

fn started(idle_release: Duration) -> Engine {
    Engine::new(EngineConfig { idle_release, ..config("relevance", 64 << 20) }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_engine_empties_its_buffer_and_reads_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 3_000);
    let whole = plain(&[&path], None);
    let engine = started(Duration::from_millis(100));
    let wanted = request(&[open(&engine, &path).await], None);
    for times in 1..4 {
        // Two at the same time, so that decoded arrays are kept for the other scan.
        let scans: Vec<_> = (0..2).map(|_| engine.scan(wanted.clone()).unwrap()).collect();
        for chunks in futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 1))).await {
            assert_eq!(chunks.unwrap(), whole);
        }
        drop(scans);
        emptied(&engine).await;
        assert_eq!(engine.resident_bytes(), 0);
        let stats = engine.stats();
        assert_eq!(stats.idle_releases, times);
        assert!(stats.idle_released_bytes >= stats.bytes_read, "{stats:?}");
        assert_eq!(engine.usage().budget, 64 << 20, "the next query has all of it");
    }
    assert!(engine.stats().parts_loaded >= 3 * 16, "every time from the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_stands_still_is_not_idle() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 3, 2_000);
    let engine = started(Duration::from_millis(20));
    let scan = engine.scan(request(&[open(&engine, &path).await], None)).unwrap();
    let mut worker = scan.worker();
    let chunk = worker.next().await.unwrap().unwrap();
    // The engine was idle before the scan registered, for longer on a slower machine.
    let before = engine.stats().idle_releases;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.stats().idle_releases, before);
    assert!(engine.resident_bytes() > 0);
    drop(chunk);
    assert_eq!(drain(&mut worker).await.unwrap().len(), 2);
    drop((worker, scan));
    emptied(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_is_never_and_later_queries_find_everything() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 3, 2_000);
    for idle_release in [Duration::ZERO, Duration::from_secs(3600)] {
        let engine = started(idle_release);
        let wanted = request(&[open(&engine, &path).await], None);
        scan_all(&engine.scan(wanted.clone()).unwrap(), 1).await.unwrap();
        let read = engine.stats().bytes_read;
        tokio::time::sleep(Duration::from_millis(150)).await;
        scan_all(&engine.scan(wanted).unwrap(), 1).await.unwrap();
        assert_eq!((engine.stats().bytes_read, engine.stats().idle_releases), (read, 0));
    }
}
