//! Tables that are declared to be clustered by matching keys, rightly or wrongly: the rows are those of plain
//! DataFusion, and the declaration enables operators by chunks.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::ordered::declared;
use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

/// The layout of a table.
#[derive(Clone, Debug)]
struct Layout {
    key: Key,
    /// The statistics in its files.
    statistics: EnabledStatistics,
    nulls: Nulls,
    descending: bool,
    /// The number of misplaced keys. If there are any, the declaration is wrong.
    misplaced: usize,
    /// Rows of a row group and of a page.
    group: usize,
    page: usize,
    files: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Long,
    Date,
    /// In 64 bits where it is decoded.
    Decimal,
    /// Statistics are truncated before the part in which keys differ.
    Text,
}

#[derive(Clone, Copy, Debug)]
enum Nulls {
    None,
    First,
    Last,
    Everywhere,
}

impl Layout {
    /// Only the declaration says something about it, and is true.
    fn plain() -> Self {
        Layout {
            key: Key::Long,
            statistics: EnabledStatistics::None,
            nulls: Nulls::None,
            descending: false,
            misplaced: 0,
            group: 100,
            page: 20_000,
            files: 3,
        }
    }

    fn draw(rng: &mut Rng) -> Self {
        let statistics = [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page];
        Layout {
            key: *rng.choice(&[Key::Long, Key::Date, Key::Decimal, Key::Text]).expect("a key"),
            statistics: *rng.choice(&statistics).expect("a level"),
            nulls: *rng
                .choice(&[Nulls::None, Nulls::None, Nulls::First, Nulls::Last, Nulls::Everywhere])
                .expect("a place"),
            descending: rng.bool(),
            misplaced: *rng.choice(&[0, 0, 1, 50]).expect("a number"),
            group: *rng.choice(&[9, 70, 400]).expect("a length"),
            page: *rng.choice(&[30, 20_000]).expect("a length"),
            files: rng.usize(1..4),
        }
    }

    fn keys(&self, rng: &mut Rng, rows: usize, longest: usize) -> ArrayRef {
        let mut keys: Vec<Option<i64>> = Vec::with_capacity(rows);
        let mut key = 1000;
        while keys.len() < rows {
            let run = rng.usize(1..=longest).min(rows - keys.len());
            keys.extend(std::iter::repeat_n(Some(key), run));
            key += rng.i64(1..3);
        }
        if self.descending {
            keys.reverse();
        }
        for _ in 0..self.misplaced {
            let (from, to) = (rng.usize(..rows), rng.usize(..rows));
            keys.swap(from, to);
        }
        let few = rows / 20;
        match self.nulls {
            Nulls::None => {}
            Nulls::First => keys[..few].fill(None),
            Nulls::Last => keys[rows - few..].fill(None),
            Nulls::Everywhere => keys.iter_mut().step_by(13).for_each(|key| *key = None),
        }
        if self.key == Key::Text {
            let text = |key: i64| format!("{}{key:06}", "a key that is long ".repeat(5));
            return Arc::new(keys.into_iter().map(|key| key.map(text)).collect::<StringArray>());
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from(keys));
        match self.key {
            Key::Date => {
                let days = cast(&numbers, &DataType::Int32).expect("small numbers");
                cast(&days, &DataType::Date32).expect("days")
            }
            Key::Decimal => cast(&numbers, &DataType::Decimal128(15, 2)).expect("a decimal"),
            Key::Long | Key::Text => numbers,
        }
    }

    /// Writes a table with runs of up to `longest` equal keys. Returns its path.
    fn write(&self, folder: &Path, name: &str, rng: &mut Rng, rows: usize, longest: usize) -> String {
        let keys = self.keys(rng, rows, longest);
        let value = |of: i64| Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % of)));
        let all = [("k", keys), ("v", value(7) as ArrayRef), ("w", value(1000) as ArrayRef)];
        let all = RecordBatch::try_from_iter(all).expect("columns of one length");
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(self.group))
            .set_data_page_row_count_limit(self.page)
            .set_write_batch_size(self.page.min(256))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(self.statistics)
            .build();
        let table = folder.join(name);
        fs::create_dir_all(&table).expect("a folder");
        let mut from = 0;
        for file in 0..self.files {
            let end = if file + 1 == self.files { rows } else { rng.usize(from..=rows) };
            let out = File::create(table.join(format!("{file}.parquet"))).expect("a file");
            let mut writer =
                ArrowWriter::try_new(out, all.schema(), Some(properties.clone())).expect("a writer");
            writer.write(&all.slice(from, end - from)).expect("rows");
            writer.close().expect("a footer");
            from = end;
        }
        format!("STORED AS PARQUET LOCATION '{}/'", table.display())
    }
}

