//! Conditions of aggregations that read the scan's arrays, and of arithmetic in 64 bits.

use std::sync::Arc;

use coscan_operators::Function;
use coscan_upstream::CheckedSum;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use super::reason::Reason;

/// A partial aggregation reads the arrays of the scan below it if it has no properties beyond its keys and
/// functions, and the scan does not stop early. Marked rows would count for the scan's limit.
pub(crate) fn aggregation_at_scan(aggregate: &AggregateExec, scan: &FileScanConfig) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let plain = *aggregate.mode() == AggregateMode::Partial
        && !aggregate.group_expr().has_grouping_set()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && *aggregate.input_order_mode() == InputOrderMode::Linear;
    if plain { Ok(()) } else { Err(Reason::SpecialAggregation) }
}

/// Returns the known function and its argument.
///
/// - DataFusion's own functions by type, because a user's function may have the same name.
/// - One argument, every value of which counts once, in any order.
/// - Types for which results are built. Other types that are coerced to them, such as smaller integers, have
///   a cast around them.
pub(crate) fn function_at_scan(
    function: &AggregateFunctionExpr,
    input: &Schema,
) -> Option<(Function, Arc<dyn PhysicalExpr>)> {
    let plain = !function.is_distinct()
        && !function.ignore_nulls()
        && !function.is_reversed()
        && function.order_bys().is_empty();
    let Ok([argument]) = <[Arc<dyn PhysicalExpr>; 1]>::try_from(function.expressions()) else { return None };
    let of = argument.data_type(input).ok()?;
    let inner = function.fun().inner();
    let known = if inner.is::<Count>() {
        Function::Count
    } else if (inner.is::<Sum>() || inner.is::<CheckedSum>())
        && matches!(of, DataType::Decimal128(..) | DataType::Int64)
    {
        Function::Sum
    } else if inner.is::<Avg>()
        && (matches!(of, DataType::Decimal128(..)) || is_of_integers(&argument, input))
    {
        Function::Average
    } else if inner.is::<Min>() {
        Function::Least
    } else if inner.is::<Max>() {
        Function::Greatest
    } else {
        return None;
    };
    (plain && !is_volatile(&argument)).then_some((known, argument))
}

/// Returns whether the expression converts integers to floating-point numbers. While their sum is below 2^53,
/// it is the same in any order, and equals that of the integers.
fn is_of_integers(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    expr.downcast_ref::<CastExpr>().is_some_and(|cast| {
        *cast.cast_type() == DataType::Float64
            && cast.expr().data_type(input).is_ok_and(|of| of.is_signed_integer())
    })
}

/// Decimal arithmetic in an expression is tried in 64 bits if it contains nothing volatile. Where 64 bits do
/// not hold the values, its operands are evaluated a second time.
pub(crate) fn narrow_arithmetic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !is_volatile(expr)
}

/// The arguments of an aggregate function may be replaced by equal ones if the function has no order by them.
pub(crate) fn narrow_arguments(function: &AggregateFunctionExpr) -> bool {
    function.order_bys().is_empty() && !function.is_reversed()
}
