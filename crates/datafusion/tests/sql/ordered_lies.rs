//! Wrong statistics: chunks that declare disjoint ranges of keys and hold others. The answer is right, or an
//! error that names file and row group.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use coscan_upstream::PlainSql;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::ordered::declared;
use crate::support::{self, LARGE_BUFFER, Variant};

/// Writes row groups with these keys, and other range ends in the footer.
fn write(folder: &Path, name: &str, row_groups: &[Vec<i64>], lies: &[(i64, i64)]) -> String {
    let path = folder.join(format!("{name}.parquet"));
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled("k".into(), EnabledStatistics::Chunk);
    let batch = |keys: &[i64]| {
        let ones = Int64Array::from(vec![1; keys.len()]);
        let keys = Int64Array::from(keys.to_vec());
        RecordBatch::try_from_iter([("k", Arc::new(keys) as _), ("v", Arc::new(ones) as _)]).expect("columns")
    };
    let mut file = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut file, batch(&[]).schema(), Some(properties.build())).expect("a writer");
    for keys in row_groups {
        writer.write(&batch(keys)).expect("rows");
        writer.flush().expect("a row group");
    }
    writer.close().expect("a footer");
    let length = file.len();
    let footer = u32::from_le_bytes(file[length - 8..length - 4].try_into().expect("four bytes"));
    let footer = length - 8 - footer as usize..length - 8;
    for (truth, lie) in lies {
        let (truth, lie) = (truth.to_le_bytes(), lie.to_le_bytes());
        let places: Vec<_> = footer.clone().filter(|&at| file[at..].starts_with(&truth)).collect();
        assert!(!places.is_empty(), "no statistics to change");
        places.into_iter().for_each(|at| file[at..at + 8].copy_from_slice(&lie));
    }
    fs::write(&path, file).expect("a file");
    format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", path.display())
}

const AGGREGATION: &str = "SELECT k, count(*), sum(v) FROM c GROUP BY k";
const DISTINCT: &str = "SELECT DISTINCT k FROM c";
const JOIN: &str = "SELECT c.k, count(*), sum(d.v) FROM c JOIN d ON c.k = d.k GROUP BY c.k";
const SEMI_JOIN: &str = "SELECT k FROM d WHERE EXISTS (SELECT 1 FROM c WHERE c.k = d.k)";
const ANTI_JOIN: &str = "SELECT k FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE c.k = d.k)";
const FILTERED: &str = "SELECT k, count(*) FROM c WHERE k % 2 = 0 GROUP BY k";

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let mut rows = support::rows(ctx, sql).await.map_err(|error| error.to_string())?;
    rows.sort_unstable();
    Ok(rows)
}

#[tokio::test]
async fn a_lie_is_found_or_does_no_harm() {
    let range = |from: i64, to: i64| (from..to).collect::<Vec<_>>();
    let with = |keys: Vec<i64>, more: i64| keys.into_iter().chain([more]).collect::<Vec<_>>();
    // A key of the other chunk, above or below the declared range, and chunks that declare each other's
    // ranges.
    let above = (vec![with(range(1000, 1100), 1_501), range(1500, 1600)], vec![(1_501, 1_099)]);
    let below = (vec![range(1000, 1100), with(range(1500, 1600), 1_051)], vec![(1_051, 1_500)]);
    let swapped =
        vec![(1000, 501_000), (1099, 501_099), (1500, 1000), (1599, 1099), (501_000, 1500), (501_099, 1599)];
    let swapped = (vec![range(1000, 1100), range(1500, 1600)], swapped);
    let mut found = 0;
    for (row_groups, lies) in [above, below, swapped] {
        let folder = tempfile::tempdir().expect("a folder");
        let tables = [
            write(folder.path(), "c", &row_groups, &lies),
            write(folder.path(), "d", &[range(1000, 1550), range(1550, 1600)], &[]),
        ];
        // Nothing is pruned here: these have no predicates on the key.
        let honest = [write(folder.path(), "e", &row_groups, &[])];
        let plain = declared(support::plain(Variant::Default), &honest).await;
        let plain = declared(plain, &tables[1..]).await;
        for when in ["always", "auto", "never"] {
            let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
            let ctx = declared(support::cooperative(&engine, Variant::Default), &tables).await;
            let set = format!("SET coscan.order_aware = '{when}'");
            ctx.plain_sql(&set).await.expect(&set).collect().await.expect(&set);
            // Pruning by DataFusion with a join's bounds is not tested here.
            let set = "SET datafusion.optimizer.enable_dynamic_filter_pushdown = false";
            ctx.plain_sql(set).await.expect(set).collect().await.expect(set);
            for sql in [AGGREGATION, DISTINCT, JOIN, SEMI_JOIN, ANTI_JOIN, FILTERED] {
                let truth = answer(&plain, &sql.replace("FROM c", "FROM e c")).await.expect(sql);
                match answer(&ctx, sql).await {
                    Ok(rows) => assert_eq!(rows, truth, "{when}: {sql}: {lies:?}"),
                    Err(error) => {
                        let names = error.contains("c.parquet: row group ") && error.contains("order_aware");
                        assert!(names && when != "never", "{when}: {sql}: {error}");
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found >= 15, "{found} lies were found");
}
