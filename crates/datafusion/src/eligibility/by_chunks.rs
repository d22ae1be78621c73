//! Conditions of aggregations, joins and window functions by chunks, and of clustering columns.

use std::sync::Arc;

use coscan_upstream::{CheckedSum, FloatExtremum, compares};
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

use super::reason::{Reason, not_volatile};
use super::steps::Step;

/// An aggregation can be computed chunk by chunk under these conditions. It goes from the rows of the scan
/// (`first`) to its results (`last`, which may be the same node).
///
/// - It has groups, and no grouping sets, limits or filters that it fills.
/// - No function depends on the order of rows ([`in_any_order`]), because that order changes. Nothing is
///   volatile.
/// - The scan does not stop early and reads all of its files in this process. It has no more partitions than
///   the result, so that the parallelism stays the same.
/// - Files are adapted to the table by the names of their columns.
///
/// Statistics tell which groups may lie at borders, once footers are read; see [`crate::ordered`].
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

/// A join with the `steps` on its output can be computed chunk by chunk under these conditions. Its inputs
/// have their own.
///
/// - Null matches nothing, and has no other meaning. Then rows with a null key have no match in any chunk.
/// - It does not stop early, and nothing is volatile, because rows may be computed more than once.
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

/// A table (`steps` over `scan`) can be joined chunk by chunk if
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

/// Window functions, from a scan over `steps` up to the first of `nodes`, can be computed chunk by chunk if
///
/// - nothing is volatile;
/// - the scan does not stop early;
/// - the scan reads all of its files in this process, in no more partitions than the result has.
///
/// The caller checks their partitioning column and its clustering.
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

/// Returns whether the function has the same result in any order of rows. True only for known functions of
/// DataFusion.
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

/// Returns the name and the type of the files' column that this column of the scan is, if chunks may be
/// clustered by it. It must not be computed or come from a partitioned folder. It must have one value a row,
/// and statistics must leave out no value but null.
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

/// Returns whether chunks may be clustered by values of the type. It must have one value a row, in one order,
/// and statistics must leave out none but null.
pub(crate) fn clusters(of: &DataType) -> bool {
    !of.is_nested() && !of.is_floating() && !matches!(of, DataType::Dictionary(..)) && compares(of)
}
