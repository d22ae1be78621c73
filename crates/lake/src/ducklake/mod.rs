//! DuckLake tables: the files of all versions are rows of a database.
//!
//! [`table`] reads a version in one transaction, with the words of the database in [`stored`]: [`columns`] are its columns,
//! [`files`] its files, and [`inlined`] rows that are in the database itself. [`newest`] is the version that a statement reads.

mod columns;
mod deletes;
mod files;
mod inlined;
mod newest;
mod stored;
mod table;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use coscan_upstream::boxed;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::CreateExternalTable;

use crate::catalog::address::{Address, DUCKLAKE};
use crate::catalog::database::Database;
use crate::catalog::{Catalog, Found, OwnStore};
use crate::options::{Options, Wanted, Words};
use crate::place::store_of;
use crate::table::opened;
use newest::Newest;
use stored::{is_of_version, version};
use table::DuckLakeTable;
pub(crate) use table::FORMAT;

const WORDS: Words = Words { name: "DuckLake", prefix: "ducklake", version: "snapshot", reference: None };

/// The version of the format that is read.
const VERSION: &str = "1.0";

/// A catalog.
#[derive(Debug)]
pub(crate) struct DuckLakeCatalog {
    database: Arc<Database>,
    newest: Arc<Newest>,
    /// The folder of all files, with a slash at its end.
    folder: String,
    /// Whether it may be one of this machine.
    local: bool,
}

impl DuckLakeCatalog {
    /// Opens the database at an address.
    pub(crate) async fn open(address: Address) -> Result<Self> {
        address.end("refresh and those of the database")?;
        let local = address.local;
        let of_file = (address.url.scheme() == "sqlite").then(|| address.url.path().to_owned());
        let newest = Newest::of(address.url.as_str());
        let database = Database::open(address).await?;
        let key = "SELECT value FROM ducklake_metadata WHERE key = $1 AND scope IS NULL";
        let mut reading = database.read().await?;
        let version = reading.texts(key, &["version"]).await?.pop().unwrap_or_default();
        if version != VERSION {
            return not_impl_err!(
                "{database} is a catalog of DuckLake {version}, and {VERSION} is read: DuckDB 1.5 migrates it (ATTACH .. (AUTOMATIC_MIGRATION))"
            );
        }
        let folder = reading.texts(key, &["data_path"]).await?.pop().unwrap_or_default();
        drop(reading);
        // A folder without a root is one beside the database's file.
        let is_rooted = folder.starts_with('/') || folder.contains("://");
        let folder = match of_file.as_deref().and_then(|file| Path::new(file).parent()) {
            Some(beside) if !is_rooted => format!("{}/{folder}", beside.display()),
            _ => folder,
        };
        let folder = format!("{}/", folder.trim_end_matches('/'));
        Ok(DuckLakeCatalog { database: Arc::new(database), newest, folder, local })
    }
}

/// Makes DuckLake tables. A location is that of the catalog with the name of the table: `sqlite:///PATH#main.t`.
#[derive(Debug)]
pub(crate) struct DuckLakeTables;

impl TableProviderFactory for DuckLakeTables {
    boxed!(DuckLakeTables::table as create);
}

impl DuckLakeTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let options = Options::of(command, &WORDS)?;
        let named = options
            .location
            .rsplit_once('#')
            .and_then(|(catalog, name)| Some((catalog, name.rsplit_once('.')?)));
        let Some((catalog, (schema, table))) = named else {
            return plan_err!(
                "the location of a DuckLake table is that of its catalog with its name: sqlite:///PATH#main.t"
            );
        };
        let catalog = DuckLakeCatalog::open(Address::parse(&format!("{DUCKLAKE}{catalog}"))?).await?;
        let name = format!("{schema}.{table}");
        let found =
            catalog.open((schema, table), &name, options.wanted.clone(), state.runtime_env(), None).await?;
        let Some(Found { source, store, .. }) = found else {
            return plan_err!("the catalog {} has no table {name} in this version", catalog.database);
        };
        opened(source, store, &options, &state.runtime_env().memory_pool).await
    }
}

#[async_trait]
impl Catalog for DuckLakeCatalog {
    async fn schemas(&self) -> Result<Vec<String>> {
        let mut reading = self.database.read().await?;
        let version = version(&mut reading, &Wanted::Newest).await?.to_string();
        let sql =
            format!("SELECT schema_name FROM ducklake_schema s WHERE {} ORDER BY 1", is_of_version("s"));
        reading.texts(&sql, &[&version]).await
    }

    async fn tables(&self, schema: &str) -> Result<Vec<String>> {
        let mut reading = self.database.read().await?;
        let version = version(&mut reading, &Wanted::Newest).await?.to_string();
        let sql = format!(
            "SELECT table_name FROM ducklake_table t JOIN ducklake_schema s ON t.schema_id = s.schema_id \
             WHERE {} AND {} AND schema_name = $2 ORDER BY 1",
            is_of_version("t"),
            is_of_version("s")
        );
        reading.texts(&sql, &[&version, schema]).await
    }

    async fn open(
        &self,
        (schema, table): (&str, &str),
        full: &str,
        wanted: Wanted,
        runtime: &Arc<RuntimeEnv>,
        _: Option<Arc<OwnStore>>,
    ) -> Result<Option<Found>> {
        let mut reading = self.database.read().await?;
        let version = version(&mut reading, &wanted).await?;
        let Some(place) = table::place_of(&mut reading, schema, table, version).await? else {
            return Ok(None);
        };
        drop(reading);
        let (url, store_url) = store_of(&self.folder, self.local)?;
        let store = runtime.object_store(&store_url)?;
        let source = DuckLakeTable {
            name: full.to_owned(),
            schema: schema.to_owned(),
            table: table.to_owned(),
            database: Arc::clone(&self.database),
            newest: Arc::clone(&self.newest),
            location: place.folder_in(&self.folder),
            folder: self.folder.clone(),
            url,
            store,
            wanted,
        };
        Ok(Some(Found { source: Arc::new(source), store: store_url, own: None }))
    }
}
