//! Large row groups are cut into chunks at split points: every row comes once, whatever straddles a split
//! point.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch};
use arrow::datatypes::Int64Type;
use coscan_engine::{
    ChunkRequest, DeliveryOrder, Engine, EngineConfig, EngineError, FileColumns, FileSpec, PointRequest,
    ScanRequest,
};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::properties::WriterProperties;

use crate::support::*;

const ROWS: usize = 20_000;

/// A small row group, one of 20,000 rows whose columns have pages of different rows, and a small one.
fn huge(dir: &Path) -> PathBuf {
    let path = dir.join("huge.parquet");
    let rows = |rows: usize, seed: u64| {
        let lists = (0..rows).map(|row| (row % 5 > 0).then(|| vec![Some(row as i64); row % 4]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let flat = batch(rows, seed);
        let names = ["noise", "count", "few", "many", "lists"];
        let arrays = flat.columns().iter().cloned().chain([lists]);
        RecordBatch::try_from_iter_with_nullable(names.into_iter().zip(arrays).map(|(n, a)| (n, a, true)))
            .unwrap()
    };
    let properties = WriterProperties::builder()
        .set_data_page_size_limit(4_000)
        .set_write_batch_size(64)
        .set_dictionary_page_size_limit(2_000)
        .build();
    write(&path, &[rows(50, 1), rows(ROWS, 2), rows(50, 3)], properties);
    path
}

/// The file with its page index.
async fn indexed(path: &Path) -> (FileSpec, ArrowReaderMetadata) {
    let (mut spec, _) = spec(path).await;
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let arrow = ArrowReaderMetadata::load(&std::fs::File::open(path).unwrap(), options).unwrap();
    spec.metadata = arrow.metadata().clone();
    (spec, arrow)
}

fn cutting(name: &str, buffer_bytes: u64, chunk_bytes: u64) -> EngineConfig {
    EngineConfig { chunk_bytes, ..config(name, buffer_bytes) }
}

/// Rows of the columns over all chunks, in the order of the file.
fn rows_of(chunks: &Chunks) -> Vec<ArrayRef> {
    joined(&chunks.values().filter(|arrays| !arrays.is_empty()).cloned().collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_comes_once_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    for roots in [None, Some(&[1usize, 4][..])] {
        let expected = rows_of(&plain(&[&path], roots));
        for policy in policies() {
            let engine = Engine::new(cutting(policy.as_str(), 8 << 20, 100_000)).unwrap();
            let (spec, arrow) = indexed(&path).await;
            let file = opened(&engine, spec, &arrow);
            let chunks: Vec<_> = file.id.chunks().cloned().collect();
            assert!(chunks.len() > 6, "{chunks:?}");
            assert_eq!((chunks[0].rows.clone(), chunks[1].rows.start), (0..50, 0));
            let scan = engine.scan(request(std::slice::from_ref(&file), roots)).unwrap();
            let got = scan_all(&scan, 2).await.unwrap();
            assert_eq!(rows_of(&got), expected, "{policy} {roots:?}");
            drop(scan);
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_dictionaries_at_borders_are_read_twice_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let (spec, arrow) = indexed(&path).await;
    let whole: i64 = spec.metadata.row_groups().iter().map(|about| about.compressed_size()).sum();
    let engine = Engine::new(cutting("relevance", 8 << 20, 100_000)).unwrap();
    let file = opened(&engine, spec, &arrow);
    let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
    scan_all(&scan, 2).await.unwrap();
    let read = engine.stats().bytes_read;
    assert!((whole as u64..=whole as u64 * 9 / 8).contains(&read), "{read} of {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_much_smaller_than_the_row_group_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let (spec, arrow) = indexed(&path).await;
    let bytes = spec.metadata.row_group(1).compressed_size() as u64;
    let scanned = async |chunk_bytes: u64| {
        // A slice takes more than a chunk of this row group, so slices are small, too.
        let settings = EngineConfig { slice_rows: 50, ..cutting("relevance", bytes / 2, chunk_bytes) };
        let engine = Engine::new(settings).unwrap();
        let file = opened(&engine, spec.clone(), &arrow);
        scan_all(&engine.scan(request(std::slice::from_ref(&file), None))?, 1).await
    };
    assert!(matches!(scanned(0).await, Err(EngineError::BufferTooSmall { .. })));
    assert_eq!(rows_of(&scanned(50_000).await.unwrap()), rows_of(&plain(&[&path], None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_without_a_page_index_stay_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let engine = Engine::new(cutting("relevance", 8 << 20, 1000)).unwrap();
    assert_eq!(open(&engine, &path).await.id.chunks().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn point_reads_take_their_pages_from_the_chunk_that_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let in_memory = EngineConfig { page_cache_bytes: 0, ..cutting("relevance", 32 << 20, 100_000) };
    let engine = Engine::new(in_memory).unwrap();
    let (spec, arrow) = indexed(&path).await;
    let metadata = spec.metadata.clone();
    let file = opened(&engine, spec, &arrow);
    let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
    scan_all(&scan, 1).await.unwrap();
    let expected = &plain(&[&path], None)[&1];
    let borders: Vec<usize> =
        file.id.chunks().filter(|chunk| chunk.row_group == 1).map(|chunk| chunk.rows.end).collect();
    for (rows, of_one_chunk) in [(borders[0] - 9..borders[0], true), (borders[0] - 9..borders[0] + 9, false)]
    {
        let before = engine.stats();
        let request = PointRequest {
            file: file.id.clone(),
            wait_for_room: true,
            row_group: 1,
            rows: [rows.clone()].into(),
            roots: vec![0, 3, 4],
            schema: file.schema.clone(),
            metadata: metadata.clone(),
        };
        let batches = engine.point_read(&request).await.unwrap().unwrap().batches;
        let got = joined(&batches);
        let wanted: Vec<ArrayRef> =
            [0, 3, 4].iter().map(|&root: &usize| expected[root].slice(rows.start, rows.len())).collect();
        assert_eq!(got, wanted, "{rows:?}");
        let after = engine.stats();
        let from_chunks = after.point_columns_from_chunks - before.point_columns_from_chunks;
        assert_eq!((from_chunks == 3, after.bytes_read == before.bytes_read), (of_one_chunk, of_one_chunk));
    }
}

/// The metadata with the offset index of one column changed.
fn with_index(
    metadata: &ParquetMetaData,
    leaf: usize,
    change: impl Fn(&mut Vec<PageLocation>),
) -> Arc<ParquetMetaData> {
    let mut index: Vec<Vec<OffsetIndexMetaData>> = metadata.offset_index().unwrap().clone();
    let of_column = &mut index[1][leaf];
    change(&mut of_column.page_locations);
    let builder = metadata.clone().into_builder();
    Arc::new(builder.set_offset_index(Some(index)).build())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_lies_is_an_error_or_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let (spec, arrow) = indexed(&path).await;
    let expected = rows_of(&plain(&[&path], None));
    for (shift, page) in [(1i64, 3usize), (-1, 3), (40, 20), (-40, 20), (5_000, 7)] {
        for leaf in 0..4 {
            let metadata = with_index(&spec.metadata, leaf, |pages| {
                if let Some(page) = pages.get_mut(page) {
                    page.first_row_index += shift;
                }
            });
            let changed = metadata.offset_index() != spec.metadata.offset_index();
            let engine = Engine::new(cutting("relevance", 8 << 20, 100_000)).unwrap();
            let file = opened(&engine, FileSpec { metadata, ..spec.clone() }, &arrow);
            let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
            match scan_all(&scan, 2).await {
                Ok(got) => assert_eq!(rows_of(&got), expected, "{leaf} {page} {shift}"),
                Err(EngineError::Corrupt { row_group: 1, .. }) => assert!(changed),
                Err(other) => panic!("{leaf} {page} {shift}: {other}"),
            }
        }
    }
}

/// The rows before a piece are skipped by the index's statement about the page in which the piece begins. A
/// wrong statement gives the piece rows of its neighbour, and the last page may have enough rows to hide
/// that.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_lies_at_a_border_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = huge(dir.path());
    let (spec, arrow) = indexed(&path).await;
    let expected = rows_of(&plain(&[&path], None));
    let settings = || cutting("relevance", 8 << 20, 100_000);
    let file = opened(&Engine::new(settings()).unwrap(), spec.clone(), &arrow);
    let borders: Vec<i64> =
        file.id.chunks().filter(|chunk| chunk.rows.start > 0).map(|chunk| chunk.rows.start as i64).collect();
    assert!(borders.len() > 3, "{borders:?}");
    let mut found = 0;
    for leaf in 0..4 {
        for (&border, shift) in borders.iter().flat_map(|border| [(border, 1i64), (border, -1)]) {
            let metadata = with_index(&spec.metadata, leaf, |pages| {
                let page = pages.iter_mut().rfind(|page| page.first_row_index <= border);
                if let Some(page) = page.filter(|page| page.first_row_index > 0) {
                    page.first_row_index += shift;
                }
            });
            let changed = metadata.offset_index() != spec.metadata.offset_index();
            let engine = Engine::new(settings()).unwrap();
            let file = opened(&engine, FileSpec { metadata, ..spec.clone() }, &arrow);
            let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
            match scan_all(&scan, 2).await {
                Ok(got) => assert!(rows_of(&got) == expected, "other rows: column {leaf}, {border}, {shift}"),
                Err(EngineError::Corrupt { row_group: 1, .. }) if changed => found += 1,
                Err(other) => panic!("column {leaf}, border {border}, {shift}: {other}"),
            }
        }
    }
    assert!(found > 0, "no lie was found");
}

/// 300 row groups: most have a few rows, six have 2,000.
fn tiny(dir: &Path) -> PathBuf {
    let path = dir.join("tiny.parquet");
    let batches: Vec<_> =
        (0..300).map(|at| batch(if at % 50 == 7 { 2_000 } else { 1 + at % 9 }, at as u64)).collect();
    write(&path, &batches, WriterProperties::default());
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn small_row_groups_are_read_together_and_handed_out_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = tiny(dir.path());
    for (order, roots) in [(DeliveryOrder::Any, None), (DeliveryOrder::Table, Some(&[0usize, 2][..]))] {
        let expected = plain(&[&path], roots);
        for policy in policies() {
            let engine = Engine::new(cutting(policy.as_str(), 32 << 20, 16 << 20)).unwrap();
            let file = open(&engine, &path).await;
            assert_eq!(file.id.chunks().len(), 300);
            let wanted = ScanRequest { order, ..request(std::slice::from_ref(&file), roots) };
            let scan = engine.scan(wanted).unwrap();
            assert_eq!(scan_all(&scan, 2).await.unwrap(), expected, "{policy} {order:?}");
            assert_eq!(scan.metrics().chunks_delivered, 300, "{policy}");
            assert!(engine.stats().loads < 10, "{policy}: {} loads", engine.stats().loads);
            drop(scan);
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_of_a_bundle_are_asked_for_struck_off_and_repeated_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let path = tiny(dir.path());
    let expected = plain(&[&path], None);
    let engine = Engine::new(cutting("relevance", 32 << 20, 16 << 20)).unwrap();
    let file = open(&engine, &path).await;
    // Every third one, some in fewer columns, and all of them once more.
    let mut wanted = request(std::slice::from_ref(&file), None);
    let fewer = FileColumns { roots: vec![1], ..wanted.columns[0].clone() };
    wanted.columns.push(fewer);
    let chosen: Vec<usize> = (0..300).step_by(3).chain((0..300).step_by(3)).collect();
    wanted.chunks = chosen
        .iter()
        .enumerate()
        .map(|(key, &chunk)| ChunkRequest { columns: usize::from(chunk % 2 == 1), chunk, key: key as u32 })
        .collect();
    let scan = engine.scan(wanted).unwrap();
    let struck: Vec<u32> = (0..200).filter(|key| key % 7 == 0).collect();
    scan.unneed(&struck);
    let got = scan_all(&scan, 2).await.unwrap();
    let keys: Vec<usize> = (0..200).filter(|key| key % 7 != 0).collect();
    assert!(keys.iter().all(|key| got.contains_key(key)));
    for (key, arrays) in &got {
        let all = &expected[&chosen[*key]];
        let wanted = if chosen[*key] % 2 == 1 { vec![all[1].clone()] } else { all.clone() };
        assert_eq!(*arrays, wanted, "{key}");
    }
    drop(scan);
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_row_group_of_the_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let path = tiny(dir.path());
    let (file, _) = spec(&path).await;
    let column = file.metadata.row_group(123).column(3);
    let (start, len) = column.byte_range();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[start as usize..(start + len) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let engine = Engine::new(cutting("relevance", 32 << 20, 16 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
    let error = scan_all(&scan, 1).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Corrupt { row_group: 123, column, .. } if column == "many"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_did_not_hand_out_comes_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = tiny(dir.path());
    let engine = Engine::new(cutting("relevance", 32 << 20, 16 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let all = Vec::from_iter(0..300u32);
    for order in [DeliveryOrder::Any, DeliveryOrder::Table] {
        let wanted = ScanRequest { order, workers: 3, ..request(std::slice::from_ref(&file), None) };
        let scan = engine.scan(wanted).unwrap();
        // One worker leaves with most of a bundle. Another holds its bundle and does not continue.
        let mut keys = Vec::new();
        let (mut leaves, mut stops, mut goes_on) = (scan.worker(), scan.worker(), scan.worker());
        keys.extend(leaves.next().await.unwrap().map(|chunk| chunk.key));
        let mut stopped = stops.next().await.unwrap().unwrap();
        keys.push(stopped.key);
        drop(leaves);
        while let Some(mut chunk) = goes_on.next().await.unwrap() {
            keys.push(chunk.key);
            chunk.slice(0).await.unwrap();
        }
        keys.sort_unstable();
        assert_eq!(keys, all, "{order:?}");
        stopped.slice(0).await.unwrap();
        drop(stopped);
        assert!(stops.next().await.unwrap().is_none());
        assert_eq!(scan.metrics().chunks_delivered, 300, "each is counted once");
        drop((stops, goes_on, scan));
        assert_idle(&engine).await;
    }
}
