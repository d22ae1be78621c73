//! Scans that run together read once and decode once. Resident data serve the next scan.

use std::sync::Arc;
use std::time::Duration;

use coscan_engine::{Engine, ReadLimit, Reader, ScanRequest};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn many_scans_load_each_part_once_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 8, 4_000);
    let whole = Arc::new(plain(&[&path], None));
    for policy in policies() {
        let mut settings = config(policy.as_str(), 64 << 20);
        // Nothing arrives before all are registered; otherwise late ones would find it in the buffer.
        settings.read_limit = Some(ReadLimit { bytes_per_s: 0, latency: Duration::from_millis(30) });
        let engine = Engine::new(settings).unwrap();
        let file = open(&engine, &path).await;
        let scans: Vec<_> =
            (0..6).map(|_| engine.scan(request(std::slice::from_ref(&file), None)).unwrap()).collect();
        let got = futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 1))).await;
        for chunks in got {
            assert_eq!(&chunks.unwrap(), &*whole, "{policy}");
        }
        let stats = engine.stats();
        assert_eq!(stats.parts_loaded, 32, "{policy}: every part once");
        assert_eq!(stats.chunks_delivered, 48, "{policy}");
        let metrics: Vec<_> = scans.iter().map(|scan| scan.metrics()).collect();
        let loaded: u64 = metrics.iter().map(|m| m.bytes_loaded).sum();
        assert_eq!(loaded, stats.bytes_read, "{policy}: each read is one scan's");
        for m in &metrics {
            assert_eq!(m.chunks_delivered, 8);
            assert_eq!(m.chunks_from_buffer + m.chunks_loaded + m.chunks_shared, 8, "{policy}");
            assert_eq!(m.slices_decoded + m.slices_shared, 8 * 4 * 4, "{policy}");
        }
        drop(scans);
        assert_idle(&engine).await;
    }
}

#[tokio::test]
async fn two_scans_side_by_side_decode_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 1, 10_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let (a, b) = (
        engine.scan(request(std::slice::from_ref(&file), None)).unwrap(),
        engine.scan(request(&[file], None)).unwrap(),
    );
    let (mut a, mut b) = (a.worker_of(), b.worker_of());
    let (mut chunk_a, mut chunk_b) = (a.1.next().await.unwrap().unwrap(), b.1.next().await.unwrap().unwrap());
    for i in 0..chunk_a.slices() {
        let (of_a, of_b) = (chunk_a.packed_slice(i).await.unwrap(), chunk_b.packed_slice(i).await.unwrap());
        assert!(of_a.iter().zip(&of_b).all(|(x, y)| Arc::ptr_eq(x, y)), "the very same arrays");
    }
    let stats = engine.stats();
    assert_eq!((stats.slices_decoded, stats.slices_shared), (40, 40));
    assert!(engine.usage().decoded > 0);
}

#[tokio::test]
async fn what_one_scan_of_a_reader_decodes_is_not_kept_for_its_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 1, 10_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let reader = Reader::default();
    let of_reader =
        || ScanRequest { reader: Some(reader.clone()), ..request(std::slice::from_ref(&file), None) };
    let (a, b) = (engine.scan(of_reader()).unwrap(), engine.scan(of_reader()).unwrap());
    let (mut a, b) = (a.worker_of(), b.worker_of());
    let mut chunk = a.1.next().await.unwrap().unwrap();
    chunk.slice(0).await.unwrap();
    assert_eq!(engine.usage().decoded, 0);
    // Another reader counts, and a reader exists until its last scan has ended.
    drop(b);
    let other = engine.scan(request(&[file], None)).unwrap();
    chunk.slice(1).await.unwrap();
    assert!(engine.usage().decoded > 0);
    drop(other);
    let kept = engine.usage().decoded;
    chunk.slice(2).await.unwrap();
    assert_eq!(engine.usage().decoded, kept, "nobody else is left");
}

trait WorkerOf: Sized {
    fn worker_of(self) -> (Self, coscan_engine::Worker);
}

impl WorkerOf for coscan_engine::ScanHandle {
    /// Returns the scan together with a worker, so that it lives as long.
    fn worker_of(self) -> (Self, coscan_engine::Worker) {
        let worker = self.worker();
        (self, worker)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_query_finds_the_data_resident() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 5, 3_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let first = scan_all(&engine.scan(request(std::slice::from_ref(&file), None)).unwrap(), 2).await.unwrap();
    let read = engine.stats().bytes_read;
    assert!(engine.usage().resident > 0);
    assert_eq!(engine.usage().decoded, 0, "a lone scan keeps nothing decoded");
    let scan = engine.scan(request(&[open(&engine, &path).await], None)).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap(), first);
    assert_eq!(engine.stats().bytes_read, read);
    assert_eq!(scan.metrics().chunks_from_buffer, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_query_finds_decoded_what_the_second_found_in_the_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 5, 3_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let mut decoded = Vec::new();
    for _ in 0..3 {
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        scan_all(&scan, 2).await.unwrap();
        decoded.push((scan.metrics().slices_decoded, engine.usage().decoded > 0));
    }
    let slices = decoded[0].0;
    assert!(slices > 0);
    assert_eq!(decoded, [(slices, false), (slices, true), (0, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_column_sets_load_the_union_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 2_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let sets: [&[usize]; 4] = [&[0, 1], &[1, 2], &[2, 3], &[1]];
    let scans = sets.map(|roots| engine.scan(request(std::slice::from_ref(&file), Some(roots))).unwrap());
    for (scan, roots) in scans.iter().zip(sets) {
        assert_eq!(scan_all(scan, 2).await.unwrap(), plain(&[&path], Some(roots)));
    }
    assert_eq!(engine.stats().parts_loaded, 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_for_all_scans_together_and_policies_switch_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 5_000);
    let mut settings = config("normal", 64 << 20);
    let file_bytes = std::fs::metadata(&path).unwrap().len();
    settings.read_limit = Some(ReadLimit { bytes_per_s: file_bytes * 2, latency: Duration::from_millis(1) });
    let engine = Engine::new(settings).unwrap();
    assert!(engine.read_limiter().is_some());
    let file = open(&engine, &path).await;
    let started = std::time::Instant::now();
    let scans: Vec<_> =
        (0..3).map(|_| engine.scan(request(std::slice::from_ref(&file), None)).unwrap()).collect();
    let switching = async {
        for policy in policies() {
            tokio::time::sleep(Duration::from_millis(60)).await;
            engine.set_policy(policy).unwrap();
            assert_eq!(engine.policy(), policy);
        }
    };
    let (got, ()) = tokio::join!(futures::future::join_all(scans.iter().map(|s| scan_all(s, 1))), switching);
    let took = started.elapsed();
    let whole = plain(&[&path], None);
    got.into_iter().for_each(|chunks| assert_eq!(chunks.unwrap(), whole));
    assert!(took >= Duration::from_millis(350), "read faster than the limit allows: {took:?}");
    engine.set_read_limit(None).unwrap();
    assert!(engine.read_limiter().is_none());
}
