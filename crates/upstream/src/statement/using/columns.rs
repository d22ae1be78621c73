//! The columns of tables in FROM, by name.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, Query, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::Mender;
use crate::statement::known::options;

/// The columns of the tables of one SELECT.
#[derive(Clone, Default)]
pub(super) struct Scope(pub(super) Vec<Named>);

/// A column.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) name: String,
    /// The expression of its value.
    pub(super) value: Expr,
    /// Its type, if known.
    pub(super) of: Option<DataType>,
    /// Whether it is the key of a join by names.
    pub(super) merged: bool,
}

impl Scope {
    /// Returns the value of the name if it is a merged column; `None` if it is another column or ambiguous.
    pub(super) fn merged(&self, name: &str) -> Option<&Expr> {
        let mut found = self.0.iter().filter(|column| column.name == name);
        found.next().filter(|column| column.merged && found.next().is_none()).map(|column| &column.value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|column| column.name == name)
    }

    pub(super) fn has_merged(&self) -> bool {
        self.0.iter().any(|column| column.merged)
    }
}

impl Mender<'_> {
    /// Returns the name of an identifier, folded if it is unquoted.
    pub(super) fn folded(&self, name: &Ident) -> String {
        if name.quote_style.is_some() || !self.known.folds_names() {
            name.value.clone()
        } else {
            name.value.to_lowercase()
        }
    }

    /// Returns the columns of a table whose own joins are already rewritten.
    ///
    /// # Errors
    /// If it cannot be planned by itself and does not list its columns.
    pub(super) fn columns_of(&self, factor: &TableFactor) -> Result<Vec<Named>> {
        let planned = self.planned(factor);
        match (planned, factor) {
            (Ok(plan), _) => Ok(plan.schema().iter().map(column).collect()),
            // It may refer to an outer query.
            (Err(error), TableFactor::Derived { subquery, alias: Some(alias), .. }) => {
                let listed = if alias.columns.is_empty() {
                    self.listed(&subquery.body)
                } else {
                    Some(alias.columns.iter().map(|column| self.folded(&column.name)).collect())
                };
                let table = Ident::with_quote('"', self.folded(&alias.name));
                let named = |name: String| Named {
                    value: Expr::CompoundIdentifier(vec![
                        table.clone(),
                        Ident::with_quote('"', name.as_str()),
                    ]),
                    name,
                    of: None,
                    merged: false,
                };
                listed.map(|names| names.into_iter().map(named).collect()).ok_or(error)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn planned(&self, factor: &TableFactor) -> Result<LogicalPlan> {
        let mut query = select_all()?;
        if let SetExpr::Select(of) = query.body.as_mut() {
            of.from = vec![TableWithJoins { relation: factor.clone(), joins: Vec::new() }];
        }
        query.with = self.with();
        SqlToRel::new_with_options(self.known, options(self.known.state()))
            .sql_statement_to_plan(Statement::Query(query))
    }

    /// Returns the visible tables of WITH. Of tables with one name the innermost is visible.
    fn with(&self) -> Option<With> {
        let name = |table: &Cte| self.folded(&table.alias.name);
        let is_hidden =
            |(at, table): (usize, &Cte)| self.tables[at + 1..].iter().any(|other| name(other) == name(table));
        let tables = self.tables.iter().enumerate().filter(|&found| !is_hidden(found));
        let cte_tables: Vec<Cte> = tables.map(|(_, table)| table.clone()).collect();
        (!cte_tables.is_empty()).then(|| With {
            with_token: AttachedToken::empty(),
            recursive: false,
            cte_tables,
        })
    }

    /// Returns the column names that a query lists.
    fn listed(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => select.projection.iter().map(|item| self.listed_item(item)).collect(),
            SetExpr::Query(query) => self.listed(&query.body),
            SetExpr::SetOperation { left, .. } => self.listed(left),
            _ => None,
        }
    }

    fn listed_item(&self, item: &SelectItem) -> Option<String> {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(self.folded(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                names.last().map(|name| self.folded(name))
            }
            SelectItem::UnnamedExpr(other) => Some(other.to_string()),
            SelectItem::ExprWithAlias { alias, .. } => Some(self.folded(alias)),
            _ => None,
        }
    }
}

fn column((table, field): (Option<&TableReference>, &FieldRef)) -> Named {
    let quoted = |name: String| Ident::with_quote('"', name);
    let name = quoted(field.name().clone());
    let value = match table {
        Some(table) => {
            Expr::CompoundIdentifier(table.to_vec().into_iter().map(quoted).chain([name]).collect())
        }
        None => Expr::Identifier(name),
    };
    Named { name: field.name().clone(), value, of: Some(field.data_type().clone()), merged: false }
}

/// Returns `SELECT * FROM t`.
///
/// # Errors
/// None.
pub(super) fn select_all() -> Result<Box<Query>> {
    let parsed =
        Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t").and_then(|mut of| of.parse_query());
    match parsed {
        Ok(query) => Ok(query),
        Err(error) => plan_err!("{error}"),
    }
}
