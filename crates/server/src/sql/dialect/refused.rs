//! Clauses that PostgreSQL refuses and the query engine would accept, or refuse later in other words.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use coscan_upstream::walk::{Tree, visit, visit_expressions};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    JoinConstraint, JoinOperator, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, UnaryOperator, Value, ValueWithSpan, Visitor,
};

use crate::sql::QueryError;
use crate::sql::ast::{folded, is_all};

/// The commonest aggregates.
const AGGREGATES: [&str; 10] =
    ["array_agg", "avg", "bool_and", "bool_or", "count", "every", "max", "min", "string_agg", "sum"];

/// Refuses such clauses of a statement.
///
/// # Errors
///
/// If it has one.
pub(super) fn check<T: Tree>(of: &T) -> Result<(), QueryError> {
    match visit(of, &mut Refused) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Refused;

impl Visitor for Refused {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<QueryError> {
        let checked = order(query).and_then(|()| read_once(query));
        checked.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<QueryError> {
        let checked = keys(select).and_then(|()| joins(select)).and_then(|()| match &select.selection {
            Some(condition) => calls(condition, "WHERE", &[]),
            None => Ok(()),
        });
        checked.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<QueryError> {
        match expr {
            Expr::Function(function) => {
                let checked = count(function).and_then(|()| places(function));
                checked.map_or_else(ControlFlow::Break, ControlFlow::Continue)
            }
            Expr::InSubquery { expr: row, .. } => {
                beside_subquery(row).map_or_else(ControlFlow::Break, ControlFlow::Continue)
            }
            Expr::BinaryOp { left: row, right, .. } if matches!(right.as_ref(), Expr::Subquery(_)) => {
                beside_subquery(row).map_or_else(ControlFlow::Break, ControlFlow::Continue)
            }
            Expr::AnyOp { left: row, .. } | Expr::AllOp { left: row, .. } => {
                beside_subquery(row).map_or_else(ControlFlow::Break, ControlFlow::Continue)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Functions with another result in each row, which a query computes once.
const VOLATILE: [&str; 4] = ["clock_timestamp", "gen_random_uuid", "random", "uuid"];

/// A query of WITH that calls such a function and is read twice. The query engine would compute it twice, with other results.
fn read_once(query: &Query) -> Result<(), QueryError> {
    let Some(with) = &query.with else { return Ok(()) };
    for table in &with.cte_tables {
        let is_volatile = |expr: &Expr| match expr {
            Expr::Function(function) if VOLATILE.contains(&unquoted(&function.name).as_str()) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        if visit_expressions(table.query.as_ref(), is_volatile).is_continue() {
            continue;
        }
        let name = folded(&table.alias.name);
        // A recursive query reads itself, too.
        let count = readings(query, &name) - readings(&table.query, &name);
        if count > 1 {
            return Err(QueryError::unsupported(format!(
                "the WITH query \"{name}\" calls a volatile function and is read {count} times: read it once"
            )));
        }
    }
    Ok(())
}

/// The number of places in a query that read a table.
fn readings(query: &Query, name: &str) -> usize {
    let mut readings = Readings { name, count: 0 };
    let ControlFlow::Continue(()) = visit(query, &mut readings);
    readings.count
}

/// Counts these places.
struct Readings<'a> {
    name: &'a str,
    count: usize,
}

impl Visitor for Readings<'_> {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(found)] = &name.0[..]
            && folded(found) == self.name
        {
            self.count += 1;
        }
        ControlFlow::Continue(())
    }
}

/// A row beside a subquery. It is computed in the subquery, where a window function would see single rows.
fn beside_subquery(row: &Expr) -> Result<(), QueryError> {
    let row = match row {
        Expr::Nested(row) => return beside_subquery(row),
        Expr::Tuple(values) => values,
        _ => return Ok(()),
    };
    let is_window = |expr: &Expr| match expr {
        Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    match row.iter().any(|value| visit_expressions(value, is_window).is_break()) {
        true => Err(QueryError::unsupported(
            "a window function in a row beside a subquery is not supported: compute it in a subquery in FROM",
        )),
        false => Ok(()),
    }
}

/// Keys of ORDER BY.
fn order(query: &Query) -> Result<(), QueryError> {
    let Some(OrderByKind::Expressions(by)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    let items = match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.as_slice(),
        _ => &[],
    };
    for by in by {
        key(&by.expr, "ORDER BY")?;
        if let Expr::Identifier(name) = &by.expr {
            let name = folded(name);
            let of_name = |item: &&SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == name);
            let found: HashSet<_> = items.iter().filter(of_name).filter_map(expr_of).collect();
            if found.len() > 1 {
                return Err(QueryError::other("42702", format!("ORDER BY \"{name}\" is ambiguous")));
            }
        }
    }
    Ok(())
}

/// Keys of GROUP BY, also those in grouping sets.
fn keys(select: &Select) -> Result<(), QueryError> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
    keys.iter().try_for_each(|key| group_key(key, &select.projection))
}

fn group_key(of: &Expr, items: &[SelectItem]) -> Result<(), QueryError> {
    match of {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().try_for_each(|key| group_key(key, items))
        }
        Expr::Tuple(keys) => keys.iter().try_for_each(|key| group_key(key, items)),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if ["rollup", "cube", coscan_upstream::GROUPING_SETS].contains(&unquoted(name).as_str()) =>
        {
            list.args.iter().try_for_each(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => group_key(key, items),
                _ => Ok(()),
            })
        }
        other => {
            key(other, "GROUP BY")?;
            match position(other) {
                None => calls(other, "GROUP BY", &AGGREGATES),
                Some(_) if items.iter().any(is_all) => Ok(()),
                Some(place) => {
                    match place.checked_sub(1).and_then(|place| items.get(place)).and_then(expr_of) {
                        Some(item) => calls(item, "GROUP BY", &AGGREGATES),
                        None => {
                            let text = format!("GROUP BY position {place} is not in select list");
                            Err(QueryError::other("42P10", text))
                        }
                    }
                }
            }
        }
    }
}

fn unquoted(name: impl ToString) -> String {
    name.to_string().replace('"', "").to_ascii_lowercase()
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The position that a key names.
fn position(of: &Expr) -> Option<usize> {
    match of {
        Expr::Nested(inner) => position(inner),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// A constant is a position, or no key.
fn key(of: &Expr, clause: &str) -> Result<(), QueryError> {
    match of {
        Expr::Nested(inner) => key(inner, clause),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match position(expr) {
            Some(place) => {
                Err(QueryError::other("42P10", format!("{clause} position -{place} is not in select list")))
            }
            None => Ok(()),
        },
        Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => Ok(()),
        Expr::Value(_) if position(of).is_none() => {
            Err(QueryError::other("42601", format!("non-integer constant in {clause}")))
        }
        _ => Ok(()),
    }
}

/// Calls of window functions, and of the named aggregates, outside of subqueries.
fn calls(of: &Expr, clause: &str, aggregates: &[&str]) -> Result<(), QueryError> {
    struct Calls<'a> {
        clause: &'a str,
        aggregates: &'a [&'a str],
        depth: usize,
    }
    impl Visitor for Calls<'_> {
        type Break = QueryError;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<QueryError> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<QueryError> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<QueryError> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = unquoted(&function.name);
            let (sqlstate, kind) = match function.over {
                _ if self.depth > 0 => return ControlFlow::Continue(()),
                Some(_) => ("42P20", "window"),
                None if self.aggregates.contains(&name.as_str()) => ("42803", "aggregate"),
                None => return ControlFlow::Continue(()),
            };
            let text = format!("{kind} functions are not allowed in {}", self.clause);
            ControlFlow::Break(QueryError::other(sqlstate, text))
        }
    }
    match visit(of, &mut Calls { clause, aggregates, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A join needs a condition.
fn joins(select: &Select) -> Result<(), QueryError> {
    let is_without = |join: &JoinOperator| {
        matches!(
            join,
            JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
                | JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
        )
    };
    match select.from.iter().flat_map(|from| &from.joins).any(|join| is_without(&join.join_operator)) {
        true => {
            Err(QueryError::other("42601", "JOIN needs ON or USING: write CROSS JOIN to combine all rows"))
        }
        false => Ok(()),
    }
}

/// `count` of several columns counts other rows in the query engine.
fn count(function: &Function) -> Result<(), QueryError> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    if unquoted(&function.name) != "count" {
        return Ok(());
    }
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    match list.args.as_slice() {
        [_, _, ..] => {
            let text = "function count takes one argument: count a row of them, count((a, b))";
            Err(QueryError::other("42883", text))
        }
        [] => {
            let text = "count(*) must be used to call a parameterless aggregate function";
            Err(QueryError::other("42809", text))
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if is_distinct => {
            Err(QueryError::other("42601", "DISTINCT needs a column: write count(DISTINCT a)"))
        }
        _ => Ok(()),
    }
}

/// Constant places of rows that are not positive.
fn places(function: &Function) -> Result<(), QueryError> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let name = unquoted(&function.name);
    let (at, sqlstate) = match name.as_str() {
        "nth_value" => (1, "22016"),
        "ntile" => (0, "22014"),
        _ => return Ok(()),
    };
    let is_positive = match list.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(place))) => match place {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => position(expr).is_none(),
            place => position(place) != Some(0),
        },
        _ => true,
    };
    match is_positive {
        true => Ok(()),
        false => Err(QueryError::other(sqlstate, format!("argument of {name} must be greater than zero"))),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn clauses_are_refused_with_the_codes_of_postgres() {
        for (sql, sqlstate) in [
            ("SELECT a FROM t GROUP BY 'a'", Some("42601")),
            ("SELECT count(*) FROM t GROUP BY ROLLUP (a, NULL)", Some("42601")),
            ("SELECT count(*) FROM t GROUP BY 1", Some("42803")),
            ("SELECT a FROM t GROUP BY -1", Some("42P10")),
            ("SELECT a FROM t GROUP BY 2", Some("42P10")),
            ("SELECT a FROM t ORDER BY 'x'", Some("42601")),
            ("SELECT a AS x, b AS x FROM t ORDER BY x", Some("42702")),
            ("SELECT a FROM t WHERE rank() OVER () = 1", Some("42P20")),
            ("SELECT a FROM t JOIN u", Some("42601")),
            ("SELECT count(a, b) FROM t", Some("42883")),
            ("SELECT count() OVER () FROM t", Some("42809")),
            ("SELECT nth_value(a, 0) OVER (ORDER BY a) FROM t", Some("22016")),
            ("SELECT nth_value(a, -1) OVER (ORDER BY a), nth_value(a, 1) OVER () FROM t", Some("22016")),
            ("SELECT ntile(0) OVER (ORDER BY a) FROM t", Some("22014")),
            ("SELECT nth_value(a, 2) OVER (ORDER BY a), ntile(b) OVER (ORDER BY a) FROM t", None),
            ("SELECT a AS x, a AS x FROM t GROUP BY 1, a || 'b' ORDER BY x, 1, $1", None),
            ("SELECT *, a FROM t, u CROSS JOIN v WHERE a IN (SELECT rank() OVER () FROM w) ORDER BY 7", None),
        ] {
            let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
            let found = check(&parsed[0]).err().map(|error| error.sqlstate());
            assert_eq!(found, sqlstate, "{sql}");
        }
    }
}
