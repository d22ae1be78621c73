//! A tier as plans see it: opened, asked what is missing and what that costs, given lists of subqueries.
//!
//! What is done for the lists is in `host.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use object_store::aws::AmazonS3Builder;

use crate::config::{Kind, TierConfig};
use crate::driver::{self, Opened};
use crate::error::TierError;
use crate::fetch::Fetcher;
use crate::fragment::{Fragment, Key};
use crate::host::Shared;
use crate::list::SqList;
use crate::status::TierStatus;

/// The number of files that are asked at the same time whether they are online.
const QUESTIONS_AT_ONCE: usize = 16;

/// A tier. Cloning is cheap; clones are the same tier.
#[derive(Clone)]
pub struct Tier(Arc<Shared>);

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tier({})", self.config().name)
    }
}

impl Tier {
    /// Opens a tier: its cache with what an earlier process left there, and its journal. Restores that an earlier
    /// process asked for are fetched as soon as they come.
    ///
    /// Has to be called inside a runtime, which does the work from then on.
    ///
    /// # Errors
    ///
    /// If the definition does not hold, or the cache cannot be used.
    pub fn open(config: TierConfig) -> Result<Self, TierError> {
        let opened = driver::open(&config)?;
        Tier::over(config, opened)
    }

    /// Opens a tier in an archive class, with credentials that are not in the environment: `builder` has them.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if the definition is of another kind.
    pub fn open_s3(config: TierConfig, builder: AmazonS3Builder) -> Result<Self, TierError> {
        let Kind::Archive(archive) = &config.kind else {
            let (setting, problem) = ("[archive]".to_owned(), "is not there".to_owned());
            return Err(TierError::Config { tier: config.name, setting, problem });
        };
        let opened = driver::archive::open(&config, archive, builder)?;
        Tier::over(config, opened)
    }

    fn over(config: TierConfig, opened: Opened) -> Result<Self, TierError> {
        Ok(Tier(Shared::start(config, opened)?))
    }

    /// Its definition.
    pub fn config(&self) -> &TierConfig {
        &self.0.fetcher.config
    }

    /// What it looks like now.
    pub fn status(&self) -> TierStatus {
        self.0.report()
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.0.fetcher
    }

    /// Submits subqueries: for each one, and each of its inputs, the fragments it reads together.
    ///
    /// # Errors
    ///
    /// If they can never be executed: a fragment is larger than the cache, or the limit on cost would be exceeded.
    pub async fn submit(&self, user: &str, subqueries: Vec<Vec<Vec<Fragment>>>) -> Result<SqList, TierError> {
        let wanted = subqueries.iter().flatten().flatten();
        for fragment in wanted.clone() {
            self.fits(fragment)?;
            self.check(fragment).await?;
        }
        self.affords(wanted.cloned()).await?;
        Ok(self.0.submit(user, subqueries))
    }

    /// Whether all these may be restored, as far as the limit on cost goes.
    ///
    /// # Errors
    ///
    /// If it would be exceeded, or the tier cannot be asked what is online.
    pub(crate) async fn affords(&self, wanted: impl IntoIterator<Item = Fragment>) -> Result<(), TierError> {
        let Some(limit) = self.config().cost_limit else { return Ok(()) };
        // What is asked for in the meantime counts neither as spent nor as missing: nobody is refused for it.
        let spent = self.fetcher().spent();
        let missing = self.to_restore(wanted).await?;
        let price = self.config().prices(missing.iter().map(|fragment| fragment.bytes));
        if spent + price > limit && !missing.is_empty() {
            return Err(self.fetcher().too_dear(price, spent));
        }
        Ok(())
    }

    /// The fragments of these that would have to be restored: not cached, not on their way, not online.
    ///
    /// # Errors
    ///
    /// If the tier cannot be asked.
    pub async fn to_restore(
        &self,
        fragments: impl IntoIterator<Item = Fragment>,
    ) -> Result<Vec<Fragment>, TierError> {
        let fetcher = self.fetcher();
        let mut absent: BTreeMap<Key, Fragment> = BTreeMap::new();
        for fragment in fragments {
            if !fetcher.cache.contains(&fragment) && !fetcher.journal.is_owed(&fragment) {
                absent.insert(fragment.key(), fragment);
            }
        }
        let questions = futures::stream::iter(absent.into_values()).map(|fragment| async move {
            let asked = fetcher.journal.is_pending(&fragment);
            let there = match asked {
                true => fetcher.driver.has_begun(&fragment).await?,
                false => fetcher.driver.is_online(&fragment).await?,
            };
            Ok((!there).then_some(fragment))
        });
        let answers: Vec<Result<Option<Fragment>, TierError>> =
            questions.buffered(QUESTIONS_AT_ONCE).collect().await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// How often media would change if these were fetched now by themselves, and how long that would take.
    pub(crate) fn outlook(&self, fragments: &[Fragment]) -> (u64, Duration) {
        self.0.outlook(fragments)
    }

    /// The fragment is not in the cache any more, although it was not evicted.
    pub(crate) fn lost(&self, fragment: &Fragment) {
        self.0.lost(fragment);
    }

    /// Computes the checksum of a fragment from before a restart; one that is damaged is fetched again.
    async fn check(&self, fragment: &Fragment) -> Result<(), TierError> {
        let cache = &self.fetcher().cache;
        if !cache.is_unchecked(fragment) {
            return Ok(());
        }
        let (cache, of) = (Arc::clone(cache), fragment.clone());
        let opened = tokio::task::spawn_blocking(move || cache.file(&of)).await;
        let why = |error: tokio::task::JoinError| TierError::Abandoned {
            file: fragment.to_string(),
            why: error.to_string(),
        };
        if opened.map_err(why)??.is_none() {
            self.lost(fragment);
        }
        Ok(())
    }

    /// Fails for a fragment that the cache can never hold.
    fn fits(&self, fragment: &Fragment) -> Result<(), TierError> {
        let budget = self.config().cache_bytes;
        if fragment.bytes <= budget {
            return Ok(());
        }
        Err(TierError::FragmentTooLarge {
            tier: self.config().name.clone(),
            file: fragment.to_string(),
            bytes: fragment.bytes,
            budget,
        })
    }
}
