//! When an aggregation reads the scan's arrays, and when arithmetic is done in 64 bits.

use std::sync::Arc;

use coscan_operators::Function;
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
use crate::overflow::CheckedSum;

/// A partial aggregation reads the arrays of the scan below it if it has no properties beyond its keys and functions,
/// and the scan does not stop early: rows that are marked, not dropped, would count for its limit.
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

/// Which of the functions known here this is, and its argument.
///
/// - DataFusion's own by type: a user's function may have its name.
/// - One argument, every value of which counts once, in any order.
/// - Types that the result is made of here. What else is coerced to them (smaller integers) has a cast around it.
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

/// Whether the expression makes floating-point numbers of integers. As long as their sum is below 2^53, it is the same in any
/// order, and that of the integers.
fn is_of_integers(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    expr.downcast_ref::<CastExpr>().is_some_and(|cast| {
        *cast.cast_type() == DataType::Float64
            && cast.expr().data_type(input).is_ok_and(|of| of.is_signed_integer())
    })
}

/// Decimal arithmetic in an expression is tried in 64 bits if nothing in it is volatile: where 64 bits do not hold the
/// values, its operands are evaluated a second time.
pub(crate) fn narrow_arithmetic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !is_volatile(expr)
}

/// The arguments of an aggregate function may be replaced by equal ones if no order is tied to them.
pub(crate) fn narrow_arguments(function: &AggregateFunctionExpr) -> bool {
    function.order_bys().is_empty() && !function.is_reversed()
}
