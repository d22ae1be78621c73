//! Execution of a statement, which restarts if a file was replaced or a version of a table is gone before the first row, its
//! pages cannot be decoded, or its rows are too wide for its batches.
//!
//! A scan reads one version of a file from beginning to end. If that version is gone, the scan fails, and a restart
//! reads the new version. A client that has no rows cannot see the difference. A client that has rows gets an error
//! with a code for which clients retry. Statements that write run once.
//!
//! A writer of a table with versions removes the files of old ones. A restart, one at most, looks for the newest versions.
//!
//! DataFusion's own scans of small tables panic over some corrupt pages, or do not name the file. The restart reads
//! them by cooperative scans, whose errors do.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use coscan_datafusion::{
    CoscanOptions, Narrow, Versions, engine_error, in_small_batches, is_gone, only_reads, with_account,
};
use coscan_engine::EngineError;
use coscan_upstream::execute_logical_plan;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::parquet::errors::ParquetError;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::RunningQuery;

/// Maximum number of runs of a statement. If files change faster, the client has to retry.
const RUNS_MAX: u32 = 4;

/// The root of a plan whose result equal statements share.
const SHARED: &str = "SharedResultExec";

/// A running statement.
pub(crate) struct Execution {
    context: SessionContext,
    /// The plan for a restart. `None` after the first row, and for statements that must not run again.
    again: Option<LogicalPlan>,
    query: Arc<RunningQuery>,
    runs: u32,
    /// Whether small tables are read by cooperative scans, too.
    all_cooperative: bool,
    /// The rows of a batch for which rows were narrow enough, of the last run.
    narrow: Narrow,
    /// The versions of tables that the last run reads.
    versions: Arc<Versions>,
    /// The threads whose statements share results.
    shares: Handle,
    stream: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
}

impl Execution {
    /// Begins to run a plan.
    pub(crate) async fn begin(
        context: SessionContext,
        plan: LogicalPlan,
        query: Arc<RunningQuery>,
        shares: Handle,
    ) -> Result<Self> {
        let schema = Arc::clone(plan.schema().inner());
        let mut execution = Execution {
            context,
            again: None,
            query,
            runs: 0,
            all_cooperative: false,
            narrow: Narrow::default(),
            versions: Arc::default(),
            shares,
            stream: None,
            schema,
        };
        if only_reads(&plan) {
            execution.again = Some(plan);
            execution.restart().await?;
        } else {
            execution.run(plan).await?;
        }
        Ok(execution)
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next rows. `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let next = AssertUnwindSafe(self.stream.as_mut()?.next()).catch_unwind().await;
            let next = match next {
                Ok(next) => next,
                Err(panic) if self.all_cooperative || self.again.is_none() => resume_unwind(panic),
                Err(_) => {
                    self.all_cooperative = true;
                    if let Err(error) = self.restart().await {
                        return Some(Err(error));
                    }
                    continue;
                }
            };
            match next {
                Some(Err(error)) if self.may_run_again(&error) => {
                    if let Err(error) = self.restart().await {
                        return Some(Err(error));
                    }
                }
                Some(Ok(batch)) if batch.num_rows() > 0 => {
                    self.again = None;
                    return Some(Ok(batch));
                }
                other => return other,
            }
        }
    }

    /// Runs the plan, and restarts it while files are replaced.
    async fn restart(&mut self) -> Result<()> {
        while let Some(plan) = self.again.clone() {
            match self.run(plan).await {
                Err(error) if self.may_run_again(&error) => {}
                done => return done,
            }
        }
        Ok(())
    }

    async fn run(&mut self, plan: LogicalPlan) -> Result<()> {
        // The state of the last run is released before the next one begins.
        self.stream = None;
        self.runs += 1;
        let frame = execute_logical_plan(&self.context, plan).await?;
        let frame = with_account(frame, self.query.account().clone());
        let frame = if self.all_cooperative { all_cooperative(frame) } else { frame };
        let frame = match std::mem::take(&mut self.narrow).rows() {
            Some(rows) => with_batch_rows(frame, rows),
            None => frame,
        };
        let task = Arc::new(frame.task_ctx());
        let batch_rows = task.session_config().batch_size();
        let plan = self.versions.during(frame.create_physical_plan()).await?;
        let plan = in_small_batches(plan, batch_rows, &self.narrow)?;
        self.query.has_plan(plan.clone());
        let stream = {
            // Equal statements share a result if their threads are the same. The threads of all users last as long as the
            // server, so they count as the same. Such a plan starts no task here.
            let _shares = (plan.name() == SHARED).then(|| self.shares.enter());
            execute_stream(plan, task)?
        };
        self.schema = stream.schema();
        self.stream = Some(stream);
        Ok(())
    }

    fn may_run_again(&mut self, error: &DataFusionError) -> bool {
        if self.again.is_some() && !self.all_cooperative && is_of_decoder(error) {
            self.all_cooperative = true;
            return true;
        }
        if self.again.is_some() && self.runs < RUNS_MAX && self.narrow.rows().is_some() {
            tracing::info!(query = self.query.id, %error, "the statement runs again with smaller batches");
            return true;
        }
        if self.again.is_some() && self.versions.may_change() && is_gone(error) {
            self.versions = Arc::new(Versions::from_now());
            tracing::info!(query = self.query.id, %error, "files are gone: the statement runs again over the newest versions");
            return true;
        }
        let replaced = matches!(engine_error(error), Some(EngineError::FileReplaced { .. }));
        let again = replaced && self.again.is_some() && self.runs < RUNS_MAX;
        if again {
            tracing::info!(query = self.query.id, %error, "a file was replaced: the statement runs again");
        }
        again
    }
}

/// Returns the query with cooperative scans of small tables, too.
fn all_cooperative(query: DataFrame) -> DataFrame {
    let (mut state, plan) = query.into_parts();
    if let Some(options) = state.config_mut().options_mut().extensions.get_mut::<CoscanOptions>() {
        options.small_table_bytes = 0;
    }
    DataFrame::new(state, plan)
}

/// Returns the query with batches of so many rows.
fn with_batch_rows(query: DataFrame, rows: usize) -> DataFrame {
    let (mut state, plan) = query.into_parts();
    *state.config_mut() = state.config().clone().with_batch_size(rows);
    DataFrame::new(state, plan)
}

/// Returns whether an error is of the decoder of pages, which does not know the file.
fn is_of_decoder(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => matches!(**error, ArrowError::ParquetError(_)),
        DataFusionError::ParquetError(error) => {
            matches!(**error, ParquetError::General(_) | ParquetError::EOF(_))
        }
        _ => false,
    }
}
