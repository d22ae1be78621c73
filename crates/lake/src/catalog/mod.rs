//! Catalogs of lake tables in a session.
//!
//! [`LakeCatalog`] shows the schemas of a catalog. A table is opened when a query names it first, and is kept.

pub(crate) mod address;
pub(crate) mod database;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::TableType;
use datafusion::object_store::ObjectStore;
use futures::{StreamExt, TryStreamExt};

use crate::history::History;
use crate::options::{HISTORY, Wanted, time};
use crate::source::Source;
use crate::table::LakeTable;

/// Schemas whose tables are listed at the same time.
const LISTS_AT_ONCE: usize = 16;

/// The age at which a table is looked up again.
const REFRESH: Duration = Duration::from_secs(1);

/// Versions of tables of a schema that are kept open.
const VERSIONS_MAX: usize = 64;

/// A catalog, in the terms of all formats.
#[async_trait]
pub(crate) trait Catalog: fmt::Debug + Send + Sync {
    /// The names of the schemas.
    async fn schemas(&self) -> Result<Vec<String>>;

    /// The names of the tables of a schema, sorted.
    async fn tables(&self, schema: &str) -> Result<Vec<String>>;

    /// Opens a table of a schema; `None` if there is no such table. `full` is its name for people, and `own` the
    /// store with which it was opened before.
    async fn open(
        &self,
        table: (&str, &str),
        full: &str,
        wanted: Wanted,
        runtime: &Arc<RuntimeEnv>,
        own: Option<Arc<OwnStore>>,
    ) -> Result<Option<Found>>;
}

/// A table that a catalog has opened.
pub(crate) struct Found {
    pub(crate) source: Arc<dyn Source>,
    /// The store of its files.
    pub(crate) store: ObjectStoreUrl,
    /// The store, if it is that of this table alone.
    pub(crate) own: Option<Arc<OwnStore>>,
}

/// A catalog of lake tables.
#[derive(Debug)]
pub(crate) struct LakeCatalog(Arc<Shared>);

/// What the schemas of a catalog share.
#[derive(Debug)]
struct Shared {
    /// The name in the session.
    name: String,
    catalog: Arc<dyn Catalog>,
    runtime: Arc<RuntimeEnv>,
    /// The age at which the list is read again.
    refresh: Duration,
    list: Mutex<(Arc<List>, Instant)>,
    /// Whether the list is read.
    listing: AtomicBool,
    schemas: Mutex<HashMap<String, Arc<LakeSchema>>>,
}

/// Names of tables by schema.
type List = BTreeMap<String, Vec<String>>;

impl LakeCatalog {
    /// A catalog under the name that the session gives it. Its list of tables is read, and again at the age of `refresh`.
    pub(crate) async fn new(
        catalog: Arc<dyn Catalog>,
        name: &str,
        runtime: Arc<RuntimeEnv>,
        refresh: Duration,
    ) -> Result<Self> {
        let list = Mutex::new((Arc::new(list(&*catalog).await?), Instant::now()));
        Ok(LakeCatalog(Arc::new(Shared {
            name: name.to_owned(),
            catalog,
            runtime,
            refresh,
            list,
            listing: AtomicBool::new(false),
            schemas: Mutex::default(),
        })))
    }
}

/// Reads the list of tables.
async fn list(catalog: &dyn Catalog) -> Result<List> {
    let schemas = catalog.schemas().await?.into_iter();
    let each = |schema: String| async move {
        let tables = catalog.tables(&schema).await?;
        Ok::<_, DataFusionError>((schema, tables))
    };
    futures::stream::iter(schemas.map(each)).buffered(LISTS_AT_ONCE).try_collect().await
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The list of tables. An old one is read again in the meantime.
    fn list(self: &Arc<Self>) -> Arc<List> {
        let (list, at) = locked(&self.list).clone();
        if at.elapsed() >= self.refresh
            && let Ok(threads) = tokio::runtime::Handle::try_current()
            && !self.listing.swap(true, Ordering::AcqRel)
        {
            let listing = Listing(Arc::clone(self));
            let catalog = Arc::clone(&self.catalog);
            threads.spawn(async move {
                let found = self::list(&*catalog).await;
                let mut known = locked(&listing.0.list);
                // A catalog that does not answer keeps its tables; queries that name one say why it cannot be read.
                let list = found.map_or_else(|_| Arc::clone(&known.0), Arc::new);
                *known = (list, Instant::now());
            });
        }
        list
    }
}

/// A list that is read. The next one may begin when it is dropped.
struct Listing(Arc<Shared>);

impl Drop for Listing {
    fn drop(&mut self) {
        self.0.listing.store(false, Ordering::Release);
    }
}

impl CatalogProvider for LakeCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.list().keys().cloned().collect()
    }

    /// The schema of this name, also if it is not listed yet.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let list = self.0.list();
        let name = any_case(name, || list.keys().map(String::as_str));
        let mut schemas = locked(&self.0.schemas);
        if let Some(known) = schemas.get(name) {
            return Some(Arc::clone(known) as _);
        }
        let schema = Arc::new(LakeSchema {
            name: name.to_owned(),
            shared: Arc::clone(&self.0),
            opened: Mutex::default(),
        });
        // Names that are in no list are not kept: a client may ask for any.
        if list.contains_key(name) {
            schemas.insert(name.to_owned(), Arc::clone(&schema));
        }
        Some(schema)
    }
}

