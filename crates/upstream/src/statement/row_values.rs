//! Comparisons of rows of values, `(a, b) = (c, d)`. DataFusion 55 compares them as structs, in which nulls
//! are equal, and refuses a row before `IN (SELECT ...)`. Here they become comparisons of their values, with
//! the nulls of SQL.
//!
//! `IS DISTINCT FROM` stays, because structs are right for it. A row that is compared with one of another
//! length stays as it is and is refused. An order comparison may compute a value
//! twice.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem, SetExpr,
    TableAliasColumnDef, TableFactor, UnaryOperator, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::statement::counted_sets::name_repeated;
use crate::walk::{Tree, visit_mut};

/// The replacement of a row before IN. It is true if the comparison with a row of the subquery is true, and
/// NULL if one is NULL and none is true.
const AMONG_ROWS: &str = "true IN (SELECT true FROM (SELECT 1) AS __rows)";

/// The replacement of a row beside a subquery that returns one row.
const OF_ROW: &str = "(SELECT true FROM (SELECT 1) AS __rows)";

/// Replaces comparisons of rows, the innermost first.
pub(crate) fn compare<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut RowValues);
}

struct RowValues;

impl VisitorMut for RowValues {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Some(compared) = compared(expr) {
            *expr = compared;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the comparison by values, if the expression compares rows of equal length.
fn compared(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => match right.as_mut() {
            Expr::Subquery(subquery) => {
                let row = values(left)?;
                let mut of_row = parsed(OF_ROW)?;
                let Expr::Subquery(template) = &mut of_row else { return None };
                with_rows(template, &row, op, subquery)?;
                Some(of_row)
            }
            right => by_values(&values(left)?, op, &values(right)?),
        },
        Expr::InList { expr, list, negated } => {
            let row = values(expr)?;
            let found = list.iter().map(|other| by_values(&row, &BinaryOperator::Eq, &values(other)?));
            Some(negated_if(*negated, joined(found.collect::<Option<_>>()?, &BinaryOperator::Or)?))
        }
        Expr::IsNull(row) => {
            let nulls = values(row)?.into_iter().map(|value| Expr::IsNull(Box::new(value)));
            joined(nulls.collect(), &BinaryOperator::And)
        }
        Expr::IsNotNull(row) => {
            let not_nulls = values(row)?.into_iter().map(|value| Expr::IsNotNull(Box::new(value)));
            joined(not_nulls.collect(), &BinaryOperator::And)
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let row = values(expr)?;
            let mut among = parsed(AMONG_ROWS)?;
            let Expr::InSubquery { subquery: template, .. } = &mut among else { return None };
            with_rows(template, &row, &BinaryOperator::Eq, subquery)?;
            Some(negated_if(*negated, Expr::Nested(Box::new(among))))
        }
        _ => None,
    }
}

fn parsed(sql: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut it| it.parse_expr()).ok()
}

/// Puts a subquery in FROM of the template, which then lists the comparison of a row with each of its rows.
fn with_rows(
    template: &mut Query,
    row: &[Expr],
    op: &BinaryOperator,
    subquery: &mut Box<Query>,
) -> Option<()> {
    let columns: Vec<Ident> = (1..=row.len()).map(|at| Ident::new(format!("__value_{at}"))).collect();
    let theirs: Vec<Expr> = columns.iter().cloned().map(Expr::Identifier).collect();
    let compared = by_values(row, op, &theirs)?;
    let SetExpr::Select(select) = template.body.as_mut() else { return None };
    let TableFactor::Derived { subquery: rows, alias: Some(alias), .. } =
        &mut select.from.first_mut()?.relation
    else {
        return None;
    };
    std::mem::swap(rows, subquery);
    name_repeated(&mut rows.body);
    alias.columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    select.projection = vec![SelectItem::UnnamedExpr(compared)];
    Some(())
}

