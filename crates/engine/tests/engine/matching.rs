//! Matching chunks of another table: read together with a scan's own, and available when their own scan
//! registers. A small buffer or a broken file never leads to a wrong row.

use std::path::PathBuf;

use coscan_engine::{Engine, EngineError, MatchingChunk, MatchingRequest, Reader, ScanHandle, ScanRequest};

use crate::support::*;

/// A table of four chunks, and one of eight. Two of the eight match each of the four.
fn tables(dir: &std::path::Path) -> [PathBuf; 2] {
    [("outer", "a.parquet", 4), ("inner", "b.parquet", 8)].map(|(table, name, groups)| {
        std::fs::create_dir(dir.join(table)).unwrap();
        sample(&dir.join(table), name, groups, 2_000)
    })
}

/// A scan of all outer chunks with their inner ones.
fn joined(outer: &Open, inner: &Open, reader: &Reader) -> ScanRequest {
    let inner = request(std::slice::from_ref(inner), Some(&[1]));
    let chunks = (0..8).map(|chunk| MatchingChunk { with: chunk as u32 / 2, columns: 0, chunk });
    let matching =
        MatchingRequest { reader: reader.clone(), chunks: chunks.collect(), columns: inner.columns };
    ScanRequest { matching: vec![matching], ..request(std::slice::from_ref(outer), Some(&[0])) }
}

/// A scan of the inner chunks that match an outer one.
fn visit(engine: &Engine, inner: &Open, reader: &Reader, outer: u32) -> ScanHandle {
    let mut wanted = request(std::slice::from_ref(inner), Some(&[1]));
    wanted.chunks.retain(|chunk| chunk.chunk as u32 / 2 == outer);
    engine.scan(ScanRequest { reader: Some(reader.clone()), ..wanted }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn inner_chunks_are_there_when_their_outer_one_comes() {
    let dir = tempfile::tempdir().unwrap();
    let [outer_path, inner_path] = tables(dir.path());
    let whole = plain(&[&inner_path], Some(&[1]));
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 64 << 20)).unwrap();
        let (outer, inner) = (open(&engine, &outer_path).await, open(&engine, &inner_path).await);
        let reader = Reader::default();
        let scan = engine.scan(joined(&outer, &inner, &reader)).unwrap();
        let mut worker = scan.worker();
        let (mut came, mut loaded) = (0, 0);
        while let Some(chunk) = worker.next().await.unwrap() {
            let visit = visit(&engine, &inner, &reader, chunk.key);
            for (at, arrays) in scan_all(&visit, 1).await.unwrap() {
                assert_eq!(arrays, whole[&at], "{policy}");
                came += 1;
            }
            let metrics = visit.metrics();
            loaded += metrics.bytes_loaded;
            assert_eq!(metrics.bytes_from_buffer, 0, "{policy}: it was read for this query");
        }
        let stats = engine.stats();
        assert_eq!((came, stats.parts_loaded), (8, 12), "{policy}: every part once");
        assert_eq!(
            loaded + scan.metrics().bytes_loaded,
            stats.bytes_read,
            "{policy}: each read is one scan's"
        );
        drop((worker, scan));
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_for_all_that_goes_with_a_chunk_it_comes_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [outer_path, inner_path] = tables(dir.path());
    // Room for one chunk with its workspace.
    let engine = Engine::new(config("relevance", 100_000)).unwrap();
    let (outer, inner) = (open(&engine, &outer_path).await, open(&engine, &inner_path).await);
    let scan = engine.scan(joined(&outer, &inner, &Reader::default())).unwrap();
    assert_eq!(scan_all(&scan, 1).await.unwrap().len(), 4);
    assert_eq!(engine.stats().parts_loaded, 4, "nothing of the other table");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_elsewhere_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let [outer_path, inner_path] = tables(dir.path());
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (outer, inner) = (open(&engine, &outer_path).await, open(&engine, &inner_path).await);
    let (reader, other) = (Reader::default(), Reader::default());
    let scan = engine.scan(joined(&outer, &inner, &reader)).unwrap();
    (0..8).for_each(|chunk| scan.unneed_matching(&other, &inner.id, chunk));
    (0..8).for_each(|chunk| scan.unneed_matching(&reader, &inner.id, chunk));
    assert_eq!(scan_all(&scan, 1).await.unwrap().len(), 4);
    let parts = engine.stats().parts_loaded;
    assert!(parts < 12, "{parts}: at most what was under way");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inner_file_that_is_replaced_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let [outer_path, inner_path] = tables(dir.path());
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (outer, inner) = (open(&engine, &outer_path).await, open(&engine, &inner_path).await);
    sample(&dir.path().join("inner"), "b.parquet", 8, 1_500);
    let scan = engine.scan(joined(&outer, &inner, &Reader::default())).unwrap();
    let error = scan_all(&scan, 1).await.unwrap_err();
    assert!(error.to_string().contains("b.parquet"), "{error}");
    let alone = engine.scan(request(std::slice::from_ref(&outer), None)).unwrap();
    assert_eq!(scan_all(&alone, 1).await.unwrap().len(), 4, "others are unharmed");
}

#[tokio::test]
async fn matching_chunks_that_are_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [outer_path, inner_path] = tables(dir.path());
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (outer, inner) = (open(&engine, &outer_path).await, open(&engine, &inner_path).await);
    for (wrong, message) in [
        (MatchingChunk { with: 0, columns: 0, chunk: 8 }, "there is no chunk 8"),
        (MatchingChunk { with: 0, columns: 1, chunk: 0 }, "a matching chunk names columns 1"),
    ] {
        let mut wanted = joined(&outer, &inner, &Reader::default());
        wanted.matching[0].chunks.push(wrong);
        match engine.scan(wanted).map(drop) {
            Err(EngineError::InvalidRequest(error)) => assert!(error.contains(message), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}
