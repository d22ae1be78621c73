//! Objects of catalogs by name: `to_regclass('t')`, `'int4'::regtype`, `oid::regtype`, `$1::regclass`, `oid::regclass`,
//! `(a || b)::regclass`.
//!
//! The query engine has object numbers only. The rewrites look a number up by its name. A column of the outermost query
//! is displayed, so it gets the name. `regclass` has the constants of tables.
//!
//! A text that is not a constant is NULL as a `regclass` if there is no such table.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    SelectItem, SetExpr, Statement, Value, ValueWithSpan, VisitorMut,
};

use crate::sql::ast::{call, cast, folded, literal, parsed, text};
use crate::sql::{OBJECT_NAME, OID_ARRAY, QueryError, TO_REGTYPE, type_number};

/// A kind of objects: its function, its type, its table, and the table's column of names.
struct Kind(&'static str, &'static str, &'static str, &'static str);

const KINDS: [Kind; 8] = [
    Kind("to_regclass", "regclass", "pg_class", "relname"),
    Kind("to_regcollation", "regcollation", "pg_collation", "collname"),
    Kind("to_regnamespace", "regnamespace", "pg_namespace", "nspname"),
    Kind("to_regoper", "regoper", "pg_operator", "oprname"),
    Kind("to_regoperator", "regoperator", "pg_operator", "oprname"),
    Kind("to_regproc", "regproc", "pg_proc", "proname"),
    Kind("to_regprocedure", "regprocedure", "pg_proc", "proname"),
    Kind("to_regrole", "regrole", "pg_roles", "rolname"),
];

/// Functions without parentheses whose columns have their names.
const CURRENT: [&str; 2] = ["current_catalog", "current_user"];

/// Statements of clients that the query engine cannot plan, by a part of each, and their replacements.
const REPLACED: [(&str, &str); 2] = [
    // asyncpg about types. Types here are arrays of known types at most.
    (
        "typeinfo_tree(",
        "SELECT t.oid, n.nspname AS ns, t.typname AS name, t.typtype AS kind, CAST(NULL AS INT) AS basetype, e.oid AS elemtype, \
         e.typdelim AS elemdelim, CAST(NULL AS INT) AS range_subtype, CAST(NULL AS TEXT[]) AS attrtypoids, \
         CAST(NULL AS TEXT[]) AS attrnames, 0 AS depth, CAST(NULL AS TEXT) AS basetype_name, \
         format_type(e.oid, NULL) AS elemtype_name, CAST(NULL AS TEXT) AS range_subtype_name FROM pg_catalog.pg_type t \
         JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_type e \
         ON t.typlen = -1 AND t.typelem <> 0 AND t.typelem = e.oid WHERE array_has(pg_oid_array(CAST($1 AS INT[])), t.oid)",
    ),
    // ADBC about constraints of the table $2 in the schema $1. There are none.
    (
        "WITH fk_unnest AS (",
        "SELECT CAST(NULL AS TEXT) AS conname, CAST(NULL AS TEXT) AS contype, CAST(NULL AS TEXT[]) AS colnames, \
         CAST(NULL AS TEXT) AS fschema, CAST(NULL AS TEXT) AS ftable, CAST(NULL AS TEXT[]) AS fcolnames WHERE $1 = $2 AND false",
    ),
];

/// The replacement of a client's statement that cannot be rewritten.
pub(super) fn replaced(sql: &str) -> Option<&'static str> {
    REPLACED.iter().find(|(part, _)| sql.contains(part)).map(|(_, other)| *other)
}

/// Replaces names by numbers and numbers by names. Returns true if something changed.
pub(super) fn resolved(statements: &mut [Statement]) -> Result<bool, QueryError> {
    let mut objects = Objects { changed: false };
    for statement in statements.iter_mut() {
        if let Statement::Query(query) = statement
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            for item in &mut select.projection {
                let (expr, alias) = match &*item {
                    SelectItem::UnnamedExpr(expr) => (expr, None),
                    SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
                    _ => continue,
                };
                let Some((expr, name)) = displayed(expr)? else { continue };
                let alias = alias.cloned().unwrap_or_else(|| Ident::new(name));
                *item = SelectItem::ExprWithAlias { expr, alias };
                objects.changed = true;
            }
        }
        if let ControlFlow::Break(error) = visit_mut(statement, &mut objects) {
            return Err(error);
        }
    }
    Ok(objects.changed)
}

struct Objects {
    changed: bool,
}

