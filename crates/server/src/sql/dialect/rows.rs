//! Functions that return rows, in a list of columns and in FROM: the name of their column, arguments that are not
//! constants, WITH ORDINALITY, columns that a statement declares.
//!
//! A function in FROM that returns values has one column. Its alias is the name of that column, too; `json_array_elements`
//! and its like call the column `value`. The alias then means the value where no column has that name (`whole_rows`).
//!
//! The query engine's `generate_series` in FROM takes constants and makes its rows one by one. With other arguments,
//! and with ordinality, the function becomes a subquery that makes a list and unnests it.

use std::ops::ControlFlow;

use coscan_upstream::REPEATED as MARK;
use coscan_upstream::walk::visit_expressions;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem,
    SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::calls::like;
use super::interval::interval;
use super::literals::in_full;
use crate::sql::QueryError;
use crate::sql::ast::{call, folded, literal, text};
use crate::sql::functions::{ALL_MATCHES, SPLIT_PARTS};

/// Functions that return rows, and the query engine's list functions for them.
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

/// Functions that return rows of a name and a value, and the query engine's list functions for them.
const PAIRS_OF: [(&str, [&str; 2]); 4] = [
    ("json_each", ["json_keys", "json_values"]),
    ("json_each_text", ["json_keys", "json_value_texts"]),
    ("jsonb_each", ["jsonb_keys", "jsonb_values"]),
    ("jsonb_each_text", ["jsonb_keys", "jsonb_value_texts"]),
];

const SERIES: &str = "generate_series";

/// The name of the columns of the subqueries that are made here, before a number.
const ELEMENT: &str = "element ";

/// The names that the columns of a function have without an alias of their own. Other columns have the name of the
/// function or of its alias.
fn own_columns(function: &str) -> &'static [&'static str] {
    match function {
        "json_array_elements"
        | "json_array_elements_text"
        | "jsonb_array_elements"
        | "jsonb_array_elements_text" => &["value"],
        function if PAIRS_OF.iter().any(|(pairs, _)| *pairs == function) => &["key", "value"],
        _ => &[],
    }
}

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
            match &array_exprs[..] {
                [array] if !*with_ordinality && is_constant(array) => {
                    *alias = Some(with_columns("unnest", 1, alias.take()));
                }
                arrays => {
                    let lists: Vec<String> = arrays.iter().map(list_of).collect();
                    *factor = subquery("unnest", &lists, alias.take(), *with_ordinality)?;
                }
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    if let Some((_, lists)) = PAIRS_OF.into_iter().find(|(pairs, _)| *pairs == name) {
        let lists = lists.map(|of_list| format!("{of_list}({})", listed(list)));
        *factor = subquery(&name, &lists, alias.take(), numbered)?;
        return Ok(());
    }
    let Some((_, of_list)) = ROWS_OF.into_iter().find(|(rows, _)| *rows == name) else {
        return match numbered {
            true => Err(QueryError::unsupported(format!("WITH ORDINALITY of {name} is not supported"))),
            false => Ok(()),
        };
    };
    if name != SERIES {
        let lists: Vec<String> = match of_list {
            "unnest" => list.iter().map(list_of_argument).collect(),
            of_list => vec![format!("{of_list}({})", listed(list))],
        };
        *factor = subquery(&name, &lists, alias.take(), numbered)?;
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
        *alias = Some(with_columns(SERIES, 1, alias.take()));
        return Ok(());
    }
    *factor = subquery(SERIES, &[format!("{SERIES}({})", listed(list))], alias.take(), numbered)?;
    Ok(())
}

/// Replaces a function of JSON whose columns the statement declares: `json_to_record(x) AS t(a int, b text)`.
///
/// # Errors
///
/// If it declares none, or one of a type that is not supported.
pub(super) fn declared(factor: &mut TableFactor) -> Result<(), QueryError> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, .. } => (name, &*args, alias),
        _ => return Ok(()),
    };
    let value = match name.to_string().to_ascii_lowercase().as_str() {
        "json_to_record" => format!("json({})", listed(args)),
        "jsonb_to_record" => format!("jsonb({})", listed(args)),
        "json_to_recordset" => format!("json_part(unnest(json_elements({})))", listed(args)),
        "jsonb_to_recordset" => format!("jsonb_part(unnest(jsonb_elements({})))", listed(args)),
        _ => return Ok(()),
    };
    let undeclared = || {
        let text = "a column definition list is required for functions returning \"record\"";
        QueryError::other("42601", text)
    };
    let mut alias = alias.take().ok_or_else(undeclared)?;
    let mut columns = Vec::new();
    for column in &mut alias.columns {
        let key = literal(folded(&column.name));
        let column = match column.data_type.take().ok_or_else(undeclared)? {
            DataType::JSON | DataType::JSONB => format!("({value} -> {key})"),
            DataType::Array(_) => {
                let text = format!("an array in {name} is not supported: declare the column as json");
                return Err(QueryError::unsupported(text));
            }
            of => format!("CAST(({value} ->> {key}) AS {of})"),
        };
        columns.push(format!("{column} AS \"column {}\"", columns.len() + 1));
    }
    if columns.is_empty() {
        return Err(undeclared());
    }
    *factor = derived(&format!("SELECT {}", columns.join(", ")), alias)?;
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

