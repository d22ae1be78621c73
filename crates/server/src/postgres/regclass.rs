//! `'t'::regclass`: a relation given by its name. Clients display it as a name and compare it with object numbers.
//!
//! The query engine has object numbers only. If the value is displayed or cast to text, the rewrite puts the name in
//! its place. Elsewhere it puts a lookup in `pg_class`. In statements about catalogs alone, `datafusion-pg-catalog`
//! does this lookup.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, SelectItem, SetExpr, Statement, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::ast::{cast, folded, literal, parsed, text};
use crate::sql::{QueryError, quoted_name};

/// Replaces these casts and returns true if there were any. `known` tests whether a relation exists. `numbers`
/// enables lookups of numbers.
pub(super) fn named(
    statements: &mut [Statement],
    known: &dyn Fn(&str) -> bool,
    numbers: bool,
) -> Result<bool, QueryError> {
    let mut names = Names { known, numbers, changed: false };
    for statement in statements.iter_mut() {
        if let Statement::Query(query) = statement
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else {
                    continue;
                };
                let Some(written) = relation(expr) else { continue };
                let expr = literal(quoted_name(&shown(written, known)?));
                let alias = match &*item {
                    SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                    _ => Ident::new("regclass"),
                };
                *item = SelectItem::ExprWithAlias { expr, alias };
                names.changed = true;
            }
        }
        if let ControlFlow::Break(error) = visit_mut(statement, &mut names) {
            return Err(error);
        }
    }
    Ok(names.changed)
}

struct Names<'a> {
    known: &'a dyn Fn(&str) -> bool,
    numbers: bool,
    changed: bool,
}

impl VisitorMut for Names<'_> {
    type Break = QueryError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        let (written, is_text) = match &*expr {
            Expr::Cast { expr: inner, data_type, .. } if is_text(data_type) => (relation(inner), true),
            expr => (relation(expr).filter(|_| self.numbers), false),
        };
        let Some(name) = written.map(|written| shown(written, self.known)) else {
            return ControlFlow::Continue(());
        };
        // A column keeps the name of the cast.
        let other = name.and_then(|name| match is_text {
            true => Ok(cast(literal(quoted_name(&name)), DataType::Text)),
            false => number_of(name),
        });
        match other {
            Ok(other) => *expr = other,
            Err(error) => return ControlFlow::Break(error),
        }
        self.changed = true;
        ControlFlow::Continue(())
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Text | DataType::Varchar(_))
}

/// The text of `'text'::regclass`.
fn relation(expr: &Expr) -> Option<&str> {
    let Expr::Cast { expr, data_type, .. } = expr else { return None };
    let text = text(expr)?;
    let name = data_type.to_string().to_ascii_lowercase();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(name.as_str(), "regclass" | "pg_catalog.regclass") && !is_number).then_some(text)
}

/// The name of the table: schemas in the search path are omitted.
fn shown(written: &str, known: &dyn Fn(&str) -> bool) -> Result<String, QueryError> {
    let name = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(written)
        .and_then(|mut parser| parser.parse_object_name(false));
    let parts: Vec<String> =
        name.iter().flat_map(|name| &name.0).filter_map(|part| part.as_ident()).map(folded).collect();
    match &parts[..] {
        [name] if known(name) => Ok(name.clone()),
        [schema, name] if matches!(schema.as_str(), "public" | "pg_catalog") && known(name) => {
            Ok(name.clone())
        }
        _ => Err(QueryError::other("42P01", format!("relation \"{written}\" does not exist"))),
    }
}

/// The number of the relation.
fn number_of(name: String) -> Result<Expr, QueryError> {
    let name = literal(name);
    parsed(&format!("(SELECT max(oid) FROM pg_catalog.pg_class WHERE relname = {name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Result<String, QueryError> {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        named(&mut statements, &|name| name == "t", true)?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn names_are_shown_and_numbers_are_compared() {
        let number = "(SELECT max(oid) FROM pg_catalog.pg_class WHERE relname = 't')";
        for (sql, other) in [
            ("SELECT 't'::regclass", "SELECT 't' AS regclass".to_owned()),
            ("SELECT 'public.T'::regclass AS x", "SELECT 't' AS x".to_owned()),
            ("SELECT '\"t\"'::regclass::text", "SELECT CAST('t' AS TEXT)".to_owned()),
            ("SELECT 't'::regclass::oid", format!("SELECT {number}::oid")),
            ("SELECT 1 FROM c WHERE oid = 't'::regclass", format!("SELECT 1 FROM c WHERE oid = {number}")),
            ("SELECT oid::regclass FROM c", "SELECT oid::regclass FROM c".to_owned()),
        ] {
            assert_eq!(
                of(sql).unwrap().replace("OID", "oid").replace("::REGCLASS", "::regclass"),
                other,
                "{sql}"
            );
        }
        for sql in ["SELECT 'x'::regclass", "SELECT 1 WHERE 1 = 'a.t'::regclass"] {
            assert_eq!(of(sql).unwrap_err().sqlstate(), "42P01", "{sql}");
        }
    }
}