/// Returns the values of a row of two or more.
fn values(expr: &Expr) -> Option<Vec<Expr>> {
    let values = match expr {
        Expr::Nested(inner) => return values(inner),
        Expr::Tuple(values) => values.clone(),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(arguments) = &function.args else { return None };
            let value = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            arguments.args.iter().map(value).collect::<Option<_>>()?
        }
        _ => return None,
    };
    (values.len() > 1).then_some(values)
}

/// Returns the comparison of two rows of equal length; `None` if the operator is no comparison.
fn by_values(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if left.len() != right.len() {
        return None;
    }
    let pair = |at: usize, op: &BinaryOperator| binary(left[at].clone(), op.clone(), right[at].clone());
    let pairs = |op| (0..left.len()).map(|at| pair(at, op)).collect();
    let strict = match op {
        Eq => return joined(pairs(&Eq), &And),
        NotEq => return joined(pairs(&NotEq), &Or),
        Lt | LtEq => Lt,
        Gt | GtEq => Gt,
        _ => return None,
    };
    // The first values that differ decide. The last ones may be equal if the operator allows it.
    let last = left.len() - 1;
    let ordered = (0..last).rev().fold(pair(last, op), |rest, at| {
        let tied = binary(pair(at, &Eq), And, nested(rest));
        binary(pair(at, &strict), Or, nested(tied))
    });
    Some(nested(ordered))
}

/// Joins the conditions by AND or OR.
fn joined(conditions: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    conditions.into_iter().reduce(|all, next| binary(all, op.clone(), next)).map(nested)
}

fn negated_if(negated: bool, condition: Expr) -> Expr {
    if negated {
        nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(condition) })
    } else {
        condition
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    #[test]
    fn rows_are_compared_by_their_values() {
        for (written, meant) in [
            ("(a, b) = (c, d)", "(a = c AND b = d)"),
            ("((a, b)) <> (c, NULL)", "(a <> c OR b <> NULL)"),
            ("(a, b) < (c, d)", "(a < c OR (a = c AND (b < d)))"),
            ("(a, b, x) >= (c, d, 1)", "(a > c OR (a = c AND (b > d OR (b = d AND (x >= 1)))))"),
            ("ROW(a, b) = (1, 2)", "(a = 1 AND b = 2)"),
            ("(a, b) IN ((1, 2), (3, NULL))", "((a = 1 AND b = 2) OR (a = 3 AND b = NULL))"),
            ("(a, b) NOT IN ((1, 2))", "(NOT ((a = 1 AND b = 2)))"),
            ("(a, b) IS NULL", "(a IS NULL AND b IS NULL)"),
            ("(a, b) IS NOT NULL", "(a IS NOT NULL AND b IS NOT NULL)"),
            (
                "(a, b) NOT IN (SELECT c, d FROM t)",
                "(NOT (true IN (SELECT (a = __value_1 AND b = __value_2) \
                 FROM (SELECT c, d FROM t) AS __rows (__value_1, __value_2))))",
            ),
            (
                "(a, b) < (SELECT 1, 1)",
                "(SELECT (a < __value_1 OR (a = __value_1 AND (b < __value_2))) \
                 FROM (SELECT 1, 1 AS \"coscan column 1\") AS __rows (__value_1, __value_2))",
            ),
            ("((a, b) = (c, d)) = x", "((a = c AND b = d)) = x"),
            ("(a, b) = (c, d, e)", "(a, b) = (c, d, e)"),
            ("(a, b) IS DISTINCT FROM (c, d)", "(a, b) IS DISTINCT FROM (c, d)"),
            ("(a) = (b)", "(a) = (b)"),
            ("a IN ((1), 2)", "a IN ((1), 2)"),
        ] {
            let parsed =
                Parser::new(&PostgreSqlDialect {}).try_with_sql(written).and_then(|mut it| it.parse_expr());
            let mut expr = parsed.expect(written);
            compare(&mut expr);
            assert_eq!(expr.to_string(), meant, "{written}");
        }
    }
}
