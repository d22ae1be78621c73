//! The precedence of `IS DISTINCT FROM`, which binds more tightly than NOT, AND and OR. The parser takes
//! everything that follows for its right side, so it reads `a IS DISTINCT FROM b AND c` as a comparison with
//! `b AND c`. Parenthesized expressions stay as they are.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use crate::walk::{Tree, visit_mut};

/// Groups conditions by precedence, the innermost first.
pub(crate) fn group<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut Precedence);
}

struct Precedence;

impl VisitorMut for Precedence {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        regroup(expr);
        ControlFlow::Continue(())
    }
}

/// Moves the expression into its right side, if that binds less tightly.
fn regroup(expr: &mut Expr) {
    let binds = binding(expr);
    let Some(right) = right_side(expr).filter(|right| binding(right) < binds) else { return };
    // The first operand of the right side is the true right side. The rest of it moves above the expression.
    let mut above = std::mem::replace(right, Expr::value(Value::Boolean(false)));
    let Expr::BinaryOp { left, .. } = &mut above else { return };
    std::mem::swap(right, left);
    std::mem::swap(expr, left);
    regroup(left);
    *expr = above;
}

/// Returns the precedence of an expression that may be misread, or may cause the misreading.
fn binding(expr: &Expr) -> u8 {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => 1,
        Expr::BinaryOp { op: BinaryOperator::Xor, .. } => 2,
        Expr::BinaryOp { op: BinaryOperator::And, .. } => 3,
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => 4,
        _ => 5,
    }
}

fn right_side(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some(right),
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Xor, right, .. } => Some(right),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn expr(sql: &str) -> Expr {
        let parser = Parser::new(&PostgreSqlDialect {});
        parser.try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).expect(sql)
    }

    /// Returns the expression without parentheses around its parts.
    fn bare(mut expr: Expr) -> Expr {
        struct Bare;
        impl VisitorMut for Bare {
            type Break = ();

            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                if let Expr::Nested(inner) = expr {
                    *expr = std::mem::replace(inner, Expr::value(Value::Boolean(false)));
                }
                ControlFlow::Continue(())
            }
        }
        let _ = visit_mut(&mut expr, &mut Bare);
        expr
    }

    #[test]
    fn conditions_are_grouped_as_they_bind() {
        for (written, meant) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR (c AND d)"),
            ("a IS DISTINCT FROM b AND c OR d", "((a IS DISTINCT FROM b) AND c) OR d"),
            ("x AND a IS DISTINCT FROM b AND c", "x AND ((a IS DISTINCT FROM b) AND c)"),
            ("x AND a IS DISTINCT FROM b OR c", "(x AND (a IS DISTINCT FROM b)) OR c"),
            ("x OR a IS DISTINCT FROM b AND c", "x OR ((a IS DISTINCT FROM b) AND c)"),
            ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) OR e",
            ),
            ("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM (b = c)) AND d"),
            ("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM (b AND c)"),
            ("x AND (a OR b) AND NOT (c OR d)", "(x AND (a OR b)) AND (NOT (c OR d))"),
            ("x OR a AND NOT b", "x OR (a AND (NOT b))"),
        ] {
            let mut found = expr(written);
            group(&mut found);
            assert_eq!(bare(found), bare(expr(meant)), "{written}");
        }
    }
}
