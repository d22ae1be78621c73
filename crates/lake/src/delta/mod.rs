//! Delta tables.
//!
//! [`log`] reads the log by `delta_kernel`, which decides what a version consists of. [`columns`] and [`files`]
//! translate its columns and files, and [`escapes`] mends JSON for the kernel. Newer features than the kernel reads are errors of the kernel.

mod columns;
mod escapes;
mod files;
mod log;

use std::sync::Arc;

use coscan_datafusion::folder_url;
use coscan_upstream::boxed;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::Result;
use datafusion::logical_expr::CreateExternalTable;

use crate::options::{Options, Words};
use crate::table::opened;
use log::DeltaLog;
pub(crate) use log::FORMAT;

const WORDS: Words = Words { name: "Delta", prefix: "delta", version: "version", reference: None };

/// Makes Delta tables.
#[derive(Debug)]
pub(crate) struct DeltaTables;

impl TableProviderFactory for DeltaTables {
    boxed!(DeltaTables::table as create);
}

impl DeltaTables {
    async fn table(
        &self,
        state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let options = Options::of(command, &WORDS)?;
        let url = folder_url(&options.location)?;
        let store = state.runtime_env().object_store(&url)?;
        let log = DeltaLog::new(&options.location, &url, store, options.wanted.clone())?;
        opened(Arc::new(log), url.object_store(), &options, &state.runtime_env().memory_pool).await
    }
}
