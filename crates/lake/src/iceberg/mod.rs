//! Iceberg tables.
//!
//! [`metadata`] is a table's metadata file, [`manifests`] the files of a snapshot, and [`snapshots`] translates
//! both. [`deletes`] reads deleted rows, which become selections of rows, whatever form they have.

mod columns;
mod deletes;
mod manifests;
mod metadata;
mod place;
mod snapshots;
mod values;

use std::sync::Arc;

use coscan_datafusion::folder_url;
use coscan_upstream::boxed;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::logical_expr::CreateExternalTable;

use crate::options::{Options, Words};
use crate::table::LakeTable;
use snapshots::IcebergTable;

/// The name of the format in `STORED AS`.
pub(crate) const FORMAT: &str = "ICEBERG";

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
        let location = &options.location;
        let is_file = location.ends_with(".json");
        let url = if is_file { ListingTableUrl::parse(location)? } else { folder_url(location)? };
        let store = state.runtime_env().object_store(&url)?;
        let table = IcebergTable::new(location, &url, store, options.wanted)?;
        Ok(Arc::new(LakeTable::open(Arc::new(table), url.object_store(), options.refresh).await?))
    }
}
