//! One scheduler for all users. It knows the wanted fragments of every list, the cached fragments, the
//! mounted media and the positions of heads. It decides the next work of every drive.
//!
//! [`Scheduler::handle`] is the interface. A host reports events (`event.rs`) and carries out the returned
//! actions (`action.rs`). The facts are in `state.rs`. `lists.rs` begins and ends lists, `serve.rs` delivers
//! ready subqueries, `drives.rs` gives work to drives, `estimate.rs` looks ahead, and `invariants.rs`
//! recomputes everything.
//!
//! # Guarantees
//!
//! - Every subquery of a list that is not cancelled is delivered exactly once, or reported as never ready.
//! - One pass over a batch joins exactly the batch: each combination once, and only combinations of the list.
//! - The cache never exceeds its budget, including fragments being fetched. Exception: fragments that running
//!   subqueries read when the budget shrinks.
//! - A fragment in use is not evicted, and no fragment is fetched twice at the same time.
//! - A batch has its first subquery. If there are other lists, it has more only as long as half of the cache
//!   is not in use. So an executor that pauses with a batch does not stop the other lists.
//!
//! # Bound on waiting
//!
//! A list *waits* while it has nothing to run. When it has waited for longer than `patience` it is overdue.
//! Of the overdue lists the one that has waited longest goes first. Its subquery that lacks the fewest bytes
//! is fetched next, by every drive that becomes free and can fetch it, with all the room that it needs. Other
//! lists are delivered nothing that would leave no room for it. So from the moment at which it is first among
//! the overdue lists, it waits for three things. These are one earlier action of each drive, running
//! subqueries that hold the room it needs, and its own switches and fetches:
//!
//! `wait <= patience + (1 + overdue before it) x (longest action + longest run + n x (longest switch + longest fetch))`
//!
//! with `n` the fragments of the subquery, on one drive. At most the lists that waited longer are overdue
//! before it: a list that was served goes to the end. `tests/fairness.rs` measures the bound. The same rule
//! applies, independent of the patience, when nothing moves, and when the cache was filled twice and nothing
//! became ready.

pub mod action;
mod drives;
pub mod estimate;
pub mod event;
mod invariants;
mod lists;
mod serve;
pub mod status;

use coscan_base::Instant;

use crate::choice::Demand;
use crate::config::{ConfigError, SchedulerConfig};
use crate::fragment::{Fragment, FragmentError};
use crate::ids::FragmentId;
use crate::model::Library;
use crate::policy::MediaPolicy;
use crate::state::State;

use action::Action;
use event::Event;

/// The scheduler of a library, for all its users.
#[derive(Debug)]
pub struct Scheduler {
    state: State,
    policy: Box<dyn MediaPolicy>,
    /// The time at which a waiting policy must be asked again.
    deadline: Option<Instant>,
}

impl Clone for Scheduler {
    fn clone(&self) -> Self {
        Scheduler { state: self.state.clone(), policy: self.policy.boxed_clone(), deadline: self.deadline }
    }
}

impl Scheduler {
    /// A scheduler with empty drives and an empty cache. `policy` is a name of the registry or the caller's
    /// own policy.
    ///
    /// # Errors
    /// If a setting that must be at least 1 is 0.
    pub fn new(
        config: SchedulerConfig,
        library: Library,
        policy: impl Into<Box<dyn MediaPolicy>>,
    ) -> Result<Self, ConfigError> {
        for (setting, value) in
            [("cache_bytes", config.cache_bytes), ("attempts", u64::from(config.attempts))]
        {
            if value == 0 {
                return Err(ConfigError::Zero { setting });
            }
        }
        let policy = policy.into();
        Ok(Scheduler { state: State::new(config, library, policy.keeps_wanted()), policy, deadline: None })
    }

    /// Defines the place of a fragment. Repeated calls with the same place are allowed.
    ///
    /// # Errors
    /// If the name belongs to another fragment, or the fragment has no bytes.
    pub fn add_fragment(&mut self, fragment: Fragment) -> Result<(), FragmentError> {
        if fragment.bytes == 0 {
            return Err(FragmentError::Empty(fragment.id));
        }
        match self.state.fragments.get(&fragment.id) {
            Some(held) if held.fragment == fragment => Ok(()),
            Some(_) => Err(FragmentError::Differs(fragment.id)),
            None => {
                self.state.add(fragment);
                Ok(())
            }
        }
    }

    /// The fragment of that name.
    pub fn fragment(&self, id: FragmentId) -> Option<Fragment> {
        self.state.fragments.get(&id).map(|held| held.fragment)
    }

    /// Handles an event that happened at `now`, and appends the host's instructions to `actions`. If `now` is
    /// before the time of an earlier event, that time is used.
    ///
    /// # Panics
    /// If the host breaks the protocol: a list's id used twice, a drive that does not exist, or an answer
    /// from a drive without an action.
    pub fn handle(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.state.now = self.state.now.max(now);
        match event {
            Event::Submit { list, user, subqueries } => self.submit(list, user, &subqueries, actions),
            Event::Cancel { list } => self.cancel(list),
            Event::Done { list, subqueries } => self.done(list, &subqueries, actions),
            Event::Switched { drive } => self.switched(drive),
            Event::Fetched { drive } => self.fetched(drive),
            Event::Failed { drive, fault } => self.failed(drive, fault, actions),
            Event::DriveBack { drive } => self.drive_back(drive),
            Event::Found { fragment } => self.found(fragment, actions),
            Event::Lost { fragment } => self.lost(fragment, actions),
            Event::Budget { bytes } => self.set_budget(bytes, actions),
            Event::Tick => {}
        }
        self.settle(actions);
    }

    /// The time to send [`Event::Tick`] if nothing happens earlier; `None` if no tick is needed.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The subqueries of a list that are requested at a time.
    fn demand(&self) -> Demand {
        self.policy.demand()
    }

    /// Delivers ready subqueries and gives work to idle drives, until nothing more follows.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        self.serve(actions);
        self.name_overdue();
        self.busy_drives(actions);
        if self.is_stalled() && self.name_stalled() {
            self.serve(actions);
            self.busy_drives(actions);
        }
    }
}
