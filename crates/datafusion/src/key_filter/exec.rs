//! A node that collects the keys of a join's build side as its rows pass, and fills the filters of its probe
//! side after the last row.
//!
//! A filter stays empty if some rows do not pass, because a partition is not read to its end, or fails. An
//! empty filter leaves out no row.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use coscan_upstream::one_input::{OneInput, OneInputExec};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, in_list, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{Stream, StreamExt};

use super::in_keys::InKeys;
use super::keys::{Known, Values};
use crate::lock::lock;

/// Up to this many keys are also given as a list. DataFusion looks for each of them in the statistics of a
/// row group.
const LISTED: usize = 20;

/// A key of a join.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    /// Over the build side.
    build: Arc<dyn PhysicalExpr>,
    /// The column of the probe side that is equal to it.
    probe: Column,
    probe_schema: SchemaRef,
    data_type: DataType,
    filter: Arc<DynamicFilterPhysicalExpr>,
}

impl KeyFilter {
    /// Creates the empty filter of a key with integers of this type.
    pub(crate) fn new(
        build: Arc<dyn PhysicalExpr>,
        probe: &Column,
        probe_schema: SchemaRef,
        data_type: DataType,
    ) -> Self {
        let column: Arc<dyn PhysicalExpr> = Arc::new(probe.clone());
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column], lit(true)));
        KeyFilter { build, probe: probe.clone(), probe_schema, data_type, filter }
    }

    /// Returns the filter over the probe side.
    pub(crate) fn filter(&self) -> Arc<dyn PhysicalExpr> {
        Arc::clone(&self.filter) as _
    }

    /// Fills the filter. `known` must describe all keys.
    fn fill(&self, known: Known) -> Result<()> {
        self.filter.update(self.of(known)?)?;
        self.filter.mark_complete();
        Ok(())
    }

    /// Returns the predicate for rows of the probe side with a key among the known ones.
    fn of(&self, known: Known) -> Result<Arc<dyn PhysicalExpr>> {
        let Some((least, greatest)) = known.hull else { return Ok(lit(false)) };
        let column: Arc<dyn PhysicalExpr> = Arc::new(self.probe.clone());
        let value = |key: i64| ScalarValue::Int64(Some(key)).cast_to(&self.data_type).map(lit);
        let compare = |op, key| -> Result<Arc<dyn PhysicalExpr>> {
            Ok(Arc::new(BinaryExpr::new(Arc::clone(&column), op, value(key)?)))
        };
        let mut all = vec![compare(Operator::GtEq, least)?, compare(Operator::LtEq, greatest)?];
        if let Some(few) = known.few {
            let listed = few.into_iter().map(value).collect::<Result<_>>()?;
            all.push(in_list(Arc::clone(&column), listed, &false, &self.probe_schema)?);
        }
        if let Some(set) = known.set {
            all.push(Arc::new(InKeys::new(column, Arc::new(set))));
        }
        Ok(conjunction(all))
    }
}

/// Collects keys of the rows that pass.
pub(crate) struct KeyFilters {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<[KeyFilter]>,
    partitions: Arc<Mutex<Vec<Partition>>>,
}

/// The progress of a partition.
#[derive(Debug)]
enum Partition {
    NotRead,
    BeingRead,
    /// The partition's values, by key.
    Read(Vec<Values>),
}

impl Partition {
    /// Takes the values of a partition that was read.
    fn take(&mut self) -> Vec<Values> {
        match std::mem::replace(self, Partition::BeingRead) {
            Partition::Read(values) => values,
            Partition::NotRead | Partition::BeingRead => Vec::new(),
        }
    }
}

/// A node that collects keys.
pub(crate) type KeyFiltersExec = OneInputExec<KeyFilters>;

impl KeyFilters {
    /// Puts the node over all rows of the build side.
    pub(crate) fn exec(input: Arc<dyn ExecutionPlan>, keys: Arc<[KeyFilter]>) -> Arc<dyn ExecutionPlan> {
        let partitions = input.output_partitioning().partition_count();
        let partitions = (0..partitions).map(|_| Partition::NotRead).collect();
        Arc::new(OneInputExec(KeyFilters { input, keys, partitions: Arc::new(Mutex::new(partitions)) }))
    }
}

impl OneInput for KeyFilters {
    const NAME: &'static str = "KeyFilterExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn describe(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, key) in self.keys.iter().enumerate() {
            write!(f, "{} {} = {}", if at == 0 { ":" } else { "," }, key.probe, key.build)?;
        }
        Ok(())
    }

    fn over(node: &Arc<KeyFiltersExec>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        KeyFilters::exec(input, Arc::clone(&node.0.keys))
    }

    /// The filters describe rows of this execution; those of the next may differ.
    fn again(node: &Arc<KeyFiltersExec>) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&node.0.input)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let mut partitions = lock(&self.partitions);
        match partitions.get_mut(partition) {
            Some(state) if matches!(state, Partition::NotRead) => *state = Partition::BeingRead,
            _ => return Ok(input),
        }
        let pool = Arc::clone(context.memory_pool());
        let collecting = Collecting {
            keys: Arc::clone(&self.keys),
            values: self.keys.iter().map(|_| Values::new(&pool)).collect(),
            pool,
            partition,
            partitions: Arc::clone(&self.partitions),
        };
        Ok(Box::pin(CollectingStream { input, collecting: Some(collecting) }))
    }
}

/// The keys that one partition collects.
struct Collecting {
    keys: Arc<[KeyFilter]>,
    values: Vec<Values>,
    pool: Arc<dyn MemoryPool>,
    partition: usize,
    partitions: Arc<Mutex<Vec<Partition>>>,
}

impl Collecting {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        for (key, values) in self.keys.iter().zip(&mut self.values) {
            values.add(&key.build.evaluate(batch)?.into_array(batch.num_rows())?)?;
        }
        Ok(())
    }

    /// Ends the partition, all of whose rows have passed. The last partition fills the filters.
    fn finish(self) -> Result<()> {
        let mut all: Vec<_> = {
            let mut partitions = lock(&self.partitions);
            partitions[self.partition] = Partition::Read(self.values);
            if !partitions.iter().all(|partition| matches!(partition, Partition::Read(_))) {
                return Ok(());
            }
            partitions.iter_mut().map(Partition::take).map(Vec::into_iter).collect()
        };
        for key in self.keys.iter() {
            let values = all.iter_mut().filter_map(Iterator::next).collect();
            key.fill(Known::of(values, LISTED, &self.pool))?;
        }
        Ok(())
    }
}

/// The rows of one partition, whose keys are collected as they pass.
struct CollectingStream {
    input: SendableRecordBatchStream,
    /// `None` when there is nothing more to collect.
    collecting: Option<Collecting>,
}

impl Stream for CollectingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.poll_next_unpin(context));
        // An expression that fails here fails in the join, too. Without a filter the scan only reads more.
        match (&next, &mut self.collecting) {
            (Some(Ok(batch)), Some(collecting)) => {
                if collecting.add(batch).is_err() {
                    self.collecting = None;
                }
            }
            (Some(Err(_)), collecting) => *collecting = None,
            (None, collecting) => {
                if let Some(Err(error)) = collecting.take().map(Collecting::finish) {
                    tracing::debug!(%error, "a join has no filter of its keys");
                }
            }
            (Some(Ok(_)), None) => {}
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for CollectingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
