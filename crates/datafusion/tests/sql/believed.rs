//! Files whose statistics, bounds and orders are missing or wrong. The rows define the right answer.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coscan_datafusion::{CoscanOptions, install};
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    SortingColumn,
};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::data;
use crate::support::{self, LARGE_BUFFER, Variant, rows};

/// A folder with a file of one row group per batch, without a page index.
struct Written {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Written {
    fn new(batches: &[RecordBatch]) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, batches, None);
        Written { folder, path }
    }

    /// Rewrites the metadata over the same pages.
    fn with(self, change: impl FnOnce(ParquetMetaData) -> ParquetMetaData) -> Written {
        rewrite(&self.path, change);
        self
    }

    /// Rewrites the statistics of the first column, given the row group's number and the original ones.
    fn with_statistics(self, change: impl Fn(usize, &Statistics) -> Option<Statistics>) -> Written {
        self.with(|metadata| with_statistics(metadata, change))
    }

    /// Returns the answer of all kinds of sessions, which must be the same.
    async fn answers(&self, sql: &str) -> Vec<String> {
        let mut answers = Vec::new();
        for (name, ctx) in sessions() {
            declare(&ctx, self.folder.path()).await;
            answers.push((name, rows(&ctx, sql).await.unwrap()));
        }
        let (_, first) = &answers[0];
        answers.iter().for_each(|(name, answer)| assert_eq!(answer, first, "{name}: {sql}"));
        answers.swap_remove(0).1
    }

    /// Returns the answer of plain DataFusion.
    async fn upstream(&self, sql: &str) -> Vec<String> {
        let ctx = SessionContext::new();
        declare(&ctx, self.folder.path()).await;
        rows(&ctx, sql).await.unwrap()
    }
}

fn write(path: &Path, batches: &[RecordBatch], sorted_by: Option<Vec<SortingColumn>>) {
    let properties =
        WriterProperties::builder().set_sorting_columns(sorted_by).set_offset_index_disabled(true);
    let properties =
        properties.set_statistics_enabled(parquet::file::properties::EnabledStatistics::Chunk).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

fn rewrite(path: &Path, change: impl FnOnce(ParquetMetaData) -> ParquetMetaData) {
    let mut bytes = fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    let length = bytes.len() - 8;
    let footer = u32::from_le_bytes(bytes[length..length + 4].try_into().unwrap()) as usize;
    bytes.truncate(length - footer);
    ParquetMetaDataWriter::new(&mut bytes, &change(metadata)).finish().unwrap();
    fs::write(path, bytes).unwrap();
}

fn with_statistics(
    metadata: ParquetMetaData,
    change: impl Fn(usize, &Statistics) -> Option<Statistics>,
) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let row_groups = builder.take_row_groups().into_iter().enumerate().map(|(at, mut row_group)| {
        let column = &mut row_group.columns_mut()[0];
        let statistics = change(at, column.statistics().unwrap());
        let changed = column.clone().into_builder().clear_statistics();
        let changed = match statistics {
            Some(statistics) => changed.set_statistics(statistics),
            None => changed,
        };
        *column = changed.build().unwrap();
        row_group
    });
    builder.set_row_groups(row_groups.collect()).build()
}

/// Names another writer of the file in its metadata, and declares no order of bounds.
fn created_by(metadata: ParquetMetaData, writer: &str) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let kept = file.key_value_metadata().cloned();
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        Some(writer.into()),
        kept,
        file.schema_descr_ptr(),
        None,
    );
    ParquetMetaDataBuilder::new(file).set_row_groups(metadata.row_groups().to_vec()).build()
}

fn sessions() -> Vec<(&'static str, SessionContext)> {
    let engine: Engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let small = || {
        let mut config = support::config(Variant::Single);
        config.options_mut().extensions.insert(CoscanOptions::default());
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        SessionContext::new_with_state(install(builder, engine.clone()).build())
    };
    vec![
        ("DataFusion's scan", small()),
        ("cooperative", support::cooperative(&engine, Variant::Default)),
        ("pushed down", support::cooperative(&engine, Variant::PushdownFilters)),
        ("one partition", support::cooperative(&engine, Variant::Single)),
    ]
}

