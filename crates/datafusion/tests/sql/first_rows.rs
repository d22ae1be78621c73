//! The first rows of an order, where statistics say of later row groups that all their rows pass the filter.
//!
//! Such a row group alone has as many rows as the limit wants, and DataFusion 55 reads no other one if any rows will do. Here
//! the order says which.

use coscan_datafusion::CoscanContext;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;

/// Rows of a row group and of a file, and the number of files.
const SIZES: (usize, usize, usize) = (10, 100, 4);

#[tokio::test]
async fn limits_over_an_order_take_the_first_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = SessionContext::new();
    let (group, file, files) = SIZES;
    for number in 0..files {
        let path = folder.path().join(format!("{number}.parquet"));
        let (first, last) = (number * file, (number + 1) * file - 1);
        let copy = format!(
            "COPY (SELECT value AS i FROM generate_series({first}, {last}) ORDER BY i) TO '{}' STORED AS PARQUET \
             OPTIONS (max_row_group_size {group})",
            path.display()
        );
        plain.plain_sql(&copy).await.expect("a statement").collect().await.expect("a file");
    }
    for (pushes, partitions) in [(false, 2), (true, 1), (true, 2), (true, 3)] {
        let coscan = CoscanContext::builder().set("small_table_bytes", "0").target_partitions(partitions);
        let coscan = coscan.build().expect("a context");
        let table = format!(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET WITH ORDER (i ASC) LOCATION '{}'",
            folder.path().display()
        );
        let set = format!("SET datafusion.execution.parquet.pushdown_filters = {pushes}");
        for statement in [set, table] {
            coscan.sql(&statement).await.expect("a statement").collect().await.expect("an answer");
        }
        for (filter, limit, expected) in [
            ("i <> 4", 4, vec![0, 1, 2, 3]),
            ("i NOT IN (0, 1, 4)", 1, vec![2]),
            ("i > 7", 5, vec![8, 9, 10, 11, 12]),
            ("i < 103 AND i <> 0", 2, vec![1, 2]),
        ] {
            let sql = format!("SELECT i FROM t WHERE {filter} ORDER BY i LIMIT {limit}");
            let batches = coscan.sql(&sql).await.expect("a statement").collect().await.expect("an answer");
            let rows = batches
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            assert_eq!(
                rows.collect::<Vec<_>>(),
                expected,
                "{sql} with pushdown {pushes}, {partitions} partitions"
            );
        }
    }
}
