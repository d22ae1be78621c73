//! The root of a plan under load control. It waits for admission, gives the operators their pool, and runs
//! the query again if it fails after a refusal.
//!
//! A further run is planned again, because the plan's filters of joins and thresholds of sorts are valid for
//! one run only. A further run is possible until a row is output. So a short result prefix is kept back.
//! Statements that write run only once.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use coscan_engine::Engine;
use coscan_upstream::one_input::{OneInput, OneInputExec, one_partition};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err, resources_datafusion_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use futures::{FutureExt, Stream, StreamExt};

use super::attempt::Attempt;
use super::batch_rows::batch_rows;
use super::compact::with_compact_batches;
use super::control::TooLate;
use super::frugal::{FrugalJoins, frugal, frugal_config, joins_wrongly};
use super::lender::Lender;
use super::pool::QueryPool;
use super::run::{About, Refused, RunId};
use super::state::{Arrival, Line};
use super::turn::Turn;
use crate::error::panic_text;
use crate::held_back::HeldBack;
use crate::wide_rows::{Narrow, in_small_batches};

/// The shared state of all runs of a query.
pub(crate) struct Query {
    pub(crate) lender: Arc<Lender>,
    pub(crate) engine: Engine,
    pub(crate) about: Arc<About>,
    /// The inputs for planning it again; `None` if it may run once only.
    pub(crate) again: Option<Again>,
    /// Longest wait for admission.
    pub(crate) patience: Option<Duration>,
    /// The schema of its rows.
    pub(crate) schema: SchemaRef,
}

/// The inputs for the plan of a further run.
pub(crate) struct Again {
    pub(crate) planner: Arc<dyn QueryPlanner + Send + Sync>,
    pub(crate) logical: LogicalPlan,
    pub(crate) session: SessionState,
}

/// The root; see the module's documentation.
pub(crate) struct LoadControl {
    /// With one partition.
    input: Arc<dyn ExecutionPlan>,
    query: Arc<Query>,
}

pub(crate) type LoadControlExec = OneInputExec<LoadControl>;

impl LoadControl {
    pub(crate) fn exec(plan: Arc<dyn ExecutionPlan>, query: Arc<Query>) -> Arc<LoadControlExec> {
        Arc::new(OneInputExec(LoadControl { input: one_partition(plan), query }))
    }
}

impl OneInput for LoadControl {
    const NAME: &'static str = "LoadControlExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(node: &Arc<LoadControlExec>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        LoadControl::exec(input, Arc::clone(&node.0.query))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let turn = Turn::new(Instant::now());
        let run = Execution {
            query: Arc::clone(&self.query),
            first_plan: Some(Arc::clone(&self.input)),
            context,
            attempt: Attempt::First,
            room: self.query.lender.control.limit(),
            runs: 0,
            first: None,
            turn: Arc::clone(&turn),
            stream: None,
            ticket: None,
            held: HeldBack::default(),
            shown: false,
            over: false,
        };
        let batches = futures::stream::unfold(Some(run), |run| async move {
            let mut run = run?;
            match run.next().await {
                Ok(Some(batch)) => Some((Ok(batch), Some(run))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(Batches { schema: self.input.schema(), turn, batches: batches.fuse().boxed() }))
    }
}

/// The batches of an execution, with a record of whether the query or its reader must act.
struct Batches<S> {
    schema: SchemaRef,
    turn: Arc<Turn>,
    batches: S,
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> Stream for Batches<S> {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.turn.step(cx, |cx| this.batches.poll_next_unpin(cx))
    }
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> RecordBatchStream for Batches<S> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A waiting or admitted run. It ends when this is dropped.
struct Ticket {
    id: RunId,
    query: Arc<Query>,
    remember: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.query.lender.control.leave(self.id, self.remember, Instant::now());
        self.query.lender.settle(&self.query.engine);
    }
}

/// One execution of the plan.
struct Execution {
    query: Arc<Query>,
    /// Dropped with the first run, because it keeps the rows that its joins have collected.
    first_plan: Option<Arc<dyn ExecutionPlan>>,
    context: Arc<TaskContext>,
    attempt: Attempt,
    /// The memory that its operators are known to be allowed, in bytes.
    room: u64,
    runs: u32,
    first: Option<RunId>,
    turn: Arc<Turn>,
    /// Before `ticket`, so that operators end before the run leaves.
    stream: Option<SendableRecordBatchStream>,
    ticket: Option<Ticket>,
    held: HeldBack,
    /// Whether a row may have been output; see [`Self::show`].
    shown: bool,
    over: bool,
}

impl Execution {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if (self.shown || self.over)
                && let Some(batch) = self.held.pop()
            {
                return Ok(Some(batch));
            }
            if self.over {
                return Ok(None);
            }
            let Some(stream) = &mut self.stream else {
                if let Err(error) = self.begin().await {
                    self.failed(error)?;
                }
                continue;
            };
            // Sort-merge joins panic for some conditions; hash joins do not.
            let next = AssertUnwindSafe(stream.next()).catch_unwind().await;
            let next = match next {
                Ok(next) => next,
                Err(panic) if self.attempt.after_failure().is_none() => resume_unwind(panic),
                Err(panic) => Some(internal_err!("a panic: {}", panic_text(&*panic))),
            };
            match next {
                Some(Ok(batch)) if self.shown => return Ok(Some(batch)),
                Some(Ok(batch)) => {
                    let room_for_more = self.held.push(batch);
                    if !room_for_more || self.query.again.is_none() {
                        self.show();
                    }
                }
                Some(Err(error)) => self.failed(error)?,
                None => {
                    self.over = true;
                    self.stream = None;
                    if let Some(mut ticket) = self.ticket.take() {
                        ticket.remember = true;
                    }
                }
            }
        }
    }

