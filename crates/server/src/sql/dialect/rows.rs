//! Functions that return rows, in a list of columns and in FROM: the name of their column, arguments that are not
//! constants, WITH ORDINALITY.
//!
//! The query engine's `generate_series` in FROM takes constants and makes its rows one by one. With other arguments,
//! and with ordinality, the function becomes a subquery that makes a list and unnests it.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_expressions;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::calls::like;
use super::interval::interval;
use super::literals::in_full;
use crate::sql::QueryError;
use crate::sql::ast::{call, literal, text};
use crate::sql::functions::{ALL_MATCHES, SPLIT_PARTS};

/// Functions that return rows, whose column has the function's name, and the query engine's list functions for them.
const ROWS_OF: [(&str, &str); 11] = [
    ("generate_series", "generate_series"),
    ("string_to_table", "string_to_array"),
    ("json_array_elements", "json_elements"),
    ("json_array_elements_text", "json_element_texts"),
    ("json_object_keys", "json_keys"),
    ("jsonb_array_elements", "jsonb_elements"),
    ("jsonb_array_elements_text", "jsonb_element_texts"),
    ("jsonb_object_keys", "jsonb_keys"),
    ("regexp_matches", ALL_MATCHES),
    ("regexp_split_to_table", SPLIT_PARTS),
    ("unnest", "unnest"),
];

const SERIES: &str = "generate_series";

/// The rows of a list, which are JSON again for some functions.
pub(super) fn unnested(function: &str, list: Expr) -> Expr {
    let rows = call("unnest", vec![list]);
    match part_of(function) {
        Some(part) => call(part, vec![rows]),
        None => rows,
    }
}

/// The function that marks the rows of another function as JSON.
fn part_of(function: &str) -> Option<&'static str> {
    match function {
        "json_array_elements" | "json_each" => Some("json_part"),
        "jsonb_array_elements" | "jsonb_each" => Some("jsonb_part"),
        _ => None,
    }
}

