//! A request may want some chunks in other columns than others: only those are read and handed out.

use std::path::Path;

use coscan_engine::{DeliveryOrder, Engine, EngineError, FileColumns, ScanRequest};

use crate::support::*;

const GROUPS: usize = 8;
const ALL: &[usize] = &[0, 1, 2, 3];

/// All row groups: the first and the last in all columns, those between them in `inner`.
fn mixed(file: &Open, inner: &[usize]) -> ScanRequest {
    let mut wanted = request(std::slice::from_ref(file), None);
    let columns = FileColumns { roots: inner.to_vec(), ..wanted.columns[0].clone() };
    wanted.columns.push(columns);
    wanted.chunks[1..GROUPS - 1].iter_mut().for_each(|chunk| chunk.columns = 1);
    wanted
}

/// The expected result of [`mixed`].
fn expected(path: &Path, inner: &[usize]) -> Chunks {
    let mut chunks = plain(&[path], None);
    let picked = plain(&[path], Some(inner));
    for (at, arrays) in picked.into_iter().filter(|(at, _)| (1..GROUPS - 1).contains(at)) {
        chunks.insert(at, arrays);
    }
    chunks
}

/// Encoded bytes of these columns in row groups.
async fn bytes(path: &Path, row_groups: impl Iterator<Item = usize>, roots: &[usize]) -> u64 {
    let metadata = spec(path).await.0.metadata;
    let of = |at: usize| roots.iter().map(move |&root| (at, root));
    row_groups
        .flat_map(of)
        .map(|(at, root)| metadata.row_group(at).column(root).compressed_size() as u64)
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_read_in_their_own_columns_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 4_000);
    for inner in [&[2][..], &[1, 3], &[]] {
        let wanted =
            bytes(&path, [0, GROUPS - 1].into_iter(), ALL).await + bytes(&path, 1..GROUPS - 1, inner).await;
        for policy in policies() {
            let engine = Engine::new(config(policy.as_str(), 64 << 20)).unwrap();
            let file = open(&engine, &path).await;
            let scan = engine.scan(mixed(&file, inner)).unwrap();
            assert_eq!(scan_all(&scan, 2).await.unwrap(), expected(&path, inner), "{policy} {inner:?}");
            assert_eq!(engine.stats().bytes_read, wanted, "{policy} {inner:?}");
            assert_eq!(scan.metrics().chunks_delivered, GROUPS as u64);
            // One request is one reader: nothing is kept decoded for other readers.
            assert_eq!(engine.usage().decoded, 0, "{policy} {inner:?}");
            drop(scan);
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_little_can_be_saved_all_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 4_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    // Strings of three values are a small part of a chunk.
    let inner = &[0, 1, 3];
    let scan = engine.scan(mixed(&file, inner)).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap(), expected(&path, inner));
    assert_eq!(engine.stats().bytes_read, bytes(&path, 0..GROUPS, ALL).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_table_order_chunks_have_their_columns_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 4_000);
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 64 << 20)).unwrap();
        let file = open(&engine, &path).await;
        let scan = engine.scan(ScanRequest { order: DeliveryOrder::Table, ..mixed(&file, &[2]) }).unwrap();
        let mut worker = scan.worker();
        let mut at = 0;
        while let Some(mut chunk) = worker.next().await.unwrap() {
            let columns = if at == 0 || at == GROUPS - 1 { 4 } else { 1 };
            assert_eq!((chunk.key as usize, chunk.slice(0).await.unwrap().len()), (at, columns), "{policy}");
            at += 1;
        }
        assert_eq!(at, GROUPS, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_of_every_segment_can_be_struck_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let scan = engine.scan(mixed(&file, &[2])).unwrap();
    scan.unneed(&[0, 3, 4]);
    let got = scan_all(&scan, 3).await.unwrap();
    assert_eq!(got.keys().copied().collect::<Vec<_>>(), [1, 2, 5, 6, 7]);
    drop(scan);
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_buffer_is_enough_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 4_000);
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 1 << 10)).unwrap();
        let file = open(&engine, &path).await;
        while let Err(error) = engine.scan(mixed(&file, &[2])).map(drop) {
            let EngineError::BufferTooSmall { needed, .. } = error else { panic!("{policy}: {error}") };
            engine.set_buffer(needed).unwrap();
        }
        let scans: Vec<_> = (0..3).map(|_| engine.scan(mixed(&file, &[2])).unwrap()).collect();
        let got = futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 2))).await;
        for chunks in got {
            assert_eq!(chunks.unwrap(), expected(&path, &[2]), "{policy}");
        }
        drop(scans);
        assert_idle(&engine).await;
    }
}

#[tokio::test]
async fn columns_that_are_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 100);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let mut wanted = mixed(&file, &[2]);
    wanted.chunks[3].columns = 2;
    let error = engine.scan(wanted).err().expect("an error").to_string();
    assert!(error.contains("chunk 3 names columns 2, but the request has 2"), "{error}");
}
