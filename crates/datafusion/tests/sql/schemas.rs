//! Tables of files with different schemas: missing columns, different types, repeated names.
//!
//! Expected values are those that DuckDB 2.0 (`union_by_name`) and pyarrow 26 read.

use std::path::Path;
use std::sync::Arc;

use coscan_upstream::PlainSql;
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray, NullArray, StringArray,
    StructArray, Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Int8Type, Int32Type, Int64Type};
use datafusion::parquet::data_type::Int64Type as StoredInt64;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use crate::support::{self, Variant};
use crate::tables::{declare, expect, expect_error, folder, sessions, write};

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn longs(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn doubles(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(precision, scale).expect("a decimal"))
}

fn structs(children: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let child = |(name, array): (&str, ArrayRef)| {
        (Arc::new(Field::new(name, array.data_type().clone(), true)), array)
    };
    Arc::new(StructArray::from(children.into_iter().map(child).collect::<Vec<_>>()))
}

#[tokio::test]
async fn a_required_column_that_a_file_lacks_may_be_null() {
    let folder = folder(&[]);
    write(&folder.path().join("a.parquet"), &[("a", ints(&[1])), ("b", ints(&[1]))], &["a", "b"]);
    write(&folder.path().join("b.parquet"), &[("b", ints(&[2]))], &["b"]);
    expect(folder.path(), "SELECT b FROM t WHERE a IS NULL", &["2"]).await;
    expect(folder.path(), "SELECT b FROM t WHERE a IS NOT NULL", &["1"]).await;
    expect(folder.path(), "SELECT a, b FROM t ORDER BY b", &["1 | 1", "NULL | 2"]).await;
    expect(folder.path(), "SELECT count(a), count(b), count(*) FROM t", &["1 | 2 | 2"]).await;
    let optional =
        "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 't' ORDER BY 1";
    expect(folder.path(), optional, &["a | YES", "b | NO"]).await;
}

#[tokio::test]
async fn a_file_with_nulls_that_comes_later_is_refused() {
    let folder = folder(&[]);
    write(&folder.path().join("a.parquet"), &[("a", ints(&[1])), ("b", ints(&[1]))], &["a"]);
    for (name, ctx) in sessions() {
        let later = folder.path().join("b.parquet");
        declare(&ctx, "t", folder.path().to_str().expect("a path")).await.expect("a table");
        write(&later, &[("b", ints(&[2]))], &[]);
        let error = support::rows(&ctx, "SELECT a, b FROM t").await.expect_err("a null").to_string();
        assert!(
            error.contains("b.parquet lacks the column a") && error.contains("make the table again"),
            "{name}: {error}"
        );
        std::fs::remove_file(later).expect("a file");
    }
}

