//! Whose frame is a frame, and which one does a request get? The allocation policies of the page-level pool.
//!
//! A policy keeps frames apart in sets (of a query, a file instance, a domain, a relation), or does not. It is told
//! of every reference and answers with [`Step`]s: this frame belongs to that set, that one is released to the free
//! list. It is asked for a victim when a request needs a frame. It never moves anything itself: the mechanism in
//! [`pool`](crate::pool) applies what it answers, keeps the list of frames without owner in order of use, writes dirty
//! frames after their release, and admits and suspends queries as [`load_control`] says.
//!
//! | name | frames are kept apart by | replacement |
//! |---|---|---|
//! | `random`, `fifo`, `clock`, `lru` | nothing | global |
//! | `domain-separation` | type of page, fixed shares | LRU inside |
//! | `group-lru` | type of page, ranked | LRU inside the lowest rank |
//! | `kaplan` | relation, ranked | MRU inside, one page exempt |
//! | `working-set` | query | what was not used within a window |
//! | `hot-set` | query, fixed size | LRU inside |
//! | `dbmin` | file instance, fixed size | by pattern |

pub mod dbmin;
pub mod domain_separation;
pub mod global;
pub mod group_lru;
pub mod hot_set;
pub mod kaplan;
pub mod load_control;
mod ordered;
mod page_type;
pub mod working_set;

use std::fmt::{self, Debug};
use std::str::FromStr;

use crate::pool::{Demand, FrameNo, Instance, PageId, PoolConfigError, PoolState, QueryId, Reference, SetId};
use crate::replacement::page::PageSetup;
use crate::replacement::page::clock::Clock;
use crate::replacement::page::fifo::Fifo;
use crate::replacement::page::lru::Lru;
use crate::replacement::page::random::Random;
use crate::time::Span;

/// What a policy has the mechanism do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame belongs to a set from now on.
    Take {
        /// The frame.
        frame: FrameNo,
        /// The set.
        set: SetId,
    },
    /// The frame belongs to nobody; its page can still be found. If it is dirty it is written when the device is idle.
    Release {
        /// The frame.
        frame: FrameNo,
    },
    /// The frame is likely to leave soon: if it is dirty it is written when the device is idle.
    Clean {
        /// The frame.
        frame: FrameNo,
    },
}

/// Decides who owns frames and which one leaves.
pub trait AllocationPolicy: Debug + Send {
    /// A query has started; it may have to wait before it runs.
    fn on_query_started(&mut self, _query: QueryId, _demand: Demand) {}

    /// A query is over; its files are closed already.
    fn on_query_ended(&mut self, _query: QueryId, _steps: &mut Vec<Step>) {}

    /// A query was suspended: what it owns is to be released.
    fn on_suspended(&mut self, _state: &PoolState, _query: QueryId, _steps: &mut Vec<Step>) {}

    /// A file was opened.
    fn on_file_opened(&mut self, _instance: &Instance) {}

    /// A file was closed.
    fn on_file_closed(&mut self, _instance: &Instance, _steps: &mut Vec<Step>) {}

    /// A query has used up its time slice.
    fn on_slice_ended(&mut self, _query: QueryId, _cpu: Span, _steps: &mut Vec<Step>) {}

    /// A request found its page missing. Called once per request, before a victim is looked for.
    fn on_fault(&mut self, _reference: &Reference, _steps: &mut Vec<Step>) {}

    /// A reference is being granted: the page is in this frame, found there or just arrived.
    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    );

    /// A page leaves its frame; `owner` is the set it belonged to, if any.
    fn on_evict(&mut self, frame: FrameNo, page: PageId, owner: Option<SetId>);

    /// The frame for a missing page, among those of which [`may_leave`](crate::pool::Frame::may_leave) holds. None:
    /// the request waits until something changes.
    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) -> Option<FrameNo>;

    /// The frames a query wants for itself, as far as the policy can tell; for load control.
    fn demand(&self, query: QueryId) -> u32;

    /// Frames that must be left over when all demands are met, for the policy to make progress.
    fn spare_frames(&self) -> u32;

    /// Appends every frame that it holds to be owned, with its set; for checks.
    fn members(&self, out: &mut Vec<(FrameNo, SetId)>);
}

/// The allocation policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationName {
    /// One random page of all leaves.
    Random,
    /// The page that came first leaves.
    Fifo,
    /// Second chance over all frames, clean pages first.
    Clock,
    /// The page used longest ago leaves.
    Lru,
    /// Reiter 1976.
    DomainSeparation,
    /// Hawthorn, in Nyberg 1984.
    GroupLru,
    /// The "new" algorithm, Kaplan 1980.
    Kaplan,
    /// Denning 1968, with two windows.
    WorkingSet,
    /// Sacco & Schkolnick 1982.
    HotSet,
    /// Chou & DeWitt 1985.
    Dbmin,
}

impl AllocationName {
    /// All of them, simple ones first.
    pub const ALL: [AllocationName; 10] = [
        AllocationName::Random,
        AllocationName::Fifo,
        AllocationName::Clock,
        AllocationName::Lru,
        AllocationName::DomainSeparation,
        AllocationName::GroupLru,
        AllocationName::Kaplan,
        AllocationName::WorkingSet,
        AllocationName::HotSet,
        AllocationName::Dbmin,
    ];

    /// Its name in files and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            AllocationName::Random => "random",
            AllocationName::Fifo => "fifo",
            AllocationName::Clock => "clock",
            AllocationName::Lru => "lru",
            AllocationName::DomainSeparation => "domain-separation",
            AllocationName::GroupLru => "group-lru",
            AllocationName::Kaplan => "kaplan",
            AllocationName::WorkingSet => "working-set",
            AllocationName::HotSet => "hot-set",
            AllocationName::Dbmin => "dbmin",
        }
    }

    /// The policy, for a pool of so many frames; `seed` is for those that draw.
    pub fn build(self, frames: u32, seed: u64) -> Box<dyn AllocationPolicy> {
        let setup = PageSetup { seed, ..PageSetup::new(frames as usize) };
        let global = |replacement| Box::new(global::Global::new(replacement, frames));
        match self {
            AllocationName::Random => global(Box::new(Random::new(&setup))),
            AllocationName::Fifo => global(Box::new(Fifo::new(&setup))),
            AllocationName::Clock => global(Box::new(Clock::new(&setup))),
            AllocationName::Lru => global(Box::new(Lru::new(&setup))),
            AllocationName::DomainSeparation => Box::new(domain_separation::DomainSeparation::new(frames)),
            AllocationName::GroupLru => Box::<group_lru::GroupLru>::default(),
            AllocationName::Kaplan => Box::<kaplan::Kaplan>::default(),
            AllocationName::WorkingSet => Box::<working_set::WorkingSet>::default(),
            AllocationName::HotSet => Box::<hot_set::HotSet>::default(),
            AllocationName::Dbmin => Box::<dbmin::Dbmin>::default(),
        }
    }
}

impl fmt::Display for AllocationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AllocationName {
    type Err = PoolConfigError;

    fn from_str(name: &str) -> Result<Self, PoolConfigError> {
        Self::ALL.into_iter().find(|n| n.as_str() == name).ok_or_else(|| PoolConfigError::UnknownName {
            what: "allocation policy",
            name: name.to_owned(),
            known: Self::ALL.map(Self::as_str).join(", "),
        })
    }
}
