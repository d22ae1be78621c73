//! The definition of an aggregation, in terms of the batches that it reads.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::GroupsAccumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;

/// Groups, functions and their arguments.
#[derive(Debug)]
pub(crate) struct AggregateSpec {
    groups: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema of the groups.
    pub(super) group_schema: SchemaRef,
    functions: Vec<Function>,
    /// Groups and results.
    pub(super) output: SchemaRef,
    /// Whether adjacent equal keys are found without a hash table. The types of all groups must be
    /// comparable, with the same equality as in DataFusion's hash tables.
    pub(super) has_runs: bool,
}

#[derive(Debug)]
struct Function {
    expr: Arc<AggregateFunctionExpr>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

/// A function's arguments for the rows of a batch, and the rows that count.
pub(super) struct Arguments {
    pub(super) values: Vec<ArrayRef>,
    pub(super) filter: Option<BooleanArray>,
}

impl AggregateSpec {
    /// Creates the definition of an aggregation of raw rows with the result schema `output`.
    pub(crate) fn new(aggregate: &AggregateExec, output: SchemaRef) -> Result<Self> {
        let groups: Vec<_> = aggregate.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
        let group_schema = aggregate.group_expr().group_schema(&aggregate.input_schema())?;
        let functions = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
        let functions = functions.map(|(expr, filter)| Function {
            expr: Arc::clone(expr),
            arguments: expr.expressions(),
            filter: filter.clone(),
        });
        let has_runs = group_schema.fields().iter().all(|field| has_runs(field.data_type()));
        Ok(AggregateSpec { groups, group_schema, functions: functions.collect(), output, has_runs })
    }

    pub(super) fn groups(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.groups.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    pub(super) fn arguments(&self, batch: &RecordBatch) -> Result<Vec<Arguments>> {
        let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(batch.num_rows());
        let functions = self.functions.iter().map(|function| {
            let values = function.arguments.iter().map(array).collect::<Result<_>>()?;
            let filter = function.filter.as_ref().map(array).transpose()?;
            Ok(Arguments { values, filter: filter.map(|filter| filter.as_boolean().clone()) })
        });
        functions.collect()
    }

    pub(super) fn accumulators(&self) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
        self.functions.iter().map(|function| accumulator(&function.expr)).collect()
    }
}

fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = Arc::clone(expr);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
}

/// Returns whether runs of the type are supported. Views are not, because a kept view keeps the whole buffer
/// to which it points. Floating-point numbers are not, because zero and NaN have several forms.
fn has_runs(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => true,
        DataType::Boolean => true,
        DataType::Interval(_) => false,
        other => other.is_primitive() && !other.is_floating(),
    }
}