/// Functions that return rows within an expression: `generate_series(a, b)::date`, `(regexp_matches(a, b))[1]`.
pub(super) fn within(expr: &mut Expr) {
    match expr {
        Expr::Nested(of)
        | Expr::Cast { expr: of, .. }
        | Expr::UnaryOp { expr: of, .. }
        | Expr::Extract { expr: of, .. }
        | Expr::AtTimeZone { timestamp: of, .. }
        | Expr::CompoundFieldAccess { root: of, .. } => within(of),
        Expr::BinaryOp { left, right, .. } => {
            within(left);
            within(right);
        }
        Expr::Function(function) => {
            if let Some((name, list)) = self::of(function) {
                function.name = Ident::new(list).into();
                *expr = unnested(name, expr.clone());
            } else if let FunctionArguments::List(list) = &mut function.args
                && function.over.is_none()
                && !function.name.to_string().eq_ignore_ascii_case("unnest")
            {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) = arg {
                        within(of);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Refuses such functions in VALUES.
///
/// # Errors
///
/// If there is one.
pub(super) fn refused(body: &SetExpr) -> Result<(), QueryError> {
    let SetExpr::Values(values) = body else { return Ok(()) };
    let returns_rows = |expr: &Expr| match expr {
        Expr::Function(function)
            if self::of(function).is_some() || function.name.to_string().eq_ignore_ascii_case("unnest") =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    match values
        .rows
        .iter()
        .flat_map(|row| &row.content)
        .any(|value| visit_expressions(value, returns_rows).is_break())
    {
        true => Err(QueryError::unsupported("set-returning functions are not allowed in VALUES".to_owned())),
        false => Ok(()),
    }
}

pub(super) fn of(function: &Function) -> Option<(&'static str, &'static str)> {
    let name = function.name.to_string();
    let plain = function.over.is_none() && function.filter.is_none();
    ROWS_OF.into_iter().find(|(rows, list)| plain && *list != "unnest" && name.eq_ignore_ascii_case(rows))
}

/// Replaces such a function.
///
/// # Errors
///
/// If the function has a form that is not supported.
pub(super) fn replace(factor: &mut TableFactor) -> Result<(), QueryError> {
    let (name, list, alias, numbered) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            let name = name.to_string().to_ascii_lowercase();
            (name, &mut args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name.to_string().to_ascii_lowercase(), args, alias, *with_ordinality)
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, with_offset: false, .. } => {
            let [array] = &array_exprs[..] else {
                return match with_ordinality {
                    true => Err(QueryError::unsupported("WITH ORDINALITY takes the elements of one array")),
                    false => Ok(()),
                };
            };
            if *with_ordinality || !is_constant(array) {
                *factor = subquery("unnest", &list_of(array), alias.take(), *with_ordinality)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    let Some((_, of_list)) = ROWS_OF.into_iter().find(|(rows, _)| *rows == name) else {
        let columns: Option<[&str; 2]> = match name.as_str() {
            "json_each" => Some(["json_keys", "json_values"]),
            "json_each_text" => Some(["json_keys", "json_value_texts"]),
            "jsonb_each" => Some(["jsonb_keys", "jsonb_values"]),
            "jsonb_each_text" => Some(["jsonb_keys", "jsonb_value_texts"]),
            _ => None,
        };
        return match (columns, numbered) {
            (Some(columns), false) => {
                *factor = each(&name, columns, &listed(list), alias.take())?;
                Ok(())
            }
            (_, true) => Err(QueryError::unsupported(format!("WITH ORDINALITY of {name} is not supported"))),
            _ => Ok(()),
        };
    };
    if name != SERIES {
        let list = match (of_list, &list[..]) {
            ("unnest", [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]) => list_of(array),
            ("unnest", _) => return Err(QueryError::unsupported("unnest takes one array")),
            (of_list, _) => format!("{of_list}({})", listed(list)),
        };
        *factor = subquery(&name, &list, alias.take(), numbered)?;
        return Ok(());
    }
    let mut args: Vec<&mut Expr> = list
        .iter_mut()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    let mut constant = true;
    if let [from, to, ..] = &mut args[..] {
        **to = like(from, to);
    }
    for (at, arg) in args.into_iter().enumerate() {
        constant &= is_constant(arg);
        match arg {
            // A step may be written as a text.
            step if at == 2 => {
                if let Some(given) = text(step) {
                    *step = interval(given);
                }
            }
            Expr::Cast { expr, .. } => {
                if let Some(full) = text(expr).and_then(in_full) {
                    **expr = literal(full);
                }
            }
            Expr::TypedString(typed) => {
                if let Value::SingleQuotedString(given) = &typed.value.value
                    && let Some(full) = in_full(given)
                {
                    typed.value.value = Value::SingleQuotedString(full);
                }
            }
            _ => {}
        }
    }
    if constant && !numbered {
        let alias = alias.get_or_insert_with(|| named(SERIES));
        if alias.columns.is_empty() {
            alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
        }
        return Ok(());
    }
    *factor = subquery(SERIES, &format!("{SERIES}({})", listed(list)), alias.take(), numbered)?;
    Ok(())
}

/// Arguments or elements as text.
fn listed<T: ToString>(parts: &[T]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The text of an array. The query engine does not plan a literal with columns of tables before it.
fn list_of(array: &Expr) -> String {
    match array {
        Expr::Array(of) if !of.elem.is_empty() => {
            format!("make_array({})", listed(&of.elem))
        }
        array => array.to_string(),
    }
}

/// Returns whether an expression has no column, no parameter and no subquery.
fn is_constant(expr: &Expr) -> bool {
    let varies = visit_expressions(expr, |expr| match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Subquery(_)
        | Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    varies.is_continue()
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

/// The elements of a list as rows, with their number from 1 if `numbered`. Columns without an alias have the names that
/// PostgreSQL gives them.
fn subquery(
    function: &str,
    list: &str,
    alias: Option<TableAlias>,
    numbered: bool,
) -> Result<TableFactor, QueryError> {
    let mut alias = alias.unwrap_or_else(|| named(function));
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    if numbered && alias.columns.len() == 1 {
        alias.columns.push(TableAliasColumnDef { name: Ident::new("ordinality"), data_type: None });
    }
    let rows = match part_of(function) {
        Some(part) => format!("SELECT {part}(unnest({list})) AS element"),
        None => format!("SELECT unnest({list}) AS element"),
    };
    let sql = match numbered {
        true => format!(
            "SELECT element, CAST(row_number() OVER () AS BIGINT) AS ordinality FROM ({rows}) AS elements"
        ),
        false => rows,
    };
    derived(&sql, alias)
}

/// The names and values of a JSON object.
fn each(
    name: &str,
    [keys, values]: [&str; 2],
    of: &str,
    alias: Option<TableAlias>,
) -> Result<TableFactor, QueryError> {
    let mut alias = alias.unwrap_or_else(|| named(name));
    if alias.columns.is_empty() {
        let column = |name| TableAliasColumnDef { name: Ident::new(name), data_type: None };
        alias.columns = vec![column("key"), column("value")];
    }
    let part = part_of(name).unwrap_or_default();
    derived(&format!("SELECT unnest({keys}({of})) AS key, {part}(unnest({values}({of}))) AS value"), alias)
}

/// A subquery in FROM. It may refer to tables before it.
pub(super) fn derived(sql: &str, alias: TableAlias) -> Result<TableFactor, QueryError> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql);
    let query = parser.and_then(|mut parser| parser.parse_query());
    let subquery: Box<Query> = query.map_err(|error| QueryError::other("42601", error.to_string()))?;
    Ok(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}
