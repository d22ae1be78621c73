//! Aggregates and keys that differ only in casts: `sum(x), sum(x::int)`, `GROUP BY at::date, at`.
//!
//! The query engine gives a cast the name of what is cast, and refuses two columns of one name. A function without effect, with
//! the name of the type, tells them apart.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use coscan_upstream::walk::{visit_expressions, visit_expressions_mut};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
};

use crate::sql::ast::{call, literal, text};
use crate::sql::functions::TOLD_APART;

/// Puts the function around the casts of a query, if it is needed.
pub(super) fn tell_apart(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut of = expressions(select, query.order_by.as_mut());
    if !of.iter().any(|expr| has_cast(expr)) {
        return;
    }
    let mut seen = HashMap::new();
    let mut is_needed = false;
    let mut note = |expr: &Expr| {
        let text = expr.to_string();
        let known = seen.entry(without_casts(expr)).or_insert_with(|| text.clone());
        is_needed |= *known != text;
    };
    for expr in &of {
        note(expr);
        let ControlFlow::Continue(()) = visit_expressions(&**expr, |inner| {
            if matches!(inner, Expr::Function(_)) {
                note(inner);
            }
            ControlFlow::<Infallible>::Continue(())
        });
    }
    if is_needed {
        of.iter_mut().for_each(|expr| name_casts(expr));
    }
}

/// The expressions of a query whose names have to differ.
fn expressions<'a>(select: &'a mut Select, order: Option<&'a mut OrderBy>) -> Vec<&'a mut Expr> {
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let keys = match &mut select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter_mut().collect(),
        GroupByExpr::All(_) => Vec::new(),
    };
    let order = match order.map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(by)) => by.iter_mut().map(|by| &mut by.expr).collect(),
        _ => Vec::new(),
    };
    items.chain(keys).chain(&mut select.having).chain(order).collect()
}

/// Returns whether an expression is a cast of something else than a constant.
fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { expr, .. } if text(expr).is_none())
}

fn has_cast(expr: &Expr) -> bool {
    visit_expressions(expr, |inner| match is_cast(inner) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

fn without_casts(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let ControlFlow::Continue(()) = visit_expressions_mut(&mut expr, |inner| {
        if is_cast(inner)
            && let Expr::Cast { expr, .. } = inner
        {
            *inner = expr.as_ref().clone();
        }
        ControlFlow::<Infallible>::Continue(())
    });
    expr.to_string()
}

fn name_casts(expr: &mut Expr) {
    let ControlFlow::Continue(()) = visit_expressions_mut(expr, |inner| {
        if is_cast(inner)
            && let Expr::Cast { data_type, .. } = &*inner
        {
            let name = literal(data_type.to_string());
            *inner = call(TOLD_APART, vec![inner.clone(), name]);
        }
        ControlFlow::<Infallible>::Continue(())
    });
}
