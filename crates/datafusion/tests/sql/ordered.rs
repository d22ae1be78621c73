//! Aggregations and joins chunk by chunk, over random clustered tables. The rows are those of plain
//! DataFusion, under every policy, alone and 16 at a time.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_datafusion::with_account;
use coscan_engine::QueryAccount;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::*;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::support::{self, LARGE_BUFFER, VARIANTS, Variant};

/// The layout of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    descending: bool,
    nulls_first: bool,
    nulls: bool,
    /// Whether the rows of a row group are in no order.
    shuffled: bool,
    /// Whether the order is declared.
    declared: bool,
    /// Whether files are listed in another order than that of their keys.
    files_backwards: bool,
    key: Key,
}

#[derive(Clone, Copy, Debug)]
enum Key {
    Int,
    Long,
    Date,
    Text,
    Decimal,
}

impl Layout {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let shuffled = rng.u8(..3) == 0;
        Layout {
            descending: rng.bool(),
            nulls_first: rng.bool(),
            nulls: rng.u8(..3) == 0,
            shuffled,
            declared: !shuffled && rng.u8(..3) == 0,
            files_backwards: rng.bool(),
            key: *rng.choice(&[Key::Int, Key::Long, Key::Date, Key::Text, Key::Decimal]).expect("a key"),
        }
    }

    /// The keys of all rows, in order. Runs of equal keys may be longer than a row group.
    fn keys(&self, rng: &mut Rng, rows: usize, longest: usize) -> ArrayRef {
        let mut keys: Vec<Option<i64>> = Vec::with_capacity(rows);
        let mut key = -50;
        while keys.len() < rows {
            let run = rng.usize(1..=longest).min(rows - keys.len());
            keys.extend(std::iter::repeat_n(Some(key), run));
            key += rng.i64(1..4);
        }
        if self.descending {
            keys.reverse();
        }
        if self.nulls {
            let nulls = rng.usize(1..200).min(rows);
            let at = if self.nulls_first { 0..nulls } else { rows - nulls..rows };
            keys[at].fill(None);
        }
        let numbers: ArrayRef = match self.key {
            // The same number of digits everywhere, so that text has the order of numbers.
            Key::Text => {
                let text = keys.iter().map(|key| key.map(|key| format!("key number {:06}", key + 1000)));
                return Arc::new(text.collect::<StringArray>());
            }
            _ => Arc::new(Int64Array::from(keys)),
        };
        let data_type = match self.key {
            Key::Int => DataType::Int32,
            Key::Date => {
                let days = cast(&numbers, &DataType::Int32).expect("small numbers");
                return cast(&days, &DataType::Date32).expect("days");
            }
            Key::Decimal => DataType::Decimal128(20, 2),
            Key::Long | Key::Text => DataType::Int64,
        };
        cast(&numbers, &data_type).expect("a cast that fits")
    }
}

