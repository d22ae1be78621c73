//! Long chains of AND or OR as balanced trees.
//!
//! The parser makes a tree with as many levels as the chain has conditions. DataFusion writes the name of each level
//! with all levels below it, again for each level above: the planning of 1,000 conditions takes a minute. AND and OR are
//! associative, and the conditions keep their order.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};

use crate::walk::{Tree, visit_mut};

/// Conditions of a chain that is left as it is. More than the levels of a balanced tree.
const SHORT: usize = 32;

/// Balances the long chains of a statement.
pub(crate) fn balance<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = &*expr {
            let op = op.clone();
            if levels(expr, &op) > SHORT {
                let chain = std::mem::replace(expr, Expr::value(Value::Null));
                *expr = joined(conditions(chain, &op), &op);
            }
        }
        ControlFlow::Continue(())
    }
}

fn levels(mut expr: &Expr, of: &BinaryOperator) -> usize {
    let mut levels = 0;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == of
    {
        levels += 1;
        expr = left;
    }
    levels
}

/// The conditions of a chain, in order.
fn conditions(chain: Expr, of: &BinaryOperator) -> Vec<Expr> {
    let (mut conditions, mut rest) = (Vec::new(), chain);
    loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == *of => {
                conditions.push(*right);
                rest = *left;
            }
            first => {
                conditions.push(first);
                conditions.reverse();
                return conditions;
            }
        }
    }
}

/// The conditions in pairs, and the pairs in pairs, until there is one.
fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while conditions.len() > 1 {
        let (mut pairs, mut rest) = (Vec::new(), conditions.into_iter());
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => {
                    Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
                }
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn long_chains_are_balanced_and_keep_their_order() {
        let chain = |op: &str| (0..1000).map(|at| format!("c{at}")).collect::<Vec<_>>().join(op);
        let sql = format!("SELECT a AND b FROM t WHERE {} AND ({})", chain(" AND "), chain(" OR "));
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap().remove(0);
        balance(&mut statement);
        // Parentheses are not written, because the order is that of the chain.
        assert_eq!(statement.to_string(), sql);
        let expr = |sql: &str| {
            let parser = Parser::new(&PostgreSqlDialect {});
            parser.try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).expect(sql)
        };
        let mut long = expr(&chain(" OR "));
        assert_eq!(depth(&long), 999);
        balance(&mut long);
        assert_eq!(depth(&long), 10);
        let mut short = expr("a AND b OR c AND d");
        balance(&mut short);
        assert_eq!(short, expr("a AND b OR c AND d"));
    }
}
