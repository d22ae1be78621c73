//! Random layouts of fragments, caches and queries: answers over a tier equal those of plain DataFusion.
//!
//! `COSCAN_SEEDS=A..B` chooses seeds; a failure prints its seed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coscan_tier::Tiers;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use fastrand::Rng;

use crate::folder::Hsm;
use crate::tables::{declare, over, plain, rows, write_file};

const TABLES: [&str; 3] = ["a", "b", "c"];

fn write_tables(rng: &mut Rng, folder: &Path) {
    for table in TABLES {
        let clustered = rng.bool();
        let files = rng.usize(1..=5);
        let mut next = 0;
        for file in 0..files {
            let count = *rng.choice([1, 7, 60, 200].iter()).unwrap();
            let ids: Vec<i64> = (0..count)
                .map(|_| {
                    next += 1;
                    if clustered { next } else { rng.i64(0..400) }
                })
                .collect();
            let mut value = |null: f64, most: i64| (rng.f64() >= null).then(|| rng.i64(0..most));
            let k: Vec<Option<i64>> = ids.iter().map(|_| value(0.1, 12)).collect();
            let v: Vec<Option<f64>> = ids.iter().map(|_| value(0.2, 1000).map(|v| v as f64 / 8.0)).collect();
            let s: Vec<String> = k.iter().map(|k| format!("s{}", k.unwrap_or(-1) % 5)).collect();
            let schema = Schema::new(vec![
                Field::new("id", DataType::Int64, true),
                Field::new("k", DataType::Int64, true),
                Field::new("v", DataType::Float64, true),
                Field::new("s", DataType::Utf8, true),
            ]);
            let batch = RecordBatch::try_new(
                Arc::new(schema),
                vec![
                    Arc::new(Int64Array::from(ids)),
                    Arc::new(Int64Array::from(k)),
                    Arc::new(Float64Array::from(v)),
                    Arc::new(StringArray::from(s)),
                ],
            );
            write_file(
                &folder.join(table).join(format!("{file}.parquet")),
                &[batch.unwrap()],
                rng.usize(5..100),
            );
        }
    }
}

fn table(rng: &mut Rng) -> &'static str {
    TABLES[rng.usize(0..TABLES.len())]
}

fn condition(rng: &mut Rng, of: &str) -> String {
    let number = rng.i64(0..400);
    match rng.u8(0..6) {
        0 => format!("{of}.id < {number}"),
        1 => format!("{of}.id BETWEEN {number} AND {}", number + 60),
        2 => format!("{of}.k IN (1, 3, {})", number % 12),
        3 => format!("{of}.v IS NOT NULL"),
        4 => format!("{of}.s <> 's{}' OR {of}.id > {number}", number % 5),
        _ => "true".to_owned(),
    }
}

/// A query with one correct answer for every order of rows.
fn query(rng: &mut Rng) -> String {
    let (left, right) = (table(rng), table(rng));
    let join = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"][rng.usize(0..4)];
    let on =
        ["x.id = y.id", "x.k = y.k AND x.id < y.id", "x.id < y.id AND x.k < 3", "x.id = y.id AND x.v > y.v"];
    let on = on[rng.usize(0..on.len())];
    let (of_x, of_y) = (condition(rng, "x"), condition(rng, "y"));
    match rng.u8(0..10) {
        0 => format!("SELECT * FROM {left} x WHERE {of_x}"),
        1 => format!("SELECT k, count(*), sum(id), min(s), count(v) FROM {left} x WHERE {of_x} GROUP BY k"),
        2 => format!("SELECT count(*), sum(id), max(v) FROM {left} x WHERE {of_x}"),
        3 => format!("SELECT x.id, x.k, y.s FROM {left} x {join} {right} y ON {on} WHERE {of_x}"),
        4 => format!(
            "SELECT count(*), sum(x.id), sum(y.k) FROM {left} x {join} {right} y ON {on} WHERE {of_x} AND {of_y}"
        ),
        5 => format!(
            "SELECT id, s FROM {left} x WHERE {of_x} UNION ALL SELECT id, s FROM {right} y WHERE {of_y}"
        ),
        6 => {
            format!("SELECT id FROM {left} x WHERE {of_x} ORDER BY id DESC, k, s, v LIMIT {}", rng.u8(1..30))
        }
        7 => format!("SELECT count(*) FROM (SELECT id FROM {left} x LIMIT {})", rng.u8(1..30)),
        8 => format!("SELECT * FROM {left} x WHERE x.id IN (SELECT y.id FROM {right} y WHERE {of_y})"),
        _ => format!(
            "SELECT DISTINCT s, k FROM {left} x WHERE NOT EXISTS (SELECT 1 FROM {right} y WHERE y.id = x.id AND {of_y})"
        ),
    }
}

async fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    write_tables(&mut rng, &files);
    let plain = plain();
    declare(&plain, &files.display().to_string(), &TABLES).await;
    let hsm = Hsm::archive(dir.path(), &files, rng.usize(1..4), Duration::ZERO, Duration::ZERO);
    let largest = largest(&files);
    let more = format!(
        "cache_bytes = '{}B'\npolicy = '{}'\nbuild_bytes = '{}'",
        largest * rng.u64(2..30),
        ["reorder", "prefetch", "no-prefetch", "fcfs"][rng.usize(0..4)],
        if rng.bool() { "1B" } else { "1GB" },
    );
    let tiers = Tiers::open([hsm.config("cache", &more)]).unwrap();
    let coscan = over(&tiers);
    let root = hsm.root().display().to_string();
    for table in TABLES {
        coscan_tier::keep_footers(&coscan.ctx, &tiers, &format!("{root}/{table}/"), |_, _| ()).await.unwrap();
    }
    declare(&coscan.ctx, &root, &TABLES).await;
    let queries: Vec<String> = (0..12).map(|_| query(&mut rng)).collect();
    let set = format!("SET datafusion.execution.target_partitions = {}", rng.choice([1, 4]).unwrap());
    for session in [&coscan.ctx, &plain] {
        session.plain_sql(&set).await.unwrap().collect().await.unwrap();
    }
    // Four queries run at a time, like users.
    for together in queries.chunks(4) {
        let found = together.iter().map(|sql| rows(&coscan.ctx, sql));
        for (sql, found) in together.iter().zip(futures::future::join_all(found).await) {
            let expected = rows(&plain, sql).await.unwrap();
            let found = found.unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}"));
            assert!(found == expected, "seed {seed}: {more}\n{sql}\nfound {found:?}\nexpected {expected:?}");
        }
    }
}

fn largest(folder: &Path) -> u64 {
    let mut folders = vec![folder.to_owned()];
    let mut most = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.metadata().unwrap() {
                meta if meta.is_dir() => folders.push(entry.path()),
                meta => most = most.max(meta.len()),
            }
        }
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_over_random_fragments_equal_plain_datafusion() {
    let seeds = match std::env::var("COSCAN_SEEDS") {
        Ok(text) => {
            let (from, to) = text.split_once("..").expect("COSCAN_SEEDS is A..B");
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => 0..8,
    };
    for seed in seeds {
        let played = tokio::time::timeout(Duration::from_secs(60), play(seed)).await;
        played.unwrap_or_else(|_| panic!("seed {seed} hangs"));
    }
}
