//! Tables that need much memory, for `resident.rs`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, Int32Builder, Int64Array, ListBuilder, RecordBatch, StringArray,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

const WRITTEN_AT_ONCE: usize = 1000;

const ALL: &str = "SELECT * FROM t";

/// A table, and the query over it.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Writes the table's n-th version into a folder.
    pub(crate) write: fn(&Path, usize),
    pub(crate) versions: usize,
    pub(crate) sql: &'static str,
    pub(crate) refused: Refused,
    /// The memory that may be in no account, in bytes.
    pub(crate) beside_bytes: u64,
    /// Whether it runs only on request, because it takes long.
    pub(crate) is_large: bool,
}

/// The number of queries that fail because they cannot fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    None,
    Some,
    /// Depends on timing.
    Any,
}

/// Memory beside the buffer and the memory of queries: spare read buffers (16 MiB), metadata and statistics
/// that DataFusion caches, plans, batches in flight, blocks that the allocator keeps, threads.
const BESIDE_BYTES: u64 = 128 << 20;

const fn shape(name: &'static str, write: fn(&Path, usize)) -> Shape {
    let (refused, beside_bytes) = (Refused::None, BESIDE_BYTES);
    Shape { name, write, versions: 1, sql: ALL, refused, beside_bytes, is_large: false }
}

pub(crate) static SHAPES: [Shape; 17] = [
    // A buffer of a page for every part would be eight times the data.
    shape("200 files x 60 columns", |dir, _| tiny_files(dir, 200, 60, 20)),
    Shape { is_large: true, ..shape("600 files x 100 columns", |dir, _| tiny_files(dir, 600, 100, 20)) },
    shape("1,000 files", |dir, _| tiny_files(dir, 1000, 1, 10)),
    Shape { is_large: true, ..shape("10,000 files", |dir, _| tiny_files(dir, 10_000, 1, 10)) },
    shape("a page of 24 MB", |dir, _| giant_page(dir, 3 << 20)),
    // More than the buffer once it is unpacked.
    Shape { refused: Refused::Some, ..shape("a page of 64 MB", |dir, _| giant_page(dir, 8 << 20)) },
    shape("2,000 columns", |dir, _| {
        write(dir, (0..2000).map(|at| (format!("c{at}"), ints(200, at))).collect(), plain());
    }),
    shape("nested lists", |dir, _| nested_lists(dir)),
    shape("strings of 20 KB", |dir, _| {
        write(dir, vec![("s".into(), texts(1500, 20_000, 1500))], groups_of(150));
    }),
    shape("a dictionary that blows up", |dir, _| {
        write(dir, vec![("s".into(), texts(10_000, 20_000, 4))], groups_of(1000));
    }),
    shape("one row group of 1,000,000", |dir, _| {
        write(
            dir,
            vec![("a".into(), ints(1_000_000, 3)), ("b".into(), ints(1_000_000, 5))],
            groups_of(1 << 30),
        );
    }),
    shape("10,000 row groups", |dir, _| {
        write(dir, vec![("a".into(), ints(50_000, 3)), ("b".into(), ints(50_000, 5))], groups_of(5));
    }),
    // Groups have their keys in a table per partition. Whether all three fit depends on timing.
    Shape {
        refused: Refused::Any,
        sql: "SELECT s, count(*), sum(n) FROM t GROUP BY s",
        ..shape("keys of 4 KB", |dir, _| {
            let columns = vec![("s".into(), texts(16_000, 4000, 4000)), ("n".into(), ints(16_000, 1))];
            write(dir, columns, groups_of(1000));
        })
    },
    Shape {
        refused: Refused::Any,
        sql: "SELECT s0, s1, max(s2), min(s3), count(*) FROM t GROUP BY s0, s1",
        ..shape("groups of long strings", |dir, _| {
            let columns = (0..6).map(|at| (format!("s{at}"), texts(20_000, 420, 20_000 - at)));
            write(dir, columns.collect(), groups_of(4000));
        })
    },
    Shape {
        versions: 25,
        ..shape("25 versions of a file", |dir, version| {
            let columns = (0..20).map(|at| (format!("c{at}"), ints(20_000 + version, at)));
            write(dir, columns.collect(), plain());
        })
    },
    // A file of twenty every ten seconds: growth is allowed in the first tenth only.
    Shape { versions: 360, ..shape("an hour of changes", a_change) },
    Shape { versions: 8640, is_large: true, ..shape("a day of changes", a_change) },
];

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

