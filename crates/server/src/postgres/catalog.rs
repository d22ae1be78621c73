//! Rewrites of statements about PostgreSQL's catalogs into a form that the query engine can plan.
//!
//! `datafusion-pg-catalog` does most of the rewrites: PostgreSQL's operators and casts become those of the query engine.
//! It would also make NULL of correlated subqueries in the list of columns; parentheses keep it from that. This module
//! does the rest: arrays of subqueries, correlated subqueries, numbers of functions.
//!
//! A rewritten statement may return less if the catalogs have no data (see [`NOTHING_IN`]). It never reads a table
//! of the user: `statement` does not pass such statements on.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use coscan_upstream::walk::{visit_mut, visit_relations};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArguments, Ident,
    Join, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, Value, ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;

use crate::sql::ast::{
    array_subquery, call, cast, folded, literal, nested, number, only_column, parsed, text,
};
use crate::sql::{FUNCTION_NUMBER, compared, in_rows, is_own_table, is_without_rows};

static GIVEN: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

/// Relations without rows about objects that a user sees, and functions of empty columns. An array over one of them
/// is empty.
const NOTHING_IN: [&str; 8] = [
    "unnest",
    "aclexplode",
    "generate_series",
    "pg_options_to_table",
    "pg_policy",
    "pg_enum",
    "pg_ts_config_map",
    "pg_ts_token_type",
];

/// Lists of the columns of keys and indexes. They are NULL, because tables have neither.
const KEYS: [&str; 6] = ["confkey", "conkey", "indclass", "indcollation", "indkey", "indoption"];

/// Columns of `pg_type` with functions. They hold names.
const FUNCTION_COLUMNS: [&str; 8] =
    ["typanalyze", "typinput", "typmodin", "typmodout", "typoutput", "typreceive", "typsend", "typsubscript"];

/// Functions about the transaction.
const TRANSACTIONS: [&str; 2] = ["pg_current_xact_id", "txid_current"];

/// Columns that every table of PostgreSQL has.
const SYSTEM_COLUMNS: [&str; 5] = ["cmax", "cmin", "tableoid", "xmax", "xmin"];

/// Columns of truth values that clients compare with texts.
const TRUTH_COLUMNS: [&str; 3] = ["indisprimary", "indisunique", "indisvalid"];

/// Functions that aggregate many rows to one value.
const AGGREGATES: [&str; 10] = [
    "array_agg",
    "string_agg",
    "json_agg",
    "count",
    "sum",
    "min",
    "max",
    "bool_or",
    "bool_and",
    "first_value",
];

/// Parses and rewrites statements. `plain` is their parse without PostgreSQL's peculiarities, if that succeeds.
pub(super) fn read(sql: &str, plain: Option<&[Statement]>) -> Result<Vec<Statement>, ParserError> {
    let before = plain.and_then(|plain| {
        let mut plain = plain.to_vec();
        let mut before = Before { reads: reads_catalog(&plain), changed: false };
        let _ = visit_mut(&mut plain, &mut before);
        before.changed.then(|| plain.iter().map(ToString::to_string).collect::<Vec<_>>().join(";\n"))
    });
    let mut statements = GIVEN.parse(before.as_deref().unwrap_or(sql))?;
    let reads = reads_catalog(&statements);
    let _ = visit_mut(&mut statements, &mut After { reads });
    Ok(statements)
}

