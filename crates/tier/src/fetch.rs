//! One fragment on its way: is it online, what does it cost, ask, wait, copy, release.
//!
//! It knows nothing of queries and order.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::cache::FragmentCache;
use crate::config::TierConfig;
use crate::driver::Driver;
use crate::error::TierError;
use crate::fragment::Fragment;
use crate::journal::{Asked, Journal};

/// What fetching takes.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    pub(crate) config: Arc<TierConfig>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) cache: Arc<FragmentCache>,
    pub(crate) journal: Arc<Journal>,
}

impl Fetcher {
    /// Brings a fragment into the cache.
    pub(crate) async fn fetch(&self, fragment: &Fragment, whom: &str) -> Result<(), TierError> {
        if self.cache.contains(fragment) {
            return Ok(());
        }
        let asked = !self.driver.is_online(fragment).await?;
        if asked {
            self.ask(fragment, whom)?;
            let timeout = self.config.timeout;
            let restored = tokio::time::timeout(
                timeout + Duration::from_secs(1),
                self.driver.restore(fragment, timeout),
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

    fn ask(&self, fragment: &Fragment, whom: &str) -> Result<(), TierError> {
        let (at, price) = (Utc::now(), self.config.price(fragment.bytes));
        let since = at - TimeDelta::days(i64::from(self.config.cost_days));
        let asked = Asked { fragment: fragment.clone(), at, price, whom: whom.to_owned() };
        self.journal.ask(asked, since, self.config.cost_limit).map_err(|refused| match refused {
            Ok(spent) => self.too_dear(price, spent),
            Err(error) => error,
        })
    }

    async fn copy(&self, fragment: &Fragment) -> Result<(), TierError> {
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