const MATCH: &str = "OPTIONS ('coscan.clustered_with' 'o (k = k)')";

/// The plan above the join does not rely on the partitioning of its rows.
const JOIN: &str =
    "SELECT l.v, count(*), sum(l.w - o.w), min(l.k), max(o.k) FROM l JOIN o ON l.k = o.k GROUP BY l.v";

const QUERIES: [&str; 10] = [
    JOIN,
    "SELECT l.k, count(*), sum(l.w - o.w) FROM l JOIN o ON l.k = o.k GROUP BY l.k",
    "SELECT l.k, l.w, o.w FROM o JOIN l ON l.k = o.k AND l.v = o.v WHERE l.w > o.w",
    "SELECT o.k, o.w, count(l.w) FROM o LEFT JOIN l ON l.k = o.k AND l.v < o.v GROUP BY o.k, o.w",
    "SELECT k, w FROM l WHERE EXISTS (SELECT 1 FROM o WHERE o.k = l.k AND o.v = 2)",
    "SELECT k, w FROM l WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.k = l.k)",
    "SELECT k, count(*), sum(w) FROM l GROUP BY k",
    "SELECT DISTINCT k, v FROM l WHERE w > 100",
    "SELECT k, w, row_number() OVER (PARTITION BY k ORDER BY w) FROM l",
    "SELECT count(*), sum(a.w) FROM l a JOIN l b ON a.k = b.k",
];

async fn set(ctx: &SessionContext, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        let sql = format!("SET {name} = '{value}'");
        ctx.plain_sql(&sql).await.expect(&sql).collect().await.expect(&sql);
    }
}

/// Makes both sides of a join partitioned, however small they are, so that filters do not change the scans.
const PARTITIONED: [(&str, &str); 2] = [
    ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
];

