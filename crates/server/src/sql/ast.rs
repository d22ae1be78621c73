//! Construction and inspection of the parser's syntax trees.
//!
//! The rewrites themselves are elsewhere: in `dialect` here, and in `catalog` and `regclass` of the PostgreSQL
//! protocol.

use std::ops::ControlFlow;

use coscan_upstream::walk::{Tree, visit_expressions};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, Join, JoinOperator, Query, Select, SelectItem, SetExpr,
    TableFactor, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::QueryError;

/// Parses an expression of the server's own text.
///
/// # Errors
///
/// If an inserted part is not allowed at its place.
pub(crate) fn parsed(sql: &str) -> Result<Expr, QueryError> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql);
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| QueryError::other("XX000", format!("{sql}: {error}")))
}

/// Parses a subquery of the server's own text, and puts `inner` in the place of the first derived table of its FROM. A query
/// that is printed and parsed again may be another one: `ANY (SELECT ...)` gets a second pair of parentheses.
///
/// # Errors
///
/// If the text is not such a subquery.
pub(crate) fn over_query(sql: &str, inner: Query) -> Result<Query, QueryError> {
    let mut expr = parsed(sql)?;
    if let Expr::Subquery(query) = &mut expr
        && let SetExpr::Select(select) = query.body.as_mut()
        && let Some(first) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut first.relation
    {
        **subquery = inner;
        return Ok(query.as_ref().clone());
    }
    Err(QueryError::other("XX000", format!("{sql} has no derived table")))
}

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(function(name, args))
}

/// A call of a function, without OVER. The caller may add one.
pub(crate) fn function(name: &str, args: Vec<Expr>) -> Function {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Function {
        name: Ident::new(name).into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// `CAST(expr AS data_type)`.
pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A binary operator with its operands.
pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The expression in parentheses.
pub(crate) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// A text in quotes.
pub(crate) fn literal(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

/// A number.
pub(crate) fn number(value: impl ToString) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

/// The text of a literal. `None` for other expressions.
pub(crate) fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// Returns whether this is a parameter.
pub(crate) fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

/// Returns whether a statement or an expression has a parameter.
pub(crate) fn has_parameter<T: Tree + ?Sized>(of: &T) -> bool {
    let visited = visit_expressions(of, |expr| match is_parameter(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    visited.is_break()
}

/// A name as PostgreSQL reads it: in lower case unless it is quoted.
pub(crate) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// Returns whether rows of one side of a join may have no match.
pub(crate) fn is_outer(join: &Join) -> bool {
    use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
    matches!(join.join_operator, FullOuter(_) | Left(_) | LeftOuter(_) | Right(_) | RightOuter(_))
}

/// Returns whether an item of a list of columns stands for all columns.
pub(crate) fn is_all(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// The query of `ARRAY(SELECT ...)`.
pub(crate) fn array_subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("array") => {
            match &function.args {
                FunctionArguments::Subquery(query) => Some(query),
                _ => None,
            }
        }
        Expr::Nested(inner) => array_subquery(inner),
        _ => None,
    }
}

/// The only column of a SELECT that returns one row per row that it reads, so without groups and DISTINCT.
pub(crate) fn only_column(select: &Select) -> Option<&Expr> {
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    (!grouped && select.distinct.is_none()).then_some(expr)
}