/// Returns true if a relation of a catalog is read. A statement may also have functions only, or nothing.
fn reads_catalog(statements: &[Statement]) -> bool {
    let of_catalog = |relation: &ObjectName| {
        let parts: Vec<String> = relation.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        match &parts[..] {
            [.., schema, _] => matches!(schema.as_str(), "pg_catalog" | "information_schema"),
            [name] => name.starts_with("pg_"),
            [] => false,
        }
    };
    let reads = |statement: &Statement| {
        visit_relations(statement, |relation| match of_catalog(relation) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    };
    statements.iter().any(|statement| reads(statement).is_break())
}

/// Changes before the other rewrites, which would destroy the needed parts.
struct Before {
    /// Set if a catalog is read.
    reads: bool,
    changed: bool,
}

impl VisitorMut for Before {
    type Break = ();

    /// Puts subqueries in the list of columns into parentheses.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && matches!(expr, Expr::Subquery(_))
            {
                (*expr, self.changed) = (nested(expr.clone()), true);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The other rewrites take the rows of a subquery for an array. Arrays of catalogs may be text.
        let is_array = match &*expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => array_subquery(right).is_some(),
            _ => false,
        };
        if !(is_array && self.reads)
            && let Some(rows) = in_rows(expr)
        {
            (*expr, self.changed) = (rows, true);
            return ControlFlow::Continue(());
        }
        let other = match expr {
            // Columns of functions hold names.
            Expr::Cast { expr, data_type, .. }
                if data_type.to_string().to_ascii_lowercase().ends_with("regproc")
                    && text(expr).is_some() =>
            {
                Some(expr.as_ref().clone())
            }
            // The number of a function, by its name.
            Expr::Cast { expr, data_type, .. } if is_number_type(data_type) => {
                function_column(expr).map(|name| cast(numbered(name), data_type.clone()))
            }
            Expr::BinaryOp { left, op, right } if compares_numbers(left, right) => {
                let numbered =
                    |side: &Expr| Box::new(function_column(side).map_or_else(|| side.clone(), numbered));
                Some(Expr::BinaryOp { left: numbered(left), op: op.clone(), right: numbered(right) })
            }
            // Columns of functions hold `-` for none.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if FUNCTION_COLUMNS.iter().any(|name| is_column(left, name)) && is_zero(right) =>
            {
                **right = literal("-");
                self.changed = true;
                None
            }
            // Texts for truth values.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if TRUTH_COLUMNS.iter().any(|name| is_column(left, name)) && text(right).is_some() =>
            {
                **right = cast(right.as_ref().clone(), DataType::Boolean);
                self.changed = true;
                None
            }
            // The search path has one schema.
            Expr::InSubquery { expr, subquery, negated }
                if subquery.to_string().contains("current_setting('search_path')") =>
            {
                let list = vec![literal("public")];
                Some(Expr::InList { expr: expr.clone(), list, negated: *negated })
            }
            // Arrays in a text literal have NULL or quoted elements. The other rewrites would treat each as a text.
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if !self.reads || is_parameter(right) => {
                compared(expr)
            }
            Expr::Cast { kind: kind @ CastKind::DoubleColon, data_type: DataType::Array(_), .. }
                if !self.reads =>
            {
                (*kind, self.changed) = (CastKind::Cast, true);
                None
            }
            _ => None,
        };
        if let Some(other) = other {
            (*expr, self.changed) = (other, true);
        }
        ControlFlow::Continue(())
    }
}

/// Changes after the other rewrites.
struct After {
    /// Set if a catalog is read.
    reads: bool,
}

impl VisitorMut for After {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.reads
            && let Some(query) = array_subquery(expr)
        {
            *expr = gathered(query);
            return ControlFlow::Continue(());
        }
        let other = match expr {
            // The number of the transaction. Each statement has its own, because none changes rows.
            Expr::Function(function) if TRANSACTIONS.iter().any(|name| is_called(&function.name, name)) => {
                parsed("CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)").ok()
            }
            // Positions in an array with one dimension.
            Expr::Function(function) if is_called(&function.name, "generate_subscripts") => {
                first_argument(function).and_then(|array| {
                    let last = format!("CAST(cardinality({array}) AS BIGINT)");
                    // A parameter must stay in the statement.
                    let last = match second_argument(function).map(ToString::to_string) {
                        Some(dimension) if dimension.contains('$') => {
                            format!("CASE WHEN {dimension} = 1 THEN {last} ELSE 0 END")
                        }
                        _ => last,
                    };
                    parsed(&format!("unnest(generate_series(1, {last}))")).ok()
                })
            }
            // Arrays of catalogs may be text.
            Expr::Function(function) if is_called(&function.name, "array_to_string") => {
                function.name = ObjectName::from(vec![Ident::new("pg_array_to_string")]);
                None
            }
            // A field of a function's result. `con.conkey[1]` is an element of a column.
            Expr::CompoundFieldAccess { root, access_chain } if matches!(root.as_ref(), Expr::Nested(_)) => {
                for access in access_chain {
                    if let AccessExpr::Dot(Expr::Identifier(name)) = access {
                        *access = AccessExpr::Dot(literal(&*name.value));
                    }
                }
                None
            }
            // The catalog of a row matters only for comments on objects, and there are none. Rows have no transactions.
            _ if self.reads && SYSTEM_COLUMNS.iter().any(|name| is_column(expr, name)) => Some(number(0)),
            Expr::Subquery(query) if self.reads && says_nothing(query) => Some(Expr::value(Value::Null)),
            Expr::Subquery(query) if self.reads => {
                single(query);
                None
            }
            _ => None,
        };
        if let Some(other) = other {
            *expr = other;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args, .. } = factor
            && is_called(name, "pg_show_all_settings")
        {
            (*name, *args) =
                (ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new("pg_settings")]), None);
        }
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(table)] = name.0.as_slice()
            && is_own_table(&table.value)
        {
            *name = ObjectName::from(vec![Ident::new("pg_catalog"), table.clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether this is a type of numbers of objects.
fn is_number_type(of: &DataType) -> bool {
    let name = of.to_string().to_ascii_lowercase();
    matches!(
        name.strip_prefix("pg_catalog.").unwrap_or(&name),
        "oid" | "int" | "int4" | "integer" | "int8" | "bigint"
    )
}

/// A column with names of functions, without parentheses and casts to such a type.
fn function_column(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner) => function_column(inner),
        Expr::Cast { expr: inner, data_type, .. }
            if data_type.to_string().to_ascii_lowercase().ends_with("regproc") =>
        {
            function_column(inner)
        }
        column => FUNCTION_COLUMNS.iter().any(|name| is_column(column, name)).then_some(column),
    }
}

/// The number of a function, by its name.
fn numbered(name: &Expr) -> Expr {
    call(FUNCTION_NUMBER, vec![name.clone()])
}

/// Returns whether a column of functions is compared with a number: a column of numbers, or a constant other than zero.
fn compares_numbers(left: &Expr, right: &Expr) -> bool {
    let is_number = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            function_column(expr).is_none() && names_number(expr)
        }
        Expr::Value(ValueWithSpan { value: Value::Number(..), .. }) => !is_zero(expr),
        _ => false,
    };
    let compares = |name: &Expr, number: &Expr| function_column(name).is_some() && is_number(number);
    compares(left, right) || compares(right, left)
}

