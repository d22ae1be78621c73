//! Keys beside grouping sets.
//!
//! DataFusion 55 adds the columns to the keys of an aggregation that its keys determine. Beside grouping sets, it adds them
//! to each set: after `GROUP BY a.k, ROLLUP (a.v)` over groups by `k`, `v` keeps its value in the set that leaves it out. It
//! does not look for keys within grouping sets, so each key beside grouping sets becomes a grouping set of its own.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, Value, ValueWithSpan, VisitorMut,
};

use crate::walk::{Tree, visit_mut};

/// Rewrites the keys beside grouping sets.
pub(crate) fn separate<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut Separate);
}

struct Separate;

impl VisitorMut for Separate {
    type Break = Infallible;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
            return ControlFlow::Continue(());
        };
        if keys.iter().any(is_set) {
            for key in keys.iter_mut().filter(|key| !is_set(key)) {
                if let Some(expr) = in_set(key, &select.projection) {
                    *key = Expr::GroupingSets(vec![vec![expr]]);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_set(key: &Expr) -> bool {
    matches!(key, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_))
}

/// Returns the key as an expression that may be in a grouping set, where numbers are no positions of columns. Returns `None`
/// for a position that a wildcard may have.
fn in_set(key: &Expr, items: &[SelectItem]) -> Option<Expr> {
    let Expr::Value(ValueWithSpan { value: Value::Number(position, _), .. }) = key else {
        return Some(key.clone());
    };
    let before = position.parse::<usize>().ok()?.checked_sub(1)?;
    let exprs: Option<Vec<&Expr>> = items.get(..=before)?.iter().map(expr_of).collect();
    exprs?.pop().cloned()
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
