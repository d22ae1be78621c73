//! Names of columns: PostgreSQL's names for columns without one, and equal names in one result.
//!
//! The query engine names a column without a name after its expression, and refuses two columns with the same name.
//! PostgreSQL calls `count(*)` `count` and allows any number of such columns. Here such columns get unique names
//! that end with [`MARK`] and a number. Clients get the names without these endings.
//!
//! Only columns that have a visible name are renamed: those of the statement, of subqueries in FROM and of WITH.

use std::borrow::Cow;
use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use coscan_upstream::REPEATED as MARK;
use coscan_upstream::walk::visit_expressions;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, DataType, Distinct, Expr, GroupByExpr, Ident, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, TimezoneInfo,
    TrimWhereField,
};

use super::lateral;
use crate::sql::ast::{folded, is_all, number};

/// Names the columns of a query.
pub(super) fn name_columns(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by
    {
        keep_from_order(select, order);
    }
    name_inner(query);
}

/// Names the columns of a subquery.
fn name_inner(query: &mut Query) {
    name_parts(query, false);
}

/// Names the columns of a subquery. With `keeps`, columns with a name keep it beside `*`.
fn name_parts(query: &mut Query, keeps: bool) {
    if let Some(with) = &mut query.with {
        let recursive = with.recursive;
        with.cte_tables.iter_mut().for_each(|table| name_parts(&mut table.query, recursive));
    }
    body(&mut query.body, query.order_by.as_mut(), keeps);
}

/// The names of the columns of a query that have no name in its text, by their places. Rewrites of the query may change
/// the expressions; see [`keep_names`].
pub(crate) fn given_names(query: &mut Query) -> Vec<Option<String>> {
    let Some(select) = first_select(&mut query.body) else { return Vec::new() };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => Some(figured(expr).0),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

/// Gives rewritten columns their names of before.
pub(crate) fn keep_names(query: &mut Query, names: &[Option<String>]) {
    let Some(select) = first_select(&mut query.body) else { return };
    if select.projection.len() != names.len() {
        return;
    }
    let all = select.projection.iter().any(is_all);
    for (at, (item, name)) in select.projection.iter_mut().zip(names).enumerate() {
        let (Some(name), SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            (name, &*item)
        else {
            continue;
        };
        let is_kept = match &*item {
            SelectItem::ExprWithAlias { alias, .. } => folded(alias) == *name,
            _ => figured(expr).0 == *name,
        };
        if !is_kept {
            let name = if all { format!("{name}{MARK}{}", at + 1) } else { name.clone() };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
        }
    }
}

/// The SELECT whose columns name those of a query.
fn first_select(of: &mut SetExpr) -> Option<&mut Select> {
    match of {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// Names the columns of a part of a query. Those of branches keep their names, because ORDER BY refers to them.
fn body(of: &mut SetExpr, order: Option<&mut OrderBy>, keeps: bool) {
    match of {
        SetExpr::Select(of) => select(of, order, keeps),
        SetExpr::Query(query) => name_parts(query, keeps),
        SetExpr::SetOperation { left, right, .. } => {
            body(left, None, true);
            body(right, None, true);
        }
        _ => {}
    }
}

/// Renames columns of the result whose names ORDER BY has in an expression. There, they are names of the columns of tables:
/// `SELECT -v AS v FROM t ORDER BY v + 0` is ordered by `t.v`. In the query engine they would be those of the result.
fn keep_from_order(select: &mut Select, order: &mut [OrderByExpr]) {
    if matches!(select.distinct, Some(Distinct::Distinct)) || select.projection.iter().any(is_all) {
        return;
    }
    let mut names = HashSet::new();
    for by in order.iter().filter(|by| !matches!(by.expr, Expr::Identifier(_))) {
        let ControlFlow::Continue(()) = visit_expressions(&by.expr, |expr| {
            if let Some(name) = column_name(expr) {
                names.insert(name);
            }
            ControlFlow::<Infallible>::Continue(())
        });
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = folded(alias);
        if !names.contains(&name) || column_name(expr).as_ref() == Some(&name) {
            continue;
        }
        let is_it = |by: &Expr| matches!(by, Expr::Identifier(by) if folded(by) == name);
        order.iter_mut().filter(|by| is_it(&by.expr)).for_each(|by| by.expr = number(at + 1));
        *alias = Ident::with_quote('"', format!("{name}{MARK}{}", at + 1));
    }
}

fn select(select: &mut Select, order: Option<&mut OrderBy>, keeps: bool) {
    select.from.iter_mut().for_each(table);
    let mut order = match order.map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(by)) => by.iter_mut().map(|by| &mut by.expr).collect(),
        _ => Vec::new(),
    };
    let all = select.projection.iter().any(is_all);
    // Other clauses may read the names of columns.
    let is_read = keeps
        || !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        || select.having.is_some()
        || select.qualify.is_some()
        || matches!(select.distinct, Some(Distinct::On(_)));
    let mut seen = HashSet::new();
    // Names that ORDER BY can use only in PostgreSQL, with the positions of their columns.
    let mut only_here: Vec<(String, usize)> = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, named) = match item {
            SelectItem::UnnamedExpr(expr) => (expr.clone(), None),
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias.clone())),
            _ => continue,
        };
        let column = named.is_none() && column_name(&expr).is_some();
        let (name, of_column) = match &named {
            Some(alias) if alias.value.contains(MARK) => continue,
            Some(alias) => (folded(alias), false),
            None => figured(&expr),
        };
        let first = seen.insert(name.clone());
        let stays = first && (named.is_some() || (column && !all));
        if let Some(alias) = &named
            && all
            && !is_read
        {
            // `*` may have a column of this name.
            let other = Ident::with_quote('"', format!("{name}{MARK}{}", at + 1));
            let is_it = |by: &Expr| matches!(by, Expr::Identifier(by) if folded(by) == folded(alias));
            order.iter_mut().filter(|by| is_it(by)).for_each(|by| **by = Expr::Identifier(other.clone()));
            *item = SelectItem::ExprWithAlias { expr, alias: other };
            continue;
        }
        if stays || (named.is_some() && all) {
            continue;
        }
        let marked = !first || all || (of_column && !order.is_empty());
        if marked && first && of_column && !column {
            only_here.push((name.clone(), at + 1));
        }
        if matches!(select.distinct, Some(Distinct::Distinct)) {
            // The query engine looks up sort expressions among the columns under their new names.
            order.iter_mut().filter(|by| ***by == expr).for_each(|by| **by = number(at + 1));
        }
        let name = if marked { format!("{name}{MARK}{}", at + 1) } else { name };
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
    }
    if all {
        return;
    }
    for by in order {
        if let Expr::Identifier(name) = &*by
            && let Some((_, at)) = only_here.iter().find(|(known, _)| *known == folded(name))
        {
            *by = number(*at);
        }
    }
}