async fn declare(ctx: &SessionContext, folder: &Path) {
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}/'", folder.display());
    ctx.plain_sql(&sql).await.unwrap().collect().await.unwrap();
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn ints(values: impl IntoIterator<Item = impl Into<Option<i64>>>) -> ArrayRef {
    Arc::new(values.into_iter().map(Into::into).collect::<Int64Array>())
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// A file with nulls in the first and the second of three row groups.
fn with_nulls() -> Written {
    let row_group = |k: [Option<i64>; 2], i: [i64; 2]| batch([("k", ints(k)), ("i", ints(i))]);
    Written::new(&[
        row_group([Some(1), None], [1, 2]),
        row_group([Some(3), None], [3, 4]),
        row_group([Some(5), Some(6)], [5, 6]),
    ])
}

async fn has_its_nulls(t: &Written) {
    assert_eq!(t.answers("SELECT i FROM t WHERE k IS NULL ORDER BY i").await, ["2", "4"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE k IS NOT NULL ORDER BY i").await, ["1", "3", "5", "6"]);
    assert_eq!(t.answers("SELECT count(k), count(*) FROM t").await, ["4 | 6"]);
    assert_eq!(t.answers("SELECT min(k), max(k) FROM t").await, ["1 | 6"]);
    for direction in ["ASC", "DESC"] {
        let sql = format!("SELECT i FROM t ORDER BY k {direction} NULLS FIRST, i LIMIT 2");
        assert_eq!(t.answers(&sql).await, ["2", "4"], "{sql}");
    }
    assert_eq!(t.answers("SELECT i FROM t WHERE k >= 3 ORDER BY i").await, ["3", "5", "6"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE k <> 3 ORDER BY i").await, ["1", "5", "6"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE k NOT IN (1, 3) ORDER BY i").await, ["5", "6"]);
}

#[tokio::test]
async fn a_count_of_nulls_that_is_missing_is_not_zero() {
    let int = |of: &Statistics| match of {
        Statistics::Int64(of) => {
            Statistics::int64(of.min_opt().copied(), of.max_opt().copied(), None, None, false)
        }
        _ => unreachable!("a column of integers"),
    };
    let t = with_nulls().with_statistics(|_, of| Some(int(of)));
    has_its_nulls(&t).await;
    assert!(t.upstream("SELECT i FROM t WHERE k IS NULL").await.is_empty(), "mended upstream");
    // Empty statistics, and no statistics.
    has_its_nulls(
        &with_nulls().with_statistics(|_, _| Some(Statistics::int64(None, None, None, None, false))),
    )
    .await;
    has_its_nulls(&with_nulls().with_statistics(|_, _| None)).await;
    has_its_nulls(&with_nulls().with_statistics(|at, of| (at == 1).then(|| of.clone()))).await;
    has_its_nulls(&with_nulls()).await;
}

#[tokio::test]
async fn equal_bounds_without_a_count_of_nulls_are_no_constant() {
    let t = Written::new(&[batch([("k", ints([Some(5), None, Some(5)])), ("i", ints([1, 2, 3]))])]);
    let t = t.with_statistics(|_, _| Some(Statistics::int64(Some(5), Some(5), None, None, false)));
    assert_eq!(t.answers("SELECT i, k FROM t ORDER BY i").await, ["1 | 5", "2 | NULL", "3 | 5"]);
    // Wrong bounds do not replace rows.
    let t = Written::new(&[batch([("k", ints([4, 5, 6]))])]);
    let t = t.with_statistics(|_, _| Some(Statistics::int64(Some(5), Some(5), None, Some(0), false)));
    assert_eq!(t.answers("SELECT k FROM t ORDER BY k").await, ["4", "5", "6"]);
    assert_eq!(t.upstream("SELECT k FROM t ORDER BY k").await, ["5", "5", "5"], "mended upstream");
}

#[tokio::test]
async fn a_row_group_without_bounds_is_not_passed_over() {
    let row_groups = [["a", "z"], ["m", "n"], ["o", "p"]];
    for without in 0..3 {
        let batches = row_groups.map(|of| batch([("s", texts(of))]));
        let t = Written::new(&batches).with_statistics(|at, of| match at == without {
            true => Some(Statistics::byte_array(None, None, None, Some(0), false)),
            false => Some(of.clone()),
        });
        assert_eq!(t.answers("SELECT min(s), max(s) FROM t").await, ["a | z"], "{without}");
        assert_eq!(t.answers("SELECT s FROM t ORDER BY s LIMIT 1").await, ["a"], "{without}");
        assert_eq!(t.answers("SELECT s FROM t ORDER BY s DESC LIMIT 1").await, ["z"], "{without}");
        assert_eq!(t.answers("SELECT s FROM t WHERE s < 'b'").await, ["a"], "{without}");
        if without == 0 {
            assert_eq!(t.upstream("SELECT min(s) FROM t").await, ["m"], "mended upstream");
        }
    }
    // One bound of two.
    let batches = row_groups.map(|of| batch([("s", texts(of))]));
    let t = Written::new(&batches).with_statistics(|_, of| match of {
        Statistics::ByteArray(of) => {
            Some(Statistics::byte_array(None, of.max_opt().cloned(), None, Some(0), false))
        }
        _ => unreachable!("a column of texts"),
    });
    assert_eq!(t.answers("SELECT min(s), max(s) FROM t").await, ["a | z"]);
    assert_eq!(t.answers("SELECT s FROM t ORDER BY s LIMIT 2").await, ["a", "m"]);
}

fn doubles(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

#[tokio::test]
async fn nan_is_the_greatest_number_and_bounds_leave_it_out() {
    let nan = f64::NAN;
    let t = Written::new(&[
        batch([("v", doubles([1.0, nan])), ("i", ints([1, 2]))]),
        batch([("v", doubles([nan, nan])), ("i", ints([3, 4]))]),
        batch([("v", doubles([7.0, 9.0])), ("i", ints([5, 6]))]),
    ]);
    for t in [
        &t,
        &t.copy()
            .with_statistics(|_, _| Some(Statistics::double(Some(nan), Some(nan), None, Some(0), false))),
    ] {
        assert_eq!(t.answers("SELECT i FROM t WHERE v > 5 ORDER BY i").await, ["2", "3", "4", "5", "6"]);
        assert_eq!(t.answers("SELECT i FROM t WHERE v > 100 ORDER BY i").await, ["2", "3", "4"]);
        assert_eq!(t.answers("SELECT i FROM t WHERE NOT v < 8 ORDER BY i").await, ["2", "3", "4", "6"]);
        assert_eq!(t.answers("SELECT i FROM t WHERE v <> 1 ORDER BY i").await, ["2", "3", "4", "5", "6"]);
        assert_eq!(t.answers("SELECT i FROM t WHERE v = 'NaN' ORDER BY i").await, ["2", "3", "4"]);
        assert_eq!(t.answers("SELECT i FROM t WHERE v BETWEEN 0 AND 8 ORDER BY i").await, ["1", "5"]);
        assert_eq!(t.answers("SELECT min(v), max(v) FROM t").await, ["1.0 | NaN"]);
        assert_eq!(t.answers("SELECT i FROM t ORDER BY v DESC, i LIMIT 2").await, ["2", "3"]);
        assert_eq!(t.answers("SELECT v FROM t ORDER BY i").await, ["1.0", "NaN", "NaN", "NaN", "7.0", "9.0"]);
    }
    let upstream = t.upstream("SELECT i FROM t WHERE v > 5 ORDER BY i").await;
    assert_eq!(upstream, ["3", "4", "5", "6"], "mended upstream");
}

#[tokio::test]
async fn nan_of_any_bits_is_one() {
    let negative = f64::from_bits(0xfff8_0000_0000_0000);
    let odd = f64::from_bits(0x7ff8_0000_0000_0001);
    let zeros = (doubles([0.0, 0.0, 3.0, 0.0]), doubles([0.0, f64::INFINITY, f64::INFINITY, 1.0]));
    let t = Written::new(&[batch([
        ("v", doubles([negative, f64::NAN, odd, 1.0])),
        ("i", ints([1, 2, 3, 4])),
        ("x", zeros.0),
        ("y", zeros.1),
    ])]);
    let is_one = ["1", "2", "3"];
    for sql in [
        "SELECT i FROM t WHERE v > 1 ORDER BY i",
        "SELECT i FROM t WHERE v = 'NaN' ORDER BY i",
        "SELECT i FROM t WHERE -v > 1 ORDER BY i",
        "SELECT i FROM t WHERE v IN (1.5, 'NaN') ORDER BY i",
        "SELECT i FROM t WHERE abs(v - 1) <> 0 ORDER BY i",
        "SELECT t.i FROM t JOIN t AS o ON t.v = o.v AND o.i = 1 ORDER BY t.i",
        "SELECT i FROM t WHERE v = (SELECT max(v) FROM t) ORDER BY i",
        "SELECT i FROM (SELECT i, v FROM t ORDER BY v DESC, i LIMIT 3)",
        // 0.0 / 0.0, infinite / infinite and 0.0 * infinite.
        "SELECT i FROM (SELECT i, x / y AS q, y / y AS r FROM t WHERE i <> 4
            UNION ALL SELECT i, x * y, y - y FROM t WHERE i = 2)
            WHERE q > 9 OR r > 9 GROUP BY i ORDER BY i",
    ] {
        assert_eq!(t.answers(sql).await, is_one, "{sql}");
    }
    assert_eq!(t.answers("SELECT v, count(*) FROM t GROUP BY v ORDER BY v").await, ["1.0 | 1", "NaN | 3"]);
    assert_eq!(t.answers("SELECT count(DISTINCT v), min(v), max(-v) FROM t").await, ["2 | 1.0 | NaN"]);
    assert_eq!(t.answers("SELECT DISTINCT -v AS n FROM t ORDER BY n").await, ["-1.0", "NaN"]);
    assert_eq!(
        t.answers("SELECT i, rank() OVER (ORDER BY v) FROM t ORDER BY i").await,
        ["1 | 2", "2 | 2", "3 | 2", "4 | 1"]
    );
    assert_eq!(t.answers("SELECT ln(-i) > 1, '-nan'::double > 1 FROM t WHERE i = 1").await, ["true | true"]);
    assert_eq!(
        t.answers("SELECT x / y AS q, count(*) FROM t GROUP BY x / y ORDER BY q").await,
        ["0.0 | 3", "NaN | 1"]
    );
    assert_eq!(t.upstream("SELECT i FROM t WHERE v > 1 ORDER BY i").await, [""; 0], "mended upstream");
}

#[tokio::test]
async fn nan_as_both_bounds_is_no_constant() {
    let t = Written::new(&[batch([("v", doubles([f64::NAN, 42.0]))])]);
    let nan = Some(f64::NAN);
    let t = t.with_statistics(|_, _| Some(Statistics::double(nan, nan, None, Some(0), false)));
    assert_eq!(t.answers("SELECT v FROM t").await, ["NaN", "42.0"]);
    assert_eq!(t.answers("SELECT v FROM t WHERE v = 42").await, ["42.0"]);
    assert_eq!(t.upstream("SELECT v FROM t").await, ["NaN", "NaN"], "mended upstream");
}

#[tokio::test]
async fn zeros_of_both_signs_are_within_bounds_of_one() {
    let t = Written::new(&[batch([("v", doubles([-0.0, 0.0, -0.0])), ("i", ints([1, 2, 3]))])]);
    for zero in [0.0, -0.0] {
        let t = t
            .copy()
            .with_statistics(|_, _| Some(Statistics::double(Some(zero), Some(zero), None, Some(0), false)));
        assert_eq!(t.answers("SELECT v FROM t ORDER BY i").await, ["0.0", "0.0", "0.0"]);
    }
}

#[tokio::test]
async fn bloom_filters_rule_out_no_zero_and_no_nan() {
    let columns = batch([("v", doubles([-0.0, -f64::NAN, 2.0])), ("i", ints([1, 2, 3]))]);
    let t = Written::new(std::slice::from_ref(&columns));
    data::write(&t.path, &columns, WriterProperties::builder().set_bloom_filter_enabled(true).build());
    assert_eq!(t.answers("SELECT i FROM t WHERE v = 0").await, ["1"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE v = -0.0::double").await, ["1"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE v = 'nan'::double").await, ["2"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE v IN (0, 2) ORDER BY i").await, ["1", "3"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE v = 3").await, [""; 0]);
}

#[tokio::test]
async fn bounds_in_signed_order_are_none_of_texts_and_unsigned_numbers() {
    let t = Written::new(&[batch([("s", texts(["a", "é", "z"])), ("i", ints([1, 2, 3]))])]);
    let signed =
        Statistics::byte_array(Some(ByteArray::from("é")), Some(ByteArray::from("z")), None, Some(0), true);
    let t =
        t.with_statistics(|_, _| Some(signed.clone())).with(|of| created_by(of, "parquet-mr version 1.6.0"));
    assert_eq!(t.answers("SELECT i FROM t WHERE s = 'a'").await, ["1"]);
    assert_eq!(t.answers("SELECT min(s), max(s) FROM t").await, ["a | é"]);
    assert!(t.upstream("SELECT i FROM t WHERE s = 'a'").await.is_empty(), "mended upstream");

    let values: ArrayRef = Arc::new(UInt32Array::from(vec![u32::MAX, 0, i32::MAX as u32]));
    let t = Written::new(&[batch([("u", values), ("i", ints([1, 2, 3]))])]);
    let t = t.with_statistics(|_, _| Some(Statistics::int32(Some(-1), Some(i32::MAX), None, Some(0), true)));
    let t = t.with(|of| created_by(of, "parquet-mr version 1.8.1"));
    assert_eq!(t.answers("SELECT min(u), max(u) FROM t").await, ["0 | 4294967295"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE u > 100 ORDER BY i").await, ["1", "3"]);
    assert_eq!(t.answers("SELECT i FROM t WHERE u = 4294967295").await, ["1"]);
}

#[tokio::test]
async fn a_writer_that_counts_no_nulls_of_dictionaries_is_not_believed() {
    let values = (0..100).map(|i| (i % 3 > 0).then_some("y"));
    let column: ArrayRef = Arc::new(values.collect::<StringArray>());
    let t = Written::new(&[batch([("s", column)])]).with(|metadata| {
        let metadata = with_statistics(metadata, |_, of| match of {
            Statistics::ByteArray(of) => {
                let bounds = (of.min_opt().cloned(), of.max_opt().cloned());
                Some(ValueStatistics::new(bounds.0, bounds.1, None, Some(0), false).into())
            }
            _ => unreachable!("a column of texts"),
        });
        created_by(metadata, "parquet-cpp-arrow version 4.0.1")
    });
    assert_eq!(t.answers("SELECT count(*) FROM t WHERE s NOT IN ('x')").await, ["66"]);
    assert_eq!(t.answers("SELECT count(*) FROM t WHERE s IS NULL").await, ["34"]);
    assert_eq!(t.answers("SELECT count(s) FROM t").await, ["66"]);
    assert_eq!(t.upstream("SELECT count(s) FROM t").await, ["100"], "mended upstream");
}

#[tokio::test]
async fn row_groups_that_are_sorted_each_are_no_sorted_file() {
    let by_a = vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }];
    let sorted = |row_groups: &[[i64; 3]]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let batches: Vec<_> = row_groups.iter().map(|of| batch([("a", ints(*of))])).collect();
        write(&path, &batches, Some(by_a.clone()));
        Written { folder, path }
    };
    let t = sorted(&[[1, 5, 9], [2, 3, 4], [0, 6, 7]]);
    let all = ["0", "1", "2", "3", "4", "5", "6", "7", "9"];
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a").await, all);
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a LIMIT 2").await, ["0", "1"]);
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a DESC LIMIT 2").await, ["9", "7"]);
    assert_eq!(t.answers("SELECT first_value(a ORDER BY a) FROM t").await, ["0"]);
    let numbered = "SELECT a FROM (SELECT a, row_number() OVER (ORDER BY a) AS n FROM t) WHERE n = 2";
    assert_eq!(t.answers(numbered).await, ["1"]);
    let joined = "SELECT count(*) FROM t AS x JOIN t AS y ON x.a = y.a";
    assert_eq!(t.answers(joined).await, ["9"]);
    assert_ne!(t.upstream("SELECT a FROM t ORDER BY a").await, all, "mended upstream");
    // A file that is sorted as a whole needs no sort.
    let t = sorted(&[[0, 1, 2], [2, 3, 4], [5, 6, 7]]);
    let (_, ctx) = sessions().swap_remove(3);
    declare(&ctx, t.folder.path()).await;
    let plan = rows(&ctx, "EXPLAIN SELECT a FROM t ORDER BY a").await.unwrap().join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a").await, ["0", "1", "2", "2", "3", "4", "5", "6", "7"]);
}

#[tokio::test]
async fn nulls_between_sorted_files_are_counted() {
    let by_a = Some(vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &[batch([("a", ints([Some(1), Some(2), None]))])], by_a.clone());
    write(&folder.path().join("b.parquet"), &[batch([("a", ints([Some(3), Some(4), None]))])], by_a);
    let t = Written { folder, path };
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a").await, ["1", "2", "3", "4", "NULL", "NULL"]);
    assert_eq!(t.answers("SELECT a FROM t ORDER BY a NULLS FIRST LIMIT 3").await, ["NULL", "NULL", "1"]);
}

#[tokio::test]
async fn nested_columns_have_no_bounds() {
    let lists = datafusion::arrow::array::ListArray::from_iter_primitive::<
        datafusion::arrow::datatypes::Int64Type,
        _,
        _,
    >([Some(vec![Some(1), Some(2)]), Some(vec![Some(3)])]);
    let t = Written::new(&[batch([("l", Arc::new(lists) as ArrayRef)])]);
    assert_eq!(t.answers("SELECT max(l), count(l) FROM t").await, ["[3] | 2"]);
}

impl Written {
    /// Copies the file to another folder.
    fn copy(&self) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        fs::copy(&self.path, &path).unwrap();
        Written { folder, path }
    }
}