    /// Starts the output of rows.
    fn show(&mut self) {
        self.shown = true;
        if let Some(ticket) = &self.ticket {
            self.query.lender.control.note_shown(ticket.id);
        }
    }

    /// Waits for admission and opens the plan.
    async fn begin(&mut self) -> Result<()> {
        let control = &self.query.lender.control;
        self.runs += 1;
        let request = self.attempt.request(control.limit());
        let (about, turn) = (Arc::clone(&self.query.about), Arc::clone(&self.turn));
        let arrival = Arrival { about, first: self.first, attempt: self.runs, request, turn };
        let id = control.arrive(arrival, Instant::now());
        self.first.get_or_insert(id);
        let ticket = self.ticket.insert(Ticket { id, query: Arc::clone(&self.query), remember: false });
        wait(ticket).await?;
        let (plan, context) = match self.first_plan.clone() {
            Some(plan) => {
                let config = with_batches_for(&plan, self.context.session_config().clone());
                (plan, self.query.context(id, &self.context, config))
            }
            None => self.query.plan_again(self.attempt, self.room, id, &self.context).await?,
        };
        self.stream = Some(plan.execute(0, context)?);
        Ok(())
    }

    /// Prepares a further run, if one is possible.
    fn failed(&mut self, error: DataFusionError) -> Result<()> {
        let Some(id) = self.ticket.as_ref().map(|ticket| ticket.id) else { return Err(error) };
        let control = &self.query.lender.control;
        let limit = control.limit();
        // A query that was refused memory may have spilled, and fail for another reason.
        let refused = control.refused(id).filter(|_| is_about_memory(&error));
        let next = match refused {
            Some(refused) => self.attempt.after(refused, limit),
            None => self.attempt.after_failure(),
        };
        match (next.filter(|_| !self.shown && self.query.again.is_some()), refused) {
            (Some(next), refused) => {
                tracing::info!(query = id, ?next, %error, "runs again");
                self.attempt = next;
                if let Some(refused) = refused {
                    self.room = if refused.by_session { refused.peak } else { limit };
                }
                (self.stream, self.first_plan, self.ticket) = (None, None, None);
                self.held = HeldBack::default();
                Ok(())
            }
            (None, None) => Err(error),
            (None, Some(refused)) => {
                let what = self.does_not_fit(id, refused, limit);
                Err(match error.find_root() {
                    DataFusionError::ResourcesExhausted(_) => error.context(what),
                    // Some operators replace the error by their own. They do not choose the kind.
                    _ => resources_datafusion_err!("{what}\ncaused by\n{}", error.strip_backtrace()),
                })
            }
        }
    }

