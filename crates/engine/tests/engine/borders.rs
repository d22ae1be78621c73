//! Row groups whose keys are in order are cut where no page of the key is split: ranges of pieces have at
//! most end points in common.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use coscan_engine::{Engine, EngineConfig, FileSpec};
use fastrand::Rng;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;

use crate::support::*;

const CHUNK_BYTES: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Int,
    Long,
    /// Half of them are above the greatest signed number.
    Unsigned,
    Date,
    Time,
    Text,
    /// In bytes, half of them negative.
    Decimal,
    /// Statistics leave NaN out.
    Float,
}

/// A file of one row group, with a known key.
#[derive(Clone, Debug)]
struct Layout {
    key: Key,
    descending: bool,
    /// The maximum rows of runs of equal keys.
    longest: usize,
    /// The number of null keys, at the beginning, at the end, or anywhere.
    nulls: usize,
    nulls_at: usize,
    /// The key's position among the columns, and whether the file states that it is sorted by it.
    place: usize,
    declared: bool,
    page_bytes: usize,
    /// The bytes of the longest value of the largest column.
    width: usize,
}

impl Layout {
    fn draw(rng: &mut Rng) -> Self {
        let kinds = [Key::Int, Key::Long, Key::Unsigned, Key::Date, Key::Time, Key::Text, Key::Decimal];
        Layout {
            key: *rng.choice(&kinds).unwrap(),
            descending: rng.bool(),
            longest: *rng.choice(&[1, 7, 400, 1500]).unwrap(),
            nulls: *rng.choice(&[0, 0, 40, 900]).unwrap(),
            nulls_at: rng.usize(..3),
            place: rng.usize(..4),
            declared: rng.bool(),
            page_bytes: *rng.choice(&[1000, 2000, 4000]).unwrap(),
            width: 60,
        }
    }

    fn plain() -> Self {
        Layout {
            key: Key::Text,
            descending: false,
            longest: 3,
            nulls: 0,
            nulls_at: 0,
            place: 3,
            declared: false,
            page_bytes: 2000,
            width: 60,
        }
    }

    /// Numbers in the order of the keys.
    fn numbers(&self, rng: &mut Rng, rows: usize) -> Vec<Option<i64>> {
        let mut numbers = Vec::with_capacity(rows);
        let mut number = -(rows as i64) / 5;
        while numbers.len() < rows {
            let run = rng.usize(1..=self.longest).min(rows - numbers.len());
            numbers.extend(std::iter::repeat_n(Some(number), run));
            number += rng.i64(1..4);
        }
        if self.descending {
            numbers.reverse();
        }
        match self.nulls_at {
            0 => numbers[..self.nulls].fill(None),
            1 => numbers[rows - self.nulls..].fill(None),
            _ => (0..self.nulls).for_each(|_| numbers[rng.usize(..rows)] = None),
        }
        numbers
    }

    fn keys(&self, numbers: &[Option<i64>]) -> ArrayRef {
        let longs: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let as_type = |of: &ArrayRef, data_type: DataType| cast(of, &data_type).unwrap();
        match self.key {
            Key::Int => as_type(&longs, DataType::Int32),
            Key::Long => longs,
            Key::Unsigned => {
                let middle = |number: i64| (1u64 << 63).wrapping_add_signed(number);
                Arc::new(numbers.iter().map(|number| number.map(middle)).collect::<UInt64Array>())
            }
            Key::Date => as_type(&as_type(&longs, DataType::Int32), DataType::Date32),
            Key::Time => as_type(&longs, DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)),
            Key::Text => {
                let text = |number: i64| format!("key {:06}", number + 100_000);
                Arc::new(numbers.iter().map(|number| number.map(text)).collect::<StringArray>())
            }
            Key::Decimal => as_type(&longs, DataType::Decimal128(30, 3)),
            Key::Float => as_type(&longs, DataType::Float64),
        }
    }

    /// Writes the file. Returns it with the numbers of its keys.
    fn write(&self, dir: &Path, rng: &mut Rng, rows: usize) -> (PathBuf, Vec<Option<i64>>) {
        let numbers = self.numbers(rng, rows);
        let noise = |rng: &mut Rng| Arc::new((0..rows).map(|_| Some(rng.i64(..))).collect::<Int64Array>());
        let words = (0..rows).map(|_| Some("w".repeat(rng.usize(..self.width))));
        let words: ArrayRef = Arc::new(words.collect::<StringArray>());
        // Its pages ascend, with overlapping ranges.
        let drift = (0..rows as i64).map(|row| row + row % 2 * 5_000);
        let drift: ArrayRef = Arc::new(Int64Array::from_iter_values(drift));
        // A column of one value: its pages are in order, too.
        let one: ArrayRef = Arc::new(Int32Array::from(vec![7; rows]));
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("drift", drift), ("one", one), ("words", words), ("noise", noise(rng) as _)];
        columns.insert(self.place, ("key", self.keys(&numbers)));
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let sorted =
            SortingColumn { column_idx: self.place as i32, descending: self.descending, nulls_first: true };
        let properties = WriterProperties::builder()
            .set_data_page_size_limit(self.page_bytes)
            .set_write_batch_size(16)
            .set_dictionary_enabled(false)
            .set_sorting_columns(self.declared.then(|| vec![sorted]))
            .build();
        let path = dir.join("sorted.parquet");
        write(&path, &[batch], properties);
        (path, numbers)
    }
}

