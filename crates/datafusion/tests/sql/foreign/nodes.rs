//! Nodes that neither DataFusion nor coscan defines.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use coscan_datafusion::{CoscanOptions, install};
use coscan_engine::Engine;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use super::table::{Odd, OddTable};
use crate::data;
use crate::support::{self, LARGE_BUFFER, Variant};

/// The node's operation on the first column of its input, which has numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Adds the row's number in its partition, in the order of arrival, times this factor.
    Number(i64),
    /// Adds this number.
    Add(i64),
}

/// A foreign node.
#[derive(Clone, Debug)]
pub struct ForeignExec {
    pub input: Arc<dyn ExecutionPlan>,
    pub does: Does,
    /// Whether it is an error to give it other inputs.
    pub refuses: bool,
}

impl DisplayAs for ForeignExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        // The name of a node of DataFusion.
        f.write_str("ProjectionExec: expr=[n@0 as n]")
    }
}

impl ExecutionPlan for ForeignExec {
    fn name(&self) -> &str {
        "ProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.refuses && !Arc::ptr_eq(&children[0], &self.input) {
            return plan_err!("this input or none");
        }
        Ok(Arc::new(ForeignExec { input: children.remove(0), ..ForeignExec::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_children_if_necessary(self, children)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, does, next) = (self.schema(), self.does, AtomicI64::new(0));
        let made = move |batch: Result<RecordBatch>| -> Result<RecordBatch> {
            let batch = batch?;
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            let add = |number: i64| match does {
                Does::Number(times) => number + next.fetch_add(1, Ordering::Relaxed) * times,
                Does::Add(more) => number + more,
            };
            let made: ArrayRef =
                Arc::new(Int64Array::from_iter_values(numbers.values().iter().map(|n| add(*n))));
            let columns = std::iter::once(made).chain(batch.columns()[1..].iter().cloned()).collect();
            Ok(RecordBatch::try_new(batch.schema(), columns)?)
        };
        let made = self.input.execute(partition, context)?.map(made);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, made)))
    }
}

/// Inserts a node below partial aggregations, under the name of a rule of DataFusion.
#[derive(Debug)]
struct Inserts(Does);

impl PhysicalOptimizerRule for Inserts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        if plan.is::<AggregateExec>() && children.len() == 1 && !children[0].is::<AggregateExec>() {
            let input = Arc::clone(&children[0]);
            let foreign: Arc<dyn ExecutionPlan> =
                Arc::new(ForeignExec { input, does: self.0, refuses: false });
            return replace_children_if_necessary(plan, vec![foreign]);
        }
        let children = children.into_iter().map(|child| self.optimize(child, &ConfigOptions::default()));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    fn name(&self) -> &str {
        "ProjectionPushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_numbers_rows_gets_them_in_their_order() {
    let odd = Odd { node: Some((Does::Number(1_000_000), false)), ..Odd::default() };
    let table = OddTable::write(&[(0, 3000), (10_000, 2000), (20_000, 2500)], odd);
    for variant in [Variant::Single, Variant::Default] {
        for policy in ["relevance", "elevator", "attach"] {
            let engine = support::engine(support::policy(policy), LARGE_BUFFER);
            let ctx = support::cooperative(&engine, variant);
            ctx.register_table("t", table.provider()).expect("a table");
            // Another query has chunks in memory, from the middle on, which could be delivered first.
            support::rows(&ctx, "SELECT sum(n) FROM t WHERE n >= 21000").await.expect("rows");
            for sql in [
                "SELECT n FROM t ORDER BY n",
                "SELECT n FROM t WHERE n % 7 > 2 ORDER BY n",
                "SELECT sum(n) FROM t",
            ] {
                let rows = support::rows(&ctx, sql).await.expect(sql);
                assert_eq!(rows, table.expected(sql), "{variant:?} {policy} {sql}");
            }
            assert!(engine.stats().bytes_read > 0, "the scan is cooperative");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_refuses_other_inputs_keeps_its_own() {
    let odd = Odd { node: Some((Does::Number(1), true)), ..Odd::default() };
    let table = OddTable::write(&[(0, 3000)], odd);
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    ctx.register_table("t", table.provider()).expect("a table");
    let sql = "SELECT sum(n) FROM t";
    assert_eq!(support::rows(&ctx, sql).await.expect(sql), table.expected(sql));
    assert_eq!(engine.stats().bytes_read, 0, "DataFusion reads it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_with_foreign_nodes_are_not_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    data::write(&folder.path().join("a.parquet"), &data::numbers(0, 20_000), data::row_groups(500).build());
    let engine: Engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let session = async |add: i64| {
        let mut config = support::config(Variant::Single);
        let mut options = CoscanOptions::default();
        options.small_table_bytes = 0;
        config.options_mut().extensions.insert(options);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let builder = builder.with_physical_optimizer_rule(Arc::new(Inserts(Does::Add(add))));
        let ctx = SessionContext::new_with_state(install(builder, engine.clone()).build());
        support::with_table(ctx, &folder).await
    };
    let (one, two) = (session(0).await, session(1).await);
    let sql = "SELECT sum(n) FROM t WHERE n >= 0";
    for _ in 0..20 {
        let (one, two) = tokio::join!(support::number(&one, sql), support::number(&two, sql));
        assert_eq!((one, two), (199_990_000, 200_010_000));
    }
}
