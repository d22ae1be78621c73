//! Futures, chunks, workers and scans may be dropped at any point: nothing is lost, and nothing stays behind.

use std::time::Duration;

use coscan_engine::{Engine, EngineError};

use crate::gate::{Gate, until};
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_random_cancellations_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 8, 2_000);
    let whole = plain(&[&path], None);
    let seed = 20_071;
    let mut random = fastrand::Rng::with_seed(seed);
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 2 << 20)).unwrap();
        let file = open(&engine, &path).await;
        let survivor = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        let survived = tokio::spawn(async move {
            let chunks = scan_all(&survivor, 2).await;
            (chunks, survivor)
        });
        let mut tasks = Vec::new();
        for _ in 0..200 {
            let mut wanted =
                request(std::slice::from_ref(&file), Some(&[random.usize(0..2), random.usize(2..4)]));
            wanted.workers = random.usize(1..4);
            let workers = wanted.workers;
            let scan = engine.scan(wanted).unwrap();
            let (after, sleep) = (random.u64(0..3_000), random.u64(0..400));
            tasks.push(tokio::spawn(async move {
                let _ = tokio::time::timeout(Duration::from_micros(after), scan_all(&scan, workers)).await;
            }));
            if random.u8(0..4) == 0 {
                tokio::time::sleep(Duration::from_micros(sleep)).await;
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        let (chunks, survivor) = tokio::time::timeout(ENDS, survived).await.expect("stuck").unwrap();
        assert_eq!(chunks.unwrap(), whole, "{policy}, seed {seed}");
        drop(survivor);
        // Workers of cancelled scans end with an error in tasks of their own.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn futures_dropped_between_polls_lose_no_chunk_and_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 2_000);
    let whole = plain(&[&path], None);
    let (engine, gate) = Gate::engine(config("relevance", 64 << 20));
    let mut wanted = request(&[open(&engine, &path).await], None);
    wanted.workers = 3;
    let scan = engine.scan(wanted).unwrap();
    let (mut first, mut second) = (scan.worker(), scan.worker());
    // The first worker only asks and leaves, again and again. The second must get every chunk.
    let mut got = Chunks::new();
    for _ in 0..3 {
        let mut asking = Box::pin(first.next());
        assert!(futures::poll!(&mut asking).is_pending(), "no read passes the gate");
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(asking);
    }
    // The requested chunk arrives, and no worker is there to take it.
    until("a load", || engine.loads_in_flight() > 0).await;
    gate.open();
    until("its arrival", || engine.loads_in_flight() == 0).await;
    let mut chunk = second.next().await.unwrap().unwrap();
    let mut slices = Vec::new();
    for i in 0..chunk.slices() {
        drop(chunk.slice(i));
        slices.push(chunk.slice(i).await.unwrap());
    }
    got.insert(chunk.key as usize, joined(&slices));
    drop(chunk);
    drop(first);
    got.extend(drain(&mut second).await.unwrap());
    assert_eq!(got, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_outlive_their_scan_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 3, 2_000);
    let engine = Engine::new(config("attach", 64 << 20)).unwrap();
    let scan = engine.scan(request(&[open(&engine, &path).await], None)).unwrap();
    let mut worker = scan.worker();
    let mut chunk = worker.next().await.unwrap().unwrap();
    chunk.slice(0).await.unwrap();
    drop(scan);
    assert_eq!(engine.usage().workspace, 0);
    assert!(matches!(chunk.slice(1).await, Err(EngineError::Closed)));
    assert!(matches!(worker.next().await, Err(EngineError::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_consumer_harms_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 5, 2_000);
    let engine = Engine::new(config("elevator", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let (bad, good) = (
        engine.scan(request(std::slice::from_ref(&file), None)).unwrap(),
        engine.scan(request(&[file], None)).unwrap(),
    );
    let panicking = tokio::spawn(async move {
        let mut worker = bad.worker();
        let mut chunk = worker.next().await.unwrap().unwrap();
        chunk.slice(0).await.unwrap();
        panic!("an expression of one query went wrong");
    });
    let got = scan_all(&good, 2).await.unwrap();
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(got, plain(&[&path], None));
    drop(good);
    assert_idle(&engine).await;
}

#[tokio::test]
async fn impossible_requests_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 2, 100);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let good = request(&[open(&engine, &path).await], None);
    let mut bad = [good.clone(), good.clone(), good.clone(), good.clone(), good.clone()];
    bad[0].workers = 0;
    bad[1].chunks[0].chunk = 2;
    bad[2].columns[0].roots = vec![1, 0];
    bad[3].columns[0].roots = vec![4];
    bad[4].columns.clear();
    for wanted in bad {
        let refused = engine.scan(wanted).map(drop);
        assert!(matches!(refused, Err(EngineError::InvalidRequest(_))), "{refused:?}");
    }
    let mut schema = good;
    schema.columns[0].schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
    assert!(matches!(engine.scan(schema).map(drop), Err(EngineError::Schema { .. })));
    let mut none = config("relevance", 1 << 20);
    none.io_threads = 0;
    assert!(matches!(Engine::new(none), Err(EngineError::Config(_))));
}
