//! The run of a distributed plan, and its repetition when a worker fails.
//!
//! A statement that has returned no row runs again on the workers that are left: after a failed connection, up to
//! [`RUNS_MAX`] times. After a refusal of memory it runs again when no other statement of this coordinator runs. The
//! last run is on this machine. The first rows are held until there are [`HELD_BYTES`] of them, or all, so that most
//! statements can run again until their end.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::busy::Running;
use crate::coordinator::Cluster;
use crate::division::distributed;
use crate::error::{SentError, arrived, gone};
use crate::scan::bytes_by_worker;

/// The most runs of a statement on workers.
const RUNS_MAX: u32 = 4;

/// Bytes of rows that are not returned while the statement may run again.
const HELD_BYTES: usize = 1 << 20;

/// The longest wait of a statement that runs alone.
const ALONE_WITHIN: Duration = Duration::from_secs(30);

/// The wait before another run, times the number of runs.
const WAIT: Duration = Duration::from_millis(100);

/// The time that a connection's failure may take to be noted after the statement's.
const NOTED_WITHIN: Duration = Duration::from_millis(300);

/// Begins the text of DataFusion's error when a worker did not get a plan in time.
const NO_PLAN: &str = "timed-out while waiting for the plan";

/// The root of a statement's plan.
pub(crate) struct Runs {
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    statement: Arc<Statement>,
    config: SessionConfig,
}

struct Statement {
    cluster: Arc<Cluster>,
    local: Arc<dyn QueryPlanner + Send + Sync>,
    logical: LogicalPlan,
    session: SessionState,
}