/// Writes a table with runs of up to `longest` equal keys. Returns the statement that declares it.
pub(crate) fn write_table(
    folder: &Path,
    name: &str,
    rng: &mut Rng,
    layout: Layout,
    longest: usize,
) -> String {
    let rows = rng.usize(1..2500);
    let keys = layout.keys(rng, rows, longest);
    let second: ArrayRef =
        Arc::new(Int32Array::from_iter((0..rows).map(|_| (rng.u8(..9) > 0).then(|| rng.i32(0..4)))));
    let value: ArrayRef =
        Arc::new(Int64Array::from_iter((0..rows).map(|_| (rng.u8(..9) > 0).then(|| rng.i64(-99..99)))));
    let price = cast(&value, &DataType::Decimal128(15, 2)).expect("a price");
    let text: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|_| format!("t{}", rng.u8(..30)))));
    let all =
        RecordBatch::try_from_iter([("k", keys), ("g", second), ("v", value), ("p", price), ("t", text)]);
    let all = all.expect("columns of one length");
    let files = rng.usize(1..5);
    let group = *rng.choice(&[7, 60, 333, 1000]).expect("a length");
    // Pages with the same rows in all columns, or with about the same bytes.
    let page_rows = *rng.choice(&[20, 50, 20_000]).expect("a length");
    let page_bytes = *rng.choice(&[1 << 20, 200]).expect("a size");
    let table = folder.join(name);
    fs::create_dir_all(&table).expect("a folder");
    let (mut from, schema) = (0, all.schema());
    for file in 0..files {
        let end = if file + 1 == files { rows } else { rng.usize(from..=rows) };
        let number = if layout.files_backwards { files - file } else { file };
        let writer = File::create(table.join(format!("{number}.parquet"))).expect("a file");
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group))
            .set_data_page_row_count_limit(page_rows)
            .set_data_page_size_limit(page_bytes)
            .set_dictionary_enabled(page_bytes > 200)
            .set_write_batch_size(if page_bytes > 200 { page_rows.min(1024) } else { 8 })
            .build();
        let mut writer =
            ArrowWriter::try_new(writer, Arc::clone(&schema), Some(properties)).expect("a writer");
        while from < end {
            let rows = group.min(end - from);
            let mut part = all.slice(from, rows);
            if layout.shuffled {
                let mut order: Vec<u32> = (0..rows as u32).collect();
                rng.shuffle(&mut order);
                let order = UInt32Array::from(order);
                let columns = part.columns().iter().map(|column| take(column, &order, None).expect("rows"));
                part = RecordBatch::try_new(part.schema(), columns.collect()).expect("columns");
            }
            writer.write(&part).expect("rows");
            from += rows;
        }
        writer.close().expect("a footer");
    }
    let (direction, nulls) =
        (if layout.descending { "DESC" } else { "ASC" }, if layout.nulls_first { "FIRST" } else { "LAST" });
    let order =
        if layout.declared { format!("WITH ORDER (k {direction} NULLS {nulls})") } else { String::new() };
    format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET {order} LOCATION '{}/'", table.display())
}

/// Writes two tables, `c` and `d`, that can be joined by their keys. Returns their layouts and declarations.
pub(crate) fn write_both(folder: &Path, rng: &mut Rng) -> ([Layout; 2], [String; 2]) {
    let c = Layout::draw(rng);
    let d = Layout { key: c.key, ..Layout::draw(rng) };
    ([c, d], [write_table(folder, "c", rng, c, 30), write_table(folder, "d", rng, d, 3)])
}

const QUERIES: [&str; 31] = [
    "SELECT k, count(*), sum(v), min(t), max(p), avg(p) FROM c GROUP BY k",
    "SELECT k, sum(p * (1 - p)), count(v) FROM c WHERE v > -50 GROUP BY k",
    "SELECT DISTINCT k FROM c",
    "SELECT DISTINCT k, g FROM c WHERE t < 't2'",
    "SELECT g, k, count(*), min(v) FROM c GROUP BY g, k",
    "SELECT k, count(DISTINCT t), sum(DISTINCT v) FROM c GROUP BY k",
    "SELECT k, sum(v) FILTER (WHERE g = 1), bool_or(g = 2) FROM c GROUP BY k",
    "SELECT k, count(*) FROM c GROUP BY k ORDER BY k DESC NULLS LAST",
    "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM c GROUP BY k) GROUP BY n",
    "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM c GROUP BY k) a \
     JOIN (SELECT k, max(v) AS m FROM c WHERE g = 1 GROUP BY k) b ON a.k = b.k",
    "SELECT k, g, v, row_number() OVER (PARTITION BY k ORDER BY v, g, t, p) FROM c",
    "SELECT k, g, v, rank() OVER (PARTITION BY k, g ORDER BY v), sum(v) OVER (PARTITION BY k) FROM c WHERE v < 50",
    "SELECT k, v, sum(p) OVER (PARTITION BY g, k ORDER BY v RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) FROM c",
    "SELECT k, v FROM (SELECT k, v, dense_rank() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM c) WHERE place < 3",
    "SELECT k, count(*), max(n) FROM (SELECT k, count(*) OVER (PARTITION BY k) AS n FROM c) GROUP BY k",
    "SELECT k, g, count(*) OVER (PARTITION BY k), sum(v) OVER (PARTITION BY g) FROM c",
    "SELECT g, k, v FROM (SELECT k, g, v, count(*) OVER (PARTITION BY k) AS n FROM c) WHERE n > 2",
    "SELECT k, v, g, t, p FROM c ORDER BY k DESC, v, g, t, p LIMIT 9",
    "SELECT k, v, g, t, p FROM c WHERE v > 90 ORDER BY k DESC NULLS LAST, v, g, t, p LIMIT 40",
    "SELECT k, v, g, t, p FROM c WHERE v > 0 ORDER BY k NULLS FIRST, v, g, t, p LIMIT 5",
    "SELECT k, count(*) FROM c GROUP BY k HAVING count(*) > 3 ORDER BY 2 DESC, 1 LIMIT 7",
    "SELECT max(n) FROM (SELECT k, t, count(*) AS n FROM c GROUP BY k, t)",
    "SELECT k, v + 1, count(*) FROM c WHERE v % 7 < 5 GROUP BY k, v + 1",
    "SELECT c.g, d.g, count(*), sum(c.v + d.v), min(c.k), max(d.k) FROM c JOIN d ON c.k = d.k GROUP BY c.g, d.g",
    "SELECT c.k, count(*), sum(d.v) FROM d JOIN c ON c.k = d.k AND c.g = d.g WHERE c.v > d.v GROUP BY c.k",
    "SELECT d.k, d.v, count(c.v) FROM d LEFT JOIN c ON c.k = d.k AND c.v < d.v GROUP BY d.k, d.v",
    "SELECT k, v FROM d WHERE EXISTS (SELECT 1 FROM c WHERE c.k = d.k AND c.g = 2)",
    "SELECT k, v FROM d WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = d.k AND c.v > 0)",
    "SELECT k, count(*) FROM c WHERE k IN (SELECT k FROM d WHERE v > 50) GROUP BY k",
    "SELECT count(*) FROM c WHERE k NOT IN (SELECT k FROM d WHERE g = 3)",
    "SELECT count(*), count(c.k), count(d.k) FROM c FULL JOIN d ON c.k = d.k",
];

