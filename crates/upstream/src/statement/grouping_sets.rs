//! GROUP BY with grouping sets.
//!
//! DataFusion 55 adds the columns to the keys of an aggregation that its keys determine. Beside grouping sets, it adds them
//! to each set: after `GROUP BY a.k, ROLLUP (a.v)` over groups by `k`, `v` keeps its value in the set that leaves it out. It
//! does not look for keys within grouping sets, so each key beside grouping sets becomes a grouping set of its own.
//!
//! It refuses several forms of SQL: `ROLLUP ((a, b), c)`, `ROLLUP (a, a)`, grouping sets within grouping sets and
//! `GROUP BY ()`, and takes positions of columns in them for constants. A GROUP BY with such a form becomes one list of its
//! grouping sets. The parser does not read some of them. They may be written as calls: `"rollup"(a)`, `"cube"(a)` and
//! `"grouping sets"(a, row())`, where `row()` is the empty set; a key [`DISTINCT_SETS`] leaves out repeated grouping sets.
//!
//! A HAVING without GROUP BY makes one group, also if no aggregate is called, which DataFusion refuses. It gets one.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
    SelectItem, Value, ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::walk::{Tree, visit_mut};

/// The name of a call among the keys of GROUP BY that stands for DISTINCT.
pub const DISTINCT_SETS: &str = "distinct grouping sets";

/// The name of a call that stands for GROUPING SETS.
pub const GROUPING_SETS: &str = "grouping sets";

/// Maximum number of grouping sets that are made here, as in PostgreSQL. Others stay as they are.
const SETS_MAX: u64 = 4096;

/// A condition that is always true and has an aggregate.
const ANY_GROUP: &str = "count(*) >= 0";

/// Rewrites the keys beside grouping sets, and forms that DataFusion does not know.
pub(crate) fn separate<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut Separate);
}

struct Separate;

impl VisitorMut for Separate {
    type Break = Infallible;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let Select { group_by, projection, having, .. } = select;
        let GroupByExpr::Expressions(keys, _) = group_by else {
            return ControlFlow::Continue(());
        };
        let is_one_group = keys.is_empty() && having.is_some() || is_empty_set(keys);
        rewrite(keys, projection);
        if is_one_group && let Some(any) = any_group() {
            *having = Some(match having.take() {
                Some(condition) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(condition))),
                    op: BinaryOperator::And,
                    right: Box::new(any),
                },
                None => any,
            });
        }
        ControlFlow::Continue(())
    }
}

fn any_group() -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(ANY_GROUP).and_then(|mut it| it.parse_expr()).ok()
}

/// Returns whether the keys are `()`.
fn is_empty_set(keys: &[Expr]) -> bool {
    !keys.is_empty() && keys.iter().all(|key| elements_of(key.clone()).is_empty())
}

fn rewrite(keys: &mut Vec<Expr>, items: &[SelectItem]) {
    let many = keys.len();
    keys.retain(|key| !matches!(key, Expr::Function(call) if is_call(call, DISTINCT_SETS)));
    let distinct = keys.len() < many;
    if !keys.iter().any(is_set) {
        // Keys in parentheses are keys.
        *keys = keys.drain(..).flat_map(elements_of).collect();
        return;
    }
    let has_other_form = distinct || keys.iter().any(|key| matches!(key, Expr::Tuple(_)) || !is_plain(key));
    let count = keys.iter().map(grouping_set_count).fold(1, u64::saturating_mul);
    if has_other_form && count <= SETS_MAX {
        let of_keys = keys.iter().map(|key| sets(key, items)).collect::<Option<Vec<_>>>();
        if let Some(of_keys) = of_keys {
            *keys = vec![Expr::GroupingSets(product(of_keys, distinct))];
            return;
        }
    }
    for key in keys.iter_mut().filter(|key| !is_set(key)) {
        if let Some(expr) = in_set(key, items) {
            *key = Expr::GroupingSets(vec![vec![expr]]);
        }
    }
}

