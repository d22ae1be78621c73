//! A catalog in a database: SQLite or PostgreSQL.
//!
//! The tables are those of Java's `JdbcCatalog` and of pyiceberg's `SqlCatalog`. They are only read.

use std::collections::BTreeSet;

use async_trait::async_trait;
use datafusion::common::{Result, plan_err};

use super::{Entries, Entry, Namespace};
use crate::catalog::address::Address;
use crate::catalog::database::Database;

/// A catalog in a database.
#[derive(Debug)]
pub(super) struct SqlCatalog {
    database: Database,
    /// The name of the catalog in the database, which may have several.
    name: String,
    /// Whether entries say that they are tables: there may be views.
    has_types: bool,
}

impl SqlCatalog {
    /// Opens the database.
    pub(super) async fn open(mut address: Address) -> Result<Self> {
        let wanted = address.take("catalog");
        address.end("catalog, refresh and those of the database")?;
        let database = Database::open(address).await?;
        let types = "SELECT iceberg_type FROM iceberg_tables WHERE 1 = 0";
        let has_types = database.texts(types, &[]).await.is_ok();
        let names = "SELECT catalog_name FROM iceberg_tables UNION SELECT catalog_name FROM iceberg_namespace_properties";
        let names = database.texts(names, &[]).await?;
        let name = match (wanted, &names[..]) {
            (Some(wanted), _) if names.is_empty() || names.contains(&wanted) => wanted,
            (None, [only]) => only.clone(),
            (None, []) => String::new(),
            (wanted, _) => {
                let said = wanted.map_or_else(String::new, |wanted| format!(", but no {wanted}"));
                let names = names.join(", ");
                return plan_err!("{database} has the catalogs {names}{said}: name one with ?catalog=NAME");
            }
        };
        Ok(SqlCatalog { database, name, has_types })
    }

    /// The end of a condition, for tables alone.
    fn are_tables(&self) -> &'static str {
        if self.has_types { " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" } else { "" }
    }
}

#[async_trait]
impl Entries for SqlCatalog {
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>> {
        let sql = "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = $1 UNION \
                   SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = $2";
        let names = self.database.texts(sql, &[&self.name, &self.name]).await?;
        Ok(names.iter().map(|name| name.split('.').map(str::to_owned).collect()).collect())
    }

    async fn tables(&self, namespace: &Namespace) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2{} ORDER BY 1",
            self.are_tables()
        );
        self.database.texts(&sql, &[&self.name, &namespace.join(".")]).await
    }

    async fn table(&self, namespace: &Namespace, name: &str) -> Result<Option<Entry>> {
        let sql = format!(
            "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 \
             AND table_name = $3 AND metadata_location IS NOT NULL{}",
            self.are_tables()
        );
        let found = self.database.texts(&sql, &[&self.name, &namespace.join("."), name]).await?;
        Ok(found.into_iter().next().map(Entry::at))
    }
}