    fn does_not_fit(&self, id: RunId, refused: Refused, limit: u64) -> String {
        let (text, runs) = (&self.query.about.text, self.runs);
        let what_to_do = match (refused.by_session, self.query.lender.control.unread(id)) {
            (true, _) => "the session's own limit refused it".to_owned(),
            (false, others) if others.is_empty() => "raise it".to_owned(),
            (false, others) => format!("raise it, or read on where nobody does: {}", holders(&others)),
        };
        format!(
            "query {id} does not fit: its operators had {} bytes and were refused {} more in run {runs}, \
             coscan.query_memory is {limit} bytes: {what_to_do}. It is: {text}",
            refused.peak, refused.more,
        )
    }
}

impl Query {
    /// Returns the session's context with the pool of a run.
    fn context(&self, id: RunId, context: &TaskContext, config: SessionConfig) -> Arc<TaskContext> {
        let runtime = context.runtime_env();
        let session = Arc::clone(&runtime.memory_pool);
        let (lender, engine) = (Arc::clone(&self.lender), self.engine.clone());
        let memory_pool = Arc::new(QueryPool::new(id, lender, engine, session));
        let runtime = Arc::new(RuntimeEnv { memory_pool, ..RuntimeEnv::clone(&runtime) });
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            runtime,
        ))
    }

    /// Returns the plan of a further run, and a context with its pool.
    async fn plan_again(
        &self,
        attempt: Attempt,
        room: u64,
        id: RunId,
        context: &TaskContext,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let Some(again) = &self.again else { return internal_err!("a query that runs once runs again") };
        let config = context.session_config();
        let joins = attempt.frugal_joins();
        let (session, config) = match joins {
            Some(joins) => (frugal(&again.session, room, joins), frugal_config(config, room, joins)),
            None => (again.session.clone(), config.clone()),
        };
        let mut plan = again.planner.create_physical_plan(&again.logical, &session).await?;
        if joins == Some(FrugalJoins::Spilling) && joins_wrongly(&plan)? {
            // The next run has hash joins.
            return internal_err!("a full join by sorting does not test a condition without columns");
        }
        if joins.is_some() {
            plan = with_compact_batches(plan)?;
        }
        let plan = one_partition(plan);
        if plan.schema() != self.schema {
            return internal_err!("a query that was planned again has another schema");
        }
        let config = with_batches_for(&plan, config);
        // A run with too wide rows ends, and the host may run the statement again.
        let plan = in_small_batches(plan, config.batch_size(), &Narrow::default())?;
        Ok((plan, self.context(id, context, config)))
    }
}

/// Returns the settings for the plan's execution: batches of wide rows have fewer rows.
fn with_batches_for(plan: &Arc<dyn ExecutionPlan>, config: SessionConfig) -> SessionConfig {
    let (usual, rows) = (config.batch_size(), batch_rows(plan, config.batch_size()));
    if rows < usual { config.with_batch_size(rows) } else { config }
}

/// Waits until the run is admitted.
async fn wait(ticket: &Ticket) -> Result<()> {
    let lender = &ticket.query.lender;
    let until = ticket.query.patience.and_then(|patience| Instant::now().checked_add(patience));
    std::future::poll_fn(|cx| {
        let now = Instant::now();
        let polled = lender.control.poll_in(ticket.id, cx.waker(), until, now);
        if polled.is_pending() {
            lender.control.look(lender, |lender| &lender.control);
        }
        polled
    })
    .await
    .map_err(|TooLate| gave_up(ticket))
}

fn gave_up(ticket: &Ticket) -> DataFusionError {
    let (id, text) = (ticket.id, &ticket.query.about.text);
    let control = &ticket.query.lender.control;
    let view = control.view();
    let wants = view.iter().find(|line| line.id == id).map_or(0, |line| line.wants);
    let others: Vec<Line> = view.into_iter().filter(|line| line.state != "waiting").collect();
    DataFusionError::ResourcesExhausted(format!(
        "query {id} waited for {wants} bytes longer than coscan.queue_timeout_s allows; coscan.query_memory is {} bytes: \
         {}. It is: {text}",
        control.limit(),
        holders(&others),
    ))
}

fn holders(lines: &[Line]) -> String {
    let has =
        |line: &Line| format!("query {} has {} bytes ({})", line.id, line.used.max(line.wants), line.state);
    lines.iter().map(has).collect::<Vec<_>>().join(", ")
}

/// Returns whether a query failed because memory was refused. Some operators have their own texts for that.
fn is_about_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
        || ["emory", "Resources exhausted", "spill"].iter().any(|word| error.strip_backtrace().contains(word))
}
