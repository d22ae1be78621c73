//! Statements whose file is replaced or gone during the run. A client without rows does not notice; a client with rows gets
//! an error that tells it to retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{World, code};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use coscan_datafusion::{from_engine, version_age};
use coscan_engine::EngineError;
use coscan_server::sql::Protocol;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

/// A table of three rows whose file is replaced during its first `left` reads.
#[derive(Debug)]
struct Replaced {
    schema: SchemaRef,
    left: Arc<AtomicU32>,
    after_rows: bool,
}

impl PartitionStream for Replaced {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_new(self.schema.clone(), vec![rows]).map_err(Into::into);
        let replaced = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        let error =
            EngineError::FileReplaced { file: "t.parquet".to_owned(), detail: "other bytes".to_owned() };
        let batches = match (replaced, self.after_rows) {
            (true, true) => vec![batch, Err(from_engine(error))],
            (true, false) => vec![Err(from_engine(error))],
            (false, _) => vec![batch],
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches)))
    }
}

/// A table whose first version is gone, and that looks for newer ones at the age of an hour, or never.
#[derive(Debug)]
struct Vacuumed {
    schema: SchemaRef,
    moves: bool,
    reads: Arc<AtomicU32>,
}

#[async_trait]
impl TableProvider for Vacuumed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        const HOUR: Duration = Duration::from_secs(3600);
        let is_old = !self.moves || version_age(HOUR) == HOUR;
        let part = Part { schema: self.schema.clone(), is_old, reads: self.reads.clone() };
        let table = StreamingTable::try_new(self.schema.clone(), vec![Arc::new(part)])?;
        table.scan(state, projection, filters, limit).await
    }
}

/// The rows of a version.
#[derive(Debug)]
struct Part {
    schema: SchemaRef,
    is_old: bool,
    reads: Arc<AtomicU32>,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_new(self.schema.clone(), vec![rows]).map_err(Into::into);
        self.reads.fetch_add(1, Relaxed);
        let gone = object_store::Error::NotFound { path: "t.parquet".to_owned(), source: "gone".into() };
        let answer = if self.is_old { Err(gone.into()) } else { batch };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter([answer])))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_version_is_gone_runs_once_more() {
    let world = World::with(|config, _| config.set("anonymous-role", "admin").unwrap()).await;
    let state = world.server.state();
    let user = state.log_in_anonymous("root").unwrap();
    let session = state.open_session(user, Protocol::Postgres, None, None).unwrap();
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let client = world.client().await;
    for (name, moves, answer, runs) in
        [("newest", true, Ok(3), 2), ("before", false, Err("58P01".to_owned()), 1)]
    {
        let reads = Arc::new(AtomicU32::new(0));
        let table = Vacuumed { schema: schema.clone(), moves, reads: reads.clone() };
        session.context().register_table(name, Arc::new(table)).unwrap();
        let found = client.query(&format!("SELECT count(*) FROM {name}"), &[]).await;
        let found = found.map(|rows| rows[0].get::<_, i64>(0)).map_err(|error| code(&error));
        assert_eq!((found, reads.load(Relaxed)), (answer, runs), "{name}");
    }
    world.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_run_again_until_there_is_a_row() {
    let world = World::with(|config, _| config.set("anonymous-role", "admin").unwrap()).await;
    let state = world.server.state();
    let user = state.log_in_anonymous("root").unwrap();
    let session = state.open_session(user, Protocol::Postgres, None, None).unwrap();
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let table = |name: &str, times: u32, after_rows: bool| {
        let left = Arc::new(AtomicU32::new(times));
        let part = Replaced { schema: schema.clone(), left: left.clone(), after_rows };
        let table = StreamingTable::try_new(schema.clone(), vec![Arc::new(part)]).unwrap();
        session.context().register_table(name, Arc::new(table)).unwrap();
        left
    };
    let client = world.client().await;
    let counted = async |sql: &str| {
        let answer = client.query(sql, &[]).await;
        answer.map(|rows| rows[0].get::<_, i64>(0)).map_err(|error| code(&error))
    };
    let left = table("seldom", 3, false);
    assert_eq!(counted("SELECT count(*) FROM seldom").await, Ok(3));
    assert_eq!(left.load(Relaxed), 0);
    let left = table("often", 100, false);
    assert_eq!(counted("SELECT count(*) FROM often").await, Err("40001".to_owned()));
    assert_eq!(left.load(Relaxed), 96, "four runs");
    // The earlier rows went into the count of a run that was abandoned.
    table("late", 1, true);
    assert_eq!(counted("SELECT count(*) FROM late").await, Ok(3));
    table("seen", 1, true);
    assert_eq!(counted("SELECT id FROM seen").await, Err("40001".to_owned()));
    assert_eq!(counted("SELECT id FROM seen").await, Ok(1));
    let left = table("written", 2, false);
    let error = client.batch_execute("CREATE TABLE copied AS SELECT * FROM written").await.unwrap_err();
    assert_eq!((code(&error).as_str(), left.load(Relaxed)), ("40001", 1), "what writes runs once");
    world.idle().await;
}
