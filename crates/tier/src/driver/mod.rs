//! Restore and release of a tier's files. One kind of tier per file.
//!
//! A driver handles one file at a time. Order, retries, costs and the copy into the cache are decided elsewhere.

pub(crate) mod archive;
mod folder;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;

use crate::config::{Kind, TierConfig};
use crate::error::TierError;
use crate::fragment::Fragment;

/// Makes files of a tier readable.
#[async_trait]
pub trait Driver: Debug + Send + Sync {
    /// Returns true if the file can be read without a restore.
    ///
    /// # Errors
    ///
    /// If the state cannot be found out, or if the file is not the fragment's any more.
    async fn is_online(&self, fragment: &Fragment) -> Result<bool, TierError>;

    /// Returns true if an earlier restore is in progress or complete. Otherwise the restore has to be requested
    /// again.
    ///
    /// # Errors
    ///
    /// As [`is_online`](Self::is_online).
    async fn has_begun(&self, fragment: &Fragment) -> Result<bool, TierError>;

    /// The longest pause between checks for a file whose restore ended but which is not there. `None` if such checks
    /// are not needed.
    fn looks_again(&self) -> Option<Duration>;

    /// Makes the file readable, and returns when it is readable. Waits for a restore that is already in progress.
    /// Each request to the tier is entered in the ledger before it is sent.
    ///
    /// # Errors
    ///
    /// If the ledger or the tier refuses, the tier fails, or the restore takes longer than `timeout`.
    async fn restore(
        &self,
        fragment: &Fragment,
        timeout: Duration,
        ledger: &dyn Ledger,
    ) -> Result<(), TierError>;

    /// The file is cached, so the tier may delete its disk copy.
    async fn release(&self, fragment: &Fragment);

    /// Returns true if the store's ETags stay the same when a file is restored.
    fn tags_survive(&self) -> bool;
}

/// Records the requests to a tier, which may cost money.
pub trait Ledger: Send + Sync {
    /// A restore is about to be requested. It counts, unless an earlier request was not taken up.
    ///
    /// # Errors
    ///
    /// If the request is not allowed: it would cost too much, or cannot be recorded.
    fn asks(&self) -> Result<(), TierError>;

    /// The tier has taken up the request. Another request counts again.
    fn taken(&self);
}

/// The store that lists and reads a tier's files, and the driver that makes them readable.
pub(crate) type Opened = (Arc<dyn ObjectStore>, Arc<dyn Driver>);

/// The store that lists and reads the tier's files, and the driver for it.
///
/// # Errors
///
/// If the definition names a store that cannot be set up.
pub(crate) fn open(config: &TierConfig) -> Result<Opened, TierError> {
    match &config.kind {
        Kind::Archive(archive) => archive::open(config, archive, AmazonS3Builder::from_env()),
        Kind::Folder(folder) => folder::open(config, folder),
    }
}
