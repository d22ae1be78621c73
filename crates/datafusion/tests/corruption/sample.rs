//! Small, valid Parquet files with everything that a mutation may hit: all encodings, codecs, page versions,
//! nested columns, page indexes, bloom filters. A seed makes a file.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use datafusion::parquet::schema::types::ColumnPath;
use fastrand::Rng;

/// Returns the bytes of a file.
pub fn file(rng: &mut Rng) -> Vec<u8> {
    let rows = [1, 60, 300, 2000][rng.usize(0..4)];
    let batch = batch(rng, rows);
    let mut bytes = Vec::new();
    let properties = properties(rng, rows);
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn properties(rng: &mut Rng, rows: usize) -> WriterProperties {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
    ];
    let statistics = [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page];
    let mut properties = WriterProperties::builder()
        .set_compression(codecs[rng.usize(0..codecs.len())])
        .set_writer_version([WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][rng.usize(0..2)])
        .set_statistics_enabled(statistics[rng.usize(0..3)])
        .set_max_row_group_row_count(Some([rows, rows.div_ceil(2)][rng.usize(0..2)]))
        .set_data_page_row_count_limit([20, 100, 10_000][rng.usize(0..3)])
        .set_write_batch_size(16)
        .set_dictionary_enabled(rng.bool())
        .set_bloom_filter_enabled(rng.u8(0..3) == 0)
        .set_bloom_filter_max_ndv(50)
        .set_offset_index_disabled(rng.u8(0..3) == 0);
    if rng.bool() {
        let chosen = [
            ("i", vec![Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]),
            ("l", vec![Encoding::DELTA_BINARY_PACKED, Encoding::PLAIN]),
            ("f", vec![Encoding::BYTE_STREAM_SPLIT]),
            ("s", vec![Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY]),
            ("v", vec![Encoding::DELTA_LENGTH_BYTE_ARRAY]),
            ("x", vec![Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BYTE_ARRAY]),
        ];
        for (name, encodings) in chosen {
            let encoding = encodings[rng.usize(0..encodings.len())];
            let path = ColumnPath::from(name);
            properties = properties.set_column_encoding(path.clone(), encoding);
            properties = properties.set_column_dictionary_enabled(path, rng.u8(0..4) == 0);
        }
    }
    properties.build()
}

fn batch(rng: &mut Rng, rows: usize) -> RecordBatch {
    let null = |rng: &mut Rng| rng.u8(0..8) == 0;
    let i: Int32Array = (0..rows).map(|row| (!null(rng)).then_some(row as i32 / 3)).collect();
    let l: Int64Array = (0..rows).map(|_| Some(rng.i64(..))).collect();
    let f: Float64Array = (0..rows).map(|row| (!null(rng)).then(|| (row as f64).sqrt())).collect();
    let b: BooleanArray = (0..rows).map(|_| (!null(rng)).then(|| rng.bool())).collect();
    let s: StringArray =
        (0..rows).map(|row| (!null(rng)).then(|| format!("value {} of a few", row % 17))).collect();
    let v: BinaryArray =
        (0..rows).map(|_| Some((0..rng.usize(0..20)).map(|_| rng.u8(..)).collect::<Vec<u8>>())).collect();
    let d = Decimal128Array::from_iter((0..rows).map(|row| (!null(rng)).then_some(row as i128 * 7)));
    let d = d.with_precision_and_scale(12, 2).unwrap();
    let w = Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(rng.i64(..)) * 1000));
    let w = w.with_precision_and_scale(38, 4).unwrap();
    let t: TimestampMicrosecondArray = (0..rows).map(|row| Some(row as i64 * 1_000_003)).collect();
    let x = FixedSizeBinaryArray::try_from_iter((0..rows).map(|_| rng.u64(..).to_be_bytes())).unwrap();
    let n = ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|row| {
        (!null(rng)).then(|| (0..rng.usize(0..4)).map(|at| Some((row + at) as i32)).collect::<Vec<_>>())
    }));
    let inner: StringArray = (0..rows).map(|row| (!null(rng)).then(|| format!("in {row}"))).collect();
    let inner_field = Arc::new(Field::new("a", DataType::Utf8, true));
    let number: Int32Array = (0..rows).map(|row| Some(row as i32)).collect();
    let number_field = Arc::new(Field::new("b", DataType::Int32, true));
    let r = StructArray::from(vec![
        (inner_field, Arc::new(inner) as ArrayRef),
        (number_field, Arc::new(number) as ArrayRef),
    ]);
    let columns: [(&str, ArrayRef); 12] = [
        ("i", Arc::new(i)),
        ("l", Arc::new(l)),
        ("f", Arc::new(f)),
        ("b", Arc::new(b)),
        ("s", Arc::new(s)),
        ("v", Arc::new(v)),
        ("d", Arc::new(d)),
        ("w", Arc::new(w)),
        ("t", Arc::new(t)),
        ("x", Arc::new(x)),
        ("n", Arc::new(n)),
        ("r", Arc::new(r)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}
