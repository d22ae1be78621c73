//! The host of the scheduler of fragments.
//!
//! The scheduler (`coscan-media`) decides for all queries which fragment is fetched next and which leaves the cache.
//! The host carries out its actions in real time. A fetch is a task, and an eviction removes a file. A batch that is
//! ready goes to the list that waits for it. The tier itself changes media during the next recall. `looks.rs` has
//! status and forecasts.

mod looks;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;
use coscan_media::{
    Action, DriveId, Event, Fault, Fragment as Placed, FragmentId, ListId, MediaPolicy, PolicyName, Reason,
    Scheduler, SchedulerConfig, Subquery, UserId,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::cache::FragmentCache;
use crate::config::TierConfig;
use crate::driver::Opened;
use crate::error::TierError;
use crate::fetch::{COPIES_AT_ONCE, Fetcher, RESTART};
use crate::fragment::{Fragment, Key};
use crate::journal::Journal;
use crate::list::{Lists, Mailbox, SqList, Subqueries};
use crate::placement::{Placement, library, span};

/// The pause after a fetch that failed. Each further failure doubles it.
const PAUSE: Duration = Duration::from_millis(250);

/// The policy that has settings of its own.
const TAPE_QUEUE: &str = "tape-queue";

/// Interval at which the status file is updated while work is in progress.
const STATUS_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Shared {
    pub(crate) fetcher: Fetcher,
    placement: Placement,
    state: Mutex<State>,
    /// The runtime of fetches.
    pub(crate) runtime: Handle,
    start: Instant,
}

struct State {
    scheduler: Scheduler,
    ids: BTreeMap<Key, FragmentId>,
    /// By number.
    fragments: Vec<Known>,
    lists: BTreeMap<ListId, ListEntry>,
    submitted: u64,
    users: BTreeMap<UserId, String>,
    /// The deadline that a task sleeps until.
    alarm: Option<coscan_media::Instant>,
    /// Set while a task writes the status file.
    reporting: bool,
}

/// A fragment, found by its number.
struct Known {
    fragment: Fragment,
    failures: u32,
    /// Duration of the consecutive failed attempts, pauses included. All attempts together have the tier's
    /// `timeout`.
    spent: Duration,
    error: Option<TierError>,
}

impl Known {
    /// The pause before the next attempt.
    fn pause(&self) -> Duration {
        PAUSE * 2_u32.saturating_pow(self.failures.min(6).saturating_sub(1)) * self.failures.min(1)
    }
}

struct ListEntry {
    mailbox: Arc<Mailbox>,
    user: UserId,
    fragments: Vec<FragmentId>,
}

impl Shared {
    /// Starts the host of a tier, with the fragments and restores that an earlier process left in the cache and the
    /// journal.
    ///
    /// # Errors
    ///
    /// If the definition is wrong, or the cache cannot be used.
    pub(crate) fn start(config: TierConfig, opened: Opened) -> Result<Arc<Self>, TierError> {
        let cache = FragmentCache::open(&config.name, &config.cache)?;
        let journal = Journal::open(cache.dir(), Utc::now(), config.cost_days)?;
        Self::over(config, opened, cache, journal)
    }

    /// Opens a tier read-only, while another process may have it. Nothing is restored and nothing is written.
    ///
    /// # Errors
    ///
    /// If the definition is wrong, or the cache cannot be read.
    pub(crate) fn look(config: TierConfig, opened: Opened) -> Result<Arc<Self>, TierError> {
        let cache = FragmentCache::look(&config.name, &config.cache)?;
        let journal = Journal::as_it_is(cache.dir())?;
        Self::over(config, opened, cache, journal)
    }

    fn over(
        config: TierConfig,
        (store, driver): Opened,
        cache: FragmentCache,
        journal: Journal,
    ) -> Result<Arc<Self>, TierError> {
        let placement = Placement::read(&config)?;
        let setting = |setting: &str, problem: String| TierError::Config {
            tier: config.name.clone(),
            setting: format!("'{setting}'"),
            problem,
        };
        let policy: PolicyName =
            config.policy.parse().map_err(|error| setting("policy", format!("is unknown: {error}")))?;
        let policy: Box<dyn MediaPolicy> =
            if config.policy == TAPE_QUEUE { config.due.into() } else { policy.into() };
        let runtime = Handle::try_current().map_err(|error| setting("name", error.to_string()))?;
        let settings = SchedulerConfig {
            attempts: config.attempts,
            patience: span(config.patience),
            ..SchedulerConfig::new(config.cache_bytes)
        };
        let scheduler = Scheduler::new(settings, library(&config, &placement)?, policy)
            .map_err(|error| setting("cache_bytes", error.to_string()))?;
        let copies = Arc::new(Semaphore::new(COPIES_AT_ONCE));
        let (cache, journal) = (Arc::new(cache), Arc::new(journal));
        let fetcher = Fetcher { config: Arc::new(config), store, driver, cache, journal, copies };
        let state = State {
            scheduler,
            ids: BTreeMap::new(),
            fragments: Vec::new(),
            lists: BTreeMap::new(),
            submitted: 0,
            users: BTreeMap::new(),
            alarm: None,
            reporting: false,
        };
        let shared =
            Arc::new(Shared { fetcher, placement, state: Mutex::new(state), runtime, start: Instant::now() });
        shared.find_what_is_there();
        Ok(shared)
    }

    /// Handles a fragment that left the cache without an eviction. Its readers get the error `why`, if it is known.
    pub(crate) fn lost(self: &Arc<Self>, fragment: &Fragment, why: Option<TierError>) {
        let mut state = self.state();
        let Some(fragment) = state.ids.get(&fragment.key()).copied() else { return };
        state.fragments[fragment.0 as usize].error = why;
        self.handle(&mut state, Event::Lost { fragment });
    }

    pub(crate) fn submit(self: &Arc<Self>, user: &str, subqueries: Subqueries) -> SqList {
        let mailbox = Arc::new(Mailbox::default());
        let mut state = self.state();
        let subqueries = self.named(&mut state, subqueries);
        let mut fragments: Vec<FragmentId> = subqueries.iter().flat_map(Subquery::fragments).collect();
        fragments.sort_unstable();
        fragments.dedup();
        state.submitted += 1;
        let list = ListId(state.submitted);
        let known = state.users.iter().find(|(_, name)| *name == user).map(|(id, _)| *id);
        let user_id = known.unwrap_or(UserId(state.submitted));
        state.users.insert(user_id, user.to_owned());
        state.lists.insert(list, ListEntry { mailbox: Arc::clone(&mailbox), user: user_id, fragments });
        self.handle(&mut state, Event::Submit { list, user: user_id, subqueries });
        self.report_for_a_while(&mut state);
        drop(state);
        SqList::new(list, mailbox, Arc::clone(self) as Arc<dyn Lists>)
    }

    /// The subqueries with the numbers of their fragments.
    fn named(&self, state: &mut State, subqueries: Subqueries) -> Vec<Subquery> {
        let mut named = Vec::new();
        for subquery in subqueries {
            let mut inputs = Vec::new();
            for input in subquery {
                inputs.push(input.into_iter().map(|fragment| self.id(state, fragment)).collect());
            }
            named.push(Subquery { inputs });
        }
        named
    }

    /// The number of a fragment. A new fragment is added to the scheduler.
    fn id(&self, state: &mut State, fragment: Fragment) -> FragmentId {
        let key = fragment.key();
        if let Some(id) = state.ids.get(&key) {
            return *id;
        }
        let id = FragmentId(state.fragments.len() as u64);
        let (medium, position) = self.placement.of(&fragment.location);
        // The scheduler counts at least one byte. The reader decides whether an empty file is a table.
        let placed = Placed { id, medium, position, bytes: fragment.bytes.max(1) };
        if let Err(error) = state.scheduler.add_fragment(placed) {
            // The scheduler does not know the fragment, so a query that wants it gets an error.
            tracing::error!(%error, %fragment, "a fragment the scheduler does not take");
        }
        state.ids.insert(key, id);
        state.fragments.push(Known { fragment, failures: 0, spent: Duration::ZERO, error: None });
        id
    }

    /// Passes an event to the scheduler and carries out its actions.
    fn handle(self: &Arc<Self>, state: &mut State, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            state.scheduler.handle(self.now(), event, &mut actions);
            for action in actions {
                match action {
                    Action::Switch { drive, .. } => events.push_back(Event::Switched { drive }),
                    Action::Fetch { drive, fragment, .. } => self.begin(state, drive, fragment),
                    Action::Evict { fragment } => {
                        if let Some(known) = state.fragments.get(fragment.0 as usize) {
                            self.fetcher.cache.remove(&known.fragment);
                        }
                    }
                    Action::Ready { list, subqueries } => {
                        if let Some(entry) = state.lists.get(&list) {
                            entry.mailbox.ready(subqueries);
                        }
                    }
                    Action::Unready { list, reason, .. } => {
                        let error = self.unready(state, reason);
                        if let Some(entry) = state.lists.get(&list) {
                            entry.mailbox.failed(error);
                        }
                    }
                    Action::Finished { list } => {
                        if let Some(entry) = state.lists.remove(&list) {
                            entry.mailbox.finished();
                            self.forget_user(state, entry.user);
                        }
                    }
                }
            }
        }
        self.set_alarm(state);
    }

    /// Starts to fetch a fragment.
    fn begin(self: &Arc<Self>, state: &State, drive: DriveId, id: FragmentId) {
        let Some(known) = state.fragments.get(id.0 as usize) else { return };
        let (fetcher, fragment) = (self.fetcher.clone(), known.fragment.clone());
        let names = self.whom(state, id);
        let whom = names.iter().find(|name| *name != RESTART).or(names.first()).cloned().unwrap_or_default();
        let left = fetcher.config.timeout.saturating_sub(known.spent);
        let pause = known.pause().min(left);
        let began = Instant::now();
        let fetch = async move {
            tokio::time::sleep(pause).await;
            fetcher.fetch(&fragment, &whom, left.saturating_sub(pause)).await
        };
        let task = self.runtime.spawn(fetch);
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            let why = |error: tokio::task::JoinError| TierError::Abandoned {
                file: format!("fragment {id}"),
                why: error.to_string(),
            };
            let fetched = task.await.map_err(why).and_then(|fetched| fetched);
            let mut state = shared.state();
            let event = shared.event_of(&mut state, drive, id, fetched, began.elapsed());
            shared.handle(&mut state, event);
        });
    }

    fn event_of(
        &self,
        state: &mut State,
        drive: DriveId,
        id: FragmentId,
        fetched: Result<(), TierError>,
        took: Duration,
    ) -> Event {
        let Some(known) = state.fragments.get_mut(id.0 as usize) else { return Event::Fetched { drive } };
        let Err(error) = fetched else {
            (known.failures, known.spent) = (0, Duration::ZERO);
            return Event::Fetched { drive };
        };
        let error = self.fetcher.config.in_messages(error);
        tracing::info!(file = %known.fragment, %error, "not fetched");
        known.failures += 1;
        known.spent += took;
        let is_late = known.spent + known.pause() >= self.fetcher.config.timeout;
        let fault = match &error {
            // The next attempts find more room if other fragments left in the meantime.
            TierError::DiskFull { .. } if known.failures < self.fetcher.config.attempts => Fault::CacheFull,
            error if error.is_transient() && !is_late => Fault::Medium,
            _ => Fault::Gone,
        };
        if fault != Fault::CacheFull
            && (fault == Fault::Gone || known.failures >= self.fetcher.config.attempts)
        {
            (known.failures, known.spent) = (0, Duration::ZERO);
        }
        known.error = Some(error);
        Event::Failed { drive, fault }
    }

    /// The error that belongs to a reason of the scheduler.
    fn unready(&self, state: &State, reason: Reason) -> TierError {
        let fragment = match reason {
            Reason::Unreadable { fragment, .. }
            | Reason::CacheFull { fragment }
            | Reason::Gone { fragment }
            | Reason::Lost { fragment }
            | Reason::Unknown { fragment } => fragment,
            Reason::TooLarge { bytes, budget } => {
                let tier = self.fetcher.config.name.clone();
                return TierError::CombinationTooLarge { tier, bytes, budget };
            }
        };
        let known = state.fragments.get(fragment.0 as usize);
        known.and_then(|known| known.error.clone()).unwrap_or_else(|| TierError::Abandoned {
            file: known
                .map_or_else(|| fragment.to_string(), |known| self.fetcher.config.shown(&known.fragment)),
            why: reason.to_string(),
        })
    }

    fn set_alarm(self: &Arc<Self>, state: &mut State) {
        let Some(deadline) = state.scheduler.next_deadline() else { return };
        if state.alarm.is_some_and(|alarm| alarm <= deadline) {
            return;
        }
        state.alarm = Some(deadline);
        let wait = Duration::from_nanos(deadline.as_nanos().saturating_sub(self.now().as_nanos()));
        let shared = Arc::downgrade(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            let Some(shared) = shared.upgrade() else { return };
            let mut state = shared.state();
            if state.alarm == Some(deadline) {
                state.alarm = None;
                shared.handle(&mut state, Event::Tick);
            }
        });
    }

    /// Registers fragments in the cache and requested restores from before a restart.
    fn find_what_is_there(self: &Arc<Self>) {
        let pending = self.fetcher.journal.pending();
        let mut state = self.state();
        for fragment in self.fetcher.cache.fragments() {
            let fragment = self.id(&mut state, fragment);
            self.handle(&mut state, Event::Found { fragment });
        }
        drop(state);
        if !self.fetcher.cache.is_ours() {
            return;
        }
        let (came, pending): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|asked| self.fetcher.cache.contains(&asked.fragment));
        let fetcher = self.fetcher.clone();
        self.runtime.spawn(async move {
            for asked in came {
                fetcher.settle(&asked.fragment).await;
            }
        });
        let budget = self.fetcher.config.cache_bytes;
        let paid: Vec<Fragment> = pending
            .into_iter()
            .map(|asked| asked.fragment)
            .filter(|fragment| fragment.bytes <= budget)
            .collect();
        if paid.is_empty() {
            return;
        }
        tracing::info!(restores = paid.len(), "restores from before the restart are waited for");
        let lists: Vec<SqList> =
            paid.into_iter().map(|fragment| self.submit(RESTART, vec![vec![vec![fragment]]])).collect();
        self.runtime.spawn(futures::future::join_all(lists.into_iter().map(|list| async move {
            while let Ok(Some(ready)) = list.next().await {
                list.done(ready);
            }
        })));
    }

    /// The users that want a fragment.
    fn whom(&self, state: &State, id: FragmentId) -> Vec<String> {
        let lists = state.lists.values().filter(|list| list.fragments.binary_search(&id).is_ok());
        let mut names: Vec<String> = lists.filter_map(|list| state.users.get(&list.user).cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    fn forget_user(&self, state: &mut State, user: UserId) {
        if !state.lists.values().any(|list| list.user == user) {
            state.users.remove(&user);
        }
    }

    /// Updates the status file until no work is in progress.
    fn report_for_a_while(self: &Arc<Self>, state: &mut State) {
        if std::mem::replace(&mut state.reporting, true) {
            return;
        }
        let shared = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                let Some(shared) = shared.upgrade() else { return };
                let report = shared.report();
                let idle = report.queries.is_empty();
                let dir = shared.fetcher.cache.dir().to_owned();
                let written = tokio::task::spawn_blocking(move || report.write(&dir)).await;
                if let Ok(Err(error)) = written {
                    tracing::warn!(%error, "status");
                }
                // The last status written says that no work is in progress.
                if idle && shared.stops_reporting() {
                    return;
                }
                drop(shared);
                tokio::time::sleep(STATUS_EVERY).await;
            }
        });
    }

    /// Returns true if no work is in progress that the status file has to show.
    fn stops_reporting(&self) -> bool {
        let mut state = self.state();
        state.reporting = !state.lists.is_empty();
        !state.reporting
    }

    fn now(&self) -> coscan_media::Instant {
        coscan_media::Instant::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists for Shared {
    fn done(self: Arc<Self>, list: ListId, subqueries: Vec<u32>) {
        self.handle(&mut self.state(), Event::Done { list, subqueries });
    }

    fn cancel(self: Arc<Self>, list: ListId) {
        let mut state = self.state();
        if let Some(entry) = state.lists.remove(&list) {
            self.handle(&mut state, Event::Cancel { list });
            self.forget_user(&mut state, entry.user);
        }
    }
}
