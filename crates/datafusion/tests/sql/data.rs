//! The tables that the tests query: small, but with many row groups, and of every shape that matters.
//!
//! They are written once per process into a temporary folder. All values follow from the row number, so the
//! files are the same in every run.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::*;
use datafusion::arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::data_type::{Int64Type as ParquetInt64, Int96, Int96Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Rows of `events`, the main table.
pub const EVENTS: i64 = 12_000;
/// Rows per row group of `events`.
pub const EVENTS_PER_ROW_GROUP: usize = 600;

/// Returns the folder with all tables.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            write_tables(folder.path());
            folder
        })
        .path()
}

/// Returns the statements that declare the tables.
pub fn declarations() -> Vec<String> {
    let root = folder().display();
    let table = |name: &str, path: &str| {
        format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{root}/{path}'")
    };
    vec![
        table("events", "events.parquet"),
        table("dims", "dims.parquet"),
        table("orders", "orders/"),
        table("sales", "sales/"),
        table("parts", "parts/"),
        table("holes", "holes/"),
        table("nothing", "nothing.parquet"),
        table("old_times", "old_times.parquet"),
        format!(
            "CREATE EXTERNAL TABLE readings (at BIGINT NOT NULL, sensor INT NOT NULL, value DOUBLE) \
             STORED AS PARQUET WITH ORDER (at ASC) LOCATION '{root}/readings/'"
        ),
        format!(
            "CREATE EXTERNAL TABLE evolving (a BIGINT, b VARCHAR, c DOUBLE, d VARCHAR) \
             STORED AS PARQUET LOCATION '{root}/evolving/'"
        ),
    ]
}

fn write_tables(root: &Path) {
    write(&root.join("events.parquet"), &events(), events_properties().build());
    write(&root.join("dims.parquet"), &dims(), WriterProperties::builder().build());
    for part in 0..4 {
        write(&root.join(format!("orders/{part}.parquet")), &orders(part), row_groups(500).build());
    }
    for part in 0..4 {
        write(&root.join(format!("sales/{part}.parquet")), &sales(part), row_groups(700).build());
    }
    for (year, month) in [(2023, 1), (2023, 2), (2024, 1), (2024, 2), (2024, 3)] {
        let path = root.join(format!("parts/year={year}/month={month}/data.parquet"));
        write(&path, &partition(year, month), row_groups(250).build());
    }
    for part in 0..3 {
        write(&root.join(format!("readings/{part}.parquet")), &readings(part), row_groups(300).build());
    }
    write_evolving(&root.join("evolving"));
    let empty = orders(0).slice(0, 0);
    write(&root.join("nothing.parquet"), &empty, WriterProperties::builder().build());
    write(&root.join("holes/0.parquet"), &empty, WriterProperties::builder().build());
    write(&root.join("holes/1.parquet"), &orders(1), row_groups(500).build());
    write(&root.join("holes/2.parquet"), &empty, WriterProperties::builder().build());
    write_int96(&root.join("old_times.parquet"));
}

/// Writes a batch to a new Parquet file.
pub fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("create the folder");
    let file = File::create(path).expect("create the file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("write");
    writer.close().expect("close");
}

/// Writes a folder for each key with a file of one column, in row groups of so many rows. The folder's name
/// states the key.
pub fn write_folders(
    root: &Path,
    keys: Range<i64>,
    column: &str,
    rows_of_group: usize,
    values: impl Fn(i64) -> Vec<i64>,
) {
    for key in keys {
        let folder = root.join(format!("p={key}"));
        fs::create_dir_all(&folder).expect("a folder");
        let values: ArrayRef = Arc::new(Int64Array::from(values(key)));
        let batch = RecordBatch::try_from_iter([(column, values)]).expect("a batch");
        write(&folder.join("0.parquet"), &batch, row_groups(rows_of_group).build());
    }
}

/// Returns a column `n` of `rows` numbers, starting at `from`.
pub fn numbers(from: i64, rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
    RecordBatch::try_from_iter([("n", numbers)]).expect("numbers")
}

/// Returns properties with this many rows per row group.
pub fn row_groups(rows: usize) -> WriterPropertiesBuilder {
    WriterProperties::builder().set_max_row_group_row_count(Some(rows))
}

fn events_properties() -> WriterPropertiesBuilder {
    row_groups(EVENTS_PER_ROW_GROUP)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_column_bloom_filter_enabled("code".into(), true)
}