/// Returns whether a column has numbers of objects, by its name.
fn names_number(column: &Expr) -> bool {
    let last = match column {
        Expr::Identifier(last) => Some(last),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    };
    last.is_some_and(|last| folded(last).ends_with("oid"))
}

/// Returns true for a column of this name.
fn is_column(expr: &Expr, name: &str) -> bool {
    let last = match expr {
        Expr::Identifier(last) => Some(last),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    };
    last.is_some_and(|last| folded(last) == name)
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if *number == "0")
}

fn is_called(function: &ObjectName, name: &str) -> bool {
    function.to_string().eq_ignore_ascii_case(name)
}

/// The only column of a plain SELECT, and the SELECT to change.
fn column(query: &mut Query) -> Option<(&mut Select, Expr)> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let expr = only_column(select)?.clone();
    Some((select, expr))
}

/// Returns true if a scalar subquery is NULL for every outer row: its table has no rows, or its column is NULL.
fn says_nothing(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let Some(expr) = only_column(select) else { return false };
    if is_aggregated(expr) {
        return false;
    }
    let is_null = |expr: &Expr| matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }));
    let says_null = match expr {
        Expr::Cast { expr, .. } => is_null(expr),
        expr => is_null(expr),
    };
    let without_rows = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, .. } => name.0.last().is_some_and(|part| match part {
            ObjectNamePart::Identifier(table) => is_without_rows(&table.value),
            ObjectNamePart::Function(_) => false,
        }),
        _ => false,
    };
    says_null
        || select.from.iter().any(|from| without_rows(&from.relation) && from.joins.iter().all(is_inner))
}

/// Returns true if a join has rows only for rows of its left side.
fn is_inner(join: &Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::CrossJoin(_)
    )
}

fn is_aggregated(expr: &Expr) -> bool {
    let text = expr.to_string().to_ascii_lowercase();
    AGGREGATES.iter().any(|name| text.contains(&format!("{name}(")))
}

fn second_argument(function: &Function) -> Option<&FunctionArg> {
    match &function.args {
        FunctionArguments::List(list) => list.args.get(1),
        _ => None,
    }
}

fn first_argument(function: &Function) -> Option<&FunctionArg> {
    match &function.args {
        FunctionArguments::List(list) => list.args.first(),
        _ => None,
    }
}

/// Makes a scalar subquery return at most one row. A correlated subquery has to state this by an aggregate.
fn single(query: &mut Query) {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return;
    }
    let Some((select, expr)) = column(query) else { return };
    if !is_aggregated(&expr)
        && !select.from.is_empty()
        && let Ok(first) = parsed(&format!("first_value({expr})"))
    {
        select.projection = vec![SelectItem::UnnamedExpr(first)];
        query.order_by = None;
    }
}

/// Returns true if a query reads a list of key columns, which is NULL, for each of its rows.
fn unnests_keys(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let is_key = |list: &Expr| match list {
        Expr::CompoundIdentifier(parts) => {
            parts.last().is_some_and(|part| KEYS.contains(&folded(part).as_str()))
        }
        _ => false,
    };
    let reads_key = |factor: &TableFactor| match factor {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().any(is_key),
        _ => false,
    };
    select.from.iter().any(|from| reads_key(&from.relation) && from.joins.iter().all(is_inner))
}

