//! Arrays: comparisons with ANY and ALL of their elements, and arrays of a subquery's rows.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_expressions;
use datafusion::common::{DataFusionError, plan_datafusion_err};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    ValueWithSpan,
};

use super::fetch::ordered;
use super::literals::elements;
use super::ordered_lists::is_constant;
use crate::sql::QueryError;
use crate::sql::ast::{array_subquery, binary, nested, only_column, over_query, parsed};

/// The first of the two words of an operator between a value and an array. The second is the comparison.
pub(crate) const ANY: &str = "ANY";
/// The first word of a comparison with all elements.
pub(crate) const ALL: &str = "ALL";

/// Functions that make one row of many, or many of one. They cannot stand inside another such function.
const OF_ROWS: [&str; 17] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "first_value",
    "generate_series",
    "last_value",
    "max",
    "median",
    "min",
    "stddev",
    "string_agg",
    "sum",
    "unnest",
    "variance",
];

/// Rewrites a comparison with a subquery's rows, before its parts are replaced. The query engine confuses a column
/// of the subquery with an outer column of the same name, so the rewrite separates them.
pub(super) fn before(expr: &mut Expr) -> Result<(), QueryError> {
    let Some((left, op, right, all)) = quantified(expr) else { return Ok(()) };
    let Some(query) = rows_of(right) else { return Ok(()) };
    *expr = match as_in(left, op, query, all) {
        Some(rows) => rows,
        None => {
            let (left, compare_op) = (Box::new(left.clone()), op.clone());
            let right = over_query("(SELECT * FROM (SELECT 1) AS \"elements\")", query.clone())?;
            let right = Box::new(Expr::Subquery(Box::new(right)));
            match all {
                true => Expr::AllOp { left, compare_op, right },
                false => Expr::AnyOp { left, compare_op, right, is_some: false },
            }
        }
    };
    Ok(())
}

/// The value, the operator and the other side of a comparison with ANY, or with ALL, for which the last part is true.
fn quantified(expr: &Expr) -> Option<(&Expr, &BinaryOperator, &Expr, bool)> {
    match expr {
        Expr::AnyOp { left, compare_op, right, .. } => Some((left, compare_op, right, false)),
        Expr::AllOp { left, compare_op, right } => Some((left, compare_op, right, true)),
        _ => None,
    }
}

/// `IN (SELECT ...)` for `= ANY`, and `NOT IN` for `<> ALL`.
fn as_in(left: &Expr, op: &BinaryOperator, query: &Query, all: bool) -> Option<Expr> {
    matches!((op, all), (BinaryOperator::Eq, false) | (BinaryOperator::NotEq, true)).then(|| {
        Expr::InSubquery { expr: Box::new(left.clone()), subquery: Box::new(query.clone()), negated: all }
    })
}

/// The subquery whose rows are compared, also as an array.
fn rows_of(right: &Expr) -> Option<&Query> {
    match right {
        Expr::Subquery(query) => Some(query),
        other => array_subquery(other),
    }
}

/// A comparison with the rows of a subquery as `IN (SELECT ...)`, if it is one.
pub(crate) fn in_rows(expr: &Expr) -> Option<Expr> {
    let (left, op, right, all) = quantified(expr)?;
    as_in(left, op, rows_of(right)?, all)
}

/// Rewrites comparisons to operators, and arrays to aggregates.
pub(super) fn replaced(expr: &Expr) -> Result<Option<Expr>, QueryError> {
    match compared(expr) {
        None => array_subquery(expr).map(array_of).transpose(),
        compared => Ok(compared),
    }
}

/// A comparison with ANY or ALL of an array as an operator. Its operands have types when it is planned.
pub(crate) fn compared(expr: &Expr) -> Option<Expr> {
    let compared = |left: &Expr, quantifier: &str, op: String, right: &Expr| {
        let op = BinaryOperator::PGCustomBinaryOperator(vec![quantifier.to_owned(), op]);
        Some(nested(binary(left.clone(), op, right.clone())))
    };
    match expr {
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if rows_of(right).is_some() => None,
        Expr::AnyOp { left, compare_op, right, .. } => compared(left, ANY, compare_op.to_string(), right),
        Expr::AllOp { left, compare_op, right } => compared(left, ALL, compare_op.to_string(), right),
        Expr::Like { negated, any: true, expr, pattern, escape_char: None } => {
            compared(expr, ANY, if *negated { "!~~" } else { "~~" }.to_owned(), pattern)
        }
        Expr::ILike { negated, any: true, expr, pattern, escape_char: None } => {
            compared(expr, ANY, if *negated { "!~~*" } else { "~~*" }.to_owned(), pattern)
        }
        _ => None,
    }
}

