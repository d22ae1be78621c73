//! Point reads: the same rows as anybody else reads, from pages, from resident chunks or from loads, and what goes
//! wrong on the way.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Int32Array, ListArray, RecordBatch, StructArray,
};
use arrow::compute::concat;
use arrow::datatypes::{Field, Int32Type};
use bytes::Bytes;
use coscan_engine::{
    Cancel, Engine, EngineConfig, EngineError, PointRequest, RangeReader, ReadError, Source, point_cost,
};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;

const ROWS: usize = 20_000;
const BLOCK: u64 = 32 << 10;

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_data_page_row_count_limit(500)
        .set_write_batch_size(100)
        .set_compression(Compression::SNAPPY)
        .build()
}

/// A file of row groups whose pages have 500 rows.
fn paged(dir: &Path, groups: usize) -> std::path::PathBuf {
    let path = dir.join("paged.parquet");
    let batches: Vec<_> = (0..groups).map(|group| batch(ROWS, group as u64 + 1)).collect();
    write(&path, &batches, properties());
    path
}

struct Points {
    open: Open,
    metadata: ArrowReaderMetadata,
}

impl Points {
    async fn open(engine: &Engine, path: &Path) -> Self {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = ArrowReaderMetadata::load(&std::fs::File::open(path).unwrap(), options).unwrap();
        Points { open: open(engine, path).await, metadata }
    }

    fn request(&self, row_group: usize, roots: &[usize], rows: &[Range<usize>]) -> PointRequest {
        PointRequest {
            file: self.open.id.clone(),
            row_group,
            rows: rows.into(),
            roots: roots.to_vec(),
            schema: self.open.schema.clone(),
            metadata: self.metadata.metadata().clone(),
            wait_for_room: false,
        }
    }

    async fn read(
        &self,
        engine: &Engine,
        row_group: usize,
        roots: &[usize],
        rows: &[Range<usize>],
    ) -> Outcome<Option<Vec<ArrayRef>>> {
        let batches = engine.point_read(&self.request(row_group, roots, rows)).await?;
        Ok(batches.map(|rows| joined(&rows.batches)))
    }
}

fn selected(arrays: &[ArrayRef], roots: &[usize], rows: &[Range<usize>]) -> Vec<ArrayRef> {
    let of = |root: &usize| {
        let slices: Vec<ArrayRef> = rows.iter().map(|r| arrays[*root].slice(r.start, r.len())).collect();
        concat(&slices.iter().map(|slice| slice.as_ref()).collect::<Vec<_>>()).unwrap()
    };
    roots.iter().map(of).collect()
}

fn some_rows(random: &mut fastrand::Rng, total: usize) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = (0..2 * random.usize(1..4)).map(|_| random.usize(0..=total)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.chunks_exact(2).map(|pair| pair[0]..pair[1].min(pair[0] + 1500)).collect()
}

#[tokio::test]
async fn any_rows_of_any_columns_are_what_a_plain_reader_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 3);
    let expected = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..150 {
        let group = random.usize(0..3);
        let roots: Vec<usize> = (0..4).filter(|_| random.bool()).collect();
        let rows = some_rows(&mut random, ROWS);
        if roots.is_empty() || rows.is_empty() {
            continue;
        }
        let got = points.read(&engine, group, &roots, &rows).await.unwrap().expect("room for it");
        assert_eq!(got, selected(&expected[&group], &roots, &rows), "group {group}, {roots:?}, {rows:?}");
    }
    let stats = engine.stats();
    assert!(stats.point_blocks_read < stats.point_blocks, "frames serve again: {stats:?}");
    assert_eq!(stats.loads, 0);
    let usage = engine.usage();
    assert!(usage.points > 0 && usage.total() <= usage.budget / 10, "{usage:?}");
}

