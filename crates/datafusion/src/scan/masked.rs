//! A cooperative scan that marks the rows that pass its filter and keeps the others.
//!
//! Its batches consist of the arrays that all scans share, with short decimals in 64 bits, and a last column
//! of marks. If a file has values outside its declared type that exceed 64 bits, the column has 128 bits, and
//! the batch's own schema says so.
//!
//! The only consumer is the aggregation above it. The node enters the plan after planning, so it answers the
//! planner's questions with the minimum. The aggregation asks for the width of its rows later.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

use crate::file::marks::marked;
use crate::scan::CScan;

/// A scan with marks; see the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct MaskedScan {
    scan: CScan,
    schema: SchemaRef,
}

impl MaskedScan {
    /// Wraps `scan` to mark rows.
    pub(crate) fn new(scan: CScan) -> Result<Self> {
        let schema = marked(&scan.config().projected_schema()?);
        Ok(MaskedScan { scan, schema })
    }

    /// The scan that drops rows instead.
    pub(crate) fn scan(&self) -> &CScan {
        &self.scan
    }
}

impl DataSource for MaskedScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.scan.create_sibling_state(config)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let reader = self.scan.reader(args, true)?;
        Ok(reader.into_stream(Arc::clone(&self.schema)))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.scan.fmt_as(t, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.scan.output_partitioning().partition_count())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.scan.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut known = Arc::unwrap_or_clone(self.scan.partition_statistics(partition)?);
        known.column_statistics.push(ColumnStatistics::new_unknown());
        Ok(Arc::new(known))
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.scan.metrics()
    }

    fn try_swapping_with_projection(&self, _: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }
}
