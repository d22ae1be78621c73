//! Conditions that have a value for every row.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

/// Returns whether the condition has a value for every row, so that it may be evaluated for rows that other
/// conditions rule out. This holds for comparisons of columns and constants of one type, including patterns,
/// for columns of truth values, and for their combinations. Other expressions may divide by zero, overflow or fail to parse.
pub fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    compares_columns(expr, schema, lengthens)
}

/// Returns the conditions in an order in which those that cannot fail but for casts to wider types come first. Such casts are of
/// columns that files of one table have in several types.
pub fn safest_first(conditions: Vec<Arc<dyn PhysicalExpr>>, schema: &Schema) -> Vec<Arc<dyn PhysicalExpr>> {
    let (first, others): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(|of| compares_columns(of, schema, holds_all_values));
    first.into_iter().chain(others).collect()
}

/// Returns whether the condition compares columns, constants and columns that are cast in a way that `allowed` accepts.
fn compares_columns(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    allowed: fn(&DataType, &DataType) -> bool,
) -> bool {
    let cannot_fail = |expr: &Arc<dyn PhysicalExpr>| compares_columns(expr, schema, allowed);
    let column = |expr: &Arc<dyn PhysicalExpr>| {
        let column = expr.downcast_ref::<CastExpr>().map_or(expr, CastExpr::expr);
        let cast = || matches!((column.data_type(schema), expr.data_type(schema)), (Ok(from), Ok(to)) if allowed(&from, &to));
        column.is::<Column>() && (std::ptr::eq(column, expr) || cast())
    };
    let simple = |expr: &Arc<dyn PhysicalExpr>| column(expr) || expr.is::<Literal>();
    let of_one_type = |a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>| matches!((a.data_type(schema), b.data_type(schema)), (Ok(a), Ok(b)) if a == b && compares(&a));
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::And | Operator::Or => cannot_fail(left) && cannot_fail(right),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => simple(left) && simple(right) && of_one_type(left, right),
            _ => false,
        };
    }
    if expr.is::<Column>() {
        return matches!(expr.data_type(schema), Ok(DataType::Boolean));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return cannot_fail(not.arg());
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return column(list.expr())
            && list.list().iter().all(|item| item.is::<Literal>() && of_one_type(list.expr(), item));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let pattern = like.pattern().downcast_ref::<Literal>().map(|pattern| pattern.value().try_as_str());
        // The regular expression of a long pattern may become too large.
        let is_short = matches!(pattern, Some(Some(Some(pattern))) if pattern.len() <= PATTERN_BYTES_MAX);
        return is_short && column(like.expr()) && of_one_type(like.expr(), like.pattern());
    }
    let tested = expr.downcast_ref::<IsNullExpr>().map(IsNullExpr::arg);
    tested.or_else(|| expr.downcast_ref::<IsNotNullExpr>().map(IsNotNullExpr::arg)).is_some_and(simple)
}

/// Every LIKE with a pattern of at most so many bytes succeeds.
const PATTERN_BYTES_MAX: usize = 256;

/// Returns whether Arrow compares any two values of the type.
pub fn compares(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => compares(values),
        other => other.is_primitive(),
    }
}

/// Returns whether the cast keeps a decimal's value in at least as many bits.
fn lengthens(from: &DataType, to: &DataType) -> bool {
    matches!((from, to), (DataType::Decimal64(p, s), DataType::Decimal128(q, t)) if (p, s) == (q, t))
}

/// Returns whether the second type holds all values of the first.
fn holds_all_values(from: &DataType, to: &DataType) -> bool {
    use DataType::{Dictionary, Float64, LargeUtf8, Utf8View};
    let bits = |of: &DataType| of.primitive_width().unwrap_or_default() * 8;
    match (from, to) {
        _ if from == to || lengthens(from, to) => true,
        (Dictionary(_, values), to) => holds_all_values(values, to),
        (from, LargeUtf8 | Utf8View) => from.is_string(),
        (from, to) if from.is_integer() && to.is_integer() => {
            let sign = usize::from(to.is_signed_integer() && from.is_unsigned_integer());
            (to.is_signed_integer() || from.is_unsigned_integer()) && bits(from) + sign <= bits(to)
        }
        (from, Float64) => from.is_integer() || from.is_floating(),
        (from, to) => from.is_floating() && to.is_floating() && bits(from) <= bits(to),
    }
}
