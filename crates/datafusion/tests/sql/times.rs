//! Times in columns with a zone of their own, and INT96.
//!
//! Expected values are those of PostgreSQL 15 in a session in UTC, and of DuckDB, pyarrow and Spark for
//! INT96.

use std::path::Path;
use std::sync::Arc;

use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int32Array, ListArray, StructArray, TimestampMicrosecondArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::Field;
use datafusion::parquet::data_type::{Int32Type, Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::support;
use crate::tables::{declare, expect, folder, sessions};

/// 2024-07-01 00:00 UTC.
const JULY: i64 = 1_719_792_000_000_000;
const HOUR: i64 = 3_600_000_000;

fn in_zone(hours: &[i64], zone: &str) -> ArrayRef {
    let times = hours.iter().map(|hour| JULY + hour * HOUR);
    Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone(zone))
}

fn ids(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

/// Four instants, six hours apart, as stored by a writer in São Paulo.
fn zoned() -> TempDir {
    let times = in_zone(&[0, 6, 12, 18], "America/Sao_Paulo");
    let child = Arc::new(Field::new("t", times.data_type().clone(), true));
    let inside: ArrayRef = Arc::new(StructArray::from(vec![(child, Arc::clone(&times))]));
    let item = Arc::new(Field::new_list_field(times.data_type().clone(), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths([1; 4]), Arc::clone(&times), None);
    folder(&[(
        "a.parquet",
        &[("i", ids(&[0, 1, 2, 3])), ("br", times), ("s", inside), ("l", Arc::new(list))],
    )])
}

#[tokio::test]
async fn columns_with_a_zone_are_instants_in_utc() {
    let zoned = zoned();
    for (sql, rows) in [
        ("SELECT i FROM t WHERE br = '2024-07-01 12:00:00'", &["2"][..]),
        ("SELECT i FROM t WHERE br = TIMESTAMP '2024-07-01 12:00:00'", &["2"]),
        ("SELECT i FROM t WHERE br = TIMESTAMPTZ '2024-07-01 09:00:00-03'", &["2"]),
        (
            "SELECT i FROM t WHERE br BETWEEN '2024-07-01 06:00:00' AND '2024-07-01 12:00:00' ORDER BY i",
            &["1", "2"],
        ),
        (
            "SELECT i FROM t WHERE br IN ('2024-07-01 00:00:00', '2024-07-01 18:00:00') ORDER BY i",
            &["0", "3"],
        ),
        ("SELECT i FROM t WHERE br >= DATE '2024-07-01' ORDER BY i", &["0", "1", "2", "3"]),
        ("SELECT extract(hour FROM br) FROM t ORDER BY i", &["0", "6", "12", "18"]),
        ("SELECT date_trunc('day', br) FROM t GROUP BY 1", &["2024-07-01T00:00:00Z"]),
        ("SELECT br::date, count(*) FROM t GROUP BY 1", &["2024-07-01 | 4"]),
        ("SELECT min(br), max(br) FROM t", &["2024-07-01T00:00:00Z | 2024-07-01T18:00:00Z"]),
        ("SELECT i FROM t WHERE s['t'] = '2024-07-01 12:00:00'", &["2"]),
        ("SELECT l[1], s['t'] FROM t WHERE i = 1", &["2024-07-01T06:00:00Z | 2024-07-01T06:00:00Z"]),
        ("SELECT arrow_typeof(br) FROM t LIMIT 1", &["Timestamp(µs, \"UTC\")"]),
    ] {
        expect(zoned.path(), sql, rows).await;
    }
}

#[tokio::test]
async fn files_in_different_zones_are_one_table() {
    let folder = folder(&[
        ("a.parquet", &[("i", ids(&[1, 2])), ("x", in_zone(&[0, 6], "America/Sao_Paulo"))]),
        ("b.parquet", &[("i", ids(&[3, 4])), ("x", in_zone(&[3, 9], "+02:00"))]),
    ]);
    expect(folder.path(), "SELECT i FROM t ORDER BY x", &["1", "3", "2", "4"]).await;
    expect(folder.path(), "SELECT i FROM t WHERE x > '2024-07-01 03:00:00' ORDER BY i", &["2", "4"]).await;
}

#[tokio::test]
async fn the_sessions_zone_is_that_of_casts() {
    let zoned = zoned();
    for (name, ctx) in sessions() {
        ctx.plain_sql("SET datafusion.execution.time_zone = 'America/New_York'").await.expect("a zone");
        declare(&ctx, "t", zoned.path().to_str().expect("a path")).await.expect("a table");
        for (sql, row) in [
            ("SELECT extract(hour FROM br::timestamptz) FROM t WHERE i = 1", "2"),
            ("SELECT i FROM t WHERE br = '2024-07-01 14:00:00'::timestamptz", "3"),
            ("SELECT i FROM t WHERE br = TIMESTAMPTZ '2024-07-01 12:00:00Z'", "2"),
        ] {
            assert_eq!(support::rows(&ctx, sql).await.expect(sql), [row], "{name}: {sql}");
        }
    }
}

/// The INT96 of a day, counted from the epoch, and a time of the day.
fn int96(days: i64, nanoseconds: u64) -> Int96 {
    let mut time = Int96::new();
    time.set_data(nanoseconds as u32, (nanoseconds >> 32) as u32, (days + 2_440_588) as u32);
    time
}

/// A file with the columns `i` and `t` of these times, and `s`, a structure of the same.
fn write_int96(path: &Path, times: &[Int96]) {
    let schema = "message m { REQUIRED INT32 i; OPTIONAL INT96 t; OPTIONAL group s { OPTIONAL INT96 t; } }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build()))
        .expect("a writer");
    let mut row_group = writer.next_row_group().expect("a row group");
    let ids: Vec<i32> = (1..=times.len() as i32).collect();
    let mut column = row_group.next_column().expect("a column").expect("a column");
    column.typed::<Int32Type>().write_batch(&ids, None, None).expect("values");
    column.close().expect("a column");
    for depth in [1, 2] {
        let mut column = row_group.next_column().expect("a column").expect("a column");
        let levels = vec![depth; times.len()];
        column.typed::<Int96Type>().write_batch(times, Some(&levels), None).expect("values");
        column.close().expect("a column");
    }
    row_group.close().expect("a row group");
    writer.close().expect("a file");
}

#[tokio::test]
async fn int96_times_of_all_years_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let day = 86_400_000_000_000;
    // 9999-12-31, 2006-01-02, 0001-01-01
    let times =
        [int96(2_932_896, day - 1_000_000_000), int96(13_150, 54_245_000_000_000), int96(-719_162, 0)];
    write_int96(&folder.path().join("a.parquet"), &times);
    let never = "9999-12-31T23:59:59";
    for (sql, rows) in [
        ("SELECT t FROM t ORDER BY i", &[never, "2006-01-02T15:04:05", "0001-01-01T00:00:00"][..]),
        ("SELECT s['t'] FROM t ORDER BY i", &[never, "2006-01-02T15:04:05", "0001-01-01T00:00:00"]),
        ("SELECT i FROM t WHERE t > arrow_cast(10413792000000000, 'Timestamp(Microsecond, None)')", &["1"]),
        ("SELECT i FROM t WHERE t = arrow_cast(253402300799000000, 'Timestamp(Microsecond, None)')", &["1"]),
        ("SELECT i FROM t WHERE t < '2000-01-01'", &["3"]),
        ("SELECT i FROM t ORDER BY t", &["3", "2", "1"]),
        ("SELECT i FROM t ORDER BY t DESC LIMIT 1", &["1"]),
        ("SELECT min(t), max(t) FROM t", &["0001-01-01T00:00:00 | 9999-12-31T23:59:59"]),
        ("SELECT date_part('year', t) FROM t ORDER BY i", &["9999", "2006", "1"]),
    ] {
        expect(folder.path(), sql, rows).await;
    }
}

#[tokio::test]
async fn the_unit_of_int96_times_can_be_set() {
    let folder = tempfile::tempdir().expect("a folder");
    write_int96(&folder.path().join("a.parquet"), &[int96(13_150, 54_245_000_000_001)]);
    let location = folder.path().to_str().expect("a path");
    for (name, ctx) in sessions() {
        ctx.plain_sql("SET datafusion.execution.parquet.coerce_int96 = 'ns'").await.expect("a unit");
        declare(&ctx, "t", location).await.expect("a table");
        let rows = support::rows(&ctx, "SELECT t FROM t").await.expect("rows");
        assert_eq!(rows, ["2006-01-02T15:04:05.000000001"], "{name}");
    }
}

/// If this fails, a correction can be removed.
#[tokio::test]
async fn datafusion_alone_is_still_wrong() {
    let zoned = zoned();
    let ctx = SessionContext::new();
    declare(&ctx, "t", zoned.path().to_str().expect("a path")).await.expect("a table");
    let rows = support::rows(&ctx, "SELECT i FROM t WHERE br = '2024-07-01 12:00:00'").await.expect("rows");
    assert!(rows.is_empty(), "columns are compared in UTC: {rows:?}");

    let folder = tempfile::tempdir().expect("a folder");
    write_int96(&folder.path().join("a.parquet"), &[int96(2_932_896, 0)]);
    declare(&ctx, "f", folder.path().to_str().expect("a path")).await.expect("a table");
    let rows = support::rows(&ctx, "SELECT t FROM f").await.expect("rows");
    assert_ne!(rows, ["9999-12-31T00:00:00"], "INT96 does not wrap around");
}
