//! `FETCH FIRST` as a limit; with WITH TIES, as a condition on the rank of a row. Limits written as texts or with a
//! fraction.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Fetch, Function, LimitClause, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, Value, ValueWithSpan, WindowSpec, WindowType,
};

use crate::sql::QueryError;
use crate::sql::ast::{binary, cast, folded, function, nested, number, text};

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
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return };
    for bound in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        let has_fraction = match bound {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
                !number.to_string().bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        };
        if has_fraction || text(bound).is_some() {
            *bound = cast(bound.clone(), DataType::BigInt(None));
        }
    }
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
