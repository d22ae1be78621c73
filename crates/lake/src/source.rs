//! A format's snapshots of a table, its deleted rows and its history.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;

use crate::snapshot::{DataFile, Deletes, Snapshot};

/// A reader of a table's snapshots.
#[async_trait]
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Returns the newest snapshot, or the one that was asked for. `known` is the one that was read before. Called
    /// by one task at a time.
    async fn snapshot(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>>;

    /// The version in which a statement reads all tables of the catalog, looked up less than `age` ago; `None` if each
    /// table has versions of its own.
    async fn common_version(&self, _age: Duration) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Reads the deleted rows of a file, and returns the file with the rows that are left.
    async fn without_deleted(&self, file: &DataFile, deletes: &Deletes) -> Result<PartitionedFile>;

    /// The memory of what is kept for the next snapshot and for deleted rows, about.
    fn memory(&self) -> usize {
        0
    }

    /// The name of the table in errors.
    fn name(&self) -> &str;

    /// Returns the versions that are kept.
    async fn history(&self) -> Result<Vec<Change>>;

    /// The format and the location, as a statement would name them.
    fn place(&self) -> (&'static str, String);
}

/// A version of a table.
#[derive(Debug)]
pub(crate) struct Change {
    /// The number of the version.
    pub(crate) version: i64,
    /// The time at which it was written, in milliseconds since 1970.
    pub(crate) at: Option<i64>,
    /// What was done, in the words of the format.
    pub(crate) operation: Option<String>,
    /// What else the format says about it, as JSON.
    pub(crate) details: Option<String>,
}
