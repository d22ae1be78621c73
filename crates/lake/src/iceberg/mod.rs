//! Iceberg tables.
//!
//! [`metadata`] is a table's metadata file, [`manifests`] the files of a snapshot, and [`snapshots`] translates
//! both. [`deletes`] reads deleted rows, which become selections of rows, whatever form they have.

mod catalog;
mod columns;
mod deletes;
mod manifests;
mod metadata;
mod snapshots;
mod values;

use std::sync::Arc;

use coscan_datafusion::folder_url;
use coscan_upstream::boxed;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::CreateExternalTable;

use url::Url;

use crate::options::{Options, Words};
use crate::table::opened;
pub(crate) use catalog::IcebergCatalog;
pub(crate) use snapshots::FORMAT;
use snapshots::{IcebergTable, Newest};

const WORDS: Words =
    Words { name: "Iceberg", prefix: "iceberg", version: "snapshot", reference: Some("ref") };

/// Makes Iceberg tables.
#[derive(Debug)]
pub(crate) struct IcebergTables;

impl TableProviderFactory for IcebergTables {
    boxed!(IcebergTables::table as create);
}

impl IcebergTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let options = Options::of(command, &WORDS)?;
        let location = options.location.as_str();
        // The name of a file is no pattern, nor is that of its folder.
        let is_file = location.ends_with(".json");
        let file = is_file.then(|| location.rsplit_once('/').unwrap_or((".", location)));
        let url = folder_url(file.map_or(location, |(folder, _)| folder))?;
        let store = state.runtime_env().object_store(&url)?;
        let parsed = Url::parse(url.as_str()).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let newest = match (url.prefix().clone(), file) {
            (folder, Some((_, file))) => Newest::File(folder.join(file)),
            (folder, None) => Newest::Folder(folder),
        };
        let table = IcebergTable::new(location, parsed, newest, store, options.wanted.clone());
        opened(Arc::new(table), url.object_store(), &options, &state.runtime_env().memory_pool).await
    }
}
