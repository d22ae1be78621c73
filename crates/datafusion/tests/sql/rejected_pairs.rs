//! Joins that look at many pairs of rows and make none leave threads to other queries, and end when they are stopped.

use std::time::Duration;

use coscan_datafusion::{CoscanContext, Interrupt, install_interrupts};

/// Joins that look at some 10^11 pairs and make none.
const JOINS: [&str; 6] = [
    "SELECT count(*) FROM t a CROSS JOIN t b WHERE a.n + b.n = -1",
    "SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.n + b.n = -1",
    "SELECT count(*) FROM t a FULL JOIN t b ON a.k = b.k AND a.n + b.n = -1",
    "SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE a.n + b.n = -1)",
    "SELECT count(*) FROM t a WHERE a.k IN (SELECT b.k FROM t b WHERE b.n >= 0)",
    "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE a.k = b.k AND a.n <> b.n AND a.n + b.n < 0)",
];

/// Ends a wait that would otherwise be for hours.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_queries_go_on_beside_joins_that_make_no_rows() {
    install_interrupts();
    let coscan = CoscanContext::builder().target_partitions(2).build().expect("a session");
    let table = "CREATE TABLE t AS SELECT value AS n, value % 3 AS k FROM generate_series(1, 600000)";
    coscan.sql(table).await.expect("a table").collect().await.expect("its rows");
    for sql in JOINS {
        let interrupt = Interrupt::default();
        let session = coscan.clone();
        let join = interrupt.guard(async move { session.sql(sql).await?.collect().await });
        let join = tokio::spawn(join);
        tokio::time::sleep(Duration::from_millis(300)).await;
        for _ in 0..5 {
            let quick = async { coscan.sql("SELECT sum(n) FROM t WHERE k = 1").await?.collect().await };
            let quick = tokio::time::timeout(PATIENCE, quick).await;
            assert!(quick.expect(sql).is_ok(), "{sql}");
        }
        assert!(!join.is_finished(), "the join has to be long for this test: {sql}");
        interrupt.stop();
        let ended = tokio::time::timeout(PATIENCE, join).await.expect(sql).expect("no panic");
        assert!(ended.unwrap_err().to_string().contains("stopped"), "{sql}");
    }
}
