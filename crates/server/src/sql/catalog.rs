//! The catalog of a user: one database of any name, with the tables of the user's role in `public`, and PostgreSQL's
//! own tables about them in `pg_catalog`.
//!
//! A table that a role does not see does not exist for it, in queries and in listings. Object numbers of a role and
//! a database stay the same while the server runs, because clients remember them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, SchemaProvider,
    TableProvider,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables};

use super::pg_catalog::PgCatalog;
use super::{Registry, Tables};
use crate::access::Role;

/// The schema of all tables.
pub(crate) const PUBLIC: &str = "public";
const PG_CATALOG: &str = "pg_catalog";

/// The tables that one role sees.
#[derive(Clone)]
struct Visible {
    tables: Arc<Tables>,
    role: Arc<Role>,
    database: String,
}

impl fmt::Debug for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visible").field("role", &self.role.name).finish_non_exhaustive()
    }
}

/// The catalogs of a session: `database`, as this role sees it.
pub(crate) fn catalogs(
    tables: &Arc<Tables>,
    role: &Arc<Role>,
    database: &str,
    fixed: &Arc<PgCatalogStaticTables>,
    registry: &Arc<Registry>,
) -> Result<Arc<dyn CatalogProviderList>> {
    let visible = Visible { tables: tables.clone(), role: role.clone(), database: database.to_owned() };
    let about = PgCatalogSchemaProvider::try_new(visible.clone(), fixed.clone(), EmptyContextProvider)?;
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(PUBLIC, Arc::new(visible.clone()))?;
    catalog.register_schema(
        PG_CATALOG,
        Arc::new(PgCatalog::new(Arc::new(about), Arc::new(visible), database, registry.clone())),
    )?;
    let list = MemoryCatalogProviderList::new();
    list.register_catalog(database.to_owned(), Arc::new(catalog));
    Ok(Arc::new(list))
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
}

#[async_trait]
impl CatalogInfo for Visible {
    async fn catalog_names(&self) -> Result<Vec<String>> {
        Ok(vec![self.database.clone()])
    }

    async fn schema_names(&self, catalog: &str) -> Result<Option<Vec<String>>> {
        let names = || [PUBLIC, PG_CATALOG, "information_schema"].map(str::to_owned).to_vec();
        Ok((catalog == self.database).then(names))
    }

    async fn table_names(&self, catalog: &str, schema: &str) -> Result<Option<Vec<String>>> {
        let here = catalog == self.database && schema == PUBLIC;
        Ok(here.then(|| SchemaProvider::table_names(self)))
    }

    async fn table_schema(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<SchemaRef>> {
        let here = catalog == self.database && schema == PUBLIC;
        let found = if here { SchemaProvider::table(self, table).await? } else { None };
        Ok(found.map(|table| table.schema()))
    }

    async fn table_type(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<TableType>> {
        let here = catalog == self.database && schema == PUBLIC;
        let found = if here { SchemaProvider::table(self, table).await? } else { None };
        Ok(found.map(|table| table.table_type()))
    }
}
