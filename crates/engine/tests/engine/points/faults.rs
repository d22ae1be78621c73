//! Reads that stall, are slow, fail or return wrong data: the rows, and the errors.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use bytes::Bytes;
use coscan_engine::{Cancel, RangeReader, ReadError, Source};

use super::*;

const BLOCK: u64 = 32 << 10;

/// A reader whose reads of blocks wait while a gate is closed, or are slow, or fail.
pub(super) struct Gated {
    inner: Arc<dyn RangeReader>,
    shut: Mutex<bool>,
    opened: Condvar,
    delay: Duration,
    fault: Box<dyn Fn(u32) -> Fault + Send + Sync>,
    attempts: AtomicU32,
}

pub(super) enum Fault {
    None,
    Transient,
    Permanent,
    Short,
    Flip(usize),
}

impl Gated {
    pub(super) fn engine(
        config: EngineConfig,
        delay: Duration,
        fault: impl Fn(u32) -> Fault + Send + Sync + 'static,
    ) -> (Engine, Arc<Gated>) {
        let mut gate = None;
        let engine = Engine::with_reader(config, |inner| {
            let (shut, opened, attempts) = (Mutex::new(false), Condvar::new(), AtomicU32::new(0));
            let gated = Arc::new(Gated { inner, shut, opened, delay, fault: Box::new(fault), attempts });
            gate = Some(gated.clone());
            Arc::new(Shared(gated))
        });
        (engine.unwrap(), gate.unwrap())
    }

    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }
}

struct Shared(Arc<Gated>);

impl RangeReader for Shared {
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        let gated = &self.0;
        std::thread::sleep(gated.delay);
        if parts.iter().any(|part| part.start % BLOCK != 0) {
            return gated.inner.read(source, parts, cancel, arrived);
        }
        let mut shut = gated.shut.lock().unwrap();
        while *shut {
            shut = gated.opened.wait(shut).unwrap();
        }
        drop(shut);
        match (gated.fault)(gated.attempts.fetch_add(1, Ordering::Relaxed)) {
            Fault::None => gated.inner.read(source, parts, cancel, arrived),
            Fault::Transient => Err(std::io::Error::other("injected").into()),
            Fault::Permanent => {
                Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "injected").into())
            }
            Fault::Short => {
                gated.inner.read(source, parts, cancel, &mut |at, bytes| arrived(at, bytes.slice(1..)))
            }
            Fault::Flip(bit) => gated.inner.read(source, parts, cancel, &mut |at, bytes| {
                let mut flipped = bytes.to_vec();
                let bit = bit % (flipped.len() * 8);
                flipped[bit / 8] ^= 1 << (bit % 8);
                arrived(at, flipped.into());
            }),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_arrives_first_answers() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let config = EngineConfig { io_threads: 8, ..config("relevance", 64 << 20) };
    let (engine, gate) = Gated::engine(config, Duration::ZERO, |_| Fault::None);
    let points = Points::open(&engine, &path).await;
    gate.shut(true);
    let rows = [3000..3010];
    let mut point = Box::pin(points.read(&engine, 1, &[1, 2], &rows));
    let early = tokio::time::timeout(Duration::from_millis(30), &mut point).await;
    assert!(early.is_err(), "its own reads stand still");
    let scan = engine.scan(request(std::slice::from_ref(&points.open), Some(&[1, 2]))).unwrap();
    let scanned = scan_all(&scan, 1);
    let (got, chunks) = tokio::join!(tokio::time::timeout(ENDS, point), scanned);
    assert_eq!(chunks.unwrap().len(), 2);
    assert_eq!(got.expect("the load answers").unwrap().unwrap(), selected(&expected[&1], &[1, 2], &rows));
    assert_eq!(engine.stats().point_columns_from_chunks, 2);
    assert_eq!(engine.stats().point_blocks_read, 0);
    gate.shut(false);
}

#[tokio::test]
async fn faults_are_tried_again_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let rows = [10_000..10_020];
    for fault in [
        |at| if at < 2 { Fault::Transient } else { Fault::None },
        |at| {
            if at < 2 { Fault::Short } else { Fault::None }
        },
    ] {
        let (engine, _) = Gated::engine(config("relevance", 64 << 20), Duration::ZERO, fault);
        let points = Points::open(&engine, &path).await;
        let got = points.read(&engine, 1, &[0, 3], &rows).await.unwrap().unwrap();
        assert_eq!(got, selected(&expected[&1], &[0, 3], &rows));
        assert!(engine.stats().retries > 0);
    }
    let (engine, _) = Gated::engine(config("relevance", 64 << 20), Duration::ZERO, |_| Fault::Permanent);
    let points = Points::open(&engine, &path).await;
    match points.read(&engine, 1, &[3], &rows).await {
        Err(EngineError::Read { file, row_group: 1, column, source }) => {
            assert!(file.ends_with("paged.parquet") && column == "many", "{file} {column}");
            assert!(source.to_string().contains("injected"));
        }
        other => panic!("{other:?}"),
    }
    // Scans are not affected, and a scan of the same chunk works.
    let scan = engine.scan(request(std::slice::from_ref(&points.open), None)).unwrap();
    assert_eq!(scan_all(&scan, 1).await.unwrap(), expected);
    assert_idle(&engine).await;
}

