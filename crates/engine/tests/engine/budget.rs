//! The buffer never exceeds its budget, and the smallest allowed buffer suffices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coscan_engine::{Engine, EngineConfig, EngineError, ScanRequest};

use crate::support::*;

/// The smallest buffer in which `wanted` may register, as the engine's error states.
fn smallest(engine: &Engine, wanted: &ScanRequest) -> u64 {
    engine.set_buffer(1).unwrap();
    match engine.scan(wanted.clone()).map(drop) {
        Err(EngineError::BufferTooSmall { needed, .. }) => needed,
        other => panic!("one byte sufficed: {other:?}"),
    }
}

/// Checks the ledger continuously until it is stopped.
fn watch(engine: &Engine) -> (Arc<AtomicBool>, std::thread::JoinHandle<u64>) {
    let (stop, engine) = (Arc::new(AtomicBool::new(false)), engine.clone());
    let stopped = stop.clone();
    let watcher = std::thread::spawn(move || {
        let mut most = 0;
        loop {
            // Once more after the end, so that there is at least one check on the busiest machine.
            let last = stopped.load(Ordering::Relaxed);
            let usage = engine.usage();
            assert!(usage.total() <= usage.budget, "{usage:?}");
            assert!(engine.resident_bytes() <= usage.budget);
            most = most.max(usage.total());
            if last {
                return most;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    (stop, watcher)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_buffer_suffices_for_many_scans_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 3_000);
    let whole = plain(&[&path], None);
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 1 << 30)).unwrap();
        let file = open(&engine, &path).await;
        let mut wanted = request(&[file], None);
        wanted.workers = 2;
        let needed = smallest(&engine, &wanted);
        engine.set_buffer(needed - 1).unwrap();
        let refused = engine.scan(wanted.clone()).map(drop);
        assert!(matches!(refused, Err(EngineError::BufferTooSmall { .. })), "{refused:?}");
        engine.set_buffer(needed).unwrap();
        let (stop, watcher) = watch(&engine);
        let scans: Vec<_> = (0..4).map(|_| engine.scan(wanted.clone()).unwrap()).collect();
        let all = futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 2)));
        let got = tokio::time::timeout(ENDS, all).await;
        let got = got.unwrap_or_else(|_| panic!("{policy}: stuck, {:?}", engine.usage()));
        stop.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap() > 0);
        got.into_iter().for_each(|chunks| assert_eq!(chunks.unwrap(), whole, "{policy}"));
        drop(scans);
        assert_idle(&engine).await;
    }
}

/// Four scans read everything while `change` is called with one factor after the other. Then the engine must
/// be idle.
async fn scan_while(
    engine: &Engine,
    wanted: &ScanRequest,
    whole: &Chunks,
    factors: [u64; 7],
    change: impl Fn(u64),
) {
    let scans: Vec<_> = (0..4).map(|_| engine.scan(wanted.clone()).unwrap()).collect();
    let changing = async {
        for factor in factors {
            tokio::time::sleep(Duration::from_millis(3)).await;
            change(factor);
        }
    };
    let (got, ()) = tokio::join!(futures::future::join_all(scans.iter().map(|s| scan_all(s, 1))), changing);
    got.into_iter().for_each(|chunks| assert_eq!(chunks.unwrap(), *whole));
    drop(scans);
    assert_idle(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_may_shrink_and_grow_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 10, 3_000);
    let whole = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let wanted = request(&[open(&engine, &path).await], None);
    let needed = smallest(&engine, &wanted);
    engine.set_buffer(needed * 4).unwrap();
    scan_while(&engine, &wanted, &whole, [1, 3, 1, 2, 5, 1, 4], |factor| {
        engine.set_buffer(needed * factor).unwrap();
    })
    .await;
    engine.set_buffer(1).unwrap();
    assert_eq!(engine.usage().resident, 0, "an idle engine gives everything back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_offer_is_there_and_may_be_taken_back_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 10, 3_000);
    let whole = plain(&[&path], None);
    let needed = smallest_for(&path).await;
    let offered = EngineConfig { buffer_takes_offers: true, ..config("relevance", needed) };
    let engine = Engine::new(offered).unwrap();
    let wanted = request(&[open(&engine, &path).await], None);
    assert_eq!((engine.offer(needed * 3).unwrap(), engine.usage().budget), (needed * 3, needed * 4));
    scan_while(&engine, &wanted, &whole, [0, 2, 0, 1, 4, 0, 3], |factor| {
        engine.offer(needed * factor).unwrap();
    })
    .await;
    assert_eq!((engine.buffer_bytes(), engine.usage().budget), (needed, needed * 4));
    engine.set_buffer(needed * 2).unwrap();
    assert_eq!((engine.offer(needed).unwrap(), engine.usage().budget), (0, needed * 2));
}

/// The smallest buffer in which all of a file may be read.
async fn smallest_for(path: &std::path::Path) -> u64 {
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, path).await;
    smallest(&engine, &request(&[file], None))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_budget_fails_no_scan_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 3_000);
    let whole = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 1 << 30)).unwrap();
    let mut wanted = request(&[open(&engine, &path).await], None);
    let needed = smallest(&engine, &wanted);
    engine.set_buffer(needed).unwrap();
    // Every chunk twice: the second stage registers when the buffer is too small for it.
    let chunks = wanted.chunks.clone();
    wanted.chunks.extend(chunks);
    wanted.chunks.iter_mut().enumerate().for_each(|(at, chunk)| chunk.key = at as u32);
    let scan = engine.scan(wanted.clone()).unwrap();
    let mut worker = scan.worker();
    let first = worker.next().await.unwrap().unwrap();
    engine.set_buffer(needed / 3).unwrap();
    assert_eq!((engine.buffer_bytes(), engine.usage().budget), (needed / 3, needed));
    let refused = engine.scan(wanted.clone()).map(drop);
    assert!(
        matches!(refused, Err(EngineError::BufferTooSmall { budget, .. }) if budget == needed / 3),
        "{refused:?}"
    );
    let taken = first.key as usize;
    drop(first);
    let rest = tokio::time::timeout(ENDS, drain(&mut worker)).await.unwrap().unwrap();
    assert_eq!(rest.len(), 11);
    assert!(rest.iter().all(|(at, arrays)| *at != taken && *arrays == whole[&(at % 6)]));
    drop((worker, scan));
    assert_eq!(engine.usage().budget, needed / 3, "it is in force when nobody needs more");
    assert_idle(&engine).await;
}