/// The listed name that is this one, or the only one that is this one in another case: SQL folds names.
fn any_case<'a, I: Iterator<Item = &'a str>>(name: &'a str, listed: impl Fn() -> I) -> &'a str {
    if listed().any(|known| known == name) {
        return name;
    }
    let folded = name.to_lowercase();
    let mut others = listed().filter(|known| known.to_lowercase() == folded);
    match (others.next(), others.next()) {
        (Some(only), None) => only,
        _ => name,
    }
}

/// A schema of a catalog.
#[derive(Debug)]
struct LakeSchema {
    name: String,
    shared: Arc<Shared>,
    /// The tables that queries have named, by the name in the query.
    opened: Mutex<HashMap<String, Opened>>,
}

#[derive(Clone, Debug)]
struct Opened {
    table: Arc<LakeTable>,
    own: Option<Arc<OwnStore>>,
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        self.shared.list().get(&self.name).cloned().unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let listed = self.table_names();
        let (table, version) =
            name.rsplit_once('@').map_or((name, None), |(table, version)| (table, Some(version)));
        let listed = any_case(table, || listed.iter().map(String::as_str));
        let name = &match version {
            Some(version) => format!("{listed}@{version}"),
            None => listed.to_owned(),
        };
        if version == Some(HISTORY) {
            return self.history(listed).await;
        }
        let found = self
            .opened(name)
            .await
            .map_err(|error| error.context(format!("the table {}.{}.{name}", self.shared.name, self.name)))?;
        Ok(found.map(|opened| opened.table as _))
    }

    /// A listed table is not opened, so that one which cannot be read does not hide the others.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.table_names().iter().any(|known| known == name) {
            true => Ok(Some(TableType::Base)),
            false => Ok(self.table(name).await?.map(|table| table.table_type())),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let listed = self.table_names();
        let is_listed = |name: &str| listed.iter().any(|known| known == name);
        is_listed(name) || name.rsplit_once('@').is_some_and(|(name, _)| is_listed(name))
    }
}

impl LakeSchema {
    /// The versions of a table.
    async fn history(&self, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Shared { catalog, runtime, name, .. } = &*self.shared;
        let full = format!("{name}.{}.{table}", self.name);
        let found = catalog.open((&self.name, table), &full, Wanted::Newest, runtime, None).await?;
        Ok(found.map(|found| Arc::new(History::of(found.source)) as _))
    }

    /// The table of a name, with the columns that it has now.
    async fn opened(&self, name: &str) -> Result<Option<Opened>> {
        let known = locked(&self.opened).get(name).cloned();
        if let Some(known) = &known
            && known.table.has_newest_columns().await.unwrap_or(false)
        {
            return Ok(Some(known.clone()));
        }
        let opened = self.open(name, known.and_then(|known| known.own)).await;
        let mut tables = locked(&self.opened);
        // A client may ask for any time.
        if name.contains('@') && tables.keys().filter(|name| name.contains('@')).count() >= VERSIONS_MAX {
            tables.retain(|name, _| !name.contains('@'));
        }
        match &opened {
            Ok(Some(opened)) => drop(tables.insert(name.to_owned(), opened.clone())),
            _ => drop(tables.remove(name)),
        }
        opened
    }

    /// Opens a table of this name, or of the name before `@` at the version behind it.
    async fn open(&self, name: &str, own: Option<Arc<OwnStore>>) -> Result<Option<Opened>> {
        let Shared { catalog, runtime, .. } = &*self.shared;
        let open = |name: &str, wanted, own| {
            let (table, full) = (name.to_owned(), format!("{}.{}.{name}", self.shared.name, self.name));
            async move { catalog.open((&self.name, &table), &full, wanted, runtime, own).await }
        };
        let mut refresh = Some(REFRESH);
        let mut found = open(name, Wanted::Newest, own.clone()).await?;
        if found.is_none()
            && let Some((table, version)) = name.rsplit_once('@')
        {
            let wanted = version_of(version);
            refresh = refresh.filter(|_| matches!(wanted, Wanted::Reference(_)));
            found = open(table, wanted, own).await?;
        }
        let Some(Found { source, store, own }) = found else { return Ok(None) };
        let table = Arc::new(LakeTable::open(source, store, refresh, &runtime.memory_pool).await?);
        Ok(Some(Opened { table, own }))
    }
}

/// The version that the text behind `@` names: `v7`, a time, or a branch or tag.
fn version_of(text: &str) -> Wanted {
    let number = text.strip_prefix('v').and_then(|number| number.parse().ok());
    let at = || time(text).map(Wanted::Time);
    number.map(Wanted::Version).or_else(at).unwrap_or_else(|| Wanted::Reference(text.to_owned()))
}

/// A store of one table, registered as long as the table is open.
#[derive(Debug)]
pub(crate) struct OwnStore {
    url: ObjectStoreUrl,
    runtime: Weak<RuntimeEnv>,
}

impl OwnStore {
    pub(crate) fn new(runtime: &Arc<RuntimeEnv>) -> Result<Self> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let url = ObjectStoreUrl::parse(format!("lake://{number}"))?;
        Ok(OwnStore { url, runtime: Arc::downgrade(runtime) })
    }

    pub(crate) fn url(&self) -> &ObjectStoreUrl {
        &self.url
    }

    pub(crate) fn register(&self, store: Arc<dyn ObjectStore>) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.register_object_store(self.url.as_ref(), store);
        }
    }
}

impl Drop for OwnStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.upgrade() {
            let _ = runtime.deregister_object_store(self.url.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_behind_names() {
        assert_eq!(version_of("v17"), Wanted::Version(17));
        assert_eq!(version_of("1970-01-01 00:00:01Z"), Wanted::Time(1000));
        assert_eq!(version_of("audited"), Wanted::Reference("audited".to_owned()));
        assert_eq!(version_of("v"), Wanted::Reference("v".to_owned()));
    }
}