#[tokio::test]
async fn nested_and_fixed_types_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nested.parquet");
    let n = 6000;
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..n).map(|row| {
        (row % 11 != 0)
            .then(|| (0..row % 5).map(|at| (at % 3 != 2).then_some(row * 10 + at)).collect::<Vec<_>>())
    }));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter((0..n).map(|row| (row % 4 != 1).then_some(row))));
    let flags: ArrayRef =
        Arc::new(BooleanArray::from_iter((0..n).map(|row| (row % 9 != 3).then_some(row % 2 == 0))));
    let fields = vec![
        Arc::new(Field::new("n", numbers.data_type().clone(), true)),
        Arc::new(Field::new("f", flags.data_type().clone(), true)),
    ];
    let structs = StructArray::new(fields.into(), vec![numbers, flags.clone()], None);
    let decimals = Decimal128Array::from_iter_values((0..n).map(|row| i128::from(row) * 31))
        .with_precision_and_scale(20, 2);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("lists", Arc::new(lists)),
        ("structs", Arc::new(structs)),
        ("decimals", Arc::new(decimals.unwrap())),
        ("flags", flags),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    write(&path, &[batch.clone(), batch], properties());
    let expected = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..60 {
        let rows = some_rows(&mut random, n as usize);
        if rows.is_empty() {
            continue;
        }
        let got = points.read(&engine, 1, &[0, 1, 2, 3], &rows).await.unwrap().expect("room for it");
        assert_eq!(got, selected(&expected[&1], &[0, 1, 2, 3], &rows), "{rows:?}");
    }
}

#[tokio::test]
async fn without_an_offset_index_or_room_it_is_for_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plain.parquet");
    let bare = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    write(&path, &[batch(1000, 1)], bare);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    assert!(points.read(&engine, 0, &[0], &[5..6]).await.unwrap().is_none());
    assert_eq!(point_cost(points.metadata.metadata(), 0, &[0], &[5..6], 0), None);

    let path = paged(dir.path(), 1);
    for (buffer_bytes, point_share_percent) in [(64 << 20, 0), (200_000, 10)] {
        let config = EngineConfig { point_share_percent, ..config("relevance", buffer_bytes) };
        let engine = Engine::new(config).unwrap();
        let points = Points::open(&engine, &path).await;
        assert!(points.read(&engine, 0, &[0, 3], &[5..1000]).await.unwrap().is_none());
        assert_eq!(engine.usage().points, 0);
    }
    let config = EngineConfig { point_share_percent: 101, ..config("relevance", 1 << 20) };
    assert!(matches!(Engine::new(config), Err(EngineError::Config(_))));
}

