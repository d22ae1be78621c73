//! Marks the joins of EXCEPT ALL and INTERSECT ALL in a plan, by a name in the parsed statement.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor,
    Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::walk::{Tree, visit_mut};

/// The name of the right side of a set operation that counts equal rows.
pub const COUNTED_ROWS: &str = "coscan counted rows";

/// Marks the operations that count rows.
pub(crate) fn mark<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut Mark);
}

struct Mark;

impl VisitorMut for Mark {
    type Break = Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        mark_set(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn mark_set(set: &mut SetExpr) {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = set else { return };
    mark_set(left);
    mark_set(right);
    if matches!(op, SetOperator::Except | SetOperator::Intersect) && *set_quantifier == SetQuantifier::All {
        named(right);
    }
}

/// Rewrites the right side to `SELECT * FROM (right) AS "coscan counted rows"`.
fn named(right: &mut Box<SetExpr>) {
    let template = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM (SELECT 1) AS name");
    let Ok(mut query) = template.and_then(|mut parser| parser.parse_query()) else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(from) = select.from.first_mut() else { return };
    let TableFactor::Derived { subquery, alias: Some(TableAlias { name, .. }), .. } = &mut from.relation
    else {
        return;
    };
    *name = Ident::with_quote('"', COUNTED_ROWS);
    std::mem::swap(&mut subquery.body, right);
    name_repeated(&mut subquery.body);
    *right = query.body;
}

/// Gives names to repeated items, such as `0` in `SELECT 0, 0`, because columns of a subquery must have
/// distinct names.
pub(crate) fn name_repeated(set: &mut SetExpr) {
    match set {
        SetExpr::Select(select) => {
            let mut seen = HashSet::new();
            for item in &mut select.projection {
                let text = item.to_string();
                if let SelectItem::UnnamedExpr(expr) = item
                    && seen.contains(&text)
                {
                    let alias = Ident::with_quote('"', format!("coscan column {}", seen.len()));
                    let expr = std::mem::replace(expr, SqlExpr::value(Value::Null));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
                seen.insert(item.to_string());
            }
        }
        SetExpr::Query(query) => name_repeated(&mut query.body),
        SetExpr::SetOperation { left, .. } => name_repeated(left),
        _ => {}
    }
}