async fn sorted(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = support::rows(ctx, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.sort_unstable();
    rows
}

async fn explained(ctx: &SessionContext, sql: &str) -> String {
    support::rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n")
}

/// Two tables. The first is declared to match the second.
fn tables(folder: &Path, l: &Layout, o: &Layout, rng: &mut Rng) -> [String; 2] {
    let l = l.write(folder, "l", rng, 1500, 30);
    [l, o.write(folder, "o", rng, 700, 2)]
}

fn create(tables: &[String; 2], options: &str) -> [String; 2] {
    let [l, o] = tables;
    [format!("CREATE EXTERNAL TABLE l {l} {options}"), format!("CREATE EXTERNAL TABLE o {o}")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_match_is_joined_by_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::with_seed(1);
    let tables = tables(folder.path(), &Layout::plain(), &Layout::plain(), &mut rng);
    let plain = declared(support::plain(Variant::Default), &create(&tables, "")).await;
    let expected = sorted(&plain, JOIN).await;

    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let undeclared = declared(support::cooperative(&engine, Variant::Default), &create(&tables, "")).await;
    set(&undeclared, &PARTITIONED).await;
    let plan = explained(&undeclared, JOIN).await;
    assert!(plan.contains("OrderedJoinExec: as below: chunks are not clustered by k"), "{plan}");

    let ctx = declared(support::cooperative(&engine, Variant::Default), &create(&tables, MATCH)).await;
    set(&ctx, &PARTITIONED).await;
    let plan = support::rows(&ctx, &format!("EXPLAIN {JOIN}")).await.expect(JOIN).join("\n");
    assert!(plan.contains("if chunks are clustered by k and k, as is declared"), "{plan}");
    let plan = explained(&ctx, JOIN).await;
    assert!(plan.contains("OrderedJoinExec: by chunks: "), "{plan}");
    assert!(plan.contains("chunks was read before, as it is declared"), "{plan}");
    assert_eq!(sorted(&ctx, JOIN).await, expected);
    // The result of reading keys is shared with later sessions.
    let again = declared(support::cooperative(&engine, Variant::Default), &create(&tables, MATCH)).await;
    set(&again, &PARTITIONED).await;
    let plan = explained(&again, JOIN).await;
    assert!(plan.contains("OrderedJoinExec: by chunks: ") && !plan.contains("was read before"), "{plan}");
    // The key works alone, too, and matches no other table.
    let plan = explained(&again, "SELECT k, count(*) FROM l GROUP BY k").await;
    assert!(plan.contains("OrderedAggregateExec: by chunks: "), "{plan}");
    let plan = explained(&again, "SELECT k, count(*) FROM o GROUP BY k").await;
    assert!(plan.contains("OrderedAggregateExec: as below: chunks are not clustered by k"), "{plan}");
    support::settled(&engine).await;
}

/// Chunks are decoded slice by slice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_all_slices_are_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::with_seed(4);
    let layout = Layout { group: 1000, files: 1, ..Layout::plain() };
    let tables = tables(folder.path(), &layout, &layout, &mut rng);
    let plain = declared(support::plain(Variant::Default), &create(&tables, "")).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    assert!(engine.config().slice_rows * 2 < layout.group);
    let ctx = declared(support::cooperative(&engine, Variant::Default), &create(&tables, MATCH)).await;
    set(&ctx, &[("coscan.order_aware", "always")]).await;
    assert!(explained(&ctx, JOIN).await.contains("OrderedJoinExec: by chunks: "));
    assert_eq!(sorted(&ctx, JOIN).await, sorted(&plain, JOIN).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_that_is_wrong_is_found_before_a_row_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::with_seed(2);
    let wrong = Layout { misplaced: 5, ..Layout::plain() };
    let tables = tables(folder.path(), &wrong, &Layout::plain(), &mut rng);
    let plain = declared(support::plain(Variant::Default), &create(&tables, "")).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = declared(support::cooperative(&engine, Variant::Default), &create(&tables, MATCH)).await;
    set(&ctx, &PARTITIONED).await;
    let plan = explained(&ctx, JOIN).await;
    let why = "OrderedJoinExec: as below: chunks are not clustered by k, as was declared: keys of ";
    let file = folder.path().join("l/0.parquet").display().to_string();
    let named = plan.contains(why) && plan.contains(file.trim_start_matches('/'));
    assert!(named && plan.contains(".parquet, row group ") && plan.contains(" overlap"), "{plan}");
    assert_eq!(sorted(&ctx, JOIN).await, sorted(&plain, JOIN).await);
    let sql = "SELECT k, count(*) FROM l GROUP BY k";
    assert_eq!(sorted(&ctx, sql).await, sorted(&plain, sql).await);
}

async fn answers_match(seed: u64) -> usize {
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let l = Layout::draw(&mut rng);
    let o = Layout { key: l.key, ..Layout::draw(&mut rng) };
    let tables = tables(folder.path(), &l, &o, &mut rng);
    let variant = *rng.choice(&VARIANTS).expect("a variant");
    let policies: Vec<_> = registry::sharing().collect();
    let policy = policies[seed as usize % policies.len()];
    let plain = declared(support::plain(variant), &create(&tables, "")).await;
    let chunk_bytes = *rng.choice(&[0, 2000, 8000]).expect("a size");
    let engine = support::cutting_engine(policy, LARGE_BUFFER, chunk_bytes);
    let ctx = declared(support::cooperative(&engine, variant), &create(&tables, MATCH)).await;
    set(&ctx, &[("coscan.order_aware", "always")]).await;
    let mut by_chunks = 0;
    for sql in QUERIES {
        let expected = sorted(&plain, sql).await;
        let found = sorted(&ctx, sql).await;
        assert!(
            found == expected,
            "seed {seed}, {policy}, {variant:?}, {l:?}, {o:?}, chunks of {chunk_bytes}: {sql}\nexpected {} rows, found {}",
            expected.len(),
            found.len()
        );
        by_chunks += usize::from(explained(&ctx, sql).await.contains("Exec: by chunks: "));
    }
    support::settled(&engine).await;
    by_chunks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_tables_give_what_plain_datafusion_gives() {
    let mut by_chunks = 0;
    for seed in crate::ordered::seeds() {
        by_chunks += answers_match(seed).await;
    }
    assert!(by_chunks > 0, "nothing was done by chunks: the test sees no difference");
}

#[tokio::test]
async fn what_cannot_be_declared_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::with_seed(3);
    let table = Layout::plain().write(folder.path(), "l", &mut rng, 10, 1);
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    let floats = "CREATE EXTERNAL TABLE f (k DOUBLE, v BIGINT) STORED AS PARQUET LOCATION";
    let location = table.trim_start_matches("STORED AS PARQUET LOCATION").to_owned();
    for (sql, said) in [
        (
            format!("CREATE EXTERNAL TABLE l {table} OPTIONS ('coscan.clustered_with' 'o (x = k)')"),
            "there is no column x; there are k, v, w",
        ),
        (
            format!("CREATE EXTERNAL TABLE l {table} OPTIONS ('coscan.clustered_with' 'o (k, k)')"),
            "= is missing",
        ),
        (format!("{floats} {location} {MATCH}"), "tables cannot be clustered by k, which is Float64"),
    ] {
        let error = match ctx.plain_sql(&sql).await {
            Ok(frame) => frame.collect().await.expect_err(&sql),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains("coscan.clustered_with") && error.contains(said), "{sql}: {error}");
    }
}
