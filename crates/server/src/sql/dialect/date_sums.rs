//! The sum of a date and an interval, which is a timestamp in PostgreSQL.
//!
//! The query engine's sum of a date and whole days is a date. Within a statement it stays one, because files can be
//! skipped by comparisons of dates, and both are equal. What a client sees is a timestamp.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection, cast,
};

/// The plan with timestamps in place of such sums among the columns of its result.
pub(crate) fn with_timestamps(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(in_result(plan)?.data)
}

fn in_result(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(columns) => in_columns(columns),
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
            let inner = plan.map_children(in_result)?;
            if inner.transformed { inner.map_data(LogicalPlan::recompute_schema) } else { Ok(inner) }
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn in_columns(columns: Projection) -> Result<Transformed<LogicalPlan>> {
    let sums: Vec<bool> = columns.expr.iter().map(|expr| is_sum(expr, &columns.input)).collect();
    if !sums.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Projection(columns)));
    }
    let exprs = columns.expr.iter().zip(&sums).enumerate().map(|(at, (expr, is_sum))| {
        if !is_sum {
            return expr.clone();
        }
        let (qualifier, field) = columns.schema.qualified_field(at);
        as_timestamp(expr.clone().unalias_nested().data).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = Projection::try_new(exprs.collect(), Arc::clone(&columns.input))?;
    Ok(Transformed::yes(LogicalPlan::Projection(columns)))
}

/// Returns whether an expression over a plan is such a sum, or a column with one.
fn is_sum(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => is_sum(&alias.expr, input),
        Expr::Column(column) => {
            input.schema().maybe_index_of_column(column).is_some_and(|at| is_sum_column(input, at))
        }
        expr => is_date_sum(expr, input.schema().as_ref()),
    }
}

/// Returns whether the column of a plan at this place has such a sum.
fn is_sum_column(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(columns) => is_sum(&columns.expr[at], &columns.input),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.get(at).is_some_and(|key| is_sum(key, &aggregate.input))
        }
        LogicalPlan::SubqueryAlias(alias) => is_sum_column(&alias.input, at),
        LogicalPlan::Filter(filter) => is_sum_column(&filter.input, at),
        LogicalPlan::Sort(sort) => is_sum_column(&sort.input, at),
        LogicalPlan::Limit(limit) => is_sum_column(&limit.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => is_sum_column(input, at),
        _ => false,
    }
}

/// Returns whether an expression is such a sum.
pub(super) fn is_date_sum(of: &Expr, schema: &dyn ExprSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) = of else {
        return false;
    };
    let is = |of: &Expr, fits: fn(&DataType) -> bool| of.get_type(schema).is_ok_and(|of| fits(&of));
    let is_interval = |of: &Expr| is(of, |of| matches!(of, DataType::Interval(_))) && !is_days(of, schema);
    (is_interval(left) || is_interval(right)) && is(of, |of| *of == DataType::Date32)
}

/// Returns whether an interval is a number of days, which the query engine casts to seconds: `date + 1` is a date.
fn is_days(of: &Expr, schema: &dyn ExprSchema) -> bool {
    let Expr::Cast(Cast { expr, .. }) = of else { return false };
    matches!(expr.get_type(schema), Ok(DataType::Duration(TimeUnit::Second)))
}

/// The sum as a timestamp.
pub(super) fn as_timestamp(sum: Expr) -> Expr {
    cast(sum, DataType::Timestamp(TimeUnit::Microsecond, None))
}