/// Returns a pseudo-random value.
fn mix(i: i64) -> i64 {
    let mut x = (i as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 1) as i64
}

fn events() -> RecordBatch {
    let rows = || 0..EVENTS;
    let some = |i: i64, of: i64| mix(i) % of != 0;
    let category = ["red", "green", "blue", "a somewhat longer colour name"];
    let dictionary: DictionaryArray<Int32Type> =
        rows().map(|i| some(i + 3, 11).then_some(category[(mix(i + 1) % 4) as usize])).collect();
    let amount = rows().map(|i| some(i + 5, 17).then_some((mix(i) % 1_000_000) as i128));
    let amount = amount.collect::<Decimal128Array>().with_precision_and_scale(12, 2).expect("a decimal");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(rows()))),
        ("dim", Arc::new(Int32Array::from_iter_values(rows().map(|i| (mix(i) % 100) as i32)))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                rows().map(|i| 1_700_000_000_000_000 + i * 60_000_000),
            )),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(rows().map(|i| 19_000 + (i / 100) as i32)))),
        ("kind", Arc::new(StringArray::from_iter_values(rows().map(|i| category[(i / 3000) as usize])))),
        (
            "code",
            Arc::new(StringArray::from_iter(
                rows().map(|i| some(i, 7).then(|| format!("code-{:05}", mix(i) % 50_000))),
            )),
        ),
        (
            "large",
            Arc::new(LargeStringArray::from_iter_values(
                rows().map(|i| format!("large text number {}", i % 37)),
            )),
        ),
        ("colour", Arc::new(dictionary)),
        ("amount", Arc::new(amount)),
        (
            "score",
            Arc::new(Float64Array::from_iter(rows().map(|i| {
                some(i + 2, 9)
                    .then(|| if i % 1000 == 999 { f64::NAN } else { (mix(i) % 10_000) as f64 / 16.0 })
            }))),
        ),
        ("flag", Arc::new(BooleanArray::from_iter(rows().map(|i| some(i + 4, 13).then_some(i % 3 == 0))))),
        ("tiny", Arc::new(Int16Array::from_iter_values(rows().map(|i| (i % 500) as i16)))),
        ("big", Arc::new(UInt64Array::from_iter_values(rows().map(|i| mix(i) as u64)))),
        ("raw", Arc::new(BinaryArray::from_iter_values(rows().map(|i| (i * 7).to_le_bytes())))),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_iter(rows().map(|i| (i as i32).to_be_bytes())).expect("fixed"),
            ),
        ),
        (
            "noon",
            Arc::new(Time64MicrosecondArray::from_iter_values(rows().map(|i| (i % 86_400) * 1_000_000))),
        ),
        ("tags", Arc::new(tags())),
        ("attrs", Arc::new(attrs())),
        ("props", Arc::new(props())),
        ("points", Arc::new(points())),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, name != "id")),
    )
    .expect("the events")
}

fn tags() -> ListArray {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for i in 0..EVENTS {
        for tag in 0..(mix(i + 9) % 4) {
            builder.values().append_value(format!("tag{}", mix(i + tag) % 6));
        }
        builder.append(mix(i + 6) % 10 != 0);
    }
    builder.finish()
}

fn attrs() -> StructArray {
    let inner_fields =
        Fields::from(vec![Field::new("x", DataType::Float64, true), Field::new("y", DataType::Utf8, true)]);
    let inner = StructArray::new(
        inner_fields.clone(),
        vec![
            Arc::new(Float64Array::from_iter_values((0..EVENTS).map(|i| (mix(i) % 100) as f64))) as ArrayRef,
            Arc::new(StringArray::from_iter_values((0..EVENTS).map(|i| format!("y{}", i % 5)))),
        ],
        None,
    );
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("inner", DataType::Struct(inner_fields), true),
    ]);
    let valid: NullBuffer = (0..EVENTS).map(|i| mix(i + 8) % 12 != 0).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values((0..EVENTS).map(|i| (i % 250) as i32))),
        Arc::new(StringArray::from_iter((0..EVENTS).map(|i| (i % 4 != 0).then(|| format!("b{}", i % 9))))),
        Arc::new(inner),
    ];
    StructArray::new(fields, columns, Some(valid))
}

fn props() -> MapArray {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for i in 0..EVENTS {
        for key in 0..(i % 3) {
            builder.keys().append_value(format!("k{key}"));
            builder.values().append_value(mix(i) % 1000);
        }
        builder.append(true).expect("a map entry");
    }
    builder.finish()
}

