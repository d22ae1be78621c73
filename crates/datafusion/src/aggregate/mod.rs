//! Partial aggregation right above a cooperative scan.
//!
//! Sums, averages and counts of decimals and integers for few groups are what dashboards ask for most. Between a scan
//! and DataFusion's aggregation every scan would copy the rows that pass its filter and make 128 bits of every decimal.
//! Here the shared arrays are read in place: the scan marks the rows that pass, and sums are made in 64 bits, moved to
//! 128 bits before they may overflow. The state that leaves is the one that DataFusion's own partial aggregation has, so
//! that whatever combines partitions stays as it is.
//!
//! When there are many groups, or values do not fit, the rest of a partition is handed over to DataFusion's
//! aggregation (`rest`). What this does not know (other functions, distinct, ordered, filtered) is not touched.

mod arithmetic;
mod exec;
mod keys;
mod rest;
mod totals;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::cscan::CScan;
use crate::marked::MarkedScan;
use arithmetic::Program;
use exec::ScanAggregateExec;

/// What a partial aggregation computes, in terms of a scan that marks rows.
#[derive(Debug)]
pub(crate) struct Aggregation {
    /// The columns to group by.
    keys: Vec<usize>,
    program: Program,
    sums: Vec<Sum>,
    /// Columns of which none may be null for a row to count, or to be added.
    column_sets: Vec<Vec<usize>>,
    /// The columns of the state, after the keys.
    states: Vec<State>,
    /// The column that tells which rows pass.
    marks: usize,
    schema: SchemaRef,
}

#[derive(Debug)]
struct Sum {
    step: usize,
    column_set: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Of rows; those without nulls in a set of columns.
    Count(Option<usize>),
    Sum(usize),
}

/// The node as an aggregation that reads the shared arrays of a scan, if it is a partial aggregation right above one
/// and this can compute it. `original` is what takes over when it cannot go on: the node itself, or what computes the
/// same.
pub(crate) fn at_scan(
    node: &Arc<dyn ExecutionPlan>,
    original: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let projection = aggregate.input().downcast_ref::<ProjectionExec>();
    let leaf = projection.map_or(aggregate.input(), ProjectionExec::input);
    let source = leaf.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let Some(scan) = source.and_then(|source| source.downcast_ref::<CScan>()) else { return Ok(None) };
    if !is_plain(aggregate) || scan.config().limit.is_some() {
        return Ok(None);
    }
    let Some(aggregation) = Aggregation::new(aggregate, projection, &leaf.schema())? else { return Ok(None) };
    let marked = DataSourceExec::from_data_source(MarkedScan::new(scan.clone())?);
    let exec = ScanAggregateExec::new(aggregation, marked, leaf.schema(), original()?);
    Ok(Some(Arc::new(exec)))
}

/// Whether the aggregation has no properties beyond its keys and functions.
fn is_plain(aggregate: &AggregateExec) -> bool {
    *aggregate.mode() == AggregateMode::Partial
        && !aggregate.group_expr().has_grouping_set()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
}

impl Aggregation {
    fn new(
        aggregate: &AggregateExec,
        projection: Option<&ProjectionExec>,
        scan: &Schema,
    ) -> Result<Option<Self>> {
        let mut aggregation = Aggregation {
            keys: Vec::new(),
            program: Program::default(),
            sums: Vec::new(),
            column_sets: Vec::new(),
            states: Vec::new(),
            marks: scan.fields().len(),
            schema: aggregate.schema(),
        };
        for (key, _) in aggregate.group_expr().expr() {
            let key = inlined(key, projection)?;
            match key.downcast_ref::<Column>() {
                Some(column) if keys::is_key(scan.field(column.index()).data_type()) => {
                    aggregation.keys.push(column.index());
                }
                _ => return Ok(None),
            }
        }
        for function in aggregate.aggr_expr() {
            if !aggregation.add(function, projection, scan)? {
                return Ok(None);
            }
        }
        Ok(aggregation.makes_its_states().then_some(aggregation))
    }

    /// Whether the columns of the state have types that are made here.
    fn makes_its_states(&self) -> bool {
        let types = self.schema.fields().iter().skip(self.keys.len()).map(|field| field.data_type());
        let made = |(state, data_type): (&State, &DataType)| match state {
            State::Count(_) => matches!(data_type, DataType::Int64 | DataType::UInt64),
            State::Sum(_) => matches!(data_type, DataType::Decimal128(..) | DataType::Int64),
        };
        // Without a function it is a search for distinct values, which are likely to be many.
        !self.states.is_empty() && types.len() == self.states.len() && self.states.iter().zip(types).all(made)
    }

    /// Adds a function; false if it is none of those known here.
    fn add(
        &mut self,
        function: &AggregateFunctionExpr,
        projection: Option<&ProjectionExec>,
        scan: &Schema,
    ) -> Result<bool> {
        let plain = !function.is_distinct() && function.order_bys().is_empty() && !function.is_reversed();
        let Ok([argument]) = <[Arc<dyn PhysicalExpr>; 1]>::try_from(function.expressions()) else {
            return Ok(false);
        };
        let argument = inlined(&argument, projection)?;
        match function.fun().name() {
            _ if !plain => Ok(false),
            "count" => Ok(self.add_count(&argument)),
            "sum" => Ok(self.add_sum(&argument, scan)?.is_some_and(|sum| {
                self.states.push(State::Sum(sum));
                true
            })),
            "avg" if matches!(argument.data_type(scan)?, DataType::Decimal128(..)) => {
                Ok(self.add_sum(&argument, scan)?.is_some_and(|sum| {
                    let count = State::Count(Some(self.sums[sum].column_set));
                    self.states.extend([count, State::Sum(sum)]);
                    true
                }))
            }
            _ => Ok(false),
        }
    }

    fn add_count(&mut self, argument: &Arc<dyn PhysicalExpr>) -> bool {
        let set = match (argument.downcast_ref::<Column>(), argument.downcast_ref::<Literal>()) {
            (Some(column), _) => Some(self.column_set(vec![column.index()])),
            (_, Some(literal)) if !literal.value().is_null() => None,
            _ => return false,
        };
        self.states.push(State::Count(set));
        true
    }

    fn add_sum(&mut self, argument: &Arc<dyn PhysicalExpr>, scan: &Schema) -> Result<Option<usize>> {
        let Some((step, columns)) = self.program.add(argument, scan)? else { return Ok(None) };
        let column_set = self.column_set(columns);
        let known = self.sums.iter().position(|sum| sum.step == step);
        Ok(Some(known.unwrap_or_else(|| {
            self.sums.push(Sum { step, column_set });
            self.sums.len() - 1
        })))
    }

    fn column_set(&mut self, columns: Vec<usize>) -> usize {
        self.column_sets.iter().position(|known| *known == columns).unwrap_or_else(|| {
            self.column_sets.push(columns);
            self.column_sets.len() - 1
        })
    }
}

/// The expression over the input of the projection.
fn inlined(
    expr: &Arc<dyn PhysicalExpr>,
    projection: Option<&ProjectionExec>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(projection) = projection else { return Ok(Arc::clone(expr)) };
    let columns = projection.expr();
    Arc::clone(expr)
        .transform_up(|expr| {
            Ok(match expr.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::clone(&columns[column.index()].expr)),
                None => Transformed::no(expr),
            })
        })
        .data()
}