fn groups_of(rows: usize) -> WriterPropertiesBuilder {
    plain().set_max_row_group_row_count(Some(rows))
}

fn write(dir: &Path, columns: Vec<(String, ArrayRef)>, properties: WriterPropertiesBuilder) {
    write_file(&dir.join("a.parquet"), columns, properties);
}

/// Replaces the file as a whole.
fn write_file(path: &Path, columns: Vec<(String, ArrayRef)>, properties: WriterPropertiesBuilder) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let new = path.with_extension("new");
    let mut writer =
        ArrowWriter::try_new(File::create(&new).unwrap(), batch.schema(), Some(properties.build())).unwrap();
    // The writer splits its input at the ends of row groups, and calls itself recursively for the rest.
    for at in (0..batch.num_rows()).step_by(WRITTEN_AT_ONCE) {
        writer.write(&batch.slice(at, WRITTEN_AT_ONCE.min(batch.num_rows() - at))).unwrap();
    }
    writer.close().unwrap();
    std::fs::rename(new, path).unwrap();
}

fn ints(rows: usize, seed: usize) -> ArrayRef {
    let of = |row: usize| (row as i64).wrapping_mul(seed as i64 * 2 + 1);
    Arc::new((0..rows).map(|row| Some(of(row))).collect::<Int64Array>())
}

/// Texts with this length and this number of distinct values.
fn texts(rows: usize, bytes: usize, different: usize) -> ArrayRef {
    let text = |row: usize| format!("{:07}-", row * 7919 % different).repeat(bytes / 8);
    let known: Vec<String> = (0..different.min(rows)).map(text).collect();
    Arc::new((0..rows).map(|row| Some(known[row % known.len()].as_str())).collect::<StringArray>())
}

fn tiny_files(dir: &Path, files: usize, columns: usize, rows: usize) {
    for file in 0..files {
        let columns = (0..columns).map(|at| (format!("c{at}"), ints(rows, at + file))).collect();
        write_file(&dir.join(format!("{file}.parquet")), columns, plain());
    }
}

/// A page of almost only zeros. If all were equal, it would not have to be read.
fn giant_page(dir: &Path, rows: usize) {
    let mut values = vec![0; rows];
    values[rows / 2] = 1;
    let properties = groups_of(rows)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(1 << 20)
        .set_offset_index_disabled(true);
    write(dir, vec![("a".into(), Arc::new(Int64Array::from(values)))], properties);
}

fn nested_lists(dir: &Path) {
    let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    for row in 0..60_000 {
        for inner in 0..row % 5 {
            (0..inner * 3).for_each(|n| lists.values().values().append_value(row + n));
            lists.values().append(true);
        }
        lists.append(row % 7 > 0);
    }
    let wide = Decimal128Array::from_iter_values((0..60_000).map(|row| i128::from(row) << 64));
    let wide = wide.with_precision_and_scale(38, 2).unwrap();
    write(dir, vec![("n".into(), Arc::new(lists.finish())), ("w".into(), Arc::new(wide))], plain());
}

/// Adds, replaces or removes a file.
fn a_change(dir: &Path, version: usize) {
    let path = dir.join(format!("{}.parquet", version * 7 % 20));
    match version % 5 == 4 && path.exists() {
        true => std::fs::remove_file(path).unwrap(),
        false => write_file(&path, vec![("a".into(), ints(500 + version % 100, version))], plain()),
    }
}