#[tokio::test]
async fn types_that_differ_are_promoted() {
    let time = |ms: i64| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(vec![ms])) };
    let dictionary: DictionaryArray<Int32Type> = vec!["b"].into_iter().collect();
    let tiny: DictionaryArray<Int8Type> = vec!["c"].into_iter().collect();
    let list = |values: Vec<i64>, wide: bool| -> ArrayRef {
        if wide {
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(values.into_iter().map(Some))]))
        } else {
            let values = values.into_iter().map(|value| Some(value as i32));
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(values)]))
        }
    };
    let cases: Vec<(ArrayRef, ArrayRef, &str, [&str; 2])> = vec![
        (ints(&[1]), longs(&[1 << 40]), "Int64", ["1", "1099511627776"]),
        (
            Arc::new(Int8Array::from(vec![-1])),
            Arc::new(UInt32Array::from(vec![u32::MAX])),
            "Int64",
            ["-1", "4294967295"],
        ),
        (
            longs(&[-1]),
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            "Decimal128(20, 0)",
            ["-1", "18446744073709551615"],
        ),
        (ints(&[1]), doubles(&[0.5]), "Float64", ["1.0", "0.5"]),
        (longs(&[1 << 53]), doubles(&[0.5]), "Float64", ["9007199254740992.0", "0.5"]),
        (Arc::new(Float32Array::from(vec![1.5])), doubles(&[0.1]), "Float64", ["1.5", "0.1"]),
        (decimals(&[15], 5, 1), decimals(&[12345], 10, 4), "Decimal128(10, 4)", ["1.5000", "1.2345"]),
        (
            decimals(&[10_i128.pow(37)], 38, 0),
            decimals(&[1], 38, 10),
            "Decimal256(48, 10)",
            ["10000000000000000000000000000000000000.0000000000", "0.0000000001"],
        ),
        (ints(&[7]), decimals(&[15], 5, 1), "Decimal128(11, 1)", ["7.0", "1.5"]),
        (decimals(&[15], 5, 1), doubles(&[0.5]), "Float64", ["1.5", "0.5"]),
        (
            time(1),
            Arc::new(TimestampMicrosecondArray::from(vec![1])),
            "Timestamp(µs)",
            ["1970-01-01T00:00:00.001", "1970-01-01T00:00:00.000001"],
        ),
        (
            time(1),
            Arc::new(TimestampNanosecondArray::from(vec![1])),
            "Timestamp(ns)",
            ["1970-01-01T00:00:00.001", "1970-01-01T00:00:00.000000001"],
        ),
        (
            Arc::new(Date32Array::from(vec![1])),
            time(1),
            "Timestamp(ms)",
            ["1970-01-02T00:00:00", "1970-01-01T00:00:00.001"],
        ),
        (
            Arc::new(Time32MillisecondArray::from(vec![1])),
            Arc::new(Time64MicrosecondArray::from(vec![1])),
            "Time64(µs)",
            ["00:00:00.001", "00:00:00.000001"],
        ),
        (texts(&["a"]), Arc::new(dictionary), "Utf8View", ["a", "b"]),
        (Arc::new(DictionaryArray::<Int32Type>::from_iter(["a"])), Arc::new(tiny), "Utf8View", ["a", "c"]),
        (texts(&["a"]), Arc::new(LargeStringArray::from(vec!["b"])), "Utf8View", ["a", "b"]),
        (texts(&["a"]), Arc::new(BinaryArray::from_vec(vec![b"b"])), "BinaryView", ["61", "62"]),
        (Arc::new(NullArray::new(1)), longs(&[5]), "Int64", ["NULL", "5"]),
        (Arc::new(NullArray::new(1)), texts(&["a"]), "Utf8View", ["NULL", "a"]),
        (list(vec![1, 2], false), list(vec![1 << 40], true), "List(Int64)", ["[1, 2]", "[1099511627776]"]),
        (
            structs(vec![("a", ints(&[1]))]),
            structs(vec![("b", texts(&["x"])), ("a", longs(&[1 << 40]))]),
            "Struct(\"a\": Int64, \"b\": Utf8)",
            ["{a: 1, b: NULL}", "{a: 1099511627776, b: x}"],
        ),
        (
            structs(vec![("a", ints(&[1]))]),
            structs(vec![("b", doubles(&[0.5]))]),
            "Struct(\"a\": Int32, \"b\": Float64)",
            ["{a: 1, b: NULL}", "{a: NULL, b: 0.5}"],
        ),
    ];
    for (first, second, of, values) in cases {
        for swapped in [false, true] {
            let (a, b) = if swapped { (&second, &first) } else { (&first, &second) };
            let folder = folder(&[
                ("a.parquet", &[("i", ints(&[1])), ("x", Arc::clone(a))]),
                ("b.parquet", &[("i", ints(&[2])), ("x", Arc::clone(b))]),
            ]);
            let [one, two] = if swapped { [values[1], values[0]] } else { values };
            let rows = [format!("1 | {one}"), format!("2 | {two}")];
            if swapped && of.starts_with("Struct") {
                continue;
            }
            expect(folder.path(), "SELECT i, x FROM t ORDER BY i", &[&rows[0], &rows[1]]).await;
            expect(folder.path(), "SELECT DISTINCT arrow_typeof(x) FROM t", &[of]).await;
        }
    }
}

/// Filters over promoted columns: statistics and dynamic filters must rule out what the values rule out.
#[tokio::test]
async fn promoted_columns_are_filtered_by_their_values() {
    let numbers = folder(&[
        ("a.parquet", &[("i", ints(&[1, 2, 3])), ("x", ints(&[-5, 0, 5]))]),
        ("b.parquet", &[("i", ints(&[4, 5, 6])), ("x", doubles(&[-0.5, 4.5, 1e300]))]),
        ("c.parquet", &[("i", ints(&[7, 8])), ("x", longs(&[1 << 40, 6]))]),
        ("d.parquet", &[("i", ints(&[9]))]),
    ]);
    for (condition, rows) in [
        ("x = 5", &["3"][..]),
        ("x > 4.4", &["3", "5", "6", "7", "8"]),
        ("x < 0", &["1", "4"]),
        ("x = -0.5", &["4"]),
        ("x IN (0, 4.5, 6)", &["2", "5", "8"]),
        ("x <> 5", &["1", "2", "4", "5", "6", "7", "8"]),
        ("x BETWEEN 4.5 AND 6", &["3", "5", "8"]),
        ("x IS NULL", &["9"]),
        ("NOT x > 4.4", &["1", "2", "4"]),
    ] {
        expect(numbers.path(), &format!("SELECT i FROM t WHERE {condition} ORDER BY i"), rows).await;
    }
    expect(numbers.path(), "SELECT min(x), max(x), count(x) FROM t", &["-5.0 | 1e300 | 8"]).await;
    expect(numbers.path(), "SELECT i FROM t ORDER BY x LIMIT 3", &["1", "4", "2"]).await;
    expect(numbers.path(), "SELECT i FROM t ORDER BY x DESC NULLS LAST LIMIT 2", &["6", "7"]).await;
    let join = "SELECT t.i FROM t JOIN (VALUES (5.0::double), (6.0)) v(y) ON t.x = v.y ORDER BY 1";
    expect(numbers.path(), join, &["3", "8"]).await;
}

