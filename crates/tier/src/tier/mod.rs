//! A tier as plans see it: it opens, states the missing fragments and their price, and takes lists of subqueries.
//!
//! `host/` executes the lists.

pub(crate) mod requests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use futures::StreamExt;
use object_store::ObjectMeta;
use object_store::aws::AmazonS3Builder;
use parquet::errors::ParquetError;

use crate::arrival::decodes;
use crate::config::{Kind, TierConfig};
use crate::driver::{self, Opened};
use crate::error::TierError;
use crate::fetch::Fetcher;
use crate::fragment::{Fragment, Key};
use crate::host::Shared;
use crate::list::{SqList, Subqueries};
use crate::status::TierStatus;

/// Maximum number of concurrent requests for the state of files.
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
    /// Opens a tier with its journal and its cache, which has the fragments of earlier processes. Restores that an
    /// earlier process requested are fetched as soon as they finish.
    ///
    /// Must be called inside a runtime. The tier's tasks run on it.
    ///
    /// # Errors
    ///
    /// If the definition is wrong, or the cache cannot be used.
    pub fn open(config: TierConfig) -> Result<Self, TierError> {
        let opened = driver::open(&config)?;
        Tier::over(config, opened)
    }

    /// Opens a tier in an archive class with the credentials of `builder`, which need not be in the environment.
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
        let tier = Tier(Shared::start(config, opened)?);
        requests::serve(&tier);
        Ok(tier)
    }

    /// Opens a tier read-only, while another process may have it open. Shows the current state. Nothing is restored,
    /// and the cache does not change.
    ///
    /// # Errors
    ///
    /// If the definition is wrong, or the cache cannot be read.
    pub fn look(config: TierConfig) -> Result<Self, TierError> {
        let opened = driver::open(&config)?;
        Ok(Tier(Shared::look(config, opened)?))
    }

    /// Returns true if this process has the tier's cache, and so may restore files.
    pub(crate) fn is_ours(&self) -> bool {
        self.fetcher().cache.is_ours()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Tier(shared)
    }

    /// Its definition.
    pub fn config(&self) -> &TierConfig {
        &self.0.fetcher.config
    }

    /// The tier's current status, from the process that has it, if there is one.
    pub fn status(&self) -> TierStatus {
        let of_others = if self.is_ours() { None } else { TierStatus::read(self.config()).ok().flatten() };
        of_others.unwrap_or_else(|| self.0.report())
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.0.fetcher
    }

    /// Submits subqueries. Each has, per input, the fragments that it reads together.
    ///
    /// # Errors
    ///
    /// If they can never be executed: a fragment is larger than the cache, or the cost limit would be exceeded.
    pub async fn submit(&self, user: &str, subqueries: Subqueries) -> Result<SqList, TierError> {
        if !self.is_ours() {
            return Err(TierError::CacheInUse { dir: self.config().cache.clone() });
        }
        let wanted = subqueries.iter().flatten().flatten();
        for fragment in wanted.clone() {
            self.fits(fragment)?;
            self.check(fragment).await?;
        }
        self.affords(wanted.cloned()).await?;
        Ok(self.0.submit(user, subqueries))
    }

    /// Checks that all these fragments may be restored within the cost limit.
    ///
    /// # Errors
    ///
    /// If the limit would be exceeded, or the tier cannot state which files are online.
    pub(crate) async fn affords(&self, wanted: impl IntoIterator<Item = Fragment>) -> Result<(), TierError> {
        let Some(limit) = self.config().cost_limit else { return Ok(()) };
        // The spent amount is read first. A restore that is requested in between counts neither as spent nor as
        // missing, so it never causes a refusal.
        let spent = self.fetcher().spent();
        let missing = self.to_restore(wanted).await?;
        let price = self.config().prices(missing.iter().map(|fragment| fragment.bytes));
        if spent + price > limit && !missing.is_empty() {
            return Err(self.fetcher().too_dear(price, spent));
        }
        Ok(())
    }

    /// The fragments that would have to be restored: not cached, not in progress, not online. In the order of their
    /// names.
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
                true => fetcher.driver.has_begun(&fragment).await,
                false => fetcher.driver.is_online(&fragment).await,
            };
            let there = there.map_err(|error| self.config().in_messages(error))?;
            Ok((!there).then_some(fragment))
        });
        let answers: Vec<Result<Option<Fragment>, TierError>> =
            questions.buffered(QUESTIONS_AT_ONCE).collect().await;
        let mut missing: Vec<Fragment> =
            answers.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        missing.sort();
        Ok(missing)
    }

    /// Sets the ETag and the version that readers see of a file, since they treat another ETag or version as another
    /// file. An ETag that a recall may change is removed. A copy that replaces a wrong copy gets another version.
    pub(crate) fn tell(&self, meta: &mut ObjectMeta) {
        let Fetcher { cache, driver, .. } = self.fetcher();
        let tags = driver.tags_survive();
        meta.version = Some(cache.copy_version(&Fragment::of(meta, tags)));
        meta.e_tag = meta.e_tag.take().filter(|_| tags);
    }

    /// The error of a query that read these fragments. Fragments whose copies cannot be decoded leave the cache, so
    /// that the next query restores them again. The error says so.
    pub(crate) async fn doubted(&self, fragments: Vec<Fragment>, error: DataFusionError) -> DataFusionError {
        if !may_come_from_bytes(&error) {
            return error;
        }
        for fragment in fragments {
            if let Err(why) = self.decodes(&fragment).await {
                let why = why.to_string();
                tracing::warn!(file = %fragment, why, "cached fragment cannot be decoded and is dropped");
                self.fetcher().cache.drop_copy(&fragment);
                let dropped = TierError::Dropped { file: self.config().shown(&fragment), why };
                self.0.lost(&fragment, Some(dropped.clone()));
                return dropped.into();
            }
        }
        error
    }

    /// Decodes the copy of a fragment, if there is one.
    async fn decodes(&self, fragment: &Fragment) -> Result<(), ParquetError> {
        let (cache, of) = (Arc::clone(&self.fetcher().cache), fragment.clone());
        let looked = tokio::task::spawn_blocking(move || match cache.file(&of) {
            Ok(Some((file, _))) => decodes(file),
            _ => Ok(()),
        });
        // A decoder that panics has not decoded the file.
        looked.await.unwrap_or_else(|panicked| Err(ParquetError::General(panicked.to_string())))
    }

    /// Simulates these lists step by step, without other lists. Returns the number of changes of medium and the
    /// duration.
    pub(crate) fn rehearse(&self, steps: Vec<Vec<Subqueries>>) -> (u64, Duration) {
        self.0.rehearse(steps)
    }

    /// The error for a footer that is requested but not known.
    pub(crate) fn footer_unknown(&self, fragment: &Fragment) -> TierError {
        let config = self.config();
        let definition = config.definition.as_deref().map(|path| path.display().to_string());
        let definition = definition.unwrap_or_else(|| "FILE".to_owned());
        TierError::FooterUnknown { file: config.shown(fragment), definition }
    }

    /// Handles a fragment that left the cache without an eviction.
    pub(crate) fn lost(&self, fragment: &Fragment) {
        self.0.lost(fragment, None);
    }

    /// Computes the checksum of a fragment from before a restart. A damaged fragment is fetched again.
    async fn check(&self, fragment: &Fragment) -> Result<(), TierError> {
        let cache = &self.fetcher().cache;
        if !cache.is_unchecked(fragment) {
            return Ok(());
        }
        let (cache, of) = (Arc::clone(cache), fragment.clone());
        let opened = tokio::task::spawn_blocking(move || cache.file(&of)).await;
        let why = |error: tokio::task::JoinError| TierError::Abandoned {
            file: self.config().shown(fragment),
            why: error.to_string(),
        };
        if opened.map_err(why)??.is_none() {
            self.lost(fragment);
        }
        Ok(())
    }

    /// Fails for a fragment that is larger than the cache.
    fn fits(&self, fragment: &Fragment) -> Result<(), TierError> {
        let budget = self.config().cache_bytes;
        if fragment.bytes <= budget {
            return Ok(());
        }
        Err(TierError::FragmentTooLarge {
            tier: self.config().name.clone(),
            file: self.config().shown(fragment),
            bytes: fragment.bytes,
            budget,
        })
    }
}

/// Returns true if an error may come from the bytes of a file, and not from the query.
fn may_come_from_bytes(error: &DataFusionError) -> bool {
    if TierError::inside(error).is_some() {
        return false;
    }
    match error.find_root() {
        DataFusionError::ParquetError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::IoError(_)
        | DataFusionError::External(_)
        | DataFusionError::ExecutionJoin(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_) | ArrowError::ExternalError(_) | ArrowError::IoError(..)
        ),
        _ => false,
    }
}
