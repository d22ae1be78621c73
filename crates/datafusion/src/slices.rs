//! Small batches for aggregations with many grouping sets.
//!
//! An aggregation adds a batch to all of its grouping sets before it reserves memory and before it yields. A batch of
//! 8192 rows makes 33 million groups in 4096 sets. Here the batches of such an aggregation are split, so that it adds a
//! bounded number of rows between two reservations.

use std::fmt;
use std::sync::Arc;

use coscan_upstream::one_input::{OneInput, OneInputExec, with_children};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::interrupt::check_interrupt;

/// Rows that an aggregation adds to its grouping sets at once, counted once per set.
const ROWS_IN_SETS: usize = 32 << 10;

/// Splits the input of each aggregation with many grouping sets. Batches have up to `batch_rows` rows.
///
/// # Errors
///
/// If a node cannot be made again with another input.
pub(crate) fn sliced(plan: Arc<dyn ExecutionPlan>, batch_rows: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let slice = |node: Arc<dyn ExecutionPlan>| {
        let Some(of) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        let sets = of.group_expr().groups().len();
        let rows = (ROWS_IN_SETS / sets.max(1)).max(1);
        if of.mode().input_mode() != AggregateInputMode::Raw || sets < 2 || rows >= batch_rows {
            return Ok(Transformed::no(node));
        }
        let input: Arc<dyn ExecutionPlan> =
            Arc::new(OneInputExec(Slices { input: Arc::clone(of.input()), rows }));
        with_children(node, vec![input]).map(Transformed::yes)
    };
    plan.transform_up(slice).data()
}

/// Splits batches into slices of at most `rows` rows, and yields between slices.
struct Slices {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl OneInput for Slices {
    const NAME: &'static str = "SlicesExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn describe(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, ": rows={}", self.rows)
    }

    fn over(node: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(OneInputExec(Slices { input, rows: node.0.rows }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, rows) = (self.input.execute(partition, context)?, self.rows);
        let schema = input.schema();
        let slices = stream::try_unfold(
            (input, None),
            move |(mut input, rest): (_, Option<RecordBatch>)| async move {
                let batch = match rest {
                    Some(rest) => {
                        tokio::task::yield_now().await;
                        check_interrupt()?;
                        rest
                    }
                    None => match SendableRecordBatchStream::next(&mut input).await.transpose()? {
                        Some(batch) => batch,
                        None => return Ok(None),
                    },
                };
                let rest = batch.num_rows().checked_sub(rows).filter(|rest| *rest > 0);
                let rest = rest.map(|rest| batch.slice(rows, rest));
                let slice = if rest.is_some() { batch.slice(0, rows) } else { batch };
                Ok(Some((slice, (input, rest))))
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices)))
    }
}