/// The file with its page index, and without its column index.
async fn indexed(path: &Path) -> (FileSpec, FileSpec, ArrowReaderMetadata) {
    let (mut spec, _) = spec(path).await;
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let arrow = ArrowReaderMetadata::load(&std::fs::File::open(path).unwrap(), options).unwrap();
    spec.metadata = arrow.metadata().clone();
    let without = ParquetMetaData::clone(&spec.metadata).into_builder().set_column_index(None).build();
    (spec.clone(), FileSpec { metadata: Arc::new(without), ..spec }, arrow)
}

fn cutting(policy: &str) -> EngineConfig {
    EngineConfig { chunk_bytes: CHUNK_BYTES, ..config(policy, 8 << 20) }
}

/// The rows of all chunks, and their bytes.
fn pieces(spec: &FileSpec, arrow: &ArrowReaderMetadata) -> (Vec<Range<usize>>, u64) {
    let file = opened(&Engine::new(cutting("relevance")).unwrap(), spec.clone(), arrow);
    let rows = file.id.chunks().map(|chunk| chunk.rows.clone()).collect();
    let roots: Vec<usize> = (0..file.schema.fields().len()).collect();
    (rows, (0..file.id.chunks().len()).map(|chunk| file.id.chunk_bytes(chunk, &roots)).sum())
}

/// Returns whether the ranges of keys, of the pages with rows of each piece, have at most end points in
/// common. The facts about pages come only from their first rows and from the written values.
fn are_apart(
    metadata: &ParquetMetaData,
    leaf: usize,
    numbers: &[Option<i64>],
    pieces: &[Range<usize>],
) -> bool {
    let pages = metadata.offset_index().unwrap()[0][leaf].page_locations();
    let starts: Vec<usize> = pages.iter().map(|page| page.first_row_index as usize).collect();
    let range = |rows: &Range<usize>| {
        let from = starts.iter().copied().rfind(|start| *start <= rows.start).unwrap();
        let to = starts.iter().copied().find(|start| *start >= rows.end).unwrap_or(numbers.len());
        let known = || numbers[from..to].iter().flatten().copied();
        known().min().zip(known().max())
    };
    let ranges: Vec<(i64, i64)> = pieces.iter().filter_map(range).collect();
    ranges.is_sorted_by(|a, b| a.1 <= b.0) || ranges.is_sorted_by(|a, b| a.0 >= b.1)
}

#[tokio::test]
async fn ranges_of_pieces_have_at_most_end_points_in_common() {
    let mut without_key = 0;
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::draw(&mut rng);
        let (path, numbers) = layout.write(dir.path(), &mut rng, 20_000);
        let (spec, without, arrow) = indexed(&path).await;
        let ((by_value, bytes), (as_before, _)) = (pieces(&spec, &arrow), pieces(&without, &arrow));
        let whole = spec.metadata.row_group(0).compressed_size() as u64;
        let context = format!("seed {seed}, {layout:?}: {by_value:?}, without {as_before:?}");
        assert!(by_value.len() * 2 >= as_before.len() && by_value.len() > 4, "{context}");
        assert!((whole..=whole * 9 / 8).contains(&bytes), "{bytes} of {whole}, {context}");
        assert_eq!((by_value[0].start, by_value[by_value.len() - 1].end), (0, numbers.len()), "{context}");
        assert!(by_value.windows(2).all(|pair| pair[0].end == pair[1].start), "{context}");
        assert!(are_apart(&spec.metadata, layout.place, &numbers, &by_value), "{context}");
        without_key += usize::from(!are_apart(&spec.metadata, layout.place, &numbers, &as_before));
    }
    assert!(without_key > 20, "{without_key}: the test sees no difference");
}

/// The key's pages have more rows than the pieces would have.
#[tokio::test]
async fn there_are_fewer_pieces_if_pages_of_the_key_are_long() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout { key: Key::Int, page_bytes: 1000, width: 600, ..Layout::plain() };
    let (path, numbers) = layout.write(dir.path(), &mut Rng::with_seed(1), 6000);
    let (spec, without, arrow) = indexed(&path).await;
    let page_rows = spec.metadata.offset_index().unwrap()[0][3].page_locations()[1].first_row_index as usize;
    let ((by_value, _), (as_before, _)) = (pieces(&spec, &arrow), pieces(&without, &arrow));
    let context = format!("pages of {page_rows}, {by_value:?}, without {as_before:?}");
    assert!(
        as_before.iter().filter(|rows| rows.len() < page_rows).count() * 2 > as_before.len(),
        "{context}"
    );
    assert!(by_value.len() < as_before.len() && by_value.len() * 2 >= as_before.len(), "{context}");
    assert!(are_apart(&spec.metadata, 3, &numbers, &by_value), "{context}");
    // With half as many pieces some pages would still be split.
    let (path, _) = Layout { width: 3000, ..layout }.write(dir.path(), &mut Rng::with_seed(1), 6000);
    let (spec, without, arrow) = indexed(&path).await;
    assert_eq!(pieces(&spec, &arrow), pieces(&without, &arrow));
}