impl Runs {
    pub(crate) fn new(
        plan: Arc<dyn ExecutionPlan>,
        config: SessionConfig,
        cluster: &Arc<Cluster>,
        local: &Arc<dyn QueryPlanner + Send + Sync>,
        logical: &LogicalPlan,
        session: &SessionState,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let statement = Statement {
            cluster: Arc::clone(cluster),
            local: Arc::clone(local),
            logical: logical.clone(),
            session: session.clone(),
        };
        Runs { plan, properties: Arc::new(properties), statement: Arc::new(statement), config }
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for Runs {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterExec")
    }
}

impl ExecutionPlan for Runs {
    fn name(&self) -> &'static str {
        "ClusterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([plan]) = <[_; 1]>::try_from(children) else {
            return internal_err!("ClusterExec has one child");
        };
        let (properties, config) = (Arc::clone(&self.properties), self.config.clone());
        Ok(Arc::new(Runs { plan, properties, statement: Arc::clone(&self.statement), config }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ClusterExec has one partition, not {partition}");
        }
        let run = Run {
            statement: Arc::clone(&self.statement),
            context,
            next: Some((Arc::clone(&self.plan), self.config.clone())),
            alone: false,
            runs: 0,
            // The file of COPY is written once.
            held: (!matches!(self.statement.logical, LogicalPlan::Copy(_))).then(Held::default),
            current: None,
            turn: None,
        };
        let batches = futures::stream::unfold(run, async |mut run| {
            let next = run.next().await?;
            Some((next, run))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// The state of a statement's runs.
struct Run {
    statement: Arc<Statement>,
    context: Arc<TaskContext>,
    /// The plan of the next run.
    next: Option<(Arc<dyn ExecutionPlan>, SessionConfig)>,
    /// Whether the next run waits for all other statements.
    alone: bool,
    runs: u32,
    /// The rows of this run, until they are returned.
    held: Option<Held>,
    current: Option<Current>,
    /// Held while the statement may run again. A client that does not read then keeps no other statement waiting.
    turn: Option<Turn>,
}

#[derive(Default)]
struct Held {
    batches: VecDeque<RecordBatch>,
    bytes: usize,
    /// Whether they are returned. Then the statement cannot run again.
    is_free: bool,
}

/// A run.
struct Current {
    stream: SendableRecordBatchStream,
    begun: Instant,
    on_workers: bool,
    _running: Option<Running>,
}

/// The permission to run beside other statements, or alone.
enum Turn {
    Beside(#[expect(dead_code, reason = "held")] OwnedRwLockReadGuard<()>),
    Alone(#[expect(dead_code, reason = "held")] OwnedRwLockWriteGuard<()>),
}

impl Turn {
    /// Waits for a turn. One that runs alone waits for [`ALONE_WITHIN`]: another statement may have a client that does not
    /// read. It does not wait in a queue, so that statements beside others go on.
    async fn wait(gate: &Arc<RwLock<()>>, alone: bool) -> Option<Self> {
        if !alone {
            return Some(Turn::Beside(Arc::clone(gate).read_owned().await));
        }
        let begun = Instant::now();
        while begun.elapsed() < ALONE_WITHIN {
            if let Ok(turn) = Arc::clone(gate).try_write_owned() {
                return Some(Turn::Alone(turn));
            }
            tokio::time::sleep(WAIT).await;
        }
        None
    }
}

/// The reason to run again.
enum Again {
    /// A worker failed.
    Failed,
    /// A worker refused memory.
    Refused,
}

impl Run {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(held) = self.held.as_mut().filter(|held| held.is_free) {
                self.turn = None;
                match held.batches.pop_front() {
                    Some(batch) => return Some(Ok(batch)),
                    None => self.held = None,
                }
            }
            if self.current.is_none() {
                let begun = self.begin().await?;
                if let Err(error) = begun {
                    match self.again(error).await {
                        Ok(()) => continue,
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
            let next = self.current.as_mut()?.stream.next().await;
            match next {
                Some(Err(error)) => match self.again(error).await {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => match &mut self.held {
                    Some(held) => {
                        held.bytes += batch.get_array_memory_size();
                        held.batches.push_back(batch);
                        held.is_free = held.bytes >= HELD_BYTES;
                    }
                    None => return Some(Ok(batch)),
                },
                None => {
                    self.current = None;
                    self.held.as_mut()?.is_free = true;
                }
            }
        }
    }

    /// Begins the next run. `None` if there is none.
    async fn begin(&mut self) -> Option<Result<()>> {
        let (plan, config) = self.next.take()?;
        self.turn = match &self.held {
            Some(_) => Turn::wait(&self.statement.cluster.gate, self.alone).await,
            None => None,
        };
        self.runs += 1;
        let bytes = bytes_by_worker(&plan);
        let on_workers = !bytes.is_empty();
        let running = on_workers.then(|| self.statement.cluster.busy.begin(bytes));
        let context = TaskContext::new(
            self.context.task_id(),
            self.context.session_id(),
            config,
            self.context.scalar_functions().clone(),
            self.context.higher_order_functions().clone(),
            self.context.aggregate_functions().clone(),
            self.context.window_functions().clone(),
            self.context.runtime_env(),
        );
        let begun = Instant::now();
        Some(execute_stream(plan, Arc::new(context)).map(|stream| {
            self.current = Some(Current { stream, begun, on_workers, _running: running });
        }))
    }

    /// Prepares another run after an error, or returns the error of the statement.
    async fn again(&mut self, error: DataFusionError) -> Result<()> {
        let Some(current) = self.current.take() else { return Err(arrived(error)) };
        if !current.on_workers {
            return Err(error);
        }
        let begun = current.begun;
        drop(current);
        self.turn = None;
        let Some((again, failed)) = classified(&self.statement.cluster, &error, begun).await else {
            return Err(arrived(error));
        };
        let failed = failed.unwrap_or(error);
        let Some(held) = self.held.as_mut().filter(|held| !held.is_free) else { return Err(failed) };
        *held = Held::default();
        let statement = &self.statement;
        let counted = match again {
            Again::Failed => &statement.cluster.counts.failed,
            Again::Refused => &statement.cluster.counts.refused,
        };
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let on_workers = match again {
            // Alone it had the memory of all workers.
            Again::Refused => !std::mem::replace(&mut self.alone, true),
            Again::Failed => self.runs < RUNS_MAX,
        };
        tracing::info!(%failed, run = self.runs, on_workers, "a statement runs again");
        tokio::time::sleep(WAIT * self.runs).await;
        let (logical, session) = (&statement.logical, &statement.session);
        let planned = match on_workers {
            true => distributed(&statement.cluster, &statement.local, logical, session).await.ok(),
            false => None,
        };
        self.next = Some(match planned {
            Some(planned) => planned,
            None => {
                let plan = statement.local.create_physical_plan(logical, session).await?;
                (plan, session.config().clone())
            }
        });
        Ok(())
    }
}

/// Returns the reason to run again, and the error to show if it cannot. `None` for an error of the statement.
async fn classified(
    cluster: &Cluster,
    error: &DataFusionError,
    begun: Instant,
) -> Option<(Again, Option<DataFusionError>)> {
    if let Some(sent) = SentError::in_error(error) {
        return match sent {
            SentError::Gone { worker, reason } => {
                // Until it answers this process, it gets no work.
                cluster.members.suspect(&worker, &reason);
                Some((Again::Failed, Some(gone(&worker, &reason))))
            }
            _ => None,
        };
    }
    if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
        return Some((Again::Refused, None));
    }
    let channels = &cluster.channels;
    let mut failure = channels.failure_since(begun);
    if failure.is_none() && is_of_connection(error) {
        tokio::time::sleep(NOTED_WITHIN).await;
        failure = channels.failure_since(begun);
    }
    match failure {
        Some(failure) => {
            let shown = gone(failure.worker.authority(), &failure.reason);
            Some((Again::Failed, Some(shown)))
        }
        None if error.to_string().contains(NO_PLAN) => Some((Again::Failed, None)),
        None => None,
    }
}

/// Returns whether an error is of no operator, so that it may be of a connection.
fn is_of_connection(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(_) | DataFusionError::Internal(_))
}
