//! Execution of a statement, which restarts if a file was replaced before the first row.
//!
//! A scan reads one version of a file from beginning to end. If that version is gone, the scan fails, and a restart
//! reads the new version. A client that has no rows cannot see the difference. A client that has rows gets an error
//! with a code for which clients retry. Statements that write run once.

use std::sync::Arc;

use coscan_datafusion::{engine_error, only_reads, with_account};
use coscan_engine::EngineError;
use coscan_upstream::execute_logical_plan;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::runtime::Handle;

use super::RunningQuery;
use super::slices::sliced;

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
        let mut execution = Execution { context, again: None, query, runs: 0, shares, stream: None, schema };
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
            let next = self.stream.as_mut()?.next().await;
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
        let task = Arc::new(frame.task_ctx());
        let batch_rows = task.session_config().batch_size();
        let plan = sliced(frame.create_physical_plan().await?, batch_rows)?;
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

    fn may_run_again(&self, error: &DataFusionError) -> bool {
        let replaced = matches!(engine_error(error), Some(EngineError::FileReplaced { .. }));
        let again = replaced && self.again.is_some() && self.runs < RUNS_MAX;
        if again {
            tracing::info!(query = self.query.id, %error, "a file was replaced: the statement runs again");
        }
        again
    }
}
