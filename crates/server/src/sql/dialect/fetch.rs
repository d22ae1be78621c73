//! `FETCH FIRST` as a limit; with WITH TIES, as a condition on the rank of a row. Limits written as texts or with a
//! fraction.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_expressions;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Fetch, Function, LimitClause, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, Value, ValueWithSpan, WindowSpec, WindowType,
};

use crate::sql::QueryError;
use crate::sql::ast::{binary, call, cast, folded, function, nested, number, text};

/// Advice for queries with more than one SELECT.
const IN_FROM: &str = "write SELECT * FROM (...) AS q ORDER BY ... FETCH FIRST n ROWS WITH TIES";

/// Rewrites the clause.
pub(super) fn fetch(query: &mut Query, fetch: Fetch) -> Result<(), QueryError> {
    if fetch.percent {
        return Err(QueryError::unsupported(
            "FETCH FIRST ... PERCENT is not supported: write how many rows".to_owned(),
        ));
    }
    let rows = fetch.quantity.unwrap_or_else(|| number(1));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: None, .. }) | None if fetch.with_ties => {
            return with_ties(query, rows);
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
        }
        Some(_) => {
            return Err(QueryError::other("42601", "a query has LIMIT or FETCH FIRST, not both"));
        }
    }
    Ok(())
}

/// Makes limits written as texts or with a fraction integers: `LIMIT '10'`, as drivers write bound values.
pub(super) fn limits(query: &mut Query) {
    by_subqueries(query);
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return };
    if limit.as_ref().is_some_and(is_null) {
        *limit = None;
    }
    for bound in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        let has_fraction = match bound {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
                !number.to_string().bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        };
        if let Some(sum) = sum(bound) {
            *bound = number(sum);
        }
        if has_fraction || text(bound).is_some() {
            *bound = cast(bound.clone(), DataType::BigInt(None));
        }
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

/// The value of a sum of whole numbers. A subquery that refers to an outer row takes no other limits.
fn sum(expr: &Expr) -> Option<i64> {
    let sum = match expr {
        Expr::Nested(_) | Expr::BinaryOp { .. } => whole(expr)?,
        _ => return None,
    };
    (sum >= 0).then_some(sum)
}

fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Nested(inner) => whole(inner),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.to_string().parse().ok(),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::Plus => whole(left)?.checked_add(whole(right)?),
            BinaryOperator::Minus => whole(left)?.checked_sub(whole(right)?),
            BinaryOperator::Multiply => whole(left)?.checked_mul(whole(right)?),
            _ => None,
        },
        _ => None,
    }
}

/// Makes limits with subqueries, which the query engine does not know, conditions on the number of a row. NULL is no limit.
fn by_subqueries(query: &mut Query) {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause else { return };
    let mut bounds = limit.iter().chain(offset.as_ref().map(|offset| &offset.value));
    if !bounds.any(has_subquery) {
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let order = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order.as_slice(),
        None => &[],
        Some(OrderByKind::All(_)) => return,
    };
    let by: Result<Vec<OrderByExpr>, _> = order.iter().map(|by| ordered(by, select)).collect();
    let Ok(by) = by else { return };
    if select.distinct.is_some() || select.qualify.is_some() {
        return;
    }
    let place = || ranked("row_number", &by);
    let or_all = |condition| call("coalesce", vec![condition, Expr::value(Value::Boolean(true))]);
    let behind = offset.as_ref().map(|offset| {
        let skipped = nested(offset.value.clone());
        or_all(binary(place(), BinaryOperator::Gt, skipped))
    });
    let until = limit.as_ref().map(|limit| {
        let last = match offset {
            Some(offset) => {
                let skipped = call("coalesce", vec![nested(offset.value.clone()), number(0)]);
                binary(nested(limit.clone()), BinaryOperator::Plus, skipped)
            }
            None => nested(limit.clone()),
        };
        or_all(binary(place(), BinaryOperator::LtEq, nested(last)))
    });
    let wanted = behind.into_iter().chain(until);
    select.qualify = wanted.reduce(|all, next| binary(all, BinaryOperator::And, next));
    query.limit_clause = None;
}

fn has_subquery(expr: &Expr) -> bool {
    let visited = visit_expressions(expr, |expr| match expr {
        Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    visited.is_break()
}

/// Leaves out rows whose rank is beyond the last row. OFFSET skips rows by number, not by rank.
fn with_ties(query: &mut Query, rows: Expr) -> Result<(), QueryError> {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Err(QueryError::other("42601", "WITH TIES cannot be specified without ORDER BY clause"));
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(QueryError::unsupported(format!(
            "WITH TIES of UNION, INTERSECT, EXCEPT and VALUES is not supported: {IN_FROM}"
        )));
    };
    if select.distinct.is_some() {
        return Err(QueryError::unsupported(format!(
            "WITH TIES of SELECT DISTINCT is not supported: {IN_FROM}"
        )));
    }
    let by: Vec<OrderByExpr> = order.iter().map(|by| ordered(by, select)).collect::<Result<_, _>>()?;
    let skipped = match query.limit_clause.take() {
        Some(LimitClause::LimitOffset { offset, .. }) => offset.map(|offset| nested(offset.value)),
        _ => None,
    };
    let rows = nested(rows);
    let last = match &skipped {
        Some(skipped) => nested(binary(rows, BinaryOperator::Plus, skipped.clone())),
        None => rows,
    };
    let mut wanted = binary(ranked("rank", &by), BinaryOperator::LtEq, last);
    if let Some(skipped) = skipped {
        let behind = binary(ranked("row_number", &by), BinaryOperator::Gt, skipped);
        wanted = binary(wanted, BinaryOperator::And, behind);
    }
    select.qualify = Some(wanted);
    Ok(())
}

/// The expression to sort by. Positions and names of selected columns are replaced, because they have no meaning in
/// a window.
pub(super) fn ordered(by: &OrderByExpr, select: &Select) -> Result<OrderByExpr, QueryError> {
    let of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let is_star = |item: &SelectItem| of(item).is_none();
    let expr = match &by.expr {
        Expr::Value(ValueWithSpan { value: Value::Number(position, _), .. }) => {
            let position = position.to_string().parse::<usize>().unwrap_or_default();
            let before = select.projection.get(..position).filter(|before| !before.iter().any(is_star));
            before.and_then(|before| of(before.last()?)).ok_or_else(|| {
                QueryError::unsupported(format!(
                    "ORDER BY {position} is not supported here: write the expression instead of its position"
                ))
            })?
        }
        Expr::Identifier(name) => {
            let named = |item: &&SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == folded(name));
            select.projection.iter().find(named).and_then(of).unwrap_or_else(|| by.expr.clone())
        }
        expr => expr.clone(),
    };
    Ok(OrderByExpr { expr, ..by.clone() })
}

/// `name() OVER (ORDER BY ...)`.
fn ranked(name: &str, by: &[OrderByExpr]) -> Expr {
    let over =
        WindowSpec { window_name: None, partition_by: Vec::new(), order_by: by.to_vec(), window_frame: None };
    Expr::Function(Function { over: Some(WindowType::WindowSpec(over)), ..function(name, Vec::new()) })
}
