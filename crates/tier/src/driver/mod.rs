//! How a file of a tier becomes readable, and stops being so. One kind of tier per file.
//!
//! A driver knows one file at a time. Order, retries, costs and the copy into the cache are others' business.

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

/// What makes files of a tier readable.
#[async_trait]
pub trait Driver: Debug + Send + Sync {
    /// Whether the file can be read as it is.
    ///
    /// # Errors
    ///
    /// If that cannot be found out, or the file is not the fragment's any more.
    async fn is_online(&self, fragment: &Fragment) -> Result<bool, TierError>;

    /// Whether a restore that was asked for is under way or has come; otherwise it would have to be asked for again.
    ///
    /// # Errors
    ///
    /// As [`is_online`](Self::is_online).
    async fn has_begun(&self, fragment: &Fragment) -> Result<bool, TierError>;

    /// The longest pause between looks at a file whose restore ended and that is not there; `None` if that cannot be.
    fn looks_again(&self) -> Option<Duration>;

    /// Makes the file readable, and returns when it is. A restore that is under way already is waited for. Whatever is asked
    /// of the tier is entered in the ledger before.
    ///
    /// # Errors
    ///
    /// If the ledger or the tier refuses, the tier fails, or needs longer than `timeout`.
    async fn restore(
        &self,
        fragment: &Fragment,
        timeout: Duration,
        ledger: &dyn Ledger,
    ) -> Result<(), TierError>;

    /// The file is cached: the tier may take its disk copy back.
    async fn release(&self, fragment: &Fragment);

    /// Whether the store's ETags stay the same when a file is restored.
    fn tags_survive(&self) -> bool;
}

/// Where it is written down what is asked of a tier, which may cost something.
pub trait Ledger: Send + Sync {
    /// A restore is about to be asked for. It counts unless it was asked for before and not taken up.
    ///
    /// # Errors
    ///
    /// If it may not be asked for: it would cost too much, or cannot be written down.
    fn asks(&self) -> Result<(), TierError>;

    /// The tier has taken up what was asked for. To ask again counts again.
    fn taken(&self);
}

/// The store that lists and reads a tier's files, and what makes them readable.
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