/// A limit over an order compares the statistics of files of several types.
#[tokio::test]
async fn many_files_of_two_types_have_first_rows() {
    let values: Vec<i64> = (0..60).map(|at| at * 7919 % 60).collect();
    let columns: Vec<[(&str, ArrayRef); 1]> = values
        .iter()
        .map(|&value| [("x", if value % 3 == 0 { ints(&[value as i32]) } else { longs(&[value]) })])
        .collect();
    let names: Vec<String> = (0..values.len()).map(|at| format!("{at:02}.parquet")).collect();
    let files: Vec<(&str, &[(&str, ArrayRef)])> =
        names.iter().map(String::as_str).zip(columns.iter().map(|columns| &columns[..])).collect();
    let folder = folder(&files);
    let declared = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT) STORED AS PARQUET LOCATION '{}/'",
        folder.path().display()
    );
    for (name, ctx) in sessions() {
        ctx.plain_sql(&declared).await.expect("a table");
        for (order, rows) in [("", ["0", "1", "2"]), ("DESC", ["59", "58", "57"])] {
            let first = support::rows(&ctx, &format!("SELECT x FROM t ORDER BY x {order} LIMIT 3")).await;
            assert_eq!(first.expect("rows"), rows, "{name}");
        }
    }
}

/// DataFusion 55 drops the digits of a constant that a coarser unit lacks.
#[tokio::test]
async fn times_of_different_units_are_compared_exactly() {
    let times = folder(&[
        (
            "a.parquet",
            &[("i", ints(&[1, 2])), ("x", Arc::new(TimestampMillisecondArray::from(vec![1000, 2000])))],
        ),
        (
            "b.parquet",
            &[
                ("i", ints(&[3, 4])),
                ("x", Arc::new(TimestampMicrosecondArray::from(vec![1_000_500, 3_000_000]))),
            ],
        ),
    ]);
    let time = "arrow_cast('1970-01-01T00:00:01.000500', 'Timestamp(Microsecond, None)')";
    for (condition, rows) in [
        (format!("x = {time}"), &["3"][..]),
        (format!("x < {time}"), &["1"]),
        (format!("x <= {time}"), &["1", "3"]),
        (format!("x > {time}"), &["2", "4"]),
        (format!("x <> {time}"), &["1", "2", "4"]),
        ("x >= '1970-01-01T00:00:02'".to_owned(), &["2", "4"]),
        ("x = '1970-01-01T00:00:01'".to_owned(), &["1"]),
    ] {
        expect(times.path(), &format!("SELECT i FROM t WHERE {condition} ORDER BY i"), rows).await;
    }
    expect(times.path(), "SELECT i FROM t ORDER BY x LIMIT 2", &["1", "3"]).await;
}

#[tokio::test]
async fn values_that_the_wider_type_rounds_are_an_error() {
    let folder =
        folder(&[("a.parquet", &[("x", longs(&[(1 << 53) + 1]))]), ("b.parquet", &[("x", doubles(&[0.5]))])]);
    let parts = [
        "column x",
        "9007199254740993",
        "Int64 in",
        "a.parquet",
        "Float64 in",
        "b.parquet",
        "CREATE EXTERNAL TABLE",
    ];
    expect_error(folder.path(), "SELECT x FROM t", &parts).await;
    // Declared types round.
    for (name, ctx) in sessions() {
        let sql = format!(
            "CREATE EXTERNAL TABLE t (x DOUBLE) STORED AS PARQUET LOCATION '{}/'",
            folder.path().display()
        );
        ctx.plain_sql(&sql).await.expect("a table").collect().await.expect("a table");
        let rows = support::rows(&ctx, "SELECT x FROM t ORDER BY x").await.expect("rows");
        assert_eq!(rows, ["0.5", "9007199254740992.0"], "{name}");
    }
}

