//! Point reads: the same rows as other reads, from pages, from resident chunks or from loads.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Int32Array, ListArray, RecordBatch, StructArray,
};
use arrow::compute::concat;
use arrow::datatypes::{Field, Int32Type};
use coscan_engine::{Engine, EngineConfig, EngineError, PointRequest, point_cost};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;

mod faults;
mod room;

const ROWS: usize = 20_000;

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
    // A quarter of the share is for blocks: not even one of them fits.
    let config = EngineConfig { point_share_percent: 12, ..config("relevance", 1 << 20) };
    let engine = Engine::new(config).unwrap();
    let points = Points::open(&engine, &path).await;
    let read = points.read(&engine, 0, &[1], &[5..10]);
    let got = tokio::time::timeout(ENDS, read).await.expect("it does not wait for ever");
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
    let engine = Engine::new(EngineConfig { page_cache_bytes: 0, ..config("relevance", 64 << 20) }).unwrap();
    let points = Points::open(&engine, &path).await;
    let scan = engine.scan(request(std::slice::from_ref(&points.open), Some(&[0, 1, 3]))).unwrap();
    scan_all(&scan, 1).await.unwrap();
    let before = engine.stats();
    let got = points.read(&engine, 1, &[0, 1, 3], &[700..710, 9000..9001]).await.unwrap().unwrap();
    assert_eq!(got, selected(&expected[&1], &[0, 1, 3], &[700..710, 9000..9001]));
    let after = engine.stats();
    assert_eq!((after.requests, after.bytes_read), (before.requests, before.bytes_read));
    assert_eq!(after.point_columns_from_chunks, 3);
    // A column that is not resident is read, and only that one.
    let got = points.read(&engine, 1, &[1, 2], &[700..710]).await.unwrap().unwrap();
    assert_eq!(got, selected(&expected[&1], &[1, 2], &[700..710]));
    assert_eq!(engine.stats().point_columns_from_chunks, 4);
    assert!(engine.stats().point_blocks_read > 0);
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
