//! Filters that joins and top-k operators fill in while the query runs reach the scan.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanVisitor, accept, collect};
use datafusion::prelude::SessionContext;

use crate::data::{EVENTS, EVENTS_PER_ROW_GROUP};
use crate::support;

const ROW_GROUPS: usize = EVENTS as usize / EVENTS_PER_ROW_GROUP;

/// The counters of all cooperative scans of a plan that has been run.
struct Counters<'a> {
    name: &'a str,
    table: &'a str,
    total: usize,
}

impl ExecutionPlanVisitor for Counters<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, plan: &dyn ExecutionPlan) -> Result<bool, Self::Error> {
        let shown = datafusion::physical_plan::displayable(plan).one_line().to_string();
        if shown.contains("CScan") && shown.contains(self.table) {
            let metrics = plan.metrics().unwrap_or_default();
            self.total += metrics.sum_by_name(self.name).map_or(0, |value| value.as_usize());
        }
        Ok(true)
    }
}

/// Runs a query and returns its plan, for its counters.
pub async fn run(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect(sql);
    let context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.expect(sql);
    collect(Arc::clone(&plan), context).await.expect(sql);
    plan
}

/// A counter of the cooperative scans whose files have `table` in their path.
pub fn counter(plan: &Arc<dyn ExecutionPlan>, table: &str, name: &str) -> usize {
    let mut counters = Counters { name, table, total: 0 };
    accept(plan.as_ref(), &mut counters).expect("a visit");
    counters.total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_join_prunes_the_probe_side() {
    let coscan = support::context(&[]).await;
    // The build side yields event ids 0, 21, ... 294, all in the first row group of events.
    let sql = "SELECT e.id FROM dims d JOIN events e ON e.id = d.first_event WHERE d.grp = 0";
    let plan = run(&coscan.ctx, sql).await;
    let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("HashJoinExec") && shown.contains("DynamicFilter"), "{shown}");
    assert_eq!(counter(&plan, "events", "chunks_delivered"), 1, "of {ROW_GROUPS}\n{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_filter_of_a_top_k_unneeds_chunks_while_the_scan_runs() {
    let coscan = support::context(&[]).await;
    let plan = run(&coscan.ctx, "SELECT id, kind FROM events ORDER BY id LIMIT 5").await;
    let (unneeded, delivered) = (
        counter(&plan, "events", "chunks_unneeded_by_dynamic_filter"),
        counter(&plan, "events", "chunks_delivered"),
    );
    assert!(unneeded > 0, "{unneeded} un-needed, {delivered} delivered");
    assert!(delivered < ROW_GROUPS, "{unneeded} un-needed, {delivered} delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_build_side_reads_nothing_of_the_probe_side() {
    let coscan = support::context(&[]).await;
    let sql = "SELECT e.id FROM dims d JOIN events e ON e.id = d.first_event WHERE d.label = 'no such label'";
    let plan = run(&coscan.ctx, sql).await;
    assert_eq!(counter(&plan, "events", "chunks_delivered"), 0);
}
