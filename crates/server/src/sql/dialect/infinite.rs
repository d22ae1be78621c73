//! Infinite times: `ends < 'infinity'`, `at BETWEEN '-infinity' AND 'infinity'`.
//!
//! The query engine has no infinite times. In a comparison, the first and the last value of the type have the same place
//! in the order of all times. Elsewhere [`literals`](super::literals) refuses them, because functions would take them
//! for times.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, lit};

/// Functions that return one of their arguments.
const CHOOSE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Returns whether a text is an infinite time.
pub(super) fn is_infinite(text: &str) -> bool {
    is_last(text).is_some()
}

/// Returns whether an infinite time is behind all others. `None` for other texts.
fn is_last(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "infinity" => Some(true),
        "-infinity" => Some(false),
        _ => None,
    }
}

/// The expression with the first or the last value of the type in place of infinite times in comparisons.
pub(super) fn in_comparisons(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| match &expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) if op.supports_propagation() => expr.map_children(bound),
        Expr::Between(_) | Expr::InList(_) => expr.map_children(bound),
        _ => Ok(Transformed::no(expr)),
    })
}

/// An operand of a comparison.
fn bound(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: of, field }) => match value(&of, field.data_type())? {
            Some(value) => Ok(Transformed::yes(lit(value))),
            None => Ok(Transformed::no(Expr::Cast(Cast { expr: of, field }))),
        },
        Expr::Case(mut case) => {
            let any = of_case(&mut case)?;
            Ok(Transformed::new_transformed(Expr::Case(case), any))
        }
        Expr::ScalarFunction(ScalarFunction { ref func, .. }) if CHOOSE.contains(&func.name()) => {
            expr.map_children(bound)
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Replaces infinite results. Returns whether there are any.
fn of_case(case: &mut Case) -> Result<bool> {
    let results = case.when_then_expr.iter_mut().map(|(_, result)| result).chain(&mut case.else_expr);
    let mut any = false;
    for result in results {
        let bound = bound(result.as_ref().clone())?;
        any |= bound.transformed;
        **result = bound.data;
    }
    Ok(any)
}

/// The value of an infinite time in a type. `None` for other expressions and types.
fn value(of: &Expr, to: &DataType) -> Result<Option<ScalarValue>> {
    let is_last = match of {
        Expr::Literal(text, _) => text.try_as_str().flatten().and_then(is_last),
        // A date beside a time.
        Expr::Cast(Cast { expr: of, field }) if field.data_type().is_temporal() => match of.as_ref() {
            Expr::Literal(text, _) => text.try_as_str().flatten().and_then(is_last),
            _ => None,
        },
        _ => None,
    };
    let Some(is_last) = is_last else { return Ok(None) };
    let sign = if is_last { 1 } else { -1 };
    match to {
        DataType::Timestamp(..) => ScalarValue::from(sign * i64::MAX).cast_to(to).map(Some),
        DataType::Date32 => Ok(Some(ScalarValue::Date32(Some(sign as i32 * i32::MAX)))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::functions::core::expr_fn::coalesce;
    use datafusion::logical_expr::{cast, col};

    use super::*;

    #[test]
    fn only_comparisons_have_bounds() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let infinite = || cast(lit("Infinity"), time.clone());
        let last = lit(ScalarValue::TimestampMicrosecond(Some(i64::MAX), None));
        for (of, with_bounds) in [
            (col("a").lt(infinite()), col("a").lt(last.clone())),
            (
                coalesce(vec![col("a"), infinite()]).gt(col("b")),
                coalesce(vec![col("a"), last.clone()]).gt(col("b")),
            ),
            (
                col("a").gt_eq(cast(cast(lit("-infinity"), DataType::Date32), time.clone())),
                col("a").gt_eq(lit(ScalarValue::TimestampMicrosecond(Some(-i64::MAX), None))),
            ),
        ] {
            assert_eq!(in_comparisons(of).unwrap().data, with_bounds);
        }
        for other in [infinite(), infinite() - col("a"), coalesce(vec![col("a"), infinite()])] {
            assert!(!in_comparisons(other).unwrap().transformed);
        }
    }
}