fn table(of: &mut TableWithJoins) {
    std::iter::once(&mut of.relation)
        .chain(of.joins.iter_mut().map(|join| &mut join.relation))
        .for_each(factor);
}

fn factor(of: &mut TableFactor) {
    match of {
        TableFactor::Derived { lateral, subquery, alias, .. } => {
            name_parts(subquery, alias.is_none());
            if *lateral {
                lateral::with_columns(subquery);
            }
        }
        TableFactor::NestedJoin { table_with_joins, .. } => table(table_with_joins),
        _ => {}
    }
}

pub(super) fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(path) => path.last().map(folded),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// The name that PostgreSQL gives a column (`FigureColname`), and true if it comes from a column that is read.
fn figured(expr: &Expr) -> (String, bool) {
    match figure(expr) {
        Some(Figure { name, of_column, .. }) => (name.into_owned(), of_column),
        None => ("?column?".to_owned(), false),
    }
}

struct Figure {
    name: Cow<'static, str>,
    /// Set if a surrounding cast or CASE keeps the name.
    strong: bool,
    of_column: bool,
}

impl Figure {
    fn strong(name: impl Into<Cow<'static, str>>) -> Self {
        Figure { name: name.into(), strong: true, of_column: false }
    }

    fn weak(name: impl Into<Cow<'static, str>>) -> Self {
        Figure { strong: false, ..Figure::strong(name) }
    }
}

