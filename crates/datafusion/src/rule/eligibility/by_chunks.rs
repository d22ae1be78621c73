//! When aggregations, joins and window functions are done chunk by chunk, and by which columns chunks may be clustered.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::NullEquality;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;

use super::conjuncts::compares;
use super::reason::{Reason, not_volatile};
use crate::ordered::Step;
use crate::overflow::CheckedSum;
use crate::session::float_extrema::FloatExtremum;

/// An aggregation, from the rows of the scan (`first`) to its results (`last`, which may be the same node), can be done
/// chunk by chunk if
///
/// - there are groups, and no grouping sets, limits or filters that it fills;
/// - no function depends on the order of rows ([`in_any_order`]), which is another one, and nothing is volatile;
/// - the scan does not stop early, reads all of its files in this process, and has no more partitions than the result, so
///   that as many work as would have;
/// - files are adapted to the table by the names of their columns.
///
/// Which groups may be at borders follows from statistics when footers are there: [`crate::ordered`].
pub(crate) fn aggregation_by_chunks(
    last: &AggregateExec,
    first: &AggregateExec,
    steps: &[Step],
    scan: &FileScanConfig,
) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let groups = first.group_expr();
    let plain = |aggregate: &AggregateExec| {
        aggregate.limit_options().is_none() && aggregate.dynamic_expressions_produced().is_empty()
    };
    if groups.is_empty() || groups.has_grouping_set() || !plain(first) || !plain(last) {
        return Err(Reason::SpecialAggregation);
    }
    for function in first.aggr_expr() {
        if !in_any_order(function) {
            return Err(Reason::OrderedFunction(function.name().to_owned()));
        }
        function.expressions().iter().try_for_each(not_volatile)?;
    }
    groups.expr().iter().try_for_each(|(expr, _)| not_volatile(expr))?;
    first.filter_expr().iter().flatten().try_for_each(not_volatile)?;
    steps.iter().flat_map(Step::expressions).try_for_each(not_volatile)?;
    let partitions = last.properties().output_partitioning().partition_count();
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// A join can be done chunk by chunk, as far as it and what is done to its rows (`steps`) go, if
///
/// - nulls match nothing, and nothing else: then rows with the key null have no match wherever they are;
/// - it does not stop early, and nothing is volatile: rows may be computed more than once.
pub(crate) fn join_by_chunks(join: &HashJoinExec, steps: &[Step]) -> Result<(), Reason> {
    if let Some(rows) = join.fetch() {
        return Err(Reason::Limit(rows));
    }
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Err(Reason::SpecialJoin);
    }
    steps.iter().flat_map(Step::expressions).try_for_each(not_volatile)?;
    join.on().iter().try_for_each(|(left, right)| not_volatile(left).and_then(|()| not_volatile(right)))?;
    join.filter().map_or(Ok(()), |filter| not_volatile(filter.expression()))
}

/// A table (`steps` over `scan`) can be joined chunk by chunk, if
///
/// - the scan does not stop early, and nothing is volatile;
/// - the scan reads all of its files in this process, in no more partitions than the join has.
pub(crate) fn join_input_by_chunks(
    steps: &[Step],
    scan: &FileScanConfig,
    partitions: usize,
) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    steps.iter().flat_map(Step::expressions).try_for_each(not_volatile)?;
    if let Some(projection) = scan.file_source().projection() {
        projection.iter().try_for_each(|column| not_volatile(&column.expr))?;
    }
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// Window functions can be computed chunk by chunk, from a scan over `steps` up to the first of `nodes`, if nothing is
/// volatile, the scan does not stop early and reads all of its files in this process, in no more partitions than the
/// result has. By which column they are partitioned, and that chunks are clustered by it, is another matter.
pub(crate) fn window_by_chunks(
    nodes: &[Arc<dyn ExecutionPlan>],
    steps: &[Step],
    scan: &FileScanConfig,
    partitions: usize,
) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let above = nodes.iter().filter_map(|node| Step::of(node)).map(|(step, _)| step).collect::<Vec<_>>();
    let expressions = steps.iter().chain(&above).flat_map(Step::expressions);
    expressions.into_iter().try_for_each(not_volatile)?;
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// Whether the function has one result, whatever the order of rows: those of DataFusion's own of which that is known.
fn in_any_order(function: &AggregateFunctionExpr) -> bool {
    let inner = function.fun().inner();
    let known = inner.is::<Count>()
        || inner.is::<Sum>()
        || inner.is::<CheckedSum>()
        || inner.is::<Avg>()
        || inner.is::<Min>()
        || inner.is::<Max>()
        || inner.is::<FloatExtremum>()
        || inner.is::<BoolAnd>()
        || inner.is::<BoolOr>();
    known && function.order_bys().is_empty() && !function.is_reversed()
}

/// The name and the type of the files' column that this column of the scan is, if chunks may be clustered by it: it is
/// not computed, not one of partitioned folders, of one value a row, and statistics leave out no value but null.
pub(crate) fn clustering_column(scan: &FileScanConfig, column: usize) -> Option<(String, DataType)> {
    let source = scan.file_source();
    if scan.expr_adapter_factory.is_some() {
        return None;
    }
    let table = source.table_schema();
    let at = match source.projection() {
        Some(projection) => projection.iter().nth(column)?.expr.downcast_ref::<Column>()?.index(),
        None => column,
    };
    let field = table.file_schema().fields().get(at)?;
    let of = field.data_type();
    clusters(of).then(|| (field.name().clone(), of.clone()))
}

/// Whether chunks may be clustered by values of the type: one a row, in one order, of which none but null is left out of
/// statistics.
pub(crate) fn clusters(of: &DataType) -> bool {
    !of.is_nested() && !of.is_floating() && !matches!(of, DataType::Dictionary(..)) && compares(of)
}