/// A join of three or four tables by the same key, in any shape and of any types, some with more conditions.
fn joins_of_several(rng: &mut Rng) -> String {
    let mut tables = vec![("c", "a"), ("d", "b"), ("e", "f")];
    if rng.bool() {
        tables.push(("d", "h"));
    }
    rng.shuffle(&mut tables);
    let mut joined: Vec<(String, Vec<&str>)> = Vec::new();
    for (table, name) in tables {
        // A filter above a join.
        let filtered = format!(
            "(SELECT * FROM {table} y WHERE y.v > 50 OR EXISTS (SELECT 1 FROM e z WHERE z.k = y.k AND z.g = 1)) {name}"
        );
        let table = if rng.u8(..4) == 0 { filtered } else { format!("{table} {name}") };
        joined.push((table, vec![name]));
    }
    while joined.len() > 1 {
        let (right, right_names) = joined.swap_remove(rng.usize(..joined.len()));
        let (left, mut names) = joined.swap_remove(rng.usize(..joined.len()));
        let kind = rng.choice(&["", "", "", "LEFT", "RIGHT", "FULL"]).expect("a type");
        let (l, r) = (*rng.choice(&names).expect("a name"), *rng.choice(&right_names).expect("a name"));
        let more = match rng.u8(..4) {
            0 => format!(" AND {l}.g = {r}.g"),
            1 if *kind != "FULL" => format!(" AND {l}.v < {r}.v"),
            _ => String::new(),
        };
        names.extend(right_names);
        joined.push((format!("({left} {kind} JOIN {right} ON {l}.k = {r}.k{more})"), names));
    }
    let (from, names) = &joined[0];
    let of = rng.choice(names).expect("a name");
    let filter = match rng.u8(..5) {
        0 => format!(" WHERE EXISTS (SELECT 1 FROM d x WHERE x.k = {of}.k)"),
        1 => format!(" WHERE NOT EXISTS (SELECT 1 FROM e x WHERE x.k = {of}.k AND x.g = 1)"),
        2 => format!(" WHERE {of}.v > -90"),
        _ => String::new(),
    };
    let sums: Vec<_> = names.iter().map(|name| format!("count({name}.k), sum({name}.v)")).collect();
    format!("SELECT {of}.k, count(*), {} FROM {from}{filter} GROUP BY {of}.k", sums.join(", "))
}

/// Returns the rows, sorted unless the query has an order.
async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = support::rows(ctx, sql).await?;
    if !sql.contains("ORDER BY k") && !sql.contains("LIMIT") {
        rows.sort_unstable();
    }
    Ok(rows)
}

