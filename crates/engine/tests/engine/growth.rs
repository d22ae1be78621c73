//! The buffer begins small and grows with the work that a larger one would save.

use std::time::Duration;

use coscan_engine::{Engine, EngineConfig, ReadLimit};

use crate::support::*;

const BUFFER: u64 = 64 << 20;

/// Every read takes 2 ms, and one scan at a time needs some hundred kilobytes.
fn started(start: u64) -> Engine {
    let slow = ReadLimit { bytes_per_s: 0, latency: Duration::from_millis(2) };
    let config = EngineConfig {
        buffer_start_bytes: start,
        processors: 1,
        slice_rows: 500,
        chunk_bytes: 0,
        read_limit: Some(slow),
        idle_release: Duration::from_secs(3),
        ..config("relevance", BUFFER)
    };
    Engine::new(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_grows_while_data_are_read_again_until_they_fit() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 100, 2_000);
    let whole = plain(&[&path], None);
    let engine = started(1 << 20);
    let wanted = request(&[open(&engine, &path).await], None);
    let bytes = {
        let first = scan_all(&engine.scan(wanted.clone()).unwrap(), 1).await.unwrap();
        assert_eq!(first, whole);
        engine.stats().bytes_read
    };
    assert!(engine.resident_bytes() < bytes, "there is not enough room at first");
    let small = engine.usage().budget;
    assert!(small < BUFFER / 4 && engine.buffer_bytes() == BUFFER, "{:?}", engine.usage());
    let mut passes = 0;
    while engine.resident_bytes() < bytes {
        assert_eq!(scan_all(&engine.scan(wanted.clone()).unwrap(), 1).await.unwrap(), whole);
        passes += 1;
        // Two passes are enough where decoding takes a hundredth of the time of the reads. Beside other
        // programs decoding takes a larger part.
        assert!(passes <= 30, "it does not grow with what is read again: {:?}", engine.usage());
    }
    assert!(passes > 0 && engine.usage().budget > small && engine.usage().budget <= BUFFER);

    emptied(&engine).await;
    assert_eq!(engine.usage().budget, 1 << 20, "it begins anew when it was emptied");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_once_does_not_make_it_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 100, 2_000);
    let engine = started(1 << 20);
    let wanted = request(&[open(&engine, &path).await], None);
    let scan = engine.scan(wanted).unwrap();
    scan_all(&scan, 1).await.unwrap();
    drop(scan);
    assert_eq!(engine.usage().budget, 1 << 20);
}
