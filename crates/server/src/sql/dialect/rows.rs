//! Functions that return rows, in FROM: the name of their column, arguments that are not constants, WITH ORDINALITY.
//!
//! The query engine's `generate_series` in FROM takes constants and makes its rows one by one. With other arguments,
//! and with ordinality, the function becomes a subquery that makes a list and unnests it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Query, TableAlias, TableAliasColumnDef, TableFactor, Value,
    ValueWithSpan, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::forms::interval;
use super::literals::in_full;
use crate::sql::QueryError;
use crate::sql::ast::{literal, text};

const SERIES: &str = "generate_series";

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
        TableFactor::UNNEST { alias, array_exprs, with_ordinality: true, with_offset: false, .. } => {
            let [array] = &array_exprs[..] else {
                return Err(QueryError::unsupported("WITH ORDINALITY takes the elements of one array"));
            };
            *factor = subquery("unnest", &array.to_string(), alias.take(), true)?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    if name != SERIES {
        return match numbered {
            true => Err(QueryError::unsupported(format!("WITH ORDINALITY of {name} is not supported"))),
            false => Ok(()),
        };
    }
    let args: Vec<&mut Expr> = list
        .iter_mut()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    let mut constant = true;
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
    let args: Vec<String> = list.iter().map(ToString::to_string).collect();
    *factor = subquery(SERIES, &format!("{SERIES}({})", args.join(", ")), alias.take(), numbered)?;
    Ok(())
}

/// Returns whether an expression has no parameter and no subquery.
fn is_constant(expr: &Expr) -> bool {
    let varies = visit_expressions(expr, |expr| match expr {
        Expr::Subquery(_) | Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => {
            ControlFlow::Break(())
        }
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
    let rows = format!("SELECT unnest({list}) AS element");
    let sql = match numbered {
        true => format!("SELECT element, row_number() OVER () AS ordinality FROM ({rows}) AS elements"),
        false => rows,
    };
    let query =
        Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql).and_then(|mut parser| parser.parse_query());
    let subquery: Box<Query> = query.map_err(|error| QueryError::other("42601", error.to_string()))?;
    Ok(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}