fn list_of_argument(argument: &FunctionArg) -> String {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(array)) => list_of(array),
        other => other.to_string(),
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

/// The alias of a function with names for all of its columns, which are those that PostgreSQL gives them.
fn with_columns(function: &str, count: usize, alias: Option<TableAlias>) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    for at in alias.columns.len()..count {
        let name = match own_columns(function).get(at) {
            Some(own) => Ident::new(*own),
            None if count == 1 => alias.name.clone(),
            None if at == 0 => Ident::new(function),
            None => Ident::with_quote('"', format!("{function}{MARK}{}", at + 1)),
        };
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    alias
}

/// The elements of lists as rows, with their number from 1 if `numbered`. A short list is filled up with NULL.
fn subquery(
    function: &str,
    lists: &[String],
    alias: Option<TableAlias>,
    numbered: bool,
) -> Result<TableFactor, QueryError> {
    let mut alias = with_columns(function, lists.len(), alias);
    if numbered && alias.columns.len() == lists.len() {
        alias.columns.push(TableAliasColumnDef { name: Ident::new("ordinality"), data_type: None });
    }
    let column = |(at, list): (usize, &String)| {
        let rows = format!("unnest({list})");
        // The first column of pairs is the name.
        let rows = match part_of(function).filter(|_| at + 1 == lists.len()) {
            Some(part) => format!("{part}({rows})"),
            None => rows,
        };
        format!("{rows} AS \"{ELEMENT}{}\"", at + 1)
    };
    let mut columns: Vec<String> = lists.iter().enumerate().map(column).collect();
    if numbered {
        // Numbers that are counted above the rows would depend on the order in which the rows arrive there.
        let lengths: Vec<String> = lists.iter().map(|list| format!("array_length({list})")).collect();
        let longest = format!("CAST(coalesce(greatest({}), 0) AS BIGINT)", lengths.join(", "));
        columns.push(format!("unnest(range(1, {longest} + 1)) AS ordinality"));
    }
    let sql = format!("SELECT {}", columns.join(", "));
    derived(&sql, alias)
}

/// The name of a function in FROM that returns values, and the name of its only column. PostgreSQL takes the first for
/// the value, too, unless it is that of a column.
pub(super) fn value_of(factor: &TableFactor) -> Option<[&Ident; 2]> {
    let alias = match factor {
        TableFactor::Derived { alias, .. } if is_of_elements(factor) => alias,
        TableFactor::Table { name, args: Some(_), alias, .. }
            if name.to_string().eq_ignore_ascii_case(SERIES) =>
        {
            alias
        }
        TableFactor::UNNEST { alias, .. } => alias,
        _ => return None,
    };
    let alias = alias.as_ref()?;
    match &alias.columns[..] {
        [column] => Some([&alias.name, &column.name]),
        _ => None,
    }
}

/// Returns whether this is a subquery of a function's rows without their numbers.
pub(super) fn is_of_elements(factor: &TableFactor) -> bool {
    let TableFactor::Derived { subquery, .. } = factor else { return false };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return false };
    match select.projection.first() {
        Some(SelectItem::ExprWithAlias { alias, .. }) => alias.value.starts_with(ELEMENT),
        _ => false,
    }
}

/// A subquery in FROM. It may refer to tables before it.
pub(super) fn derived(sql: &str, alias: TableAlias) -> Result<TableFactor, QueryError> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql);
    let query = parser.and_then(|mut parser| parser.parse_query());
    let subquery: Box<Query> = query.map_err(|error| QueryError::other("42601", error.to_string()))?;
    Ok(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}
