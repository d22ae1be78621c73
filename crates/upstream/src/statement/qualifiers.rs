//! Column names with a schema, `schema.table.column`.
//!
//! DataFusion 55 accepts the column of any table with that name, even if its schema is another, and of an
//! alias, which has none. PostgreSQL and DuckDB have no such column. Here such a name refers to a field of
//! `schema.table`, if that is a column.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectName, Query, SetExpr, TableFactor, TableWithJoins, Value, VisitorMut,
};

use crate::walk::{Tree, visit_mut};

/// The schema of system tables that are found without a schema.
const SYSTEM_SCHEMA: &str = "pg_catalog";

/// Reads names with a schema that no table has as names of fields.
pub(crate) fn check<T: Tree>(state: &SessionState, statement: &mut T) {
    let options = state.config_options();
    let mut qualifiers = Qualifiers {
        folds: options.sql_parser.enable_ident_normalization,
        catalog: &options.catalog.default_catalog,
        schema: &options.catalog.default_schema,
        scopes: Vec::new(),
    };
    let ControlFlow::<()>::Continue(()) = visit_mut(statement, &mut qualifiers) else { return };
}

struct Qualifiers<'a> {
    folds: bool,
    catalog: &'a str,
    schema: &'a str,
    /// The tables of each enclosing query, the innermost last.
    scopes: Vec<Vec<Table>>,
}

/// A table in FROM.
enum Table {
    Alias(String),
    /// The parts of its name.
    Named(Vec<String>),
}

impl Table {
    fn name(&self) -> Option<&String> {
        match self {
            Table::Alias(name) => Some(name),
            Table::Named(path) => path.last(),
        }
    }
}

impl VisitorMut for Qualifiers<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut tables = Vec::new();
        self.of_body(&query.body, &mut tables);
        self.scopes.push(tables);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && names.len() > 2
        {
            let path: Vec<String> = names.iter().map(|name| self.folded(name)).collect();
            if self.is_misread(&path) {
                names.truncate(2);
                let field = |name: &String| Expr::value(Value::SingleQuotedString(name.clone()));
                let access_chain = path[2..].iter().map(|name| AccessExpr::Dot(field(name))).collect();
                let root = Box::new(Expr::CompoundIdentifier(std::mem::take(names)));
                *expr = Expr::CompoundFieldAccess { root, access_chain };
            }
        }
        ControlFlow::Continue(())
    }
}

impl Qualifiers<'_> {
    fn folded(&self, name: &Ident) -> String {
        if name.quote_style.is_some() || !self.folds { name.value.clone() } else { name.value.to_lowercase() }
    }

    /// Returns whether the second or third part is the name of a table, and no table has the preceding parts.
    fn is_misread(&self, path: &[String]) -> bool {
        let tables = || self.scopes.iter().flatten();
        let has = |at: usize| tables().any(|table| table.name() == path.get(at));
        let is_found = |at: usize| tables().any(|table| self.has_qualifiers(table, &path[..=at]));
        (has(1) || path.len() > 3 && has(2)) && !is_found(1) && !(path.len() > 3 && is_found(2))
    }

    /// Returns whether a table has this name with its schema, or its catalog and schema.
    fn has_qualifiers(&self, table: &Table, path: &[String]) -> bool {
        let Table::Named(own) = table else { return false };
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (catalog, schema, name) = match own[..] {
            [name] => (self.catalog, self.schema, name),
            [schema, name] => (self.catalog, schema, name),
            [catalog, schema, name] => (catalog, schema, name),
            _ => return false,
        };
        let is_schema = |found| found == schema || own.len() == 1 && found == SYSTEM_SCHEMA;
        match path[..] {
            [found, table] => is_schema(found) && table == name,
            [of, found, table] => of == catalog && is_schema(found) && table == name,
            _ => false,
        }
    }

    fn of_body(&self, body: &SetExpr, tables: &mut Vec<Table>) {
        match body {
            SetExpr::Select(select) => self.of_from(&select.from, tables),
            SetExpr::SetOperation { left, right, .. } => {
                self.of_body(left, tables);
                self.of_body(right, tables);
            }
            _ => {}
        }
    }

    fn of_from(&self, from: &[TableWithJoins], tables: &mut Vec<Table>) {
        for table in from {
            let joined = table.joins.iter().map(|join| &join.relation);
            std::iter::once(&table.relation).chain(joined).for_each(|factor| self.of_factor(factor, tables));
        }
    }

    fn of_factor(&self, factor: &TableFactor, tables: &mut Vec<Table>) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                tables.push(Table::Alias(self.folded(&alias.name)));
            }
            TableFactor::Table { name, .. } => tables.push(Table::Named(self.path(name))),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.of_from(std::slice::from_ref(table_with_joins), tables);
            }
            _ => {}
        }
    }

    fn path(&self, name: &ObjectName) -> Vec<String> {
        name.0.iter().filter_map(|part| part.as_ident()).map(|name| self.folded(name)).collect()
    }
}
