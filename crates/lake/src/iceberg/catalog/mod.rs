//! Iceberg's catalogs: which tables there are, and which metadata file is the newest.

mod folder;
mod renewed;
mod rest;
mod sql;
mod vended;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::snapshots::{Current, IcebergTable, Newest, Pointer};
use crate::catalog::address::{Address, Kind};
use crate::catalog::{Catalog, Found, OwnStore};
use crate::iceberg::metadata::Metadata;
use crate::options::Wanted;
use crate::place::store_of;
use async_trait::async_trait;
use datafusion::common::{Result, exec_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;
use renewed::RenewedStore;

/// The names of a namespace, the outermost first.
type Namespace = Vec<String>;

/// A catalog, in the terms of all kinds.
#[async_trait]
trait Entries: fmt::Debug + Send + Sync {
    /// The namespaces, at every depth.
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>>;

    /// The names of the tables of a namespace.
    async fn tables(&self, namespace: &Namespace) -> Result<Vec<String>>;

    /// The entry of a table; `None` if there is no such table.
    async fn table(&self, namespace: &Namespace, name: &str) -> Result<Option<Entry>>;
}

/// What a catalog says about a table.
struct Entry {
    /// The newest metadata file.
    location: String,
    /// Its contents, if the catalog sends them.
    metadata: Option<Metadata>,
    /// The table's folder, if the numbers of its metadata files say which is the newest: it may have been copied.
    folder: Option<Path>,
    /// Settings of its store, with credentials.
    of_store: BTreeMap<String, String>,
}

impl Entry {
    fn at(location: String) -> Self {
        Entry { location, metadata: None, folder: None, of_store: BTreeMap::new() }
    }
}

/// A catalog. A namespace inside of another is a schema with a dot in its name.
#[derive(Debug)]
pub(crate) struct IcebergCatalog {
    entries: Arc<dyn Entries>,
    /// Whether tables may be files of this machine.
    local: bool,
}

impl IcebergCatalog {
    /// Opens the catalog at an address.
    pub(crate) async fn open(address: Address, kind: Kind, runtime: &RuntimeEnv) -> Result<Self> {
        let local = address.local;
        let entries: Arc<dyn Entries> = match kind {
            Kind::Rest => Arc::new(Box::pin(rest::RestCatalog::open(address)).await?),
            Kind::Database => Arc::new(sql::SqlCatalog::open(address).await?),
            Kind::Folder => Arc::new(folder::FolderCatalog::open(&address, runtime)?),
        };
        Ok(IcebergCatalog { entries, local })
    }
}

fn namespace_of(schema: &str) -> Namespace {
    schema.split('.').map(str::to_owned).collect()
}

#[async_trait]
impl Catalog for IcebergCatalog {
    async fn schemas(&self) -> Result<Vec<String>> {
        let namespaces = self.entries.namespaces().await?;
        Ok(namespaces.iter().map(|namespace| namespace.join(".")).collect())
    }

    async fn tables(&self, schema: &str) -> Result<Vec<String>> {
        self.entries.tables(&namespace_of(schema)).await
    }

    async fn open(
        &self,
        (schema, table): (&str, &str),
        full: &str,
        wanted: Wanted,
        runtime: &Arc<RuntimeEnv>,
        own: Option<Arc<OwnStore>>,
    ) -> Result<Option<Found>> {
        let (entries, namespace) = (Arc::clone(&self.entries), namespace_of(schema));
        let Some(entry) = entries.table(&namespace, table).await? else { return Ok(None) };
        let (url, of_url) = store_of(&entry.location, self.local)?;
        let (store_url, store, own): (_, Arc<dyn ObjectStore>, _) =
            match vended::settings(&entry.of_store, &url)? {
                Some(settings) => {
                    let of = (Arc::clone(&entries), namespace.clone(), table.to_owned());
                    let store: Arc<dyn ObjectStore> =
                        Arc::new(RenewedStore::new(of, url.clone(), &entry, &settings)?);
                    let own = match own {
                        Some(own) => own,
                        None => Arc::new(OwnStore::new(runtime)?),
                    };
                    own.register(Arc::clone(&store));
                    (own.url().clone(), store, Some(own))
                }
                None => {
                    let store = runtime.object_store(&of_url)?;
                    (of_url, store, None)
                }
            };
        let newest = match entry.folder.clone() {
            Some(folder) => Newest::Folder(folder),
            None => {
                let (table, first) = (table.to_owned(), Mutex::new(Some(entry)));
                Newest::Pointer(Arc::new(InCatalog { entries, namespace, table, first }))
            }
        };
        let source = IcebergTable::new(full, url, newest, store, wanted);
        Ok(Some(Found { source: Arc::new(source), store: store_url, own }))
    }
}

/// A table's entry in a catalog.
struct InCatalog {
    entries: Arc<dyn Entries>,
    namespace: Namespace,
    table: String,
    /// The entry with which the table was opened, until it is used.
    first: Mutex<Option<Entry>>,
}

impl fmt::Debug for InCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InCatalog").field("table", &self.table).finish_non_exhaustive()
    }
}

#[async_trait]
impl Pointer for InCatalog {
    async fn current(&self) -> Result<Current> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let entry = match first {
            Some(entry) => Some(entry),
            None => self.entries.table(&self.namespace, &self.table).await?,
        };
        match entry {
            Some(entry) => Ok(Current { location: entry.location, metadata: entry.metadata }),
            None => exec_err!("the catalog has no such table any more"),
        }
    }
}