pub(crate) async fn declared(ctx: SessionContext, tables: &[String]) -> SessionContext {
    for sql in tables {
        ctx.plain_sql(sql).await.expect(sql).collect().await.expect(sql);
    }
    ctx
}

async fn answers_match(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::draw(&mut rng);
    let longest = *rng.choice(&[1, 3, 30, 150]).expect("a length");
    let other = Layout { key: layout.key, ..Layout::draw(&mut rng) };
    let third = Layout { key: layout.key, ..Layout::draw(&mut rng) };
    let tables = [
        write_table(folder.path(), "c", &mut rng, layout, longest),
        write_table(folder.path(), "d", &mut rng, other, 3),
        write_table(folder.path(), "e", &mut rng, third, 2),
    ];
    let mut queries = QUERIES.map(str::to_owned).to_vec();
    queries.extend((0..8).map(|_| joins_of_several(&mut rng)));
    let variant = *rng.choice(&VARIANTS).expect("a variant");
    let when = *rng.choice(&["auto", "always", "always"]).expect("a value");
    let policies: Vec<_> = registry::sharing().collect();
    let policy = policies[seed as usize % policies.len()];
    let plain = declared(support::plain(variant), &tables).await;
    let mut expected = Vec::new();
    for sql in &queries {
        expected.push(answer(&plain, sql).await.expect(sql));
    }
    let chunk_bytes = *rng.choice(&[0, 500, 2000]).expect("a size");
    let engine = support::cutting_engine(policy, LARGE_BUFFER, chunk_bytes);
    let ctx = declared(support::cooperative(&engine, variant), &tables).await;
    let set = format!("SET coscan.order_aware = '{when}'");
    ctx.plain_sql(&set).await.expect("a setting").collect().await.expect("a setting");
    for at_once in [1, 16] {
        let jobs = queries.iter().cloned().map(|sql| {
            let ctx = ctx.clone();
            async move {
                let found = answer(&ctx, &sql).await;
                (sql, found)
            }
        });
        let found = support::at_a_time(jobs.collect(), at_once).await;
        for ((sql, found), expected) in found.iter().zip(&expected) {
            let found = found.as_ref().unwrap_or_else(|error| panic!("seed {seed}, {sql}: {error}"));
            assert!(
                found == expected,
                "seed {seed}, {policy}, {variant:?}, {layout:?}, {other:?}, chunks of {chunk_bytes}, {at_once} at once: {sql}\n\
                expected {} rows, found {}: {:?}",
                expected.len(),
                found.len(),
                found.iter().zip(expected).find(|(a, b)| a != b)
            );
        }
    }
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clustered_tables_give_what_plain_datafusion_gives() {
    for seed in seeds() {
        answers_match(seed).await;
    }
}

/// The seeds of random tables: `COSCAN_TEST_SEEDS=A..B`, or some.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("COSCAN_TEST_SEEDS") else { return 0..12 };
    let bounds = seeds.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    let Some((Ok(from), Ok(to))) = bounds else { panic!("COSCAN_TEST_SEEDS={seeds} is not A..B") };
    from..to
}

/// Returns the number of partitions that were aggregated chunk by chunk.
pub(crate) async fn by_chunks(ctx: &SessionContext, sql: &str) -> u32 {
    counted(ctx, sql, "partitions_by_chunks").await
}

/// Returns the sum of a counter over the nodes of the plan.
async fn counted(ctx: &SessionContext, sql: &str, counter: &str) -> u32 {
    let plan = support::rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
    let counter = format!("{counter}=");
    let counts = plan.split(counter.as_str()).skip(1);
    let digits = counts.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("0"));
    digits.map(|digits| digits.parse::<u32>().unwrap_or(0)).sum()
}