#[tokio::test]
async fn a_flipped_bit_is_named_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let expected = plain(&[&path], None);
    let mut corrupt = 0;
    for seed in 0..60 {
        let flip = move |_| Fault::Flip(fastrand::Rng::with_seed(seed).usize(0..BLOCK as usize * 8));
        let (engine, _) = Gated::engine(config("relevance", 64 << 20), Duration::ZERO, flip);
        let points = Points::open(&engine, &path).await;
        match points.read(&engine, 0, &[1, 2], &[400..900]).await {
            // The bit is elsewhere in the block, or in a value: there are no checksums in these pages.
            Ok(Some(got)) => assert_eq!(got[0].len(), selected(&expected[&0], &[1], &[400..900])[0].len()),
            Ok(None) => panic!("there is room"),
            Err(EngineError::Corrupt { row_group: 0, column, .. }) => {
                assert!(["count", "few"].contains(&column.as_str()), "{column}");
                corrupt += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_idle(&engine).await;
    }
    assert!(corrupt > 0, "no flip hit a page");
}

#[tokio::test]
async fn a_file_that_was_replaced_or_cut_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    for cut in [false, true] {
        let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
        let points = Points::open(&engine, &path).await;
        if cut {
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100_000).unwrap();
        } else {
            write(&path, &[batch(ROWS + 1, 9)], properties());
        }
        for _ in 0..2 {
            let outcome = points.read(&engine, 0, &[0], &[5..6]).await;
            assert!(matches!(outcome, Err(EngineError::FileReplaced { .. })), "{outcome:?}");
        }
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_reads_give_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let (engine, _) =
        Gated::engine(config("relevance", 64 << 20), Duration::from_micros(300), |_| Fault::None);
    let points = Points::open(&engine, &path).await;
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let rows = some_rows(&mut random, ROWS);
        if rows.is_empty() {
            continue;
        }
        let read = points.read(&engine, random.usize(0..2), &[0, 1, 2, 3], &rows);
        let _ = tokio::time::timeout(Duration::from_micros(random.u64(0..2000)), read).await;
    }
    let got = points.read(&engine, 0, &[0], &[1..2]).await.unwrap().unwrap();
    assert_eq!(got, selected(&expected[&0], &[0], &[1..2]));
    assert_idle(&engine).await;
    // The rest of their room is frames, which are freed when the budget shrinks below them.
    engine.set_buffer(1).unwrap();
    let deadline = Instant::now() + ENDS;
    while engine.usage().points > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(engine.usage().points, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_point_reads_hold_loads_back_and_scans_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 6);
    let expected = plain(&[&path], None);
    let config = EngineConfig {
        io_threads: 1,
        loads_in_flight: 2,
        point_latency: Duration::from_millis(1),
        ..config("relevance", 64 << 20)
    };
    let (engine, _) = Gated::engine(config, Duration::from_millis(3), |_| Fault::None);
    let points = Points::open(&engine, &path).await;
    let stop = AtomicBool::new(false);
    let reading = async {
        let mut random = fastrand::Rng::with_seed(8);
        while !stop.load(Ordering::Relaxed) {
            let rows: Vec<usize> = (0..4).map(|_| random.usize(0..ROWS - 1)).collect();
            let reads = rows.iter().map(|&row| {
                let points = &points;
                let engine = &engine;
                async move { points.read(engine, row % 6, &[0, 1, 2, 3], &[row..row + 1]).await.unwrap() }
            });
            futures::future::join_all(reads).await;
        }
    };
    let scanning = async {
        let scan = engine.scan(request(std::slice::from_ref(&points.open), None)).unwrap();
        let got = tokio::time::timeout(ENDS, scan_all(&scan, 2)).await;
        stop.store(true, Ordering::Relaxed);
        assert_eq!(got.expect("scans do not starve").unwrap(), expected);
    };
    tokio::join!(reading, scanning);
    assert!(engine.stats().loads_held_back > 0);
}
