//! Scans of a table for the caller's own loops: in the order of the files or in any order, as a whole or one of several
//! shards, in batches of a given size.

use std::sync::Arc;

use coscan_datafusion::{CoscanContext, rewrite_plan};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::physical_plan::{
    FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

use crate::session::statement;

/// What to read.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Scan {
    /// A statement that selects columns and rows of one table.
    pub(crate) sql: String,
    /// Whether rows come in the order of the files.
    pub(crate) in_order: bool,
    /// Rows of each batch but the last, or as they come.
    pub(crate) batch_rows: Option<usize>,
    /// Number of a shard, and how many there are. Together they have each row once.
    pub(crate) shard: (usize, usize),
}

/// Begins a scan.
pub(crate) async fn start(coscan: &CoscanContext, scan: &Scan) -> Result<SendableRecordBatchStream> {
    let (_, plan) = statement(coscan, &scan.sql, None).await?.into_parts();
    let mut state = coscan.ctx.state();
    let whole = scan.shard.1 == 1 && !scan.in_order;
    if !whole {
        // The files are divided here, before the scan becomes cooperative.
        let options = state.config_mut().options_mut();
        options.set("coscan.enabled", "false")?;
        options.execution.target_partitions = 1;
    }
    let mut plan = state.create_physical_plan(&plan).await?;
    if !whole {
        let mut found = false;
        let divided = plan.transform_up(|node| {
            let Some(part) = part_of(&node, scan) else { return Ok(Transformed::no(node)) };
            found = true;
            Ok(Transformed::yes(part))
        });
        plan = divided.data()?;
        if !found {
            return plan_err!("only a table of Parquet files can be read in order or in shards");
        }
        let options = state.config_mut().options_mut();
        options.set("coscan.enabled", "true")?;
        plan = rewrite_plan(plan, &coscan.engine, options)?;
    }
    let batches = execute_stream(plan, state.task_ctx())?;
    Ok(match scan.batch_rows {
        Some(rows) => Box::pin(RecordBatchStreamAdapter::new(batches.schema(), of_size(batches, rows))),
        None => batches,
    })
}

/// The scan of files for a shard, in their order.
fn part_of(node: &Arc<dyn ExecutionPlan>, scan: &Scan) -> Option<Arc<dyn ExecutionPlan>> {
    let exec = node.downcast_ref::<DataSourceExec>()?;
    let (config, _) = exec.downcast_to_file_source::<ParquetSource>()?;
    let (shard, shards) = scan.shard;
    let files = config.file_groups.iter().flat_map(|group| group.files().iter().cloned()).collect();
    let mut groups = vec![FileGroup::new(files)];
    if shards > 1 {
        let partitioner =
            FileGroupPartitioner::new().with_target_partitions(shards).with_repartition_file_min_size(0);
        // Without bytes to divide, the first shard has all.
        groups = partitioner.repartition_file_groups(&groups).unwrap_or(groups);
    }
    let group = groups.into_iter().nth(shard).unwrap_or_else(|| FileGroup::new(Vec::new()));
    let part = FileScanConfigBuilder::from(config.clone()).with_file_groups(vec![group]).build();
    let part: Arc<dyn DataSource> = Arc::new(part);
    let part = if scan.in_order { part.with_preserve_order(true).unwrap_or(part) } else { part };
    Some(Arc::new(DataSourceExec::new(part)))
}

/// The same rows in batches of this size.
fn of_size(
    batches: SendableRecordBatchStream,
    rows: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    let coalescer = BatchCoalescer::new(batches.schema(), rows);
    futures::stream::unfold((Some(batches), coalescer), async |(mut batches, mut coalescer)| {
        loop {
            if let Some(batch) = coalescer.next_completed_batch() {
                return Some((Ok(batch), (batches, coalescer)));
            }
            let next = match &mut batches {
                Some(stream) => stream.next().await,
                None => return None,
            };
            let pushed = match next {
                Some(Ok(batch)) => coalescer.push_batch(batch),
                Some(Err(error)) => return Some((Err(error), (None, coalescer))),
                None => {
                    batches = None;
                    coalescer.finish_buffered_batch()
                }
            };
            if let Err(error) = pushed {
                return Some((Err(error.into()), (None, coalescer)));
            }
        }
    })
}
