//! The root of a shared subplan. The first use of a plan that is executed runs for all.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use coscan_upstream::one_input::{OneInput, OneInputExec, one_partition};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricType, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{Distribution, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::lock::lock;
use crate::made_once::MadeOnce;

/// Limit of the rows that are kept for the other uses, in bytes. Beyond it, only the use that began gets
/// them, and the others run.
const BYTES_MAX: usize = 64 << 20;

/// A subplan that occurs several times in a plan.
#[derive(Debug)]
pub(super) struct Subplan {
    number: usize,
    uses: usize,
    run: Mutex<Option<Entered>>,
}

/// The run of an execution that some uses have not entered yet.
#[derive(Debug)]
struct Entered {
    execution: Weak<TaskContext>,
    run: Run,
    to_come: usize,
}

impl Subplan {
    /// Creates a subplan with two uses or more.
    pub(super) fn new(number: usize, uses: usize) -> Self {
        Subplan { number, uses, run: Mutex::default() }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns the run of this execution, and whether another use has begun it.
    fn enter(&self, context: &Arc<TaskContext>) -> (Run, bool) {
        let mut entered = lock(&self.run);
        if let Some(of) = entered.as_mut().filter(|of| of.execution.as_ptr() == Arc::as_ptr(context)) {
            of.to_come -= 1;
            let run = Run::clone(&of.run);
            if of.to_come == 0 {
                *entered = None;
            }
            return (run, true);
        }
        let run = Run::default();
        // This replaces the run of an execution that has ended without some of its uses.
        *entered = Some(Entered {
            execution: Arc::downgrade(context),
            run: Run::clone(&run),
            to_come: self.uses - 1,
        });
        (run, false)
    }
}

/// One run of a subplan, with its rows if they may be kept. Every waiting use drives it.
type Run = Arc<MadeOnce<Option<Arc<Rows>>>>;

/// All rows of a run, and their memory.
struct Rows {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Runs `input` to its end. Returns `None` if its rows exceed the limit or the available memory. Then they
/// are in `large`.
async fn run_to_end(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    large: Arc<Mutex<Option<Batches>>>,
) -> Result<Option<Arc<Rows>>> {
    let memory = MemoryConsumer::new("SharedSubplan").register(context.memory_pool());
    let mut rest = input.execute(0, context)?;
    let (mut batches, mut bytes) = (Vec::new(), RecordBatchMemoryCounter::new());
    while let Some(batch) = rest.next().await.transpose()? {
        let more = bytes.count_batch(&batch);
        batches.push(batch);
        if bytes.memory_usage() > BYTES_MAX || memory.try_grow(more).is_err() {
            *lock(&large) = Some(stream::iter(batches.into_iter().map(Ok)).chain(rest).boxed());
            return Ok(None);
        }
    }
    Ok(Some(Arc::new(Rows { batches, _memory: memory })))
}

/// One use of a shared subplan.
pub(super) struct SharedSubplan {
    /// With one partition.
    input: Arc<dyn ExecutionPlan>,
    subplan: Arc<Subplan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedSubplan {
    pub(super) fn exec(input: Arc<dyn ExecutionPlan>, subplan: Arc<Subplan>) -> Arc<OneInputExec<Self>> {
        let input = one_partition(input);
        // Any of the uses may run, and each may be planned in its own way. So the order of rows is unknown.
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.properties().boundedness,
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        Arc::new(OneInputExec(SharedSubplan { input, subplan, properties, metrics }))
    }
}

impl OneInput for SharedSubplan {
    const NAME: &'static str = "SharedSubplanExec";
    const KEEPS_ORDER: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn distribution(&self) -> Distribution {
        Distribution::SinglePartition
    }

    fn describe(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, ": subplan={}", self.subplan.number)
    }

    fn over(node: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        SharedSubplan::exec(input, Arc::clone(&node.0.subplan))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (run, joined) = self.subplan.enter(&context);
        if joined {
            let joined = MetricBuilder::new(&self.metrics).with_type(MetricType::Summary);
            joined.counter("joined", partition).add(1);
        }
        let input = Arc::clone(&self.input);
        let rows = async move {
            // The use that begins has executed its input, which cannot be executed again.
            let large = Arc::default();
            let begin = || run_to_end(Arc::clone(&input), Arc::clone(&context), Arc::clone(&large));
            if let Some(rows) = run.get(begin).await? {
                let batches = (0..rows.batches.len()).map(move |at| Ok(rows.batches[at].clone()));
                return Ok(stream::iter(batches).boxed());
            }
            let large = lock(&large).take();
            large.map_or_else(|| input.execute(0, context).map(StreamExt::boxed), Ok)
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::once(rows).try_flatten().map(move |batch| batch.record_output(&baseline));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_plan::common;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use futures::FutureExt;

    use super::*;

    /// An input that cannot be executed twice, with rows that are too large to keep.
    fn input() -> Arc<dyn ExecutionPlan> {
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![0; BYTES_MAX / 8 + 1]));
        let batch = RecordBatch::try_from_iter([("a", rows)]).expect("a batch");
        let schema = batch.schema();
        let source = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).expect("rows");
        Arc::new(RepartitionExec::try_new(source, Partitioning::RoundRobinBatch(1)).expect("an exchange"))
    }

    #[tokio::test]
    async fn large_rows_go_to_the_use_that_began() {
        let subplan = Arc::new(Subplan::new(1, 2));
        let context = Arc::new(TaskContext::default());
        let [mut first, second] = [(); 2].map(|()| {
            let exec = SharedSubplan::exec(input(), Arc::clone(&subplan));
            exec.execute(0, Arc::clone(&context)).expect("a stream")
        });
        assert!(first.next().now_or_never().is_none(), "it has begun and waits");
        for rows in [second, first] {
            let batches = common::collect(rows).await.expect("rows");
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), BYTES_MAX / 8 + 1);
        }
    }
}
