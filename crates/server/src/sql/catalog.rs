//! The catalog of a user: one database of any name, with the tables of the user's role in `public`, those of other
//! catalogs in schemas, and PostgreSQL's own tables about them in `pg_catalog` and `information_schema`.
//!
//! Object numbers of a role and a database stay the same while the server runs, because clients remember them.

use std::sync::Arc;

use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider};
use datafusion::common::Result;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables};

use super::information_schema::InformationSchema;
use super::pg_catalog::PgCatalog;
use super::visible::{INFORMATION_SCHEMA, Others, PG_CATALOG, PUBLIC, Visible};
use super::{Registry, Tables};
use crate::access::Role;

/// The catalogs of a session: `database`, and the others of the server, as this role sees them.
pub(crate) fn catalogs(
    tables: &Arc<Tables>,
    others: &Others,
    role: &Arc<Role>,
    database: &str,
    fixed: &Arc<PgCatalogStaticTables>,
    registry: &Arc<Registry>,
) -> Result<Arc<dyn CatalogProviderList>> {
    let visible = Visible::new(tables, others, role, database);
    let about = PgCatalogSchemaProvider::try_new(visible.clone(), fixed.clone(), EmptyContextProvider)?;
    let catalog = Arc::new(PgCatalog::new(Arc::new(about), visible.clone(), registry.clone()));
    let with = |information: Option<Arc<InformationSchema>>| {
        let list = MemoryCatalogProviderList::new();
        for name in others.keys() {
            if let Some(seen) = visible.other(name) {
                list.register_catalog(name.clone(), Arc::new(seen));
            }
        }
        // Takes the place of a catalog with its name, whose schemas it has.
        let own = Database { visible: visible.clone(), about: catalog.clone(), information };
        list.register_catalog(database.to_owned(), Arc::new(own));
        Arc::new(list)
    };
    let given = Arc::new(InformationSchemaProvider::new(with(None)));
    let information = InformationSchema::new(visible.clone(), database, catalog.table_names(), given);
    Ok(with(Some(Arc::new(information))))
}

/// The database of a session. Schemas of other catalogs have names such as `lake.sales`; those of a catalog with the
/// name of the database have their own.
#[derive(Debug)]
struct Database {
    visible: Visible,
    about: Arc<PgCatalog>,
    /// `None` in the catalogs from which the query engine makes its own such schema.
    information: Option<Arc<InformationSchema>>,
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        let information = self.information.iter().map(|_| INFORMATION_SCHEMA);
        let own = [PUBLIC, PG_CATALOG].into_iter().chain(information).map(str::to_owned);
        own.chain(self.visible.other_schemas()).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            PUBLIC => Some(Arc::new(self.visible.clone())),
            PG_CATALOG => Some(self.about.clone()),
            INFORMATION_SCHEMA => self.information.clone().map(|schema| schema as _),
            _ => self.visible.other_schema(name).map(|schema| Arc::new(schema) as _),
        }
    }
}
