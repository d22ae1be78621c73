//! The steps of one fragment: check whether it is online, check its price, request, wait, check its arrival, copy,
//! release.
//!
//! Queries and order are not known here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use futures::StreamExt;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use crate::arrival::{End, LOOKED_AT, MARK, judge};
use crate::cache::FragmentCache;
use crate::config::TierConfig;
use crate::driver::{Driver, Ledger};
use crate::error::TierError;
use crate::fragment::Fragment;
use crate::journal::{Asked, Journal};

/// The user name of restores from before a restart, which are awaited without a query. An expired restore is not
/// requested again under this name.
pub(crate) const RESTART: &str = "restart";

/// The parts that a fetch needs.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    pub(crate) config: Arc<TierConfig>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) cache: Arc<FragmentCache>,
    pub(crate) journal: Arc<Journal>,
    /// Limits concurrent copies into the cache.
    pub(crate) copies: Arc<Semaphore>,
}

/// Maximum number of files copied at the same time, for any number of finished restores. Each copy takes a
/// connection, a file and some megabytes. More copies would not be faster than the network and the disk.
pub(crate) const COPIES_AT_ONCE: usize = 16;

/// The first pause before another check for a file whose recall ended but which is not there. Later pauses are
/// longer.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// A file that looks the same after this pause is not being written.
const SETTLED: Duration = Duration::from_secs(1);

/// Result of a check of a file before its copy.
enum Look {
    Whole,
    /// The file is not there yet, and may come.
    NotYet(&'static str),
    /// The file differs from the fragment, unless it is being written.
    Other(TierError),
}

impl Fetcher {
    /// Brings a fragment into the cache. The time limit is the tier's `timeout` minus the time of earlier attempts.
    pub(crate) async fn fetch(
        &self,
        fragment: &Fragment,
        whom: &str,
        left: Duration,
    ) -> Result<(), TierError> {
        if self.cache.contains(fragment) {
            return Ok(());
        }
        let until = Instant::now() + left;
        // A process that ended may have requested the restore and cannot release it any more.
        let mut asked = self.journal.is_pending(fragment);
        if !self.driver.is_online(fragment).await? || !self.has_come(fragment).await? {
            asked = true;
            match self.restore(fragment, whom, until).await {
                Ok(()) => {}
                // The file may still come. The next request waits for the same restore and pays nothing more.
                Err(error @ (TierError::RestoreTimeout { .. } | TierError::NotThere { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    self.journal.failed(fragment);
                    return Err(error);
                }
            }
        }
        self.copy(fragment).await?;
        if asked {
            self.driver.release(fragment).await;
        }
        self.journal.came(fragment);
        Ok(())
    }

    /// Settles a restore whose fragment came into the cache before a process ended.
    pub(crate) async fn settle(&self, fragment: &Fragment) {
        self.driver.release(fragment).await;
        self.journal.came(fragment);
    }

    async fn restore(&self, fragment: &Fragment, whom: &str, until: Instant) -> Result<(), TierError> {
        let entry = Entry { fetcher: self, fragment, whom };
        let left = until.saturating_duration_since(Instant::now());
        let restored =
            tokio::time::timeout(left + Duration::from_secs(1), self.driver.restore(fragment, left, &entry));
        let after = self.config.timeout;
        let late = |last| TierError::RestoreTimeout { file: fragment.to_string(), after, last };
        match restored.await {
            Err(_) => return Err(late("the driver does not answer".to_owned())),
            Ok(Err(TierError::RestoreTimeout { last, .. })) => return Err(late(last)),
            Ok(Err(TierError::NotThere { last, .. })) => return Err(self.not_there(fragment, last)),
            Ok(restored) => restored?,
        }
        self.arrival(fragment, until).await
    }

    /// Waits until a file whose recall ended is there. A recall may end too early.
    async fn arrival(&self, fragment: &Fragment, until: Instant) -> Result<(), TierError> {
        let Some(poll) = self.driver.looks_again() else { return Ok(()) };
        let (mut pause, mut before) = (FIRST_LOOK, None);
        loop {
            let last = match self.look(fragment).await? {
                Look::Whole => return Ok(()),
                Look::NotYet(what) => {
                    before = None;
                    what.to_owned()
                }
                Look::Other(error) => {
                    let what = error.to_string();
                    if before.as_ref() == Some(&what) {
                        return Err(error);
                    }
                    before = Some(what.clone());
                    pause = pause.max(SETTLED);
                    what
                }
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.not_there(fragment, last));
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(poll.max(FIRST_LOOK));
        }
    }

    fn not_there(&self, fragment: &Fragment, last: String) -> TierError {
        let (tier, file) = (self.config.name.clone(), fragment.to_string());
        TierError::NotThere { tier, file, after: self.config.timeout, last }
    }

    /// Returns true if a file that its tier calls online is there.
    async fn has_come(&self, fragment: &Fragment) -> Result<bool, TierError> {
        if self.driver.looks_again().is_none() {
            return Ok(true);
        }
        match self.look(fragment).await? {
            Look::Whole => Ok(true),
            Look::Other(error @ TierError::Replaced { .. }) => Err(error),
            Look::NotYet(_) | Look::Other(_) => Ok(false),
        }
    }

    /// Checks the end of a file.
    async fn look(&self, fragment: &Fragment) -> Result<Look, TierError> {
        let kept = self.cache.footer_end(fragment, LOOKED_AT);
        let length = kept.as_ref().map_or(MARK, |kept| kept.len() as u64);
        let options = GetOptions { range: Some(GetRange::Suffix(length)), ..GetOptions::default() };
        let got = match self.store.get_opts(&fragment.path(), options).await {
            Ok(got) => got,
            Err(error) => return Ok(Look::Other(TierError::store(fragment)(error))),
        };
        if let Err(replaced) = self.same(fragment, &got.meta) {
            return Ok(Look::Other(replaced));
        }
        let tail = got.bytes().await.map_err(TierError::store(fragment))?;
        Ok(match judge(&fragment.location, fragment.bytes, &tail, kept.as_deref()) {
            End::Right => Look::Whole,
            End::Zeros => Look::NotYet("the file still ends in zeros, as a stub does"),
            End::Wrong(problem) => Look::Other(TierError::Damaged { file: fragment.to_string(), problem }),
        })
    }

    /// Checks that a directory entry is still that of the fragment.
    fn same(&self, fragment: &Fragment, meta: &ObjectMeta) -> Result<(), TierError> {
        let tags = self.driver.tags_survive();
        if fragment.is(meta, tags) {
            return Ok(());
        }
        Err(TierError::Replaced {
            file: fragment.to_string(),
            planned: fragment.version(),
            found: Fragment::of(meta, tags).version(),
        })
    }

    /// The cost of restores so far that counts against the limit.
    pub(crate) fn spent(&self) -> f64 {
        self.journal.spent(Utc::now() - TimeDelta::days(i64::from(self.config.cost_days)))
    }

    /// The error for a price that exceeds the limit.
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
        self.same(fragment, &got.meta)?;
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