/// The elements of an array that is written as a text.
///
/// # Errors
///
/// If the text is malformed.
pub(crate) fn array_elements(text: &str) -> Result<Vec<Option<String>>, DataFusionError> {
    elements(text.trim()).ok_or_else(|| {
        plan_datafusion_err!("malformed array literal: {text:?}: write '{{1,2}}' or ARRAY[1, 2]")
    })
}

/// `ARRAY(SELECT ...)`. It is empty if there are no rows.
fn array_of(query: &Query) -> Result<Expr, QueryError> {
    let of = match plain(query)? {
        Some(of) => of,
        None => derived(query)?,
    };
    parsed(&format!("coalesce(({of}), ARRAY[])"))
}

fn order_of(query: &Query) -> &[OrderByExpr] {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(by)) => by,
        _ => &[],
    }
}

fn listed(by: &[OrderByExpr]) -> String {
    match by {
        [] => String::new(),
        by => format!("ORDER BY {}", by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The aggregate of a query with one row per table row. It takes the place of the column, so that the query can
/// still read outer columns.
fn plain(query: &Query) -> Result<Option<Query>, QueryError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    let Some(expr) = only_column(select) else { return Ok(None) };
    let whole = query.limit_clause.is_none() && query.fetch.is_none() && select.qualify.is_none();
    if !whole || select.having.is_some() || is_of_rows(expr) {
        return Ok(None);
    }
    let mut by = order_of(query).iter().map(|by| ordered(by, select)).collect::<Result<Vec<_>, _>>()?;
    by.retain(|by| !is_constant(by));
    let mut select = Select::clone(select);
    select.projection = vec![SelectItem::UnnamedExpr(parsed(&format!("array_agg({expr} {})", listed(&by)))?)];
    let body = Box::new(SetExpr::Select(Box::new(select)));
    Ok(Some(Query { body, order_by: None, ..query.clone() }))
}

fn is_of_rows(expr: &Expr) -> bool {
    let of_rows = |expr: &Expr| match expr {
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            function.over.is_some() || OF_ROWS.contains(&name.as_str())
        }
        _ => false,
    };
    let found = visit_expressions(expr, |expr| match of_rows(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The aggregate of any other query. It cannot read outer columns.
fn derived(query: &Query) -> Result<Query, QueryError> {
    let by = order_of(query);
    let (mut inner, mut place, mut order) = (query.clone(), "", String::new());
    match inner.body.as_mut() {
        _ if by.is_empty() => {}
        SetExpr::Select(select) if select.distinct.is_none() && select.projection.len() == 1 => {
            let by = by.iter().map(|by| ordered(by, select)).collect::<Result<Vec<_>, _>>()?;
            select
                .projection
                .push(SelectItem::UnnamedExpr(parsed(&format!("row_number() OVER ({})", listed(&by)))?));
            (place, order) = (", place", "ORDER BY place".to_owned());
        }
        _ => match by {
            [one] if is_first(&one.expr) => {
                order = listed(&[OrderByExpr {
                    expr: Expr::Identifier(Ident::with_quote('"', "array")),
                    ..one.clone()
                }]);
            }
            _ => {
                return Err(QueryError::unsupported(
                    "this ORDER BY in ARRAY(SELECT ...) is not supported: write ORDER BY 1, or ARRAY(SELECT x FROM (SELECT ...) AS q \
                     ORDER BY ...)"
                        .to_owned(),
                ));
            }
        },
    }
    let sql = format!("(SELECT array_agg(\"array\" {order}) FROM (SELECT 1) AS q(\"array\"{place}))");
    over_query(&sql, inner)
}

fn is_first(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if number == "1")
}