/// Combines the grouping sets of all keys. No set has a key twice.
fn product(of_keys: Vec<Vec<Vec<Expr>>>, distinct: bool) -> Vec<Vec<Expr>> {
    let mut sets: Vec<Vec<Expr>> = vec![Vec::new()];
    for next in of_keys {
        let with_next = |set: &Vec<Expr>| {
            next.iter().map(|more| [set.as_slice(), more].concat()).collect::<Vec<Vec<Expr>>>()
        };
        sets = sets.iter().flat_map(with_next).collect();
    }
    for set in &mut sets {
        let mut seen = HashSet::new();
        set.retain(|key| seen.insert(key.clone()));
    }
    if distinct {
        let mut seen = HashSet::new();
        sets.retain(|set| {
            let mut names: Vec<String> = set.iter().map(ToString::to_string).collect();
            names.sort_unstable();
            seen.insert(names)
        });
    }
    sets
}

/// The kinds of lists of grouping sets.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rollup,
    Cube,
    Sets,
}

/// Returns the kind and the elements of a list of grouping sets. `None` for another key.
fn list(key: &Expr) -> Option<(Kind, Vec<Vec<Expr>>)> {
    match key {
        Expr::Rollup(elements) => Some((Kind::Rollup, elements.clone())),
        Expr::Cube(elements) => Some((Kind::Cube, elements.clone())),
        Expr::GroupingSets(sets) => Some((Kind::Sets, sets.clone())),
        Expr::Function(call) => {
            let kinds = [("rollup", Kind::Rollup), ("cube", Kind::Cube), (GROUPING_SETS, Kind::Sets)];
            let (_, kind) = kinds.into_iter().find(|(name, _)| is_call(call, name))?;
            let FunctionArguments::List(list) = &call.args else { return None };
            let element = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(elements_of(expr.clone())),
                _ => None,
            };
            Some((kind, list.args.iter().map(element).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn is_call(call: &Function, name: &str) -> bool {
    call.over.is_none()
        && call
            .name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .is_some_and(|part| part.value.to_lowercase() == name)
}

/// Returns the expressions of an element: of `(a, b)`, `(a)`, `()` or `a`.
fn elements_of(element: Expr) -> Vec<Expr> {
    match element {
        Expr::Tuple(exprs) => exprs,
        Expr::Nested(inner) => vec![*inner],
        Expr::Function(call) if is_empty_row(&call) => Vec::new(),
        other => vec![other],
    }
}

fn is_empty_row(call: &Function) -> bool {
    is_call(call, "row") && matches!(&call.args, FunctionArguments::List(list) if list.args.is_empty())
}

/// Returns the number of grouping sets of a key.
pub fn grouping_set_count(key: &Expr) -> u64 {
    let power = |columns: usize| {
        u32::try_from(columns).ok().and_then(|columns| 1u64.checked_shl(columns)).unwrap_or(u64::MAX)
    };
    match (key, list(key)) {
        (_, Some((Kind::Rollup, elements))) => elements.len() as u64 + 1,
        (_, Some((Kind::Cube, elements))) => power(elements.len()),
        (_, Some((Kind::Sets, sets))) => {
            let of_set = |set: &Vec<Expr>| set.iter().map(grouping_set_count).fold(1, u64::saturating_mul);
            sets.iter().map(of_set).fold(0, u64::saturating_add)
        }
        (Expr::Nested(inner), None) => grouping_set_count(inner),
        _ => 1,
    }
}

/// Returns the grouping sets of a key. `None` if it has a position that a wildcard may have.
fn sets(key: &Expr, items: &[SelectItem]) -> Option<Vec<Vec<Expr>>> {
    let read = |set: &[Expr]| set.iter().map(|key| in_set(key, items)).collect::<Option<Vec<_>>>();
    let Some((kind, elements)) = list(key) else {
        return Some(vec![read(&elements_of(key.clone()))?]);
    };
    match kind {
        Kind::Rollup => (0..=elements.len()).rev().map(|most| read(&elements[..most].concat())).collect(),
        Kind::Cube => {
            let is_in = |at: usize, set: u64| (set >> at) & 1 == 0;
            let of_set = |set: u64| {
                let of_set = elements.iter().enumerate().filter(|(at, _)| is_in(*at, set));
                read(&of_set.flat_map(|(_, element)| element.clone()).collect::<Vec<_>>())
            };
            (0..grouping_set_count(key)).map(of_set).collect()
        }
        Kind::Sets => {
            let of_element = |element: &Vec<Expr>| match element.as_slice() {
                [inner] if is_set(inner) => sets(inner, items),
                set => Some(vec![read(set)?]),
            };
            let sets = elements.iter().map(of_element).collect::<Option<Vec<_>>>()?;
            Some(sets.concat())
        }
    }
}

fn is_set(key: &Expr) -> bool {
    list(key).is_some()
}

/// Returns whether DataFusion knows the form of a key.
fn is_plain(key: &Expr) -> bool {
    if matches!(key, Expr::Function(_)) {
        return !is_set(key);
    }
    let Some((kind, elements)) = list(key) else { return true };
    let is_key = |key: &Expr| !is_set(key) && number(key).is_none();
    let is_element = |element: &Vec<Expr>| {
        let differ = element.iter().collect::<HashSet<_>>().len() == element.len();
        differ && element.iter().all(is_key) && (kind == Kind::Sets || element.len() == 1)
    };
    let differ = elements.iter().collect::<HashSet<_>>().len() == elements.len();
    elements.iter().all(is_element) && (kind == Kind::Sets || differ)
}

fn number(key: &Expr) -> Option<&str> {
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => Some(number),
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}

/// Returns the key as an expression that may be in a grouping set, where numbers are no positions of columns. Returns `None`
/// for a position that a wildcard may have.
fn in_set(key: &Expr, items: &[SelectItem]) -> Option<Expr> {
    let Some(position) = number(key) else { return Some(key.clone()) };
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    #[test]
    fn other_forms_become_grouping_sets() {
        for (written, meant) in [
            ("a, ROLLUP (b)", "GROUPING SETS ((a)), ROLLUP (b)"),
            ("ROLLUP (a, b)", "ROLLUP (a, b)"),
            ("ROLLUP (2, 1)", "GROUPING SETS ((y, x), (y), ())"),
            ("ROLLUP ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), ())"),
            ("ROLLUP (a, a)", "GROUPING SETS ((a), (a), ())"),
            ("CUBE (a, 1)", "GROUPING SETS ((a, x), (x), (a), ())"),
            ("GROUPING SETS (ROLLUP (a), (b, c), ())", "GROUPING SETS ((a), (), (b, c), ())"),
            ("\"grouping sets\"(\"grouping sets\"(a, row()), (b, c))", "GROUPING SETS ((a), (), (b, c))"),
            ("\"distinct grouping sets\"(), ROLLUP (a), ROLLUP (a)", "GROUPING SETS ((a), ())"),
            ("\"distinct grouping sets\"(), a, b", "a, b"),
            ("(a, b), c", "a, b, c"),
            ("(a, b), ROLLUP (c)", "GROUPING SETS ((a, b, c), (a, b))"),
            ("(), a", "a"),
            ("\"rollup\"((a)::text)", "GROUPING SETS (((a)::TEXT), ())"),
        ] {
            let sql = format!("SELECT x, y FROM t GROUP BY {written}");
            let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &sql).expect(written);
            let mut statement = parsed.into_iter().next().expect(written);
            separate(&mut statement);
            assert_eq!(statement.to_string(), format!("SELECT x, y FROM t GROUP BY {meant}"), "{written}");
        }
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1 FROM t GROUP BY ()").expect("SQL");
        let mut statement = parsed.into_iter().next().expect("SQL");
        separate(&mut statement);
        assert_eq!(statement.to_string(), "SELECT 1 FROM t HAVING count(*) >= 0");
    }
}
