//! `coscan_workers()`: the workers of the cluster as a table.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::MemTable;

use crate::coordinator::Cluster;
use crate::members::Member;

/// The name of the function.
pub(crate) const NAME: &str = "coscan_workers";

/// The function.
#[derive(Debug)]
pub(crate) struct WorkersFunction(pub(crate) Arc<Cluster>);

fn schema() -> SchemaRef {
    let field = |name: &str, of: DataType| Field::new(name, of, true);
    Arc::new(Schema::new(vec![
        field("address", DataType::Utf8),
        field("state", DataType::Utf8),
        field("reason", DataType::Utf8),
        field("version", DataType::Utf8),
        field("tasks", DataType::Int64),
        field("tasks_started", DataType::Int64),
        field("bytes_read", DataType::Int64),
        field("parts_read", DataType::Int64),
        field("parts_shared", DataType::Int64),
        field("buffer_bytes", DataType::Int64),
        field("query_memory_bytes", DataType::Int64),
        field("uptime_s", DataType::Float64),
    ]))
}

impl TableFunctionImpl for WorkersFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            return plan_err!("{NAME}() has no arguments");
        }
        let batch = batch(&self.0.workers())?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

fn batch(members: &[Member]) -> Result<RecordBatch> {
    let text = |of: fn(&Member) -> Option<String>| {
        Arc::new(members.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let number = |of: fn(&crate::status::Status) -> u64| {
        let of = |member: &Member| {
            member.status.as_ref().map(|status| i64::try_from(of(status)).unwrap_or(i64::MAX))
        };
        Arc::new(members.iter().map(of).collect::<Int64Array>()) as ArrayRef
    };
    let uptime: Float64Array =
        members.iter().map(|of| of.status.as_ref().map(|status| status.uptime_s)).collect();
    let columns = vec![
        text(|member| Some(member.address.clone())),
        text(|member| Some(member.state.name().to_owned())),
        text(|member| member.state.reason()),
        text(|member| member.status.as_ref().map(|status| status.version.clone())),
        number(|status| status.tasks),
        number(|status| status.tasks_started),
        number(|status| status.bytes_read),
        number(|status| status.parts_read),
        number(|status| status.parts_shared),
        number(|status| status.buffer_bytes),
        number(|status| status.query_memory_bytes),
        Arc::new(uptime) as ArrayRef,
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
