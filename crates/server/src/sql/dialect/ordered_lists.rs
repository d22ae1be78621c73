//! Lists of the rows of an ordered subquery: `SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y) s`.
//!
//! PostgreSQL makes such a list in the order of the subquery, and its documentation recommends this form. The query
//! engine drops the order of a subquery, so the aggregate gets it.

use std::ops::ControlFlow;

use coscan_upstream::REPEATED as MARK;
use coscan_upstream::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, Ident, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, Value, ValueWithSpan,
    VisitorMut,
};

use crate::sql::ast::{folded, is_all};

/// The beginning of the names of columns that only give an order. They are no part of whole rows.
pub(super) const HIDDEN: char = MARK;

/// Aggregates whose result depends on the order of rows.
const LISTS: [&str; 6] =
    ["array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"];

/// Gives the order of the only subquery in FROM to such aggregates, unless they have an order of their own.
pub(super) fn order_lists(select: &mut Select) {
    let Select { from, projection, .. } = select;
    let [from] = &mut from[..] else { return };
    let TableFactor::Derived { subquery, alias, .. } = &mut from.relation else { return };
    if !from.joins.is_empty() {
        return;
    }
    let all_read = projection.iter().any(is_all);
    let Some(order) = order_of(subquery, alias.as_ref(), all_read) else { return };
    let mut lists = Lists { order, depth: 0 };
    let changed = visit_mut(&mut select.projection, &mut lists);
    let changed = changed.is_continue()
        && select.having.iter_mut().all(|having| visit_mut(having, &mut lists).is_continue());
    debug_assert!(changed);
}

/// Removes constants from the order of an aggregate. The query engine takes them for positions.
pub(super) fn without_constants(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    list.clauses.retain_mut(|clause| match clause {
        FunctionArgumentClause::OrderBy(order) => {
            order.retain(|by| !is_constant(by));
            !order.is_empty()
        }
        _ => true,
    });
}

/// Returns whether an order is by a constant, which is none.
pub(super) fn is_constant(by: &OrderByExpr) -> bool {
    matches!(&by.expr, Expr::Value(ValueWithSpan { value, .. }) if !matches!(value, Value::Placeholder(_)))
}

/// The visitor that changes the aggregates of one query.
struct Lists {
    order: Vec<OrderByExpr>,
    /// The number of subqueries around the visited expression.
    depth: usize,
}

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && self.depth == 0
            && takes_order(function)
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.clauses.push(FunctionArgumentClause::OrderBy(self.order.clone()));
        }
        ControlFlow::Continue(())
    }
}

fn takes_order(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let name = function.name.to_string();
    LISTS.iter().any(|known| name.eq_ignore_ascii_case(known))
        && function.over.is_none()
        && function.within_group.is_empty()
        && list.duplicate_treatment != Some(DuplicateTreatment::Distinct)
        && !list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
}

/// The order of a subquery by the names of its columns. What is no column becomes one, unless all columns are read. `None`
/// if the subquery has no order, or if its order cannot be named.
fn order_of(subquery: &mut Query, alias: Option<&TableAlias>, all_read: bool) -> Option<Vec<OrderByExpr>> {
    let OrderByKind::Expressions(by) = &subquery.order_by.as_ref()?.kind else { return None };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    let is_renamed = alias.is_some_and(|alias| !alias.columns.is_empty());
    let may_add = !all_read && !is_renamed && select.distinct.is_none();
    let mut added = Vec::new();
    let named = by.iter().map(|by| {
        let name = column(&by.expr, &select.projection, alias).or_else(|| {
            let alias = Ident::with_quote('"', format!("{HIDDEN}{}", added.len() + 1));
            added.push(SelectItem::ExprWithAlias { expr: by.expr.clone(), alias: alias.clone() });
            may_add.then_some(alias)
        })?;
        Some(OrderByExpr { expr: Expr::Identifier(name), ..by.clone() })
    });
    let named = named.collect::<Option<Vec<_>>>()?;
    select.projection.extend(added);
    Some(named)
}

