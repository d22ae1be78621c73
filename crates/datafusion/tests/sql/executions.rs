//! One plan executed again, in part, and several times at once: every execution sees every row once.

use std::sync::Arc;

use coscan_datafusion::{CoscanContext, with_account};
use coscan_engine::QueryAccount;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use futures::StreamExt;

use crate::data::EVENTS;
use crate::support;

/// A plan of several partitions over `events`.
async fn plan(coscan: &CoscanContext) -> Arc<dyn ExecutionPlan> {
    let frame = coscan.sql("SELECT id FROM events").await.expect("a frame");
    let plan = frame.create_physical_plan().await.expect("a plan");
    assert!(partitions(&plan) > 2);
    plan
}

fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

fn open(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> SendableRecordBatchStream {
    plan.execute(partition, Arc::clone(context)).expect("a stream")
}

async fn rows(streams: Vec<SendableRecordBatchStream>) -> i64 {
    let count = async |mut stream: SendableRecordBatchStream| {
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.expect("a batch").num_rows();
        }
        rows as i64
    };
    futures::future::join_all(streams.into_iter().map(count)).await.into_iter().sum()
}

async fn all_rows(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> i64 {
    let batches = collect(Arc::clone(plan), Arc::clone(context)).await.expect("all rows");
    batches.iter().map(|batch| batch.num_rows() as i64).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_that_take_turns_do_not_cross() {
    let coscan = support::context(&[]).await;
    let plan = plan(&coscan).await;
    let last = partitions(&plan) - 1;
    for shared_context in [false, true] {
        let first = coscan.ctx.task_ctx();
        let second = if shared_context { Arc::clone(&first) } else { coscan.ctx.task_ctx() };
        // One begins at the front, the other at the back.
        let mut streams = [Vec::new(), Vec::new()];
        for at in 0..=last {
            streams[0].push(open(&plan, at, &first));
            streams[1].push(open(&plan, last - at, &second));
        }
        let [a, b] = streams;
        let (a, b) = tokio::join!(rows(a), rows(b));
        assert_eq!((a, b), (EVENTS, EVENTS), "one context for both: {shared_context}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_after_one_that_was_given_up_is_whole() {
    let coscan = support::context(&[]).await;
    let plan = plan(&coscan).await;
    for polled in [false, true] {
        for shared_context in [false, true] {
            let context = coscan.ctx.task_ctx();
            let mut given_up = open(&plan, 1, &context);
            if polled {
                given_up.next().await.expect("a batch").expect("a batch");
            }
            drop(given_up);
            let next = if shared_context { context } else { coscan.ctx.task_ctx() };
            assert_eq!(
                all_rows(&plan, &next).await,
                EVENTS,
                "polled: {polled}, one context: {shared_context}"
            );
            assert_eq!(all_rows(&plan, &next).await, EVENTS, "once more");
        }
    }
    // One of another context, which is open all the time.
    let context = coscan.ctx.task_ctx();
    let open_all_along = open(&plan, 2, &context);
    assert_eq!(all_rows(&plan, &coscan.ctx.task_ctx()).await, EVENTS);
    let rest = (0..partitions(&plan)).filter(|&at| at != 2).map(|at| open(&plan, at, &context));
    let streams = std::iter::once(open_all_along).chain(rest).collect();
    assert_eq!(rows(streams).await, EVENTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_may_have_contexts_of_their_own_and_come_one_after_the_other() {
    let coscan = support::context(&[]).await;
    let plan = plan(&coscan).await;
    let each = (0..partitions(&plan)).map(|at| open(&plan, at, &coscan.ctx.task_ctx())).collect();
    assert_eq!(rows(each).await, EVENTS);
    let context = coscan.ctx.task_ctx();
    let mut sum = 0;
    for at in 0..partitions(&plan) {
        sum += rows(vec![open(&plan, at, &context)]).await;
    }
    assert_eq!(sum, EVENTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_told_apart_is_an_error() {
    let coscan = support::context(&[]).await;
    let plan = plan(&coscan).await;
    let context = coscan.ctx.task_ctx();
    let mut first: Vec<_> = (0..partitions(&plan)).map(|at| open(&plan, at, &context)).collect();
    first[0].next().await.expect("a batch").expect("a batch");
    let again = plan.execute(0, Arc::clone(&context));
    let error = again.err().expect("it is being read with this context").to_string();
    assert!(error.contains("task context"), "{error}");
    drop(first);
    assert_eq!(all_rows(&plan, &context).await, EVENTS);
}

/// Partitions are opened from tasks of their own, and still share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_one_execution_share_their_work() {
    let coscan = support::context(&[]).await;
    let plan = plan(&coscan).await;
    assert_eq!(all_rows(&plan, &coscan.ctx.task_ctx()).await, EVENTS);
    // A scan is counted by the partition that registered it.
    let metrics = plan.metrics().expect("metrics");
    let counted = metrics.iter().filter(|metric| metric.value().name() == "chunks_delivered");
    let scans = counted.filter(|metric| metric.value().as_usize() > 0).count();
    assert_eq!(scans, 1, "for {} partitions", partitions(&plan));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_scans_is_counted_on_its_account_alone() {
    let coscan = support::context(&[]).await;
    let counted = async |id| {
        let account = Arc::new(QueryAccount::new(id, 1));
        // A join and an aggregation: several kinds of scans.
        let sql = "SELECT sum(a.id) FROM events a JOIN (SELECT id, count(*) AS n FROM events GROUP BY id) b USING (id)";
        let frame = with_account(coscan.sql(sql).await.expect("a frame"), Arc::clone(&account));
        frame.collect().await.expect("rows");
        account.progress()
    };
    let before = coscan.engine.stats();
    let (one, other) = futures::join!(counted(1), counted(2));
    coscan.sql("SELECT sum(id) FROM events").await.expect("a frame").collect().await.expect("rows");
    let delivered = coscan.engine.stats().chunks_delivered - before.chunks_delivered;
    for progress in [&one, &other] {
        assert!(progress.scans >= 2 && progress.running == 0, "{progress:?}");
        assert!(progress.done.chunks_delivered > 0, "{progress:?}");
        assert!(progress.done.chunks_delivered <= progress.chunks_wanted, "{progress:?}");
    }
    let counted = one.done.chunks_delivered + other.done.chunks_delivered;
    assert!(counted < delivered, "the query without an account is on none: {counted} of {delivered}");
}
