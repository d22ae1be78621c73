//! Aggregations that read the shared arrays of a scan: which are, and when they are handed over. That their results are
//! right is shown with all other queries, in `equivalence`.

use crate::support::{self, LARGE_BUFFER, Variant};

async fn explained(what: &str, sql: &str) -> String {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    support::rows(&ctx, &format!("{what} {sql}")).await.expect(sql).join("\n")
}

#[tokio::test]
async fn sums_counts_and_averages_are_made_at_the_scan() {
    for sql in [
        "SELECT sum(price), count(*), avg(rate) FROM sales",
        "SELECT region, sum(price * (1 - rate)), count(rate) FROM sales WHERE price < 5 GROUP BY region",
        "SELECT day, open, sum(count) FROM sales GROUP BY day, open",
    ] {
        let plan = explained("EXPLAIN", sql).await;
        assert!(plan.contains("ScanAggregateExec: as AggregateExec"), "{sql}\n{plan}");
        assert!(plan.contains("CScan: policy=relevance"), "{sql}\n{plan}");
        assert!(!plan.contains("FilterExec"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn everything_else_is_left_to_datafusion() {
    for sql in [
        "SELECT sum(long) FROM sales",
        "SELECT region, max(price) FROM sales GROUP BY region",
        "SELECT sum(DISTINCT price) FROM sales",
        "SELECT sum(price) FILTER (WHERE open) FROM sales",
        "SELECT upper(region), sum(price) FROM sales GROUP BY 1",
        "SELECT region, day, sum(price) FROM sales GROUP BY ROLLUP (region, day)",
        "SELECT sum(s.price) FROM sales s JOIN dims ON many = dim_id",
    ] {
        let plan = explained("EXPLAIN", sql).await;
        assert!(plan.contains("CScan") && !plan.contains("ScanAggregateExec"), "{sql}\n{plan}");
    }
}

/// How many partitions DataFusion's own aggregation took over.
async fn handed_over(sql: &str) -> u32 {
    let plan = explained("EXPLAIN ANALYZE", sql).await;
    let (_, rest) = plan.split_once("partitions_handed_over=").expect("the counter");
    rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

#[tokio::test]
async fn what_is_too_much_is_handed_over() {
    assert_eq!(
        handed_over("SELECT day, sum(price), sum(wild) FROM sales WHERE sale < 4200 GROUP BY day").await,
        0
    );
    let values = "SELECT day, sum(wild * price) FROM sales GROUP BY day";
    assert!(handed_over(values).await > 0, "values that 64 bits may not hold");
    // One partition, so that it meets all groups.
    let groups = "SELECT many, sum(price) FROM sales GROUP BY many";
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::session(&engine, Variant::Default).await;
    assert_eq!(support::rows(&ctx, groups).await.expect(groups).len(), 6000);
}