#[tokio::test]
async fn what_is_in_no_order_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(3);
    for (layout, changed) in [
        (Layout::plain(), true),
        // The stated order is ignored if the pages contradict it, and other columns are tried.
        (Layout { declared: true, place: 0, ..Layout::plain() }, true),
        (Layout { key: Key::Float, ..Layout::plain() }, false),
        (Layout { longest: 1 << 20, ..Layout::plain() }, false),
    ] {
        let (path, numbers) = layout.write(dir.path(), &mut rng, 20_000);
        let (spec, without, arrow) = indexed(&path).await;
        assert_eq!(pieces(&spec, &arrow) != pieces(&without, &arrow), changed, "{layout:?}");
        if changed {
            // The same index for a column in no order: there is no key.
            let mut index = spec.metadata.column_index().unwrap().clone();
            index[0][layout.place] = index[0].iter().find(|of| !of.is_sorted()).unwrap().clone();
            let metadata = ParquetMetaData::clone(&spec.metadata).into_builder();
            let metadata = Arc::new(metadata.set_column_index(Some(index)).build());
            let unordered = FileSpec { metadata, ..spec.clone() };
            assert_eq!(pieces(&unordered, &arrow), pieces(&without, &arrow), "{layout:?}");
            assert!(are_apart(&spec.metadata, layout.place, &numbers, &pieces(&spec, &arrow).0));
        }
    }
}

/// With pages of different rows, and dictionaries that each belong to several pieces.
#[tokio::test(flavor = "multi_thread")]
async fn what_pieces_have_in_common_is_read_once_if_it_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.parquet");
    let properties = WriterProperties::builder()
        .set_data_page_size_limit(4_000)
        .set_write_batch_size(64)
        .set_dictionary_page_size_limit(2_000)
        .build();
    write(&path, &[batch(20_000, 1), batch(20_000, 2)], properties);
    let (spec, _, arrow) = indexed(&path).await;
    let whole: i64 = spec.metadata.row_groups().iter().map(|about| about.compressed_size()).sum();
    let expected = rows_of(&plain(&[&path], None));
    for (buffer_bytes, is_large) in [(64 << 20, true), (400_000, false)] {
        let one = EngineConfig { loads_in_flight: 1, slice_rows: 50, ..cutting("attach") };
        let engine = Engine::new(EngineConfig { buffer_bytes, ..one }).unwrap();
        let file = opened(&engine, spec.clone(), &arrow);
        let pieces = file.id.chunks().len();
        let all = (0..pieces).map(|chunk| file.id.chunk_bytes(chunk, &[0, 1, 2, 3])).sum::<u64>();
        assert!(pieces > 10 && all > whole as u64, "{pieces} pieces, {all} of {whole} bytes");
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        assert!(rows_of(&scan_all(&scan, 1).await.unwrap()) == expected);
        let read = engine.stats().bytes_read;
        assert!(read >= whole as u64 && read < all, "{read} of {whole}, {all} of all pieces");
        // In a small buffer the neighbour may be gone.
        assert!(read == whole as u64 || !is_large, "{read} of {whole}");
        drop(scan);
        assert_idle(&engine).await;
    }
}

/// Rows of the columns over all chunks, in the order of the file.
fn rows_of(chunks: &Chunks) -> Vec<ArrayRef> {
    joined(&chunks.values().cloned().collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_comes_once_whatever_the_column_index_says() {
    for (seed, policy) in policies().into_iter().enumerate() {
        let mut rng = Rng::with_seed(seed as u64);
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { place: 3, ..Layout::draw(&mut rng) };
        let (path, _) = layout.write(dir.path(), &mut rng, 10_000);
        let (spec, _, arrow) = indexed(&path).await;
        let expected = rows_of(&plain(&[&path], None));
        // Every column is stated to be in the order of every other one.
        let columns = spec.metadata.row_group(0).num_columns();
        for (liar, claimed) in (0..columns).flat_map(|liar| (0..columns).map(move |claimed| (liar, claimed)))
        {
            let mut index = spec.metadata.column_index().unwrap().clone();
            index[0][liar] = index[0][claimed].clone();
            let metadata = ParquetMetaData::clone(&spec.metadata).into_builder();
            let metadata = Arc::new(metadata.set_column_index(Some(index)).build());
            let engine = Engine::new(cutting(policy.as_str())).unwrap();
            let file = opened(&engine, FileSpec { metadata, ..spec.clone() }, &arrow);
            assert!(file.id.chunks().len() > 3);
            let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
            let got = scan_all(&scan, 2).await.unwrap();
            assert!(rows_of(&got) == expected, "{policy}, {layout:?}: {liar} as {claimed}");
            drop(scan);
            assert_idle(&engine).await;
        }
    }
}
