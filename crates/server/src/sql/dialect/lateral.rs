//! Subqueries with LATERAL: names of columns of the tables before them, and arrays of such columns.
//!
//! The query engine names a column of an outer row after its expression, and does not find it in `ARRAY[x.a]`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use coscan_upstream::walk::visit_expressions_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr};

use super::names::column_name;
use crate::sql::ast::call;

/// Names the columns of such a subquery, and writes its arrays as calls.
pub(super) fn with_columns(query: &mut Query) {
    name(&mut query.body);
    let ControlFlow::Continue(()) = visit_expressions_mut(query, |expr| {
        if let Expr::Array(array) = expr
            && !array.elem.is_empty()
        {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        ControlFlow::<Infallible>::Continue(())
    });
}

fn name(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(name) = column_name(expr)
                {
                    let alias = Ident::with_quote('"', name);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        SetExpr::Query(query) => name(&mut query.body),
        SetExpr::SetOperation { left, .. } => name(left),
        _ => {}
    }
}