impl VisitorMut for Objects {
    type Break = QueryError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        let other = match as_text(expr) {
            Ok(Some(other)) => Ok(Some(other)),
            Ok(None) => as_number(expr),
            Err(error) => Err(error),
        };
        match other {
            Ok(Some(other)) => (*expr, self.changed) = (other, true),
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// The displayed form of a column, with its name.
fn displayed(expr: &Expr) -> Result<Option<(Expr, String)>, QueryError> {
    if let Some((kind, argument)) = kind_called(expr) {
        let name = call("quote_ident", vec![looked_up(kind, kind.3, argument)?]);
        return Ok(Some((name, kind.0.to_owned())));
    }
    // Rewrites of catalogs put another function in its place.
    if let Expr::Function(Function { name, args: FunctionArguments::None, .. }) = expr
        && let Some(name) = CURRENT.iter().find(|of| name.to_string().eq_ignore_ascii_case(of))
    {
        return Ok(Some((expr.clone(), (*name).to_owned())));
    }
    if let Some(argument) = called(expr, TO_REGTYPE) {
        let number = call(TO_REGTYPE, vec![argument.clone()]);
        return Ok(Some((type_name(number), TO_REGTYPE.to_owned())));
    }
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return Ok(None) };
    let of = named(data_type);
    let shown = match of.as_str() {
        "regtype" => type_name(type_of(inner)?),
        "regclass" => match class_name(inner)? {
            Some(shown) => shown,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let name = match inner.as_ref() {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(path) => path.last().map(|name| name.value.clone()).unwrap_or(of),
        _ => of,
    };
    Ok(Some((shown, name)))
}

/// An expression that is cast to `regclass`, without parentheses.
enum Class<'a> {
    Name(&'a Expr),
    Number(&'a Expr),
}

impl<'a> Class<'a> {
    /// `None` for constants and parameters, which are looked up elsewhere, and for other expressions than columns, calls
    /// and joined texts.
    fn of(expr: &'a Expr) -> Option<Self> {
        let column = match expr {
            Expr::Nested(inner) => return Class::of(inner),
            Expr::Function(_) | Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => {
                return Some(Class::Name(expr));
            }
            Expr::Cast { expr: inner, data_type: DataType::Text | DataType::Varchar(_), .. } => {
                return matches!(Class::of(inner), Some(Class::Name(_))).then_some(Class::Name(expr));
            }
            Expr::Identifier(column) => folded(column),
            Expr::CompoundIdentifier(path) => folded(path.last()?),
            _ => return None,
        };
        let is_number = ["oid", "relid", "inhparent"].iter().any(|end| column.ends_with(end));
        Some(if is_number { Class::Number(expr) } else { Class::Name(expr) })
    }
}

/// The displayed name of a table that is given by its number or by a computed name.
fn class_name(expr: &Expr) -> Result<Option<Expr>, QueryError> {
    Ok(Some(match Class::of(expr) {
        Some(Class::Name(name)) => class_with("shown", &by_name(name))?,
        Some(Class::Number(number)) => {
            let known = class_with("shown", &format!("number = {number}"))?;
            parsed(&format!(
                "coalesce({known}, CASE {number} WHEN 0 THEN '-' ELSE CAST({number} AS TEXT) END)"
            ))?
        }
        None => return Ok(None),
    }))
}

fn by_name(name: &Expr) -> String {
    format!("name = {OBJECT_NAME}({name})")
}

/// A column of the table that fits a condition. Columns have names of their own, because the condition may refer to
/// columns of the catalog in a query around it.
fn class_with(column: &str, condition: &str) -> Result<Expr, QueryError> {
    parsed(&format!(
        "(SELECT max(__class_{column}) FROM (SELECT oid AS __class_number, relname AS __class_name, \
         quote_ident(relname) AS __class_shown FROM pg_catalog.pg_class) AS __class WHERE __class_{condition})"
    ))
}

/// `x::regtype::text`.
fn as_text(expr: &Expr) -> Result<Option<Expr>, QueryError> {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return Ok(None) };
    if !matches!(named(data_type).as_str(), "text" | "varchar" | "name") {
        return Ok(None);
    }
    if let Some(argument) = called(inner, TO_REGTYPE) {
        return Ok(Some(type_name(call(TO_REGTYPE, vec![argument.clone()]))));
    }
    // The inner cast of a constant is a number already.
    match inner.as_ref() {
        Expr::Cast { expr: of, data_type, .. } if named(data_type) == "regclass" => class_name(of),
        Expr::Cast { expr: of, data_type, .. } if named(data_type) == "regtype" => {
            Ok(Some(type_name(type_of(of)?)))
        }
        _ => Ok(None),
    }
}

/// The number of an object that is given by a name.
fn as_number(expr: &Expr) -> Result<Option<Expr>, QueryError> {
    if let Some((kind, argument)) = kind_called(expr) {
        return looked_up(kind, "oid", argument).map(Some);
    }
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return Ok(None) };
    let parameter = matches!(inner.as_ref(), Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }));
    let name = named(data_type);
    if parameter && matches!(name.as_str(), "oid[]" | "pg_catalog.oid[]") {
        let numbers = parsed(&format!("CAST({inner} AS INT[])"))?;
        return Ok(Some(call(OID_ARRAY, vec![numbers])));
    }
    if name == "regtype" && text(inner).is_some() {
        return type_of(inner).map(Some);
    }
    if name == "regclass"
        && let Some(Class::Name(name)) = Class::of(inner)
    {
        return class_with("number", &by_name(name)).map(Some);
    }
    if !parameter {
        return Ok(None);
    }
    if name == "regtype" {
        return Ok(Some(call(TO_REGTYPE, vec![cast(inner.as_ref().clone(), DataType::Text)])));
    }
    match KINDS.iter().find(|kind| kind.1 == name) {
        Some(kind) => looked_up(kind, "oid", &cast(inner.as_ref().clone(), DataType::Text)).map(Some),
        None => Ok(None),
    }
}