fn figure(expr: &Expr) -> Option<Figure> {
    if let Some(name) = column_name(expr) {
        return Some(Figure { of_column: true, ..Figure::strong(name) });
    }
    Some(match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return figure(inner),
        Expr::Function(function) => {
            Figure::strong(function.name.0.last().and_then(|part| part.as_ident()).map(folded)?)
        }
        Expr::Cast { expr, data_type, .. } => {
            figure(expr).filter(|figure| figure.strong).unwrap_or_else(|| Figure::weak(type_name(data_type)))
        }
        Expr::TypedString(typed) => Figure::weak(type_name(&typed.data_type)),
        Expr::Interval(_) => Figure::weak("interval"),
        Expr::Case { else_result, .. } => else_result
            .as_ref()
            .and_then(|other| figure(other))
            .filter(|figure| figure.strong)
            .unwrap_or_else(|| Figure::weak("case")),
        Expr::Subquery(query) => return of_subquery(&query.body),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => column_name(field),
                AccessExpr::Subscript(_) => None,
            });
            match field {
                Some(name) => Figure::strong(name),
                None => return figure(root),
            }
        }
        // NOT is an operator above it.
        Expr::Exists { negated: true, .. } => return None,
        Expr::Exists { .. } => Figure::strong("exists"),
        Expr::Array(_) => Figure::strong("array"),
        Expr::Tuple(_) => Figure::strong("row"),
        Expr::Extract { .. } => Figure::strong("extract"),
        Expr::AtTimeZone { .. } => Figure::strong("timezone"),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => Figure::strong("overlaps"),
        Expr::Position { .. } => Figure::strong("position"),
        Expr::Substring { .. } => Figure::strong("substring"),
        Expr::Overlay { .. } => Figure::strong("overlay"),
        Expr::Ceil { .. } => Figure::strong("ceil"),
        Expr::Floor { .. } => Figure::strong("floor"),
        Expr::Trim { trim_where: Some(TrimWhereField::Leading), .. } => Figure::strong("ltrim"),
        Expr::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => Figure::strong("rtrim"),
        Expr::Trim { .. } => Figure::strong("btrim"),
        _ => return None,
    })
}

fn of_subquery(body: &SetExpr) -> Option<Figure> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => figure(expr).map(|figure| Figure { of_column: false, ..figure }),
            SelectItem::ExprWithAlias { alias, .. } => Some(Figure::strong(folded(alias))),
            _ => None,
        },
        SetExpr::Query(query) => of_subquery(&query.body),
        SetExpr::SetOperation { left, .. } => of_subquery(left),
        SetExpr::Values(_) => Some(Figure::strong("column1")),
        _ => None,
    }
}