fn points() -> ListArray {
    let fields =
        Fields::from(vec![Field::new("px", DataType::Int32, true), Field::new("py", DataType::Int32, true)]);
    let lengths: Vec<usize> = (0..EVENTS).map(|i| (mix(i + 12) % 3) as usize).collect();
    let total: usize = lengths.iter().sum();
    let values = StructArray::new(
        fields.clone(),
        vec![
            Arc::new(Int32Array::from_iter_values((0..total).map(|i| i as i32))) as ArrayRef,
            Arc::new(Int32Array::from_iter((0..total).map(|i| (i % 5 != 0).then_some((i * 3) as i32)))),
        ],
        None,
    );
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(values), None)
}

fn dims() -> RecordBatch {
    RecordBatch::try_from_iter(vec![
        ("dim_id", Arc::new(Int32Array::from_iter_values(0..100)) as ArrayRef),
        ("label", Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("label {i:03}"))))),
        ("grp", Arc::new(Int32Array::from_iter_values((0..100).map(|i| i % 7)))),
        ("first_event", Arc::new(Int64Array::from_iter_values((0..100).map(|i| i * 3)))),
    ])
    .expect("the dims")
}

/// A part of the orders; parts do not overlap in `order_id`.
pub fn orders(part: i64) -> RecordBatch {
    let rows = || part * 2000..(part + 1) * 2000;
    RecordBatch::try_from_iter(vec![
        ("order_id", Arc::new(Int64Array::from_iter_values(rows())) as ArrayRef),
        (
            "event_id",
            Arc::new(Int64Array::from_iter(rows().map(|i| (i % 19 != 0).then_some(mix(i) % EVENTS)))),
        ),
        ("price", Arc::new(Float64Array::from_iter_values(rows().map(|i| (mix(i) % 100_000) as f64 / 64.0)))),
        (
            "status",
            Arc::new(StringArray::from_iter_values(
                rows().map(|i| ["open", "shipped", "returned"][(mix(i) % 3) as usize]),
            )),
        ),
    ])
    .expect("the orders")
}

/// Decimals that files store in 32, 64 and more bits, with and without nulls, and keys of several kinds. In
/// one part, products of `wild` exceed 64 bits.
fn sales(part: i64) -> RecordBatch {
    let rows = || part * 2100..(part + 1) * 2100;
    let decimals = |precision, scale, value: &dyn Fn(i64) -> Option<i128>| -> ArrayRef {
        let array: Decimal128Array = rows().map(value).collect();
        Arc::new(array.with_precision_and_scale(precision, scale).expect("decimals"))
    };
    let within = |i: i64, most: i64| i128::from(mix(i).rem_euclid(most));
    let regions = [
        Some("N"),
        None,
        Some("S"),
        Some(""),
        Some("a region with a longer name"),
        Some("a region with a lon"),
    ];
    let region = |i: i64| regions[mix(i * 3).rem_euclid(6) as usize];
    RecordBatch::try_from_iter_with_nullable(vec![
        ("sale", Arc::new(Int64Array::from_iter_values(rows())) as ArrayRef, false),
        ("price", decimals(15, 2, &|i| Some(within(i, 10_000_000) - 500)), false),
        ("rate", decimals(9, 2, &|i| (i % 7 != 2).then(|| within(i + 1, 11))), true),
        ("quantity", decimals(18, 0, &|i| (i % 1000 > 3).then(|| within(i + 2, 50))), true),
        ("long", decimals(38, 4, &|i| Some(within(i + 3, 1 << 60) << 40)), false),
        (
            "wild",
            decimals(18, 2, &|i| Some(if part == 2 { within(i, 1 << 59) } else { within(i, 99) })),
            false,
        ),
        ("region", Arc::new(StringArray::from_iter(rows().map(region))), true),
        (
            "day",
            Arc::new(Date32Array::from_iter(rows().map(|i| (i % 11 != 0).then_some((i % 5) as i32)))),
            true,
        ),
        (
            "open",
            Arc::new(BooleanArray::from_iter(rows().map(|i| (i % 13 != 0).then_some(i % 3 == 0)))),
            true,
        ),
        ("many", Arc::new(Int32Array::from_iter_values(rows().map(|i| (i % 6000) as i32))), false),
        (
            "count",
            Arc::new(Int64Array::from_iter(rows().map(|i| (i % 5 != 0).then_some(mix(i) >> 16)))),
            true,
        ),
    ])
    .expect("the sales")
}