#[tokio::test]
async fn what_is_clustered_is_aggregated_by_chunks() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    for (sql, expected) in [
        ("SELECT id, count(*) FROM events GROUP BY id", 4),
        ("SELECT DISTINCT day FROM events WHERE id > 100", 4),
        // Every row group holds every value.
        ("SELECT many, count(*) FROM sales GROUP BY many", 0),
        // No column by which chunks may be clustered.
        ("SELECT id + 1, count(*) FROM events GROUP BY id + 1", 0),
        ("SELECT id, array_agg(code) FROM events GROUP BY id", 0),
        ("SELECT count(*) FROM events", 0),
    ] {
        assert_eq!(by_chunks(&ctx, sql).await, expected, "{sql}");
    }
    let join = "SELECT count(*) FROM events a JOIN events b ON a.id = b.id";
    assert_eq!(by_chunks(&ctx, join).await, 0, "a small side is collected");
    ctx.plain_sql("SET coscan.order_aware = 'always'")
        .await
        .expect("a setting")
        .collect()
        .await
        .expect("a setting");
    assert_eq!(by_chunks(&ctx, join).await, 4);
    let several = "SELECT count(*) FROM events a JOIN events b ON a.id = b.id LEFT JOIN events c ON b.id = c.id \
                   WHERE EXISTS (SELECT 1 FROM events d WHERE d.id = c.id)";
    assert_eq!(by_chunks(&ctx, several).await, 4);
    let plan = support::rows(&ctx, &format!("EXPLAIN {several}")).await.expect(several).join("\n");
    assert!(plan.contains("clustered by id and id and id and id"), "one scan for all four tables: {plan}");
    // Partitions that may run in different processes cannot share chunks.
    for (stealing, expected) in [("false", 0), ("true", 4)] {
        let set = format!("SET datafusion.execution.enable_file_stream_work_stealing = {stealing}");
        ctx.plain_sql(&set).await.expect(&set).collect().await.expect(&set);
        assert_eq!(by_chunks(&ctx, "SELECT id, count(*) FROM events GROUP BY id").await, expected);
    }
    ctx.plain_sql("SET coscan.order_aware = 'never'")
        .await
        .expect("a setting")
        .collect()
        .await
        .expect("a setting");
    assert_eq!(by_chunks(&ctx, "SELECT id, count(*) FROM events GROUP BY id").await, 0);
}

#[tokio::test]
async fn what_is_constant_is_known_of_every_chunk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet").display().to_string();
    let statements = [
        format!(
            "COPY (SELECT CAST(7 AS INT) AS k, value * 7 % 10 AS v FROM generate_series(1, 9)) TO '{path}' STORED AS PARQUET"
        ),
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'"),
    ];
    let plain = declared(support::plain(Variant::Default), &statements).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let always = [statements[1].clone(), "SET coscan.order_aware = 'always'".to_owned()];
    let ctx = declared(support::cooperative(&engine, Variant::Default), &always).await;
    // Its sort is by v only.
    let sql = "SELECT k, sum(1) OVER (PARTITION BY k ORDER BY v DESC) FROM t WHERE k >= 7";
    assert_eq!(answer(&ctx, sql).await.expect(sql), answer(&plain, sql).await.expect(sql));
    assert!(counted(&ctx, sql, "partitions_by_chunks").await > 0);
}

/// Chunks in any order lack the order that each of them has.
#[tokio::test]
async fn windows_that_rely_on_the_order_of_the_table_are_left_to_datafusion() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("o");
    let mut tables = vec!["SET datafusion.execution.parquet.max_row_group_size = 500".to_owned()];
    for file in 0..4 {
        let rows = format!("generate_series({}, {})", file * 1000, file * 1000 + 999);
        let rows = format!("SELECT value / 300 AS k, value AS s FROM {rows} ORDER BY value");
        tables.push(format!("COPY ({rows}) TO '{}/{file}.parquet' STORED AS PARQUET", path.display()));
    }
    let order = "WITH ORDER (k ASC, s ASC)";
    tables.push(format!("CREATE EXTERNAL TABLE o STORED AS PARQUET {order} LOCATION '{}/'", path.display()));
    tables.push("SET datafusion.optimizer.prefer_existing_sort = true".to_owned());
    let plain = declared(support::plain(Variant::Default), &tables).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let more = ["SET coscan.order_aware = 'always'".to_owned(), "SET coscan.load_control = false".to_owned()];
    let ctx = declared(support::cooperative(&engine, Variant::Default), &tables[5..]).await;
    let ctx = declared(ctx, &more).await;
    let sql = "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY s) FROM o";
    let plan = support::rows(&ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n");
    assert!(!plan.contains("SortExec") && !plan.contains("OrderedWindowExec"), "{plan}");
    assert_eq!(answer(&ctx, sql).await.expect(sql), answer(&plain, sql).await.expect(sql));
}