#[tokio::test]
async fn with_room_for_no_block_it_is_for_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    // A quarter of the share is for blocks: not one of them fits.
    let config = EngineConfig { point_share_percent: 12, ..config("relevance", 1 << 20) };
    let engine = Engine::new(config).unwrap();
    let points = Points::open(&engine, &path).await;
    let read = points.read(&engine, 0, &[1], &[5..10]);
    let got = tokio::time::timeout(Duration::from_secs(10), read).await.expect("it does not wait for ever");
    assert!(got.unwrap().is_none());
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    type Case<'a> = (usize, &'a [usize], &'a [Range<usize>]);
    let cases: [Case<'_>; 6] = [
        (1, &[0], &[0..1]),
        (0, &[], &[0..1]),
        (0, &[4], &[0..1]),
        (0, &[1, 0], &[0..1]),
        (0, &[0], &[ROWS - 1..ROWS + 1]),
        (0, &[0], &[5..9, 8..10]),
    ];
    for (group, roots, rows) in cases {
        let outcome = points.read(&engine, group, roots, rows).await;
        assert!(
            matches!(outcome, Err(EngineError::InvalidRequest(_))),
            "{group} {roots:?} {rows:?}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_resident_chunk_answers_without_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    let scan = engine.scan(request(std::slice::from_ref(&points.open), Some(&[0, 1, 3]))).unwrap();
    scan_all(&scan, 1).await.unwrap();
    let before = engine.stats();
    let got = points.read(&engine, 1, &[0, 1, 3], &[700..710, 9000..9001]).await.unwrap().unwrap();
    assert_eq!(got, selected(&expected[&1], &[0, 1, 3], &[700..710, 9000..9001]));
    let after = engine.stats();
    assert_eq!((after.requests, after.bytes_read), (before.requests, before.bytes_read));
    assert_eq!(after.point_columns_from_chunks, 3);
    // A column that is not resident is read, and it alone.
    let got = points.read(&engine, 1, &[1, 2], &[700..710]).await.unwrap().unwrap();
    assert_eq!(got, selected(&expected[&1], &[1, 2], &[700..710]));
    assert_eq!(engine.stats().point_columns_from_chunks, 4);
    assert!(engine.stats().point_blocks_read > 0);
}

/// A reader whose reads of blocks stand still while a gate is shut, or are slow, or fail.
struct Gated {
    inner: Arc<dyn RangeReader>,
    shut: Mutex<bool>,
    opened: Condvar,
    delay: Duration,
    fault: Box<dyn Fn(u32) -> Fault + Send + Sync>,
    attempts: AtomicU32,
}

enum Fault {
    None,
    Transient,
    Permanent,
    Short,
    Flip(usize),
}

impl Gated {
    fn engine(
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
    let (got, chunks) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), point), scanned);
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
    // Scans are not harmed, and a scan of the same chunk works.
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
            // The bit lies elsewhere in the block, or in a value: there are no checksums in these pages.
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
    // What is left of their room is frames, and these go when the budget shrinks below them.
    engine.set_buffer(1).unwrap();
    for _ in 0..200 {
        if engine.usage().points == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(engine.usage().points, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_needs_the_whole_buffer_gets_the_room_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let engine =
        Engine::new(EngineConfig { point_share_percent: 60, ..config("relevance", 8 << 20) }).unwrap();
    let points = Points::open(&engine, &path).await;
    let all = || request(std::slice::from_ref(&points.open), None);
    engine.set_buffer(1).unwrap();
    let needed = match engine.scan(all()) {
        Err(EngineError::BufferTooSmall { needed, .. }) => needed,
        _ => panic!("one byte is too small"),
    };
    engine.set_buffer(needed).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reading = async {
        let mut random = fastrand::Rng::with_seed(3);
        while !stop.load(Ordering::Relaxed) {
            let from = random.usize(0..ROWS - 10);
            let group = random.usize(0..2);
            match points.read(&engine, group, &[0, 2], &[from..from + 10]).await.unwrap() {
                Some(got) => {
                    assert_eq!(got, selected(&expected[&group], &[0, 2], &[from..from + 10]));
                    answered.fetch_add(1, Ordering::Relaxed)
                }
                None => refused.fetch_add(1, Ordering::Relaxed),
            };
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    };
    let scanning = async {
        for _ in 0..5 {
            let scan = engine.scan(all()).unwrap();
            let got = tokio::time::timeout(Duration::from_secs(30), scan_all(&scan, 1)).await;
            assert_eq!(got.unwrap_or_else(|_| panic!("stuck, {:?}", engine.usage())).unwrap(), expected);
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(reading, scanning);
    assert!(answered.into_inner() > 0, "point reads find room, too");
    assert_idle(&engine).await;
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
        let got = tokio::time::timeout(Duration::from_secs(30), scan_all(&scan, 2)).await;
        stop.store(true, Ordering::Relaxed);
        assert_eq!(got.expect("scans do not starve").unwrap(), expected);
    };
    tokio::join!(reading, scanning);
    assert!(engine.stats().loads_held_back > 0);
}

#[tokio::test]
async fn what_a_point_read_costs_is_known_beforehand() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let points = Points::open(&engine, &path).await;
    let metadata = points.metadata.metadata();
    let all = point_cost(metadata, 0, &[0], &[0..ROWS], 0).unwrap();
    assert_eq!(all.data_bytes + all.dictionary_bytes, all.chunk_bytes);
    let one = point_cost(metadata, 0, &[0], &[5..6], 0).unwrap();
    assert_eq!((one.chunk_bytes, one.dictionary_bytes), (all.chunk_bytes, all.dictionary_bytes));
    assert!(one.data_bytes > 0 && one.data_bytes * 20 < all.data_bytes, "one page of forty: {one:?} {all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_whose_room_is_taken_in_the_middle_leave_no_frame_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    // So few frames that blocks queue for them.
    let (buffer, share) = (8 << 20, 12);
    let config = EngineConfig { point_share_percent: share, ..config("relevance", buffer) };
    let (engine, _) = Gated::engine(config, Duration::from_micros(200), |_| Fault::None);
    let points = Points::open(&engine, &path).await;
    let stop = AtomicBool::new(false);
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reading = |seed: u64| {
        let (points, engine, stop, expected) = (&points, &engine, &stop, &expected);
        let (answered, refused) = (&answered, &refused);
        async move {
            let mut random = fastrand::Rng::with_seed(seed);
            while !stop.load(Ordering::Relaxed) {
                let (group, from) = (random.usize(0..2), random.usize(0..ROWS - 600));
                match points.read(engine, group, &[0, 1], &[from..from + 600]).await.unwrap() {
                    Some(got) => {
                        assert_eq!(got, selected(&expected[&group], &[0, 1], &[from..from + 600]));
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    };
    let shrinking = async {
        for _ in 0..100 {
            engine.set_buffer(1).unwrap();
            tokio::time::sleep(Duration::from_micros(300)).await;
            engine.set_buffer(buffer).unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures::future::join_all((0..6).map(reading)), shrinking);
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert!(answered > 0 && refused > 0, "{answered} answered, {refused} refused");
    for _ in 0..200 {
        engine.set_buffer(1).unwrap();
        if engine.usage().points == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("frames are left: {:?}", engine.usage());
}

/// The smallest buffer in which these rows can be a point read.
async fn smallest_buffer(path: &Path, roots: &[usize], rows: &[Range<usize>]) -> u64 {
    let (mut too_small, mut enough) = (0u64, 1 << 30);
    while enough - too_small > 1 {
        let buffer = (too_small + enough) / 2;
        let engine = Engine::new(config("relevance", buffer)).unwrap();
        let points = Points::open(&engine, path).await;
        let read = points.read(&engine, 0, roots, rows);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        let read = read.unwrap_or_else(|_| panic!("with a buffer of {buffer} bytes it waits for ever"));
        if read.unwrap().is_some() { enough = buffer } else { too_small = buffer }
    }
    enough
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_just_fits_does_not_wait_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    for rows in [[10..20], [700..1400], [5_000..5_001]] {
        smallest_buffer(&path, &[0, 3], &rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_their_room_until_they_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let rows = [700..1400];
    let buffer = smallest_buffer(&path, &[0, 3], &rows).await;
    // Nobody gives up while this test takes its time.
    let patient = EngineConfig { stall_after: Duration::from_secs(60), ..config("relevance", buffer) };
    let engine = Engine::new(patient).unwrap();
    let points = Points::open(&engine, &path).await;
    let request = points.request(0, &[0, 3], &rows);
    let held = engine.point_read(&request).await.unwrap().expect("room for one");
    let bytes: usize = held.batches.iter().flatten().map(|array| array.get_buffer_memory_size()).sum();
    assert!(engine.usage().points >= bytes as u64, "{bytes} bytes are held: {:?}", engine.usage());
    assert!(engine.point_read(&request).await.unwrap().is_none(), "there is room for one at a time");

    // Who cannot leave the rows to a scan waits for them.
    let waiting = tokio::spawn({
        let engine = engine.clone();
        let request = PointRequest { wait_for_room: true, ..request.clone() };
        async move { engine.point_read(&request).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiting.is_finished());
    drop(held);
    let got = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("there is room").unwrap();
    assert_eq!(joined(&got.unwrap().unwrap().batches), selected(&plain(&[&path], None)[&0], &[0, 3], &rows));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_room_that_nobody_gives_back_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let rows = [700..1400];
    let buffer = smallest_buffer(&path, &[0, 3], &rows).await;
    let engine = Engine::new(config("relevance", buffer)).unwrap();
    let points = Points::open(&engine, &path).await;
    let request = points.request(0, &[0, 3], &rows);
    let _held = engine.point_read(&request).await.unwrap().expect("room for one");
    let request = PointRequest { wait_for_room: true, ..request };
    let refused = tokio::time::timeout(Duration::from_secs(10), engine.point_read(&request)).await;
    let refused = refused.expect("it ends").map(drop);
    assert!(
        matches!(&refused, Err(EngineError::BufferTooSmall { needed, .. }) if *needed > buffer),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_stands_still_makes_room_for_a_point_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let (rows, roots) = ([700..1400], [0, 3]);
    let buffer = smallest_buffer(&path, &roots, &rows).await;
    let engine = Engine::new(config("relevance", buffer * 2)).unwrap();
    let points = Points::open(&engine, &path).await;
    // A chunk that fills the buffer, in the hands of somebody who does not read it.
    let scan = engine.scan(request(std::slice::from_ref(&points.open), Some(&[1]))).unwrap();
    let mut worker = scan.worker();
    let chunk = worker.next().await.unwrap().unwrap();
    engine.set_buffer(buffer).unwrap();
    let request = PointRequest { wait_for_room: true, ..points.request(0, &roots, &rows) };
    let got = tokio::time::timeout(Duration::from_secs(10), engine.point_read(&request)).await;
    let got = got.expect("it ends").unwrap().expect("room was made");
    assert_eq!(joined(&got.batches), selected(&plain(&[&path], None)[&0], &roots, &rows));
    drop((chunk, got));
}
