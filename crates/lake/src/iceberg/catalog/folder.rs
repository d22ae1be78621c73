//! A catalog that is a folder: its folders are namespaces, and those with a metadata file are tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path;

use super::{Entries, Entry, Namespace};
use crate::catalog::address::Address;
use crate::iceberg::snapshots::newest_metadata;

/// The deepest folder of tables.
const LEVELS: usize = 8;

/// A folder of namespaces.
#[derive(Debug)]
pub(super) struct FolderCatalog {
    url: ListingTableUrl,
    store: Arc<dyn ObjectStore>,
}

impl FolderCatalog {
    /// Opens the folder at an address.
    pub(super) fn open(address: &Address, runtime: &RuntimeEnv) -> Result<Self> {
        address.end("refresh")?;
        let url = ListingTableUrl::parse(&address.url)?;
        let store = runtime.object_store(&url)?;
        Ok(FolderCatalog { url, store })
    }

    fn folder(&self, namespace: &[String]) -> Path {
        namespace.iter().fold(self.url.prefix().clone(), |folder, name| folder.join(name.as_str()))
    }

    /// The names of the folders in a folder.
    async fn folders(&self, folder: &Path) -> Result<Vec<String>> {
        let listed = self.store.list_with_delimiter(Some(folder)).await?;
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| !name.starts_with(['.', '_'])).collect();
        names.sort();
        Ok(names)
    }

    async fn is_table(&self, folder: &Path) -> Result<bool> {
        Ok(newest_metadata(&self.store, folder).await?.is_some())
    }
}

#[async_trait]
impl Entries for FolderCatalog {
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>> {
        let mut found = BTreeSet::new();
        let mut left: Vec<Namespace> = vec![Vec::new()];
        while let Some(outer) = left.pop() {
            for name in self.folders(&self.folder(&outer)).await? {
                let mut inner = outer.clone();
                inner.push(name);
                if inner.len() < LEVELS && !self.is_table(&self.folder(&inner)).await? {
                    found.insert(inner.clone());
                    left.push(inner);
                }
            }
        }
        Ok(found)
    }

    async fn tables(&self, namespace: &Namespace) -> Result<Vec<String>> {
        let folder = self.folder(namespace);
        let mut found = Vec::new();
        for name in self.folders(&folder).await? {
            if self.is_table(&folder.clone().join(name.as_str())).await? {
                found.push(name);
            }
        }
        Ok(found)
    }

    async fn table(&self, namespace: &Namespace, name: &str) -> Result<Option<Entry>> {
        let folder = self.folder(namespace).join(name);
        let newest = newest_metadata(&self.store, &folder).await?;
        let at = |path| Entry::at(format!("{}{path}", self.url.object_store().as_str()));
        Ok(newest.map(|path| Entry { folder: Some(folder), ..at(path) }))
    }
}
