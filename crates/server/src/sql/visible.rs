//! The tables that a role sees: those of the server, and those of other catalogs.
//!
//! A table that a role does not see does not exist for it, in queries and in listings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use coscan_upstream::parse_postgresql;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;

use super::Tables;
use crate::access::Role;

/// The schema of all tables.
pub(crate) const PUBLIC: &str = "public";
/// The schema of PostgreSQL's own tables.
pub(super) const PG_CATALOG: &str = "pg_catalog";

/// The schema of the standard's tables about tables.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";

/// The definitions of tables in that schema, as the query engine's table `views` has them.
pub(super) const DEFINITIONS: &str = "df_views";

/// The owner of all relations, and its number. Files have no owners in the server.
pub(super) const OWNER: &str = "postgres";
pub(super) const OWNER_NUMBER: i32 = 10;
/// The number of the user that reads a table. Users are not numbered.
pub(super) const USER_NUMBER: i32 = 16_383;

/// A table or view: its schema, its name and its kind.
pub(super) type Relation = (String, String, TableType);

/// The catalogs of the server's context besides its own, by name.
pub(crate) type Others = Arc<BTreeMap<String, Arc<dyn CatalogProvider>>>;

/// Returns the catalogs of a context besides its own, which has the tables that are given one by one.
pub(crate) fn others(context: &SessionContext) -> Others {
    let own = context.copied_config().options().catalog.default_catalog.clone();
    let names = context.catalog_names().into_iter().filter(|name| *name != own);
    Arc::new(names.filter_map(|name| Some((name.clone(), context.catalog(&name)?))).collect())
}

/// The tables that one role sees.
#[derive(Clone)]
pub(super) struct Visible {
    tables: Arc<Tables>,
    others: Others,
    role: Arc<Role>,
    database: String,
}

impl fmt::Debug for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visible").field("role", &self.role.name).finish_non_exhaustive()
    }
}

/// Another catalog of the server, as a role sees it.
#[derive(Debug)]
pub(super) struct SeenCatalog {
    name: String,
    inner: Arc<dyn CatalogProvider>,
    role: Arc<Role>,
    tables: Arc<Tables>,
}

impl SeenCatalog {
    fn seen(&self, name: &str) -> Option<SeenSchema> {
        let inner = self.inner.schema(name)?;
        let (role, tables) = (self.role.clone(), self.tables.clone());
        Some(SeenSchema { name: format!("{}.{name}", self.name), inner, role, tables })
    }
}

impl CatalogProvider for SeenCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.seen(name).map(|schema| Arc::new(schema) as _)
    }
}

/// A schema of another catalog, as a role sees it. It is not changed here.
#[derive(Debug)]
pub(super) struct SeenSchema {
    /// The names of catalog and schema, with a dot between them.
    name: String,
    inner: Arc<dyn SchemaProvider>,
    role: Arc<Role>,
    tables: Arc<Tables>,
}

impl SeenSchema {
    fn sees(&self, table: &str) -> bool {
        sees_other(&self.role, &self.name, table)
    }
}

/// Returns whether a role sees a table of another catalog: by its whole name, or by that without a version.
pub(super) fn sees_other(role: &Role, schema: &str, table: &str) -> bool {
    [table, without_version(table)].iter().any(|table| role.sees(&format!("{schema}.{table}")))
}

/// The name of a table of another catalog without the version or the time after its `@`.
fn without_version(table: &str) -> &str {
    table.rsplit_once('@').map_or(table, |(name, _)| name)
}

#[async_trait]
impl SchemaProvider for SeenSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names().into_iter().filter(|name| self.sees(name)).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.sees(name) {
            return Ok(None);
        }
        let table = self.inner.table(name).await?;
        if let Some(table) = &table {
            // All versions are in one place. A name for each time that is asked for would need unbounded memory.
            self.tables.note(&format!("{}.{}", self.name, without_version(name)), table.as_ref());
        }
        Ok(table)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.sees(name) && self.inner.table_exist(name)
    }
}

