//! Filters and groups over strings, with and without the dictionary of their chunk, alone and with shared
//! answers of other queries. Answers are those of plain DataFusion.

use std::path::Path;
use std::sync::Arc;

use coscan_core::registry;
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use fastrand::Rng;
use futures::StreamExt;
use futures::future::join_all;

use crate::data::{row_groups, write};
use crate::support::{self, LARGE_BUFFER, Variant, counter, sorted_rows as rows, with_table};

const ROWS: usize = 6000;
const FILES: usize = 4;

/// Strings of few values, short and long; of many values; all distinct. In two columns about every twentieth
/// is null.
fn table(version: u64) -> RecordBatch {
    let mut rng = Rng::with_seed(version);
    let mut strings = |null: bool, of: &dyn Fn(&mut Rng, usize) -> String| -> ArrayRef {
        let string = |row| (!null || rng.u8(..20) > 0).then(|| of(&mut rng, row));
        Arc::new((0..ROWS).map(string).collect::<StringArray>())
    };
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("id", Arc::new((0..ROWS as i64).collect::<Int64Array>()), false),
        (
            "kind",
            strings(true, &|rng, _| ["a", "b", "", "a longer name of a kind"][rng.usize(..4)].into()),
            true,
        ),
        ("city", strings(false, &|rng, _| format!("city number {} of many", rng.u8(..90))), false),
        ("word", strings(true, &|rng, _| format!("{:x}", rng.u16(..700))), true),
        ("unique", strings(false, &|rng, row| format!("{:x} and {row}", rng.u64(..))), false),
        ("n", Arc::new((0..ROWS as i64).map(|row| Some(row * 31 % 17)).collect::<Int64Array>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

/// Files of which one has no dictionaries, and one abandons most of them in the middle.
fn write_version(folder: &Path, version: u64) {
    let rows = ROWS / FILES;
    for file in 0..FILES {
        let some = table(version).slice(file * rows, rows);
        let properties = row_groups(1000)
            .set_dictionary_enabled(file != 1)
            .set_column_dictionary_enabled("unique".into(), false)
            .set_write_batch_size(64);
        let properties = if file == 2 { properties.set_dictionary_page_size_limit(500) } else { properties };
        write(&folder.join(format!("{file}.parquet")), &some, properties.build());
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_version(folder.path(), 0);
    folder
}

async fn session(engine: &Engine, folder: &tempfile::TempDir, variant: Variant) -> SessionContext {
    with_table(support::cooperative(engine, variant), folder).await
}

fn engine() -> Engine {
    support::engine(support::policy("relevance"), LARGE_BUFFER)
}

/// A condition on the columns.
fn condition(rng: &mut Rng, depth: usize) -> String {
    let column = ["kind", "city", "word", "unique"][rng.usize(..4)];
    let constant = |rng: &mut Rng| match rng.u8(..5) {
        0 => "a".to_owned(),
        1 => "a longer name of a kind".to_owned(),
        2 => format!("city number {} of many", rng.u8(..95)),
        3 => format!("{:x}", rng.u16(..700)),
        _ => String::new(),
    };
    let pattern = |rng: &mut Rng| {
        let pieces = ["a", "1", "%", "%", "_", "of", "number", "ity", "7"];
        (0..rng.usize(1..5)).map(|_| pieces[rng.usize(..pieces.len())]).collect::<String>()
    };
    let not = if rng.bool() { "NOT " } else { "" };
    match rng.u8(..12) {
        0..2 => format!("{column} = '{}'", constant(rng)),
        2 => format!("{column} {} '{}'", ["<", ">=", "<>"][rng.usize(..3)], constant(rng)),
        3..6 => format!("{column} {not}LIKE '{}'", pattern(rng)),
        6 => format!("{column} {not}IN ('{}', '{}')", constant(rng), constant(rng)),
        7 => format!("{column} IS {not}NULL"),
        8 => {
            let op = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"][rng.usize(..7)];
            // Also values beyond the bits in which the column comes.
            let beyond = [-5_000_000_000, -129, 127, 128, 300, 40_000];
            format!("n {op} {}", if rng.bool() { rng.i64(0..17) } else { beyond[rng.usize(..6)] })
        }
        9 => format!("length({column}) > {}", rng.u8(..20)),
        10 if depth > 0 => format!("({} OR {})", condition(rng, depth - 1), condition(rng, depth - 1)),
        _ if depth > 0 => format!("{} AND {}", condition(rng, depth - 1), condition(rng, depth - 1)),
        _ => format!("id >= {}", rng.usize(..ROWS)),
    }
}

/// Queries over the rows that pass.
const ASKED: [&str; 8] = [
    "SELECT kind, count(*) AS a, sum(n) AS b, count(word) AS c FROM t WHERE @ GROUP BY kind",
    "SELECT city, kind, sum(n) AS a, sum(id) AS b FROM t WHERE @ GROUP BY city, kind",
    "SELECT word, count(*) AS a FROM t WHERE @ GROUP BY word",
    "SELECT unique, kind FROM t WHERE @",
    "SELECT count(DISTINCT city) AS a, min(word) AS b, max(unique) AS c FROM t WHERE @",
    "SELECT upper(kind) AS k, count(*) AS a FROM t WHERE @ GROUP BY upper(kind)",
    "SELECT a.id, b.city FROM t a JOIN t b ON a.word = b.word AND a.id = b.id WHERE @",
    "SELECT count(*) AS a FROM t WHERE @",
];

fn with(asked: &str, condition: &str) -> String {
    let of_a = |condition: &str| {
        let columns = ["kind", "city", "word", "unique", "n ", "id "];
        columns
            .iter()
            .fold(condition.to_owned(), |condition, column| condition.replace(column, &format!("a.{column}")))
    };
    let condition = if asked.contains("JOIN") { of_a(condition) } else { condition.to_owned() };
    asked.replace('@', &condition)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_plain_datafusion() {
    let folder = folder();
    let plain = with_table(support::plain(Variant::Default), &folder).await;
    let mut some_rows = 0;
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let conditions = [condition(&mut rng, 2), condition(&mut rng, 1)];
        let asked: Vec<String> = ASKED.iter().map(|asked| with(asked, &conditions[rng.usize(..2)])).collect();
        let expected = join_all(asked.iter().map(|sql| rows(&plain, sql))).await;
        some_rows += expected.iter().filter(|rows| rows.len() > 1).count();
        let policies: Vec<_> = registry::sharing().collect();
        let engine = support::engine(policies[rng.usize(..policies.len())], LARGE_BUFFER);
        let variant = [Variant::Default, Variant::Single, Variant::NoWorkStealing][rng.usize(..3)];
        let ctx = session(&engine, &folder, variant).await;
        let together = asked.iter().map(|sql| {
            let (ctx, sql) = (ctx.clone(), sql.clone());
            tokio::spawn(async move { rows(&ctx, &sql).await })
        });
        for ((sql, expected), found) in asked.iter().zip(&expected).zip(join_all(together).await) {
            assert_eq!(&found.expect("a query"), expected, "seed {seed}, together: {sql}");
        }
        for (sql, expected) in asked.iter().zip(&expected) {
            assert_eq!(&rows(&ctx, sql).await, expected, "seed {seed}, alone: {sql}");
        }
    }
    assert!(some_rows > 150, "{some_rows} answers of several rows");
}

/// A query in progress that makes no progress. It has read a slice.
async fn held(ctx: &SessionContext, condition: &str) -> SendableRecordBatchStream {
    let sql = format!("SELECT id FROM t WHERE {condition}");
    let plan = ctx.plain_sql(&sql).await.expect(&sql).create_physical_plan().await.expect(&sql);
    let mut rows = plan.execute(0, ctx.task_ctx()).expect(&sql);
    rows.next().await.expect("rows").expect("rows");
    rows
}

/// Returns how many answers about slices a query takes from other queries, and how many it makes for them.
async fn shared(ctx: &SessionContext, sql: &str) -> (usize, usize) {
    let shown = support::rows(ctx, &format!("EXPLAIN ANALYZE {sql}")).await.expect(sql).join("\n");
    (counter(&shown, "filter_answers_taken"), counter(&shown, "filter_answers_made"))
}

fn counting(condition: &str) -> String {
    format!("SELECT count(*) AS a FROM t WHERE {condition}")
}

/// Unique values have no dictionary. Slices of 256 rows: four of each row group of 1000 and two of each of
/// 500.
const SLICES: usize = 24;

const PATTERN: &str = "unique LIKE '%1%and%3%'";

#[tokio::test]
async fn answers_are_found_while_somebody_may_want_them_and_taken() {
    let folder = folder();
    let engine = engine();
    let ctx = session(&engine, &folder, Variant::Single).await;
    let asked = counting(PATTERN);
    assert_eq!(shared(&ctx, &asked).await, (0, 0), "nobody else");
    let other = held(&ctx, PATTERN).await;
    assert_eq!(shared(&ctx, &asked).await, (0, SLICES));
    assert_eq!(shared(&ctx, &asked).await, (SLICES, 0));
    let few = counting(&format!("n = 3 AND {PATTERN}"));
    assert_eq!(shared(&ctx, &few).await, (SLICES, 0), "of all rows, whichever are asked about");
    assert_eq!(shared(&ctx, &counting("unique LIKE '%1%and%4%'")).await, (0, 0), "another pattern");
    let budget = engine.usage().budget;
    assert!(budget < engine.buffer_bytes(), "answers are in the ledger");
    drop(other);
    rows(&ctx, "SET coscan.share_filters = false").await;
    let _other = held(&ctx, PATTERN).await;
    let shown = support::rows(&ctx, &format!("EXPLAIN ANALYZE {asked}")).await.expect("a plan").join("\n");
    assert!(shown.contains("CScan") && !shown.contains("filter_answers"), "{shown}");
}

#[tokio::test]
async fn where_few_rows_are_left_nothing_is_found_for_others() {
    let folder = folder();
    let ctx = session(&engine(), &folder, Variant::Single).await;
    let _other = held(&ctx, PATTERN).await;
    assert_eq!(shared(&ctx, &counting(&format!("n = 3 AND {PATTERN}"))).await, (0, 0));
}

#[tokio::test]
async fn a_file_that_was_replaced_has_answers_of_its_own() {
    let folder = folder();
    let engine = engine();
    let ctx = session(&engine, &folder, Variant::Single).await;
    let _other = held(&ctx, PATTERN).await;
    assert_eq!(shared(&ctx, &counting(PATTERN)).await, (0, SLICES));
    write_version(folder.path(), 50);
    // A session that has not listed the files yet.
    let fresh = session(&engine, &folder, Variant::Single).await;
    let plain = with_table(support::plain(Variant::Default), &folder).await;
    for _ in 0..2 {
        assert_eq!(rows(&fresh, &counting(PATTERN)).await, rows(&plain, &counting(PATTERN)).await);
    }
    assert_eq!(shared(&fresh, &counting(PATTERN)).await, (SLICES, 0), "of the new version");
}

/// The same text of a condition with other columns or other types.
#[tokio::test]
async fn what_differs_is_not_shared() {
    let folder = folder();
    let other_folder = tempfile::tempdir().expect("a folder");
    // The same names at other positions.
    let id: ArrayRef =
        Arc::new((0..ROWS).map(|row| Some(format!("{row} and 1 and 3"))).collect::<StringArray>());
    let other = table(3);
    let unique = Arc::clone(other.column_by_name("unique").expect("a column"));
    let columns = [("id", id, false), ("unique", unique, false)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    write(
        &other_folder.path().join("0.parquet"),
        &batch,
        row_groups(1000).set_dictionary_enabled(false).build(),
    );
    let declare = format!(
        "CREATE EXTERNAL TABLE other STORED AS PARQUET LOCATION '{}/'",
        other_folder.path().display()
    );
    let ctx = session(&engine(), &folder, Variant::Single).await;
    let plain = with_table(support::plain(Variant::Default), &folder).await;
    for session in [&ctx, &plain] {
        rows(session, &declare).await;
    }
    let asked = [
        counting(PATTERN),
        counting(PATTERN).replace("FROM t", "FROM other"),
        counting(PATTERN).replace("FROM t", "FROM other").replace("unique LIKE", "id LIKE"),
        counting(&PATTERN.replace("unique", "city")),
        counting(&PATTERN.replace("LIKE", "NOT LIKE")),
    ];
    let _held = held(&ctx, PATTERN).await;
    for _ in 0..2 {
        for sql in &asked {
            assert_eq!(rows(&ctx, sql).await, rows(&plain, sql).await, "{sql}");
        }
    }
}
