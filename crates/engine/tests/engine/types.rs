//! Every type that Parquet and Arrow have in common has the values that a plain reader gives.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use coscan_engine::{DeliveryOrder, Engine, EngineError, FileSpec};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::support::*;

const ROWS: usize = 3_456;

fn column<A: Array + 'static>(name: &str, array: A) -> (String, ArrayRef) {
    (name.into(), Arc::new(array))
}

fn numbers(seed: usize) -> impl Iterator<Item = Option<i64>> {
    (0..ROWS).map(move |row| (!(row + seed).is_multiple_of(11)).then_some((row * 37 + seed) as i64 % 120))
}

fn flat(seed: usize) -> Vec<(String, ArrayRef)> {
    let n = || numbers(seed);
    let text = || n().map(|v| v.map(|v| format!("text {v} that is longer than twelve bytes")));
    let keys: Int32Array = n().map(|v| v.map(|v| v as i32 % 3)).collect();
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "bb", "a value of some length"]));
    let mut fixed = FixedSizeBinaryBuilder::new(5);
    n().for_each(|v| match v {
        Some(v) => fixed.append_value([v as u8; 5]).unwrap(),
        None => fixed.append_null(),
    });
    vec![
        column("bool", n().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        column("i8", n().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        column("i16", n().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        column("i32", n().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        column("i64", n().collect::<Int64Array>()),
        column("u8", n().map(|v| v.map(|v| v as u8)).collect::<UInt8Array>()),
        column("u16", n().map(|v| v.map(|v| v as u16)).collect::<UInt16Array>()),
        column("u32", n().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
        column("u64", n().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
        column("f32", n().map(|v| v.map(|v| v as f32 / 7.0)).collect::<Float32Array>()),
        column("f64", n().map(|v| v.map(|v| v as f64 / 7.0)).collect::<Float64Array>()),
        column("f16", n().map(|v| v.map(half)).collect::<Float16Array>()),
        column("date32", n().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
        column("time32", n().map(|v| v.map(|v| v as i32)).collect::<Time32MillisecondArray>()),
        column("time64", n().collect::<Time64NanosecondArray>()),
        column("timestamp_us", n().collect::<TimestampMicrosecondArray>()),
        column("timestamp_ns_utc", n().collect::<TimestampNanosecondArray>().with_timezone("UTC")),
        column("duration", n().collect::<DurationMillisecondArray>()),
        column("d32", decimal::<Decimal32Type>(n().map(|v| v.map(|v| v as i32)), 7)),
        column("d64", decimal::<Decimal64Type>(n(), 15)),
        column("d128", decimal::<Decimal128Type>(n().map(|v| v.map(i128::from)), 31)),
        column("d256", decimal::<Decimal256Type>(n().map(|v| v.map(i256_from)), 60)),
        column("utf8", text().collect::<StringArray>()),
        column("large_utf8", text().collect::<LargeStringArray>()),
        column("utf8_view", text().collect::<StringViewArray>()),
        column("binary", text().map(|v| v.map(String::into_bytes)).collect::<BinaryArray>()),
        column("binary_view", BinaryViewArray::from_iter(text().map(|v| v.map(String::into_bytes)))),
        column("fixed", fixed.finish()),
        column("dictionary", DictionaryArray::new(keys, values)),
        column("all_null", Int64Array::new_null(ROWS)),
    ]
}

fn half(v: i64) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(v as f32 / 4.0)
}

fn i256_from(v: i64) -> arrow::datatypes::i256 {
    arrow::datatypes::i256::from_i128(i128::from(v) * 1_000_000_007)
}

fn decimal<T: DecimalType>(
    values: impl Iterator<Item = Option<T::Native>>,
    precision: u8,
) -> PrimitiveArray<T> {
    PrimitiveArray::<T>::from_iter(values).with_precision_and_scale(precision, 2).unwrap()
}

fn nested(seed: usize) -> Vec<(String, ArrayRef)> {
    let lengths: Vec<usize> = (0..ROWS).map(|row| (row * 7 + seed) % 5).collect();
    let total: usize = lengths.iter().sum();
    let items: Int64Array = (0..total).map(|i| (i % 6 != 1).then_some(i as i64)).collect();
    let words: StringViewArray =
        (0..total).map(|i| (i % 4 != 1).then(|| format!("element number {i}"))).collect();
    let nulls = || (0..ROWS).map(|row| row % 9 != 4).collect::<Vec<bool>>().into();
    let offsets = || OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let list = ListArray::new(item(DataType::Int64), offsets(), Arc::new(items), Some(nulls()));
    let words = ListArray::new(item(DataType::Utf8View), offsets(), Arc::new(words), None);
    let inner: ArrayRef = Arc::new(numbers(seed).collect::<Int64Array>());
    let fields = Fields::from(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("l", list.data_type().clone(), true),
    ]);
    let record = StructArray::new(fields, vec![inner, Arc::new(list.clone())], Some(nulls()));
    let pair_offsets = OffsetBuffer::<i32>::from_lengths((0..ROWS).map(|row| row % 2));
    let outer = ROWS / 2;
    let deep =
        ListArray::new(item(list.data_type().clone()), pair_offsets, Arc::new(list.slice(0, outer)), None);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..ROWS {
        for entry in 0..row % 3 {
            map.keys().append_value(format!("key {entry}"));
            map.values().append_option((row % 5 != 0).then_some(row as i32));
        }
        map.append(row % 8 != 0).unwrap();
    }
    vec![
        column("list", list),
        column("words", words),
        column("record", record),
        column("deep", deep),
        column("map", map.finish()),
    ]
}

fn wide(seed: usize) -> RecordBatch {
    let columns = flat(seed).into_iter().chain(nested(seed));
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_types_under_all_codecs_and_page_versions() {
    let dir = tempfile::tempdir().unwrap();
    let batches = [wide(0), wide(5)];
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4_RAW,
    ];
    for (at, codec) in codecs.into_iter().enumerate() {
        for (version, dictionary) in
            [(WriterVersion::PARQUET_1_0, true), (WriterVersion::PARQUET_2_0, at % 2 == 0)]
        {
            let path = dir.path().join(format!("{at}-{dictionary}-{version:?}.parquet"));
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .set_dictionary_enabled(dictionary)
                .set_data_page_row_count_limit(700)
                .build();
            write(&path, &batches, properties);
            let whole = plain(&[&path], None);
            for page_index in [PageIndexPolicy::Skip, PageIndexPolicy::Required] {
                let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
                let options = ArrowReaderOptions::new().with_page_index_policy(page_index);
                let arrow = ArrowReaderMetadata::load(&std::fs::File::open(&path).unwrap(), options).unwrap();
                let spec = FileSpec { metadata: arrow.metadata().clone(), ..spec(&path).await.0 };
                let mut wanted = request(&[opened(&engine, spec, &arrow)], None);
                wanted.workers = 2;
                let got = scan_all(&engine.scan(wanted).unwrap(), 2).await.unwrap();
                assert_eq!(got, whole, "{codec:?} {version:?}");
                assert_idle(&engine).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_arrow_types_of_one_column_live_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 2, 2_500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let views = file.schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        _ => field.clone(),
    });
    let views = Open { schema: Arc::new(Schema::new(views.collect::<Fields>())), ..file.clone() };
    let one = engine.scan(request(&[file], None)).unwrap();
    let other = engine.scan(request(&[views], None)).unwrap();
    let (one, other) = tokio::join!(scan_all(&one, 1), scan_all(&other, 1));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one, plain(&[&path], None));
    assert_eq!(other[&0][2].data_type(), &DataType::Utf8View);
    for (chunk, arrays) in &other {
        let cast = arrow::compute::cast(&arrays[3], &DataType::Utf8).unwrap();
        assert_eq!(&cast, &one[chunk][3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_files_empty_row_groups_and_no_columns() {
    let dir = tempfile::tempdir().unwrap();
    let (empty, path) = (dir.path().join("empty.parquet"), sample(dir.path(), "some.parquet", 3, 1_500));
    write(&empty, &[batch(0, 1)], WriterProperties::default());
    let engine = Engine::new(config("elevator", 64 << 20)).unwrap();
    let (nothing, some) = (open(&engine, &empty).await, open(&engine, &path).await);
    let scan = engine.scan(request(std::slice::from_ref(&nothing), None)).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap().len(), nothing.row_groups);
    let scan = engine.scan(request(&[nothing, some.clone()], None)).unwrap();
    assert_eq!(scan_all(&scan, 1).await.unwrap().len(), 3);
    let scan = engine.scan(request(&[some], Some(&[]))).unwrap();
    let mut worker = scan.worker();
    let mut rows = 0;
    while let Some(mut chunk) = worker.next().await.unwrap() {
        assert!(chunk.slice(0).await.unwrap().is_empty());
        rows += chunk.rows;
    }
    assert_eq!(rows, 4_500);
    assert_eq!(scan.metrics().bytes_loaded, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_different_columns_form_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.parquet"), dir.path().join("b.parquet"));
    let batch = batch(2_000, 3);
    write(&a, &[batch.clone(), batch.clone()], WriterProperties::default());
    write(&b, &[batch.project(&[3, 1]).unwrap()], WriterProperties::default());
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 64 << 20)).unwrap();
        let files = [open(&engine, &a).await, open(&engine, &b).await];
        let got = scan_all(&engine.scan(request(&files, None)).unwrap(), 1).await.unwrap();
        assert_eq!(got, plain(&[&a, &b], None), "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_may_be_left_out_and_gone_back_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &[wide(1)], WriterProperties::builder().set_data_page_row_count_limit(500).build());
    let whole = plain(&[&path], None);
    for page_index in [PageIndexPolicy::Skip, PageIndexPolicy::Required] {
        let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
        let options = ArrowReaderOptions::new().with_page_index_policy(page_index);
        let arrow = ArrowReaderMetadata::load(&std::fs::File::open(&path).unwrap(), options).unwrap();
        let spec = FileSpec { metadata: arrow.metadata().clone(), ..spec(&path).await.0 };
        let file = opened(&engine, spec, &arrow);
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        let other = engine.scan(request(&[file], None)).unwrap();
        let (mut worker, mut second) = (scan.worker(), other.worker());
        let mut chunk = worker.next().await.unwrap().unwrap();
        let mut again = second.next().await.unwrap().unwrap();
        assert_eq!(chunk.slices(), 4);
        for i in [2, 0, 3, 1, 1, 3] {
            assert_eq!(chunk.slice(i).await.unwrap(), slices_of(&whole[&0], i));
            assert_eq!(again.slice(3 - i).await.unwrap(), slices_of(&whole[&0], 3 - i));
        }
        let outside = chunk.slice(4).await;
        assert!(matches!(outside, Err(EngineError::InvalidRequest(_))), "{outside:?}");
    }
}

fn slices_of(columns: &[ArrayRef], i: usize) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(i * 1000, 1000.min(ROWS - i * 1000))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_the_request_is_kept_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (sample(dir.path(), "a.parquet", 4, 800), sample(dir.path(), "b.parquet", 3, 800));
    for policy in policies() {
        let engine = Engine::new(config(policy.as_str(), 64 << 20)).unwrap();
        let files = [open(&engine, &a).await, open(&engine, &b).await];
        let mut wanted = request(&files, Some(&[0, 2]));
        wanted.order = DeliveryOrder::Table;
        wanted.chunks.rotate_left(3);
        wanted.chunks.push(wanted.chunks[1]);
        for (at, chunk) in wanted.chunks.iter_mut().enumerate() {
            chunk.key = at as u32;
        }
        let scan = engine.scan(wanted).unwrap();
        let mut worker = scan.worker();
        let mut seen = Vec::new();
        while let Some(chunk) = worker.next().await.unwrap() {
            seen.push(chunk.key);
        }
        assert_eq!(seen, (0..8).collect::<Vec<_>>(), "{policy}");
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_listed_twice_comes_twice_and_unneeded_ones_do_not_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let mut wanted = request(&[file], None);
    for (at, chunk) in wanted.chunks.clone().into_iter().enumerate() {
        wanted.chunks.push(coscan_engine::ChunkRequest { key: 100 + at as u32, ..chunk });
    }
    let scan = engine.scan(wanted).unwrap();
    scan.unneed(&[1, 2, 102, 99]);
    let got = scan_all(&scan, 3).await.unwrap();
    assert_eq!(got.keys().copied().collect::<Vec<_>>(), [0, 3, 4, 5, 100, 101, 103, 104, 105]);
    assert_eq!(got[&3], got[&103]);
    drop(scan);
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_ascend_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 3, 500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let mut wanted = request(&[file], None);
    wanted.chunks[2].key = wanted.chunks[1].key;
    let error = engine.scan(wanted).map(drop).unwrap_err().to_string();
    assert!(error.contains("chunk 1: keys must ascend"), "{error}");
}