#[tokio::test]
async fn times_that_the_finer_unit_has_not_are_an_error() {
    let year_9999 = 253_402_300_799_000;
    let folder = folder(&[
        ("a.parquet", &[("x", Arc::new(TimestampMillisecondArray::from(vec![year_9999])))]),
        ("b.parquet", &[("x", Arc::new(TimestampNanosecondArray::from(vec![1])))]),
    ]);
    expect_error(folder.path(), "SELECT x FROM t", &["column x", "a.parquet", "b.parquet"]).await;
}

#[tokio::test]
async fn types_without_a_common_one_are_an_error() {
    let cases: [(ArrayRef, ArrayRef, &str); 3] = [
        (ints(&[1]), texts(&["a"]), "Utf8"),
        (ints(&[1]), Arc::new(BooleanArray::from(vec![true])), "Boolean"),
        (ints(&[1]), structs(vec![("a", ints(&[1]))]), "Struct"),
    ];
    for (a, b, of) in cases {
        let folder = folder(&[("a.parquet", &[("x", a)]), ("b.parquet", &[("x", b)])]);
        let parts = ["column x", "Int32 in", "a.parquet", of, "b.parquet", "CREATE EXTERNAL TABLE"];
        expect_error(folder.path(), "SELECT 1", &parts).await;
    }
}

/// Writes a file with two columns of one name, as pyarrow's joins do.
fn write_twice(path: &Path, names: [&str; 2]) {
    let schema = format!("message m {{ REQUIRED INT64 {}; REQUIRED INT64 {}; }}", names[0], names[1]);
    let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
    let file = std::fs::File::create(path).expect("a file");
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    let mut row_group = writer.next_row_group().expect("a row group");
    for value in [1, 2] {
        let mut column = row_group.next_column().expect("a column").expect("a column");
        column.typed::<StoredInt64>().write_batch(&[value], None, None).expect("a value");
        column.close().expect("a column");
    }
    row_group.close().expect("a row group");
    writer.close().expect("a file");
}

#[tokio::test]
async fn two_columns_of_one_name_are_an_error() {
    let folder = folder(&[]);
    write_twice(&folder.path().join("f.parquet"), ["v", "v"]);
    expect_error(folder.path(), "SELECT 1", &["f.parquet", "two columns of the name v"]).await;
    write_twice(&folder.path().join("f.parquet"), ["v", "V"]);
    expect(folder.path(), "SELECT \"V\", v FROM t", &["2 | 1"]).await;
}

/// If one of these fails, a correction in `table/` can be removed.
#[tokio::test]
async fn datafusion_alone_is_still_wrong() {
    let plain = || support::upstream(Variant::Default);
    let location = |folder: &tempfile::TempDir| folder.path().to_str().expect("a path").to_owned();
    let lacks = folder(&[]);
    write(&lacks.path().join("a.parquet"), &[("a", ints(&[1])), ("b", ints(&[1]))], &["a"]);
    write(&lacks.path().join("b.parquet"), &[("b", ints(&[2]))], &[]);
    let ctx = plain();
    declare(&ctx, "t", &location(&lacks)).await.expect("a table");
    let rows = support::rows(&ctx, "SELECT b FROM t WHERE a IS NULL").await.unwrap_or_default();
    assert!(rows.is_empty(), "the column that a file lacks may be null: {rows:?}");

    let differ = folder(&[("a.parquet", &[("x", ints(&[1]))]), ("b.parquet", &[("x", longs(&[1]))])]);
    let error = declare(&plain(), "t", &location(&differ)).await;
    assert!(error.is_err(), "types are promoted");

    let twice = folder(&[]);
    write_twice(&twice.path().join("f.parquet"), ["v", "v"]);
    let ctx = plain();
    declare(&ctx, "t", &location(&twice)).await.expect("a table");
    assert_eq!(
        support::rows(&ctx, "SELECT * FROM t").await.expect("rows"),
        ["1"],
        "the second column is there"
    );

    let milliseconds =
        folder(&[("a.parquet", &[("x", Arc::new(TimestampMillisecondArray::from(vec![1000])))])]);
    let ctx = plain();
    let sql = format!(
        "CREATE EXTERNAL TABLE t (x TIMESTAMP(6)) STORED AS PARQUET LOCATION '{}/'",
        milliseconds.path().display()
    );
    ctx.plain_sql(&sql).await.expect("a table").collect().await.expect("a table");
    let sql = "SELECT count(*) FROM t WHERE x < arrow_cast('1970-01-01T00:00:01.000500', 'Timestamp(Microsecond, None)')";
    assert_eq!(support::rows(&ctx, sql).await.expect("rows"), ["0"], "digits of constants are kept");
}
