//! One fragment on its way: is it online, what does it cost, ask, wait, copy, release.
//!
//! It knows nothing of queries and order.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use crate::cache::FragmentCache;
use crate::config::TierConfig;
use crate::driver::{Driver, Ledger};
use crate::error::TierError;
use crate::fragment::Fragment;
use crate::journal::{Asked, Journal};

/// For whom restores from before a restart are waited for: for nobody who would have them asked for again.
pub(crate) const RESTART: &str = "restart";

/// What fetching takes.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    pub(crate) config: Arc<TierConfig>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) cache: Arc<FragmentCache>,
    pub(crate) journal: Arc<Journal>,
    /// Copies into the cache wait here for their turn.
    pub(crate) copies: Arc<Semaphore>,
}

/// So many files are copied at the same time, however many restores come at once: each takes a connection, a file and some
/// megabytes. More would not be faster than the network and the disk.
pub(crate) const COPIES_AT_ONCE: usize = 16;

impl Fetcher {
    /// Brings a fragment into the cache.
    pub(crate) async fn fetch(&self, fragment: &Fragment, whom: &str) -> Result<(), TierError> {
        if self.cache.contains(fragment) {
            return Ok(());
        }
        let asked = !self.driver.is_online(fragment).await?;
        if asked {
            let timeout = self.config.timeout;
            let entry = Entry { fetcher: self, fragment, whom };
            let restored = tokio::time::timeout(
                timeout + Duration::from_secs(1),
                self.driver.restore(fragment, timeout, &entry),
            );
            let late = |_| TierError::RestoreTimeout {
                file: fragment.to_string(),
                after: timeout,
                last: "the driver does not answer".to_owned(),
            };
            match restored.await.map_err(late).and_then(|restored| restored) {
                Ok(()) => {}
                // It may come yet: who asks again waits for the same restore and pays nothing more.
                Err(error @ TierError::RestoreTimeout { .. }) => return Err(error),
                Err(error) => {
                    self.journal.failed(fragment);
                    return Err(error);
                }
            }
        }
        self.copy(fragment).await?;
        self.journal.came(fragment);
        if asked {
            self.driver.release(fragment).await;
        }
        Ok(())
    }

    /// What restores cost so far that count against the limit.
    pub(crate) fn spent(&self) -> f64 {
        self.journal.spent(Utc::now() - TimeDelta::days(i64::from(self.config.cost_days)))
    }

    /// The error of wanting more than the limit allows.
    pub(crate) fn too_dear(&self, wanted: f64, spent: f64) -> TierError {
        TierError::CostLimit {
            tier: self.config.name.clone(),
            wanted,
            spent,
            days: self.config.cost_days,
            limit: self.config.cost_limit.unwrap_or_default(),
        }
    }

    async fn copy(&self, fragment: &Fragment) -> Result<(), TierError> {
        let _turn = self
            .copies
            .acquire()
            .await
            .map_err(|closed| TierError::Abandoned { file: fragment.to_string(), why: closed.to_string() })?;
        let got = self.store.get(&fragment.path()).await.map_err(TierError::store(fragment))?;
        let tags = self.driver.tags_survive();
        if !fragment.is(&got.meta, tags) {
            return Err(TierError::Replaced {
                file: fragment.to_string(),
                planned: fragment.version(),
                found: Fragment::of(&got.meta, tags).version(),
            });
        }
        let mut writer = self.cache.create(fragment)?;
        let mut bytes = got.into_stream();
        while let Some(piece) = bytes.next().await {
            writer.write(&piece.map_err(TierError::store(fragment))?)?;
        }
        let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
        finished
            .map_err(|error| TierError::Abandoned { file: fragment.to_string(), why: error.to_string() })?
    }
}

/// The journal's entry of a fragment.
struct Entry<'a> {
    fetcher: &'a Fetcher,
    fragment: &'a Fragment,
    whom: &'a str,
}

impl Ledger for Entry<'_> {
    fn asks(&self) -> Result<(), TierError> {
        let (fetcher, fragment) = (self.fetcher, self.fragment);
        if self.whom == RESTART && !fetcher.journal.is_owed(fragment) {
            return Err(TierError::Expired { file: fragment.to_string() });
        }
        let (at, price) = (Utc::now(), fetcher.config.price(fragment.bytes));
        let since = at - TimeDelta::days(i64::from(fetcher.config.cost_days));
        let asked = Asked { fragment: fragment.clone(), at, price, whom: self.whom.to_owned() };
        fetcher.journal.ask(asked, since, fetcher.config.cost_limit).map_err(|refused| match refused {
            Ok(spent) => fetcher.too_dear(price, spent),
            Err(error) => error,
        })
    }

    fn taken(&self) {
        self.fetcher.journal.taken(self.fragment);
    }
}
