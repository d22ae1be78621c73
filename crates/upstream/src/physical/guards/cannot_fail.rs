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
    let simple = |expr: &Arc<dyn PhysicalExpr>| {
        // The cast only lengthens decimals, so every value fits.
        let column = expr.downcast_ref::<CastExpr>().map_or(expr, CastExpr::expr);
        column.is::<Column>() && (std::ptr::eq(column, expr) || widens(column, expr, schema))
            || expr.is::<Literal>()
    };
    let of_one_type = |a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>| matches!((a.data_type(schema), b.data_type(schema)), (Ok(a), Ok(b)) if a == b && compares(&a));
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::And | Operator::Or => cannot_fail(left, schema) && cannot_fail(right, schema),
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
        return cannot_fail(not.arg(), schema);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return list.expr().is::<Column>()
            && list.list().iter().all(|item| item.is::<Literal>() && of_one_type(list.expr(), item));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let pattern = like.pattern().downcast_ref::<Literal>().map(|pattern| pattern.value().try_as_str());
        // The regular expression of a long pattern may become too large.
        let is_short = matches!(pattern, Some(Some(Some(pattern))) if pattern.len() <= PATTERN_BYTES_MAX);
        return is_short && like.expr().is::<Column>() && of_one_type(like.expr(), like.pattern());
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
fn widens(from: &Arc<dyn PhysicalExpr>, to: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let types = (from.data_type(schema), to.data_type(schema));
    matches!(types, (Ok(DataType::Decimal64(p, s)), Ok(DataType::Decimal128(q, t))) if (p, s) == (q, t))
}