/// The array of a subquery's rows, in a form that needs no type: arrays of catalogs may be text.
fn gathered(query: &Query) -> Expr {
    let mut query = query.clone();
    let mut from = false;
    let empty = visit_relations(&query, |relation| {
        from = true;
        let name = relation.0.last().map(ToString::to_string).unwrap_or_default();
        if NOTHING_IN.contains(&name.to_ascii_lowercase().as_str()) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let of_keys = unnests_keys(&query);
    let order = query.order_by.take().map(|order| order.to_string());
    let order = order.filter(|order| !order.chars().any(|c| c.is_ascii_digit())).unwrap_or_default();
    let aggregate = match column(&mut query) {
        Some((select, expr)) if from && empty.is_continue() && !of_keys => {
            parsed(&format!("array_agg({expr} {order})"))
                .map(|all| select.projection = vec![SelectItem::UnnamedExpr(all)])
                .ok()
        }
        _ => None,
    };
    match aggregate {
        Some(()) => Expr::Subquery(Box::new(query)),
        None => parsed("CAST(ARRAY[] AS TEXT[])").unwrap_or_else(|_| Expr::value(Value::Null)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn rewritten(sql: &str) -> String {
        let plain = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok();
        let statements = read(sql, plain.as_deref()).unwrap();
        statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn arrays_of_subqueries_are_aggregates_or_empty() {
        let key = "SELECT ARRAY(SELECT a.attname FROM unnest(c.conkey) WITH ORDINALITY k(number, place) \
                   JOIN pg_attribute a ON k.number = a.attnum WHERE a.attrelid = c.conrelid ORDER BY k.place) \
                   FROM pg_constraint c";
        assert!(!rewritten(key).to_lowercase().contains("unnest"), "{}", rewritten(key));
        let members = "SELECT ARRAY(SELECT b.rolname FROM pg_catalog.pg_roles b WHERE b.oid = r.oid ORDER BY b.rolname) \
                       FROM pg_catalog.pg_roles r";
        let text = rewritten(members);
        assert!(text.contains("(SELECT array_agg(b.rolname ORDER BY b.rolname) FROM"), "{text}");
        let policies = "SELECT array(SELECT p.polname FROM pg_catalog.pg_policy p) FROM pg_catalog.pg_roles";
        assert!(rewritten(policies).contains("CAST(ARRAY[] AS TEXT[])"));
    }

    #[test]
    fn subqueries_over_tables_without_rows_are_null() {
        let of = |subquery: &str| {
            rewritten(&format!(
                "SELECT CASE WHEN a.atthasdef THEN ({subquery}) END FROM pg_catalog.pg_attribute a"
            ))
        };
        let default = "SELECT d.adbin FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid";
        assert!(of(default).contains("THEN NULL END"), "{}", of(default));
        let inner =
            "SELECT t.typname FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid";
        assert!(of(inner).contains("THEN NULL END"), "{}", of(inner));
        for rows in [
            "SELECT count(*) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid",
            "SELECT t.typname FROM pg_catalog.pg_enum e RIGHT JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid",
            "SELECT t.typname FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid",
        ] {
            assert!(!of(rows).contains("THEN NULL END"), "{}", of(rows));
        }
    }

    #[test]
    fn tables_of_the_catalog_need_no_schema() {
        let text = rewritten("SELECT i.indexname FROM pg_indexes i, pg_stat_activity");
        assert!(
            text.contains("pg_catalog.pg_indexes i") && text.contains("pg_catalog.pg_stat_activity"),
            "{text}"
        );
    }

    #[test]
    fn functions_are_compared_by_their_numbers() {
        for (sql, other) in [
            ("t.typreceive = p.oid", "pg_function_number(t.typreceive) = p.oid"),
            ("typinput::oid = 42", "cast(pg_function_number(typinput) as oid) = 42"),
            ("typreceive = 0", "typreceive = '-'"),
            ("typinput = 'boolin'::regproc", "typinput = 'boolin'"),
        ] {
            let text = rewritten(&format!("SELECT 1 FROM pg_catalog.pg_type WHERE {sql}"));
            assert!(text.to_lowercase().ends_with(other), "{text}");
        }
    }

    #[test]
    fn correlated_subqueries_stay() {
        let text = rewritten(
            "SELECT (SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid) FROM pg_catalog.pg_namespace n",
        );
        assert!(text.contains("((SELECT count(*) FROM"), "{text}");
    }
}