/// The number of a type, of a constant or of an expression for numbers.
fn type_of(expr: &Expr) -> Result<Expr, QueryError> {
    let Some(name) = text(expr) else { return Ok(expr.clone()) };
    match type_number(name) {
        Some(_) => Ok(call(TO_REGTYPE, vec![literal(name)])),
        None => Err(QueryError::other("42704", format!("type \"{name}\" does not exist"))),
    }
}

/// The displayed name of a type.
fn type_name(number: Expr) -> Expr {
    call("format_type", vec![number, Expr::value(Value::Null)])
}

/// A column of an object, by the object's name or number.
fn looked_up(kind: &Kind, column: &str, argument: &Expr) -> Result<Expr, QueryError> {
    let Kind(_, _, table, name) = kind;
    parsed(&format!(
        "(SELECT max({column}) FROM pg_catalog.{table} WHERE {name} = {OBJECT_NAME}({argument}))"
    ))
}

fn kind_called(expr: &Expr) -> Option<(&'static Kind, &Expr)> {
    KINDS.iter().find_map(|kind| called(expr, kind.0).map(|argument| (kind, argument)))
}

/// The argument of a function of this name.
fn called<'a>(expr: &'a Expr, name: &str) -> Option<&'a Expr> {
    let Expr::Function(Function { name: of, args: FunctionArguments::List(list), over: None, .. }) = expr
    else {
        return None;
    };
    let of = of.to_string().to_ascii_lowercase();
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
            if of.strip_prefix("pg_catalog.").unwrap_or(&of) == name =>
        {
            Some(argument)
        }
        _ => None,
    }
}

/// The name of a type without its schema.
fn named(of: &DataType) -> String {
    let name = of.to_string().to_ascii_lowercase();
    name.strip_prefix("pg_catalog.").map(str::to_owned).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn of(sql: &str) -> Result<String, QueryError> {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        resolved(&mut statements)?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn names_are_shown_and_numbers_are_compared() {
        let class = |column: &str, name: &str| {
            format!("(SELECT max({column}) FROM pg_catalog.pg_class WHERE relname = pg_object_name({name}))")
        };
        for (sql, other) in [
            (
                "SELECT to_regclass('t')",
                format!("SELECT quote_ident({}) AS to_regclass", class("relname", "'t'")),
            ),
            ("SELECT Current_User", "SELECT Current_User AS current_user".to_owned()),
            ("SELECT to_regtype($1)", "SELECT format_type(to_regtype($1), NULL) AS to_regtype".to_owned()),
            ("SELECT a.oid::regtype FROM a", "SELECT format_type(a.oid, NULL) AS oid FROM a".to_owned()),
            ("SELECT 1 WHERE 1 = to_regclass($1)", format!("SELECT 1 WHERE 1 = {}", class("oid", "$1"))),
            ("SELECT oid::regtype::text AS r FROM a", "SELECT format_type(oid, NULL) AS r FROM a".to_owned()),
            (
                "SELECT 1 WHERE 1 = $1::regclass",
                format!("SELECT 1 WHERE 1 = {}", class("oid", "CAST($1 AS TEXT)")),
            ),
            (
                "SELECT 1 WHERE 1 = ANY($1::oid[])",
                "SELECT 1 WHERE 1 = ANY(pg_oid_array(CAST($1 AS INT[])))".to_owned(),
            ),
        ] {
            assert_eq!(of(sql).unwrap(), other, "{sql}");
        }
        assert_eq!(of("SELECT 'nope'::regtype").unwrap_err().sqlstate(), "42704");
    }
}