#[async_trait]
impl SchemaProvider for Visible {
    fn table_names(&self) -> Vec<String> {
        self.tables.names().into_iter().filter(|name| self.role.sees(name)).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.get(name).filter(|_| self.role.sees(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.role.sees(name) && self.tables.get(name).is_some()
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.only_admin()?;
        Ok(self.tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.only_admin()?;
        Ok(self.tables.remove(name))
    }
}

impl Visible {
    /// The tables that a role sees in a database.
    pub(super) fn new(tables: &Arc<Tables>, others: &Others, role: &Arc<Role>, database: &str) -> Self {
        Visible {
            tables: tables.clone(),
            others: others.clone(),
            role: role.clone(),
            database: database.to_owned(),
        }
    }

    /// Refuses changes by other roles than administrators. Plans are also checked before they run; this is a second
    /// check.
    fn only_admin(&self) -> Result<()> {
        if self.role.admin {
            return Ok(());
        }
        Err(DataFusionError::Plan(format!(
            "permission denied: role {} may not change tables",
            self.role.name
        )))
    }

    /// The schemas of other catalogs that have tables for the role.
    pub(super) fn other_schemas(&self) -> Vec<String> {
        let mut names = Vec::new();
        for seen in self.others.keys().filter_map(|name| self.other(name)) {
            for schema in seen.schema_names() {
                let has_tables = || seen.seen(&schema).is_some_and(|schema| !schema.table_names().is_empty());
                if self.role.admin || has_tables() {
                    let is_own = seen.name == self.database;
                    names.push(if is_own { schema } else { format!("{}.{schema}", seen.name) });
                }
            }
        }
        names
    }

    /// A schema of another catalog, by its name in the database.
    pub(super) fn other_schema(&self, name: &str) -> Option<SeenSchema> {
        let other = name.split_once('.');
        let other = other.and_then(|(catalog, schema)| self.other(catalog)?.seen(schema));
        other.or_else(|| self.other(&self.database)?.seen(name))
    }

    /// Another catalog.
    pub(super) fn other(&self, name: &str) -> Option<SeenCatalog> {
        let inner = self.others.get(name)?.clone();
        let (role, tables) = (self.role.clone(), self.tables.clone());
        Some(SeenCatalog { name: name.to_owned(), inner, role, tables })
    }

    /// The schemas of the database.
    pub(super) fn schemas(&self) -> Vec<String> {
        let own = [PUBLIC, PG_CATALOG, INFORMATION_SCHEMA].map(str::to_owned);
        own.into_iter().chain(self.other_schemas()).collect()
    }

    /// The views that the role sees, and their queries if `definitions` is set.
    pub(super) fn views(&self, definitions: bool) -> Vec<(String, Option<String>)> {
        let names = SchemaProvider::table_names(self).into_iter();
        let views = names.filter_map(|name| {
            let table = self.tables.get(&name).filter(|table| table.table_type() == TableType::View)?;
            let definition = definitions.then(|| query_of(table.get_table_definition()?)).flatten();
            Some((name, definition))
        });
        views.collect()
    }

    /// The tables and views of all schemas except those of PostgreSQL's own tables. A table that cannot be opened is left
    /// out.
    pub(super) async fn relations(&self) -> Vec<Relation> {
        let mut found = Vec::new();
        for name in SchemaProvider::table_names(self) {
            if let Some(table) = self.tables.get(&name) {
                found.push((PUBLIC.to_owned(), name, table.table_type()));
            }
        }
        for schema in self.other_schemas() {
            let Some(provider) = self.other_schema(&schema) else { continue };
            for name in provider.table_names() {
                if let Ok(Some(of)) = provider.table_type(&name).await {
                    found.push((schema.clone(), name, of));
                }
            }
        }
        found
    }

    /// The tables of all schemas, with their columns. A table that cannot be opened is left out.
    pub(super) async fn columns(&self) -> Vec<(String, String, SchemaRef)> {
        let mut found = Vec::new();
        for name in SchemaProvider::table_names(self) {
            if let Some(table) = self.tables.get(&name) {
                found.push((PUBLIC.to_owned(), name, table.schema()));
            }
        }
        for schema in self.other_schemas() {
            let Some(provider) = self.other_schema(&schema) else { continue };
            for name in provider.table_names() {
                if let Ok(Some(table)) = provider.table(&name).await {
                    found.push((schema.clone(), name, table.schema()));
                }
            }
        }
        found
    }

    /// A table by its place; `None` if it cannot be opened.
    async fn found(&self, catalog: &str, schema: &str, table: &str) -> Option<Arc<dyn TableProvider>> {
        match schema {
            _ if catalog != self.database => None,
            PUBLIC => SchemaProvider::table(self, table).await.ok()?,
            _ => self.other_schema(schema)?.table(table).await.ok()?,
        }
    }
}

/// The query of a view, by the statement that made the view.
fn query_of(definition: &str) -> Option<String> {
    match parse_postgresql(definition).ok()?.pop()? {
        Statement::CreateView(view) => Some(format!("{};", view.query)),
        _ => None,
    }
}

#[async_trait]
impl CatalogInfo for Visible {
    async fn catalog_names(&self) -> Result<Vec<String>> {
        Ok(vec![self.database.clone()])
    }

    async fn schema_names(&self, catalog: &str) -> Result<Option<Vec<String>>> {
        Ok((catalog == self.database).then(|| self.schemas()))
    }

    async fn table_names(&self, catalog: &str, schema: &str) -> Result<Option<Vec<String>>> {
        Ok(match schema {
            _ if catalog != self.database => None,
            PUBLIC => Some(SchemaProvider::table_names(self)),
            _ => self.other_schema(schema).map(|schema| schema.table_names()),
        })
    }

    async fn table_schema(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<SchemaRef>> {
        Ok(self.found(catalog, schema, table).await.map(|table| table.schema()))
    }

    async fn table_type(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<TableType>> {
        Ok(self.found(catalog, schema, table).await.map(|table| table.table_type()))
    }
}