/// PostgreSQL's own name of a type.
fn type_name(of: &DataType) -> Cow<'static, str> {
    match of {
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".into(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".into(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".into(),
        DataType::Real | DataType::Float4 => "float4".into(),
        DataType::Float(_) | DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => {
            "float8".into()
        }
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".into(),
        DataType::Boolean | DataType::Bool => "bool".into(),
        DataType::Varchar(_) | DataType::CharVarying(_) | DataType::CharacterVarying(_) => "varchar".into(),
        DataType::Char(_) | DataType::Character(_) => "bpchar".into(),
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz".into(),
        DataType::Timestamp(..) => "timestamp".into(),
        DataType::Interval { .. } => "interval".into(),
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)) => type_name(of),
        other => {
            let name = other.to_string().to_ascii_lowercase();
            let name = name.rsplit('.').next().unwrap_or_default();
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.chars().filter(|&c| letters(c)).collect::<String>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn query(sql: &str) -> Query {
        match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) {
            Statement::Query(query) => *query,
            other => panic!("{other}"),
        }
    }

    /// The names are output of PostgreSQL 15.
    #[test]
    fn names_are_those_of_postgres() {
        for (expr, name) in [
            ("1", "?column?"),
            ("true", "?column?"),
            ("'a'::text", "text"),
            ("id::text", "id"),
            ("count(*)::int", "count"),
            ("(1+1)::int", "int4"),
            ("1.5::float", "float8"),
            ("date '2024-01-01'", "date"),
            ("interval '1 day'", "interval"),
            ("timestamp 'now'", "timestamp"),
            ("CASE WHEN true THEN 1 END", "case"),
            ("CASE WHEN true THEN 1 ELSE max(id) END", "max"),
            ("coalesce(id, 1)", "coalesce"),
            ("nullif(1, 2)", "nullif"),
            ("extract(year from at)", "extract"),
            ("at AT TIME ZONE 'UTC'", "timezone"),
            ("position('a' in name)", "position"),
            ("substring(name from 2)", "substring"),
            ("trim(name)", "btrim"),
            ("trim(leading 'a' from name)", "ltrim"),
            ("(SELECT max(id) FROM t)", "max"),
            ("(SELECT id FROM t LIMIT 1)", "id"),
            ("exists(SELECT 1)", "exists"),
            ("NOT exists(SELECT 1)", "?column?"),
            ("ARRAY[1]", "array"),
            ("(ARRAY[1, 2])[1]", "array"),
            ("current_date", "current_date"),
            ("name || 'a'", "?column?"),
            ("-id", "?column?"),
            ("name LIKE 'a'", "?column?"),
            ("ceil(1.5)", "ceil"),
            ("id::numeric(10, 2)", "id"),
            ("sum(id) OVER ()", "sum"),
            ("pg_catalog.now()", "now"),
            ("name COLLATE \"C\"", "name"),
            ("1::bigint", "int8"),
            ("'a'::varchar(3)", "varchar"),
            ("1::double precision", "float8"),
            ("'2024-01-01'::timestamptz", "timestamptz"),
            ("'10:00'::time", "time"),
            ("'t'::regclass", "regclass"),
            ("'{}'::jsonb", "jsonb"),
        ] {
            let SetExpr::Select(select) = *query(&format!("SELECT {expr} FROM t")).body else { panic!() };
            let SelectItem::UnnamedExpr(expr) = &select.projection[0] else { panic!() };
            assert_eq!(figured(expr).0, name, "{expr}");
        }
    }

    #[test]
    fn equal_names_become_different_ones() {
        for (sql, other) in [
            ("SELECT 1, 1", "SELECT 1 AS \"?column?\", 1 AS \"?column?|2\""),
            ("SELECT id, id FROM t", "SELECT id, id AS \"id|2\" FROM t"),
            ("SELECT id AS a, name AS a FROM t", "SELECT id AS a, name AS \"a|2\" FROM t"),
            ("SELECT id, id::text FROM t", "SELECT id, id::TEXT AS \"id|2\" FROM t"),
            ("SELECT id::text FROM t ORDER BY id", "SELECT id::TEXT AS \"id|1\" FROM t ORDER BY 1"),
            ("SELECT id::text FROM t ORDER BY t.id", "SELECT id::TEXT AS \"id|1\" FROM t ORDER BY t.id"),
            ("SELECT *, id FROM t", "SELECT *, id AS \"id|2\" FROM t"),
            ("SELECT *, 1 AS a FROM t ORDER BY a", "SELECT *, 1 AS \"a|2\" FROM t ORDER BY \"a|2\""),
            (
                "SELECT *, 1 AS a FROM t UNION ALL SELECT *, 2 AS a FROM t ORDER BY a",
                "SELECT *, 1 AS a FROM t UNION ALL SELECT *, 2 AS a FROM t ORDER BY a",
            ),
            (
                "SELECT s.a FROM t, LATERAL (SELECT t.a) AS s",
                "SELECT s.a FROM t, LATERAL (SELECT t.a AS \"a\") AS s",
            ),
            (
                "SELECT DISTINCT upper(a) FROM t ORDER BY upper(a)",
                "SELECT DISTINCT upper(a) AS \"upper\" FROM t ORDER BY 1",
            ),
            (
                "WITH q AS (SELECT 1, 1) SELECT x FROM (SELECT max(a), max(a), 2 AS x FROM q) AS s",
                "WITH q AS (SELECT 1 AS \"?column?\", 1 AS \"?column?|2\") SELECT x FROM (SELECT max(a) AS \"max\", max(a) AS \
                 \"max|2\", 2 AS x FROM q) AS s",
            ),
            ("SELECT id FROM t WHERE EXISTS (SELECT 1, 1)", "SELECT id FROM t WHERE EXISTS (SELECT 1, 1)"),
        ] {
            let mut query = query(sql);
            name_columns(&mut query);
            assert_eq!(query.to_string().replace(MARK, "|"), other, "{sql}");
        }
    }
}