fn partition(year: i64, month: i64) -> RecordBatch {
    let base = year * 10_000 + month * 1000;
    RecordBatch::try_from_iter(vec![
        ("n", Arc::new(Int64Array::from_iter_values(base..base + 1000)) as ArrayRef),
        (
            "v",
            Arc::new(Float64Array::from_iter_values(
                (base..base + 1000).map(|i| (mix(i) % 512) as f64 / 8.0),
            )),
        ),
        ("constant", Arc::new(Int32Array::from_iter_values((0..1000).map(|_| (year * 100 + month) as i32)))),
    ])
    .expect("a partition")
}

fn readings(part: i64) -> RecordBatch {
    let rows = || part * 1500..(part + 1) * 1500;
    RecordBatch::try_from_iter_with_nullable(vec![
        ("at", Arc::new(Int64Array::from_iter_values(rows().map(|i| i * 10))) as ArrayRef, false),
        ("sensor", Arc::new(Int32Array::from_iter_values(rows().map(|i| (mix(i) % 8) as i32))), false),
        (
            "value",
            Arc::new(Float64Array::from_iter(
                rows().map(|i| (i % 23 != 0).then_some((mix(i) % 4096) as f64 / 32.0)),
            )),
            true,
        ),
    ])
    .expect("the readings")
}

/// Three generations of a table: a column added, one widened, columns in another order.
fn write_evolving(folder: &Path) {
    let strings = |offset: i64| -> ArrayRef {
        Arc::new(StringArray::from_iter((0..800).map(|i| (i % 6 != 0).then(|| format!("b{}", offset + i)))))
    };
    let floats =
        || -> ArrayRef { Arc::new(Float64Array::from_iter_values((0..800).map(|i| f64::from(i) / 4.0))) };
    let first = vec![
        ("a", Arc::new(Int32Array::from_iter_values(0..800)) as ArrayRef, true),
        ("b", strings(0), true),
    ];
    let second = vec![
        ("a", Arc::new(Int64Array::from_iter_values(800..1600)) as ArrayRef, true),
        ("b", strings(800), true),
        ("c", floats(), true),
    ];
    let third = vec![
        (
            "d",
            Arc::new(StringArray::from_iter_values((0..800).map(|i| format!("d{}", i % 10)))) as ArrayRef,
            true,
        ),
        ("c", Arc::new(Float32Array::from_iter_values((0..800).map(|i| i as f32 / 2.0))) as ArrayRef, true),
        ("b", strings(1600), true),
        ("a", Arc::new(Int16Array::from_iter_values(1600..2400)) as ArrayRef, true),
    ];
    for (name, columns) in [("0-first", first), ("1-second", second), ("2-third", third)] {
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a generation");
        write(&folder.join(format!("{name}.parquet")), &batch, row_groups(200).build());
    }
}

/// A file with timestamps in the deprecated 96-bit form, which other systems still write.
fn write_int96(path: &PathBuf) {
    let schema = parse_message_type("message m { REQUIRED INT64 n; OPTIONAL INT96 t; }").expect("a schema");
    let file = File::create(path).expect("create the file");
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties).expect("a writer");
    for group in 0..6_i64 {
        let mut row_group = writer.next_row_group().expect("a row group");
        let mut column = row_group.next_column().expect("next").expect("column n");
        let numbers: Vec<i64> = (group * 100..(group + 1) * 100).collect();
        column.typed::<ParquetInt64>().write_batch(&numbers, None, None).expect("write n");
        column.close().expect("close n");
        let mut column = row_group.next_column().expect("next").expect("column t");
        let present: Vec<i16> = numbers.iter().map(|n| i16::from(n % 10 != 0)).collect();
        let times: Vec<Int96> = numbers
            .iter()
            .filter(|n| *n % 10 != 0)
            .map(|n| {
                let mut time = Int96::new();
                time.set_data((n * 1_000_000_007) as u32, (n % 7) as u32, 2_460_000 + (n / 50) as u32);
                time
            })
            .collect();
        column.typed::<Int96Type>().write_batch(&times, Some(&present), None).expect("write t");
        column.close().expect("close t");
        row_group.close().expect("close the row group");
    }
    writer.close().expect("close");
}