#[tokio::test]
async fn a_limit_begins_with_the_chunks_that_it_wants() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    let all = counted(&ctx, "SELECT sum(id) FROM events", "chunks_delivered").await;
    for order in ["ASC", "DESC NULLS LAST"] {
        let sql = format!("SELECT id, code FROM events ORDER BY id {order} LIMIT 3");
        let first = counted(&ctx, &sql, "chunks_delivered").await;
        assert!(first <= 4 && first < all, "{sql}: {first} of {all} chunks");
    }
    // Without the sort's filter no chunk is left out. With the filter alone, that depends on the machine's speed.
    let set = "SET datafusion.optimizer.enable_topk_dynamic_filter_pushdown = false";
    ctx.plain_sql(set).await.expect(set).collect().await.expect(set);
    let sql = "SELECT id, code FROM events ORDER BY id DESC NULLS LAST LIMIT 3";
    assert_eq!(counted(&ctx, sql, "chunks_delivered").await, all);
}

#[tokio::test]
async fn what_was_chosen_is_shown_with_the_reason() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    for (sql, shown) in [
        ("SELECT id, count(*) FROM events GROUP BY id", "OrderedAggregateExec: by chunks: "),
        (
            "SELECT many, count(*) FROM sales GROUP BY many",
            "OrderedAggregateExec: as below: chunks are not clustered by many",
        ),
        ("SELECT id, count(*) OVER (PARTITION BY id) FROM events", "OrderedWindowExec: by chunks: "),
    ] {
        let plan = support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
        assert!(plan.contains(shown), "{plan}");
        let plan = support::rows(&ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n");
        assert!(plan.contains("Exec: if chunks are clustered by "), "{plan}");
    }
}

/// An aggregation that is wanted in the declared order of the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wanted_in_order_is_taken_as_it_comes_where_others_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::with_seed(7);
    let layout = Layout {
        descending: false,
        nulls_first: false,
        nulls: false,
        shuffled: false,
        declared: true,
        files_backwards: false,
        key: Key::Long,
    };
    let tables = [write_table(folder.path(), "c", &mut rng, layout, 5)];
    let sql = "SELECT k, count(*), sum(v) FROM c GROUP BY k ORDER BY k";
    let plain = declared(support::plain(Variant::Default), &tables).await;
    let expected = answer(&plain, sql).await.expect(sql);
    // A buffer that keeps nothing that is not being read.
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = declared(support::cooperative(&engine, Variant::Default), &tables).await;
    let explained =
        async |sql: &str| support::rows(&ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
    let forget = async || {
        engine.set_buffer(1).expect("a small buffer");
        while engine.usage().total() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        engine.set_buffer(LARGE_BUFFER).expect("a large buffer");
    };

    let plan = support::rows(&ctx, &format!("EXPLAIN {sql}")).await.expect(sql).join("\n");
    let condition =
        "of it, and others read the table or half of what is read is in the buffer; otherwise as below";
    assert!(plan.contains(condition) && !plan.contains("SortExec"), "{plan}");

    // Alone, with an empty buffer.
    let plan = explained(sql).await;
    let shown = "as below: in order: 0 queries read the table, 0 % of what is read is in the buffer";
    assert!(plan.contains(shown), "{plan}");
    forget().await;
    assert_eq!(answer(&ctx, sql).await.expect(sql), expected);

    // Another query reads the table, each partition by a scan of its own.
    forget().await;
    let other = with_account(
        ctx.plain_sql("SELECT t FROM c").await.expect("a plan"),
        Arc::new(QueryAccount::new(7, 1)),
    );
    let mut other = other.execute_stream().await.expect("a stream");
    futures::StreamExt::next(&mut other).await.expect("rows").expect("rows");
    let plan = explained(sql).await;
    assert!(
        plan.contains("OrderedAggregateExec: by chunks: ") && plan.contains(", 1 query reads the table"),
        "{plan}"
    );
    assert_eq!(answer(&ctx, sql).await.expect(sql), expected);
    drop(other);

    // The data are in the buffer, and no other query reads.
    answer(&ctx, "SELECT sum(k), sum(v) FROM c").await.expect("rows");
    let plan = explained(sql).await;
    let shown = "0 queries read the table, 100 % of what is read is in the buffer";
    assert!(plan.contains("OrderedAggregateExec: by chunks: ") && plan.contains(shown), "{plan}");
    assert_eq!(answer(&ctx, sql).await.expect(sql), expected);
}
