//! An aggregation chunk by chunk: its definition and its conditions on chunks. [`worker`](super::worker)
//! executes it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;

use super::borders::Borders;
use super::groups::GroupTable;
use super::in_order::{WHEN, as_they_come};
use super::measured::{Key, clustering};
use super::node::{Books, ByChunksExec, Choice, ChunkOperator};
use super::spec::AggregateSpec;
use super::worker::{Shared, Worker};
use crate::eligibility::steps::Step;
use crate::scan::CScan;
use crate::scan::chunks::SharedScan;

/// The node of an aggregation by chunks.
pub(crate) type OrderedAggregateExec = ByChunksExec<ChunkAggregation>;

/// A column by which chunks may be clustered.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Its position among the groups.
    pub(crate) group: usize,
    /// The column of the files.
    pub(crate) column: String,
    /// The type of the groups.
    pub(crate) data_type: DataType,
    /// Whether chunks are declared to be clustered by it.
    pub(crate) declared: bool,
}

/// The aggregation to compute.
#[derive(Debug)]
pub(crate) struct ChunkAggregation {
    pub(crate) spec: Arc<AggregateSpec>,
    pub(crate) scan: CScan,
    pub(crate) steps: Arc<[Step]>,
    pub(crate) candidates: Vec<Candidate>,
    /// Whether the plan above wants groups in the order of DataFusion's aggregation.
    pub(crate) in_order: bool,
    /// Whether to use it in every correct case, worthwhile or not.
    pub(crate) always: bool,
}

impl ChunkOperator for ChunkAggregation {
    const NAME: &'static str = "OrderedAggregateExec";
    type Shared = Shared;
    type Worker = Worker;

    fn condition(&self) -> String {
        let columns: Vec<_> = self.candidates.iter().map(|candidate| candidate.column.as_str()).collect();
        let clustered = format!("chunks are clustered by {}", columns.join(" or "));
        match (self.always, self.in_order) {
            (true, _) => clustered,
            (false, false) => format!("{clustered}, most of them with more than one value of it"),
            (false, true) => format!("{clustered}, most of them with more than one value of it, and {WHEN}"),
        }
    }

    async fn prepare(
        self: Arc<Self>,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> Result<Choice<Shared>> {
        let scan = Arc::new(SharedScan::new(&self.scan, partitions, &context)?);
        let plan = scan.plan().await?;
        let mut seen = String::new();
        if self.in_order && !self.always {
            let (taken, what) = as_they_come(&scan.traffic(&plan));
            if !taken {
                return Ok(Choice::Otherwise(format!("in order: {what}")));
            }
            seen = format!(", {what}");
        }
        let mut reasons = Vec::new();
        for candidate in &self.candidates {
            let Candidate { column, data_type, declared, .. } = candidate;
            let clustering =
                match clustering(&scan, &plan, Key { column, data_type, declared: *declared }, partitions)
                    .await?
                {
                    Ok(clustering) => clustering,
                    Err(why) => {
                        reasons.push(why);
                        continue;
                    }
                };
            let why = clustering.values_of(&candidate.column);
            if !self.always && !clustering.is_worthwhile() {
                reasons.push(why);
                continue;
            }
            let reservation =
                MemoryConsumer::new("OrderedAggregateExec borders").register(context.memory_pool());
            let (spec, key) = (Arc::clone(&self.spec), candidate.group);
            let borders = Borders::new(&clustering, reservation, move || GroupTable::new(&spec, key));
            let shared = Shared {
                scan,
                plan,
                borders,
                clustering,
                spec: Arc::clone(&self.spec),
                steps: Arc::clone(&self.steps),
                key: candidate.group,
                key_name: candidate.column.clone(),
                batch_rows: context.session_config().batch_size(),
            };
            return Ok(Choice::ByChunks(Arc::new(shared), why + &seen));
        }
        Ok(Choice::Otherwise(reasons.join(", ")))
    }

    async fn worker(shared: Arc<Shared>, books: Books) -> Result<Worker> {
        Worker::new(shared, books).await
    }
}