/// The name of the column by which a subquery orders.
fn column(by: &Expr, columns: &[SelectItem], alias: Option<&TableAlias>) -> Option<Ident> {
    let renamed = alias.map_or(&[][..], |alias| &alias.columns);
    if columns.iter().any(is_all) {
        return match by {
            Expr::Identifier(name) if renamed.is_empty() => Some(name.clone()),
            Expr::CompoundIdentifier(names) if renamed.is_empty() => names.last().cloned(),
            _ => None,
        };
    }
    let at = match by {
        Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) => {
            place.to_string().parse::<usize>().ok()?.checked_sub(1)?
        }
        // A name means a column of the result first.
        Expr::Identifier(by) => columns
            .iter()
            .position(|item| name(item).is_some_and(|name| folded(name) == folded(by)))
            .or_else(|| columns.iter().position(|item| is_of(item, &Expr::Identifier(by.clone()))))?,
        by => columns.iter().position(|item| is_of(item, by))?,
    };
    match renamed.get(at) {
        Some(column) => Some(column.name.clone()),
        None => name(columns.get(at)?).cloned(),
    }
}

fn is_of(item: &SelectItem, other: &Expr) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if expr == other)
}

/// The name that a column gets.
fn name(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn lists_have_the_order_of_the_only_subquery() {
        for (list, from, ordered) in [
            ("array_agg(a)", "(SELECT a FROM t ORDER BY a) s", "array_agg(a ORDER BY a)"),
            ("array_agg(a)", "(SELECT a, b FROM t ORDER BY 2 DESC, a) s", "array_agg(a ORDER BY b DESC, a)"),
            ("json_agg(a)", "(SELECT t.a FROM t ORDER BY t.a) s", "json_agg(a ORDER BY a)"),
            ("string_agg(x, ',')", "(SELECT a FROM t ORDER BY a) s (x)", "string_agg(x, ',' ORDER BY x)"),
            (
                "array_agg(a)",
                "(SELECT * FROM t ORDER BY c NULLS FIRST) s",
                "array_agg(a ORDER BY c NULLS FIRST)",
            ),
            ("array_agg(b)", "(SELECT a + 1 AS b FROM t ORDER BY a + 1) s", "array_agg(b ORDER BY b)"),
            ("array_agg(a ORDER BY a)", "(SELECT a FROM t ORDER BY a DESC) s", "array_agg(a ORDER BY a)"),
            ("array_agg(DISTINCT a)", "(SELECT a FROM t ORDER BY a DESC) s", "array_agg(DISTINCT a)"),
            ("sum(a)", "(SELECT a FROM t ORDER BY a) s", "sum(a)"),
            ("array_agg(a)", "(SELECT a FROM t ORDER BY b) s", "array_agg(a ORDER BY \"|1\")"),
            ("array_agg(a)", "(SELECT DISTINCT a FROM t ORDER BY b) s", "array_agg(a)"),
            ("json_agg(s)", "(SELECT a FROM t ORDER BY b) s", "json_agg(s ORDER BY \"|1\")"),
            ("s.*, array_agg(a)", "(SELECT a FROM t ORDER BY b) s", "s.*"),
            ("array_agg(a)", "(SELECT a FROM t ORDER BY a) s, u", "array_agg(a)"),
            (
                "(SELECT array_agg(b) FROM u)",
                "(SELECT a FROM t ORDER BY a) s",
                "(SELECT array_agg(b) FROM u)",
            ),
        ] {
            let sql = format!("SELECT {list} FROM {from}");
            let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap();
            let datafusion::sql::sqlparser::ast::Statement::Query(mut query) = parsed[0].clone() else {
                panic!()
            };
            let SetExpr::Select(select) = query.body.as_mut() else { panic!() };
            order_lists(select);
            assert_eq!(select.projection[0].to_string().replace(MARK, "|"), ordered, "{sql}");
        }
    }
}