#[test]
fn times_that_nobody_can_wait_for_are_refused() {
    let settings = coscan_engine::EngineConfig {
        stall_after: Duration::from_millis(18_446_744_073_710),
        ..config("relevance", 1 << 20)
    };
    let refused = Engine::new(settings).map(drop).unwrap_err().to_string();
    assert!(refused.contains("stall_after"), "{refused}");
    let engine = Engine::new(config("relevance", 1 << 20)).unwrap();
    let latency = coscan_engine::ReadLimit { bytes_per_s: 0, latency: Duration::MAX };
    assert!(matches!(engine.set_read_limit(Some(latency)), Err(EngineError::Config(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stops_reading_does_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 5, 3_000);
    let whole = plain(&[&path], None);
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 1 << 30)).unwrap();
        let wanted = request(&[open(&engine, &path).await], None);
        engine.set_buffer(smallest(&engine, &wanted)).unwrap();
        let (slow, other) = (engine.scan(wanted.clone()).unwrap(), engine.scan(wanted.clone()).unwrap());
        let mut worker = slow.worker();
        let mut chunk = worker.next().await.unwrap().unwrap();
        let first = chunk.slice(0).await.unwrap();
        // While `slow` keeps its chunk, `other` must read the whole table.
        let got = tokio::time::timeout(ENDS, scan_all(&other, 1)).await;
        let got = got.unwrap_or_else(|_| panic!("{policy}: blocked, {:?}", engine.usage()));
        assert_eq!(got.unwrap(), whole, "{policy}");
        assert!(engine.stats().suspensions > 0, "{policy}");
        drop(other);
        // And `slow` continues at the same position.
        let mut slices = vec![first];
        for i in 1..chunk.slices() {
            slices.push(chunk.slice(i).await.unwrap());
        }
        let mut rest = std::collections::BTreeMap::from([(chunk.key as usize, joined(&slices))]);
        rest.extend(drain(&mut worker).await.unwrap());
        assert_eq!(rest, whole, "{policy}");
        drop((chunk, worker, slow));
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_given_back_may_be_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 2_000);
    let engine = Engine::new(config("relevance", 1 << 30)).unwrap();
    let wanted = request(&[open(&engine, &path).await], None);
    engine.set_buffer(smallest(&engine, &wanted)).unwrap();
    let (slow, other) = (engine.scan(wanted.clone()).unwrap(), engine.scan(wanted.clone()).unwrap());
    let mut worker = slow.worker();
    let chunk = worker.next().await.unwrap().unwrap();
    let taken = chunk.key as usize;
    scan_all(&other, 1).await.unwrap();
    assert!(engine.stats().suspensions > 0);
    drop((chunk, other));
    let rest = tokio::time::timeout(ENDS, drain(&mut worker)).await.unwrap().unwrap();
    assert!(!rest.contains_key(&taken), "what was taken once does not come again");
    assert_eq!(rest.len(), 3);
    drop((worker, slow));
    assert_idle(&engine).await;
}
