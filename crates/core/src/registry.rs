//! Every policy there is, in one table: it feeds the command line, SQL settings, docs and the
//! conformance suite. A new policy is one file and one line here.

use std::fmt;
use std::str::FromStr;

use crate::allocation::AllocationName;
use crate::config::ConfigError;
use crate::replacement::page::arc::Arc;
use crate::replacement::page::clock::Clock;
use crate::replacement::page::fifo::Fifo;
use crate::replacement::page::lru::Lru;
use crate::replacement::page::lru_k::LruK;
use crate::replacement::page::mru::Mru;
use crate::replacement::page::opt::Opt;
use crate::replacement::page::random::Random;
use crate::replacement::page::s3_fifo::S3Fifo;
use crate::replacement::page::sieve::Sieve;
use crate::replacement::page::two_q::TwoQ;
use crate::replacement::page::{PageReplacement, PageSetup, PageSetupError};
use crate::replacement::sampling::Sampling;
use crate::replacement::timeline::Timeline;
use crate::sharing::SharingPolicy;
use crate::sharing::attach::Attach;
use crate::sharing::elevator::Elevator;
use crate::sharing::normal::Normal;
use crate::sharing::pbm::Pbm;
use crate::sharing::relevance::Relevance;
use crate::sharing::relevance_2004::Relevance2004;

/// What kind of decision a policy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Which chunk next, and for whom?
    Sharing,
    /// Which page or chunk leaves? Scans go in table order, each by itself.
    Replacement,
    /// How many frames, and may it start?
    Allocation,
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyKind::Sharing => "sharing",
            PolicyKind::Replacement => "replacement",
            PolicyKind::Allocation => "allocation",
        })
    }
}

/// A property of a policy that users choose by and tests check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Chunks come in table order.
    InOrder,
    /// Chunks come in any order.
    OutOfOrder,
    /// One scan's load is meant to serve others.
    Cooperative,
    /// Keeps what scans have announced to need before what was used last.
    InterestAware,
    /// The wait of a starved scan has a stated bound that does not depend on how fast others consume.
    BoundedWait,
    /// Replaces pages in a pool; a manager of sharing scans cannot be set to it.
    PageLevel,
    /// Has to be told all references before the first.
    Offline,
}

impl fmt::Display for Trait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trait::InOrder => "in-order",
            Trait::OutOfOrder => "out-of-order",
            Trait::Cooperative => "cooperative",
            Trait::InterestAware => "interest-aware",
            Trait::BoundedWait => "bounded-wait",
            Trait::PageLevel => "page-level",
            Trait::Offline => "offline",
        })
    }
}

/// One line of the registry.
#[derive(Debug)]
pub struct PolicyInfo {
    /// The name in settings and tables.
    pub name: &'static str,
    /// What it decides.
    pub kind: PolicyKind,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Its properties.
    pub traits: &'static [Trait],
    build: Build,
}

/// What a line builds: that says who can be set to it.
#[derive(Clone, Copy, Debug)]
enum Build {
    /// A policy of the manager of sharing scans.
    Scans(fn() -> Box<dyn SharingPolicy>),
    /// A policy of a pool of pages.
    Pages(fn(&PageSetup) -> Result<Box<dyn PageReplacement>, PageSetupError>),
    /// A policy that says who owns the frames of a pool.
    Frames(AllocationName),
}

use Trait::{BoundedWait, Cooperative, InOrder, InterestAware, Offline, OutOfOrder, PageLevel};

static POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "normal",
        kind: PolicyKind::Sharing,
        summary: "every scan reads its chunks in table order, first come first served, LRU buffer",
        paper: "Cooperative Scans, VLDB 2007, section 3",
        traits: &[InOrder, BoundedWait],
        build: Build::Scans(|| Box::new(Normal::default())),
    },
    PolicyInfo {
        name: "attach",
        kind: PolicyKind::Sharing,
        summary: "a new scan joins the running scan it overlaps most and wraps around, LRU buffer",
        paper: "Cooperative Scans, VLDB 2007, sections 3 and 6.2",
        traits: &[OutOfOrder, Cooperative, BoundedWait],
        build: Build::Scans(|| Box::new(Attach::default())),
    },
    PolicyInfo {
        name: "elevator",
        kind: PolicyKind::Sharing,
        summary: "one cursor per table sweeps over what anybody needs; fewest reads, slowest scan sets the pace",
        paper: "Cooperative Scans, VLDB 2007, section 3",
        traits: &[OutOfOrder, Cooperative, InterestAware],
        build: Build::Scans(|| Box::new(Elevator::default())),
    },
    PolicyInfo {
        name: "relevance",
        kind: PolicyKind::Sharing,
        summary: "loads, keeps and hands out chunks by their relevance to all scans, short and starved scans first",
        paper: "Cooperative Scans, VLDB 2007, sections 4 and 6",
        traits: &[OutOfOrder, Cooperative, InterestAware, BoundedWait],
        build: Build::Scans(|| Box::new(Relevance::default())),
    },
    PolicyInfo {
        name: "relevance-2004",
        kind: PolicyKind::Sharing,
        summary: "the first relevance functions: loads what most starved scans want, keeps what most scans want",
        paper: "Cooperative Scans, CWI INS-E0411, 2004, sections 3.1 and 4.1",
        traits: &[OutOfOrder, Cooperative, InterestAware],
        build: Build::Scans(|| Box::new(Relevance2004::default())),
    },
    PolicyInfo {
        name: "pbm",
        kind: PolicyKind::Replacement,
        summary: "scans in table order; what is predicted to be consumed last leaves first, by a timeline",
        paper: "From Cooperative Scans to Predictive Buffer Management, VLDB 2012",
        traits: &[InOrder, InterestAware, BoundedWait],
        build: Build::Scans(|| Box::new(Pbm::<Timeline>::default())),
    },
    PolicyInfo {
        name: "pbm-sampling",
        kind: PolicyKind::Replacement,
        summary: "as pbm, but of ten parts drawn at random the one consumed last leaves",
        paper: "From Cooperative Scans to Predictive Buffer Management, VLDB 2012; sampling: Vanderkooy, 2023",
        traits: &[InOrder, InterestAware, BoundedWait],
        build: Build::Scans(|| Box::new(Pbm::<Sampling>::default())),
    },
    PolicyInfo {
        name: "random",
        kind: PolicyKind::Replacement,
        summary: "any page leaves",
        paper: "Belady, IBM Systems Journal 1966 (RAND)",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Random::new(setup)))),
    },
    PolicyInfo {
        name: "fifo",
        kind: PolicyKind::Replacement,
        summary: "the page that came first leaves",
        paper: "Belady, IBM Systems Journal 1966",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Fifo::new(setup)))),
    },
    PolicyInfo {
        name: "lru",
        kind: PolicyKind::Replacement,
        summary: "the page that was not used for longest leaves",
        paper: "Mattson et al., IBM Systems Journal 1970",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Lru::new(setup)))),
    },
    PolicyInfo {
        name: "mru",
        kind: PolicyKind::Replacement,
        summary: "the page that was used last leaves: for loops longer than the pool",
        paper: "Chou, DeWitt, VLDB 1985, section 3",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Mru::new(setup)))),
    },
    PolicyInfo {
        name: "clock",
        kind: PolicyKind::Replacement,
        summary: "the page not referenced since the hand last passed leaves, clean ones first",
        paper: "Corbató, 1968; clean first: Chou, DeWitt, VLDB 1985, section 4",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Clock::new(setup)))),
    },
    PolicyInfo {
        name: "lru-2",
        kind: PolicyKind::Replacement,
        summary: "the page whose last reference but one lies furthest back leaves",
        paper: "The LRU-K Page Replacement Algorithm, SIGMOD 1993, section 2.1",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(LruK::new(setup)))),
    },
    PolicyInfo {
        name: "2q",
        kind: PolicyKind::Replacement,
        summary: "pages that came back after they had left are kept by LRU, new ones pass through a short queue",
        paper: "2Q, VLDB 1994, full version",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(TwoQ::new(setup)))),
    },
    PolicyInfo {
        name: "arc",
        kind: PolicyKind::Replacement,
        summary: "recency and frequency share the frames by which of them was missed more",
        paper: "ARC, FAST 2003, section III",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Arc::new(setup)))),
    },
    PolicyInfo {
        name: "sieve",
        kind: PolicyKind::Replacement,
        summary: "a hand goes from old to new and takes the first page not visited; what it spares stays in place",
        paper: "SIEVE is Simpler than LRU, NSDI 2024, section 3",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(Sieve::new(setup)))),
    },
    PolicyInfo {
        name: "s3-fifo",
        kind: PolicyKind::Replacement,
        summary: "a small queue filters what is not used again, a ghost queue brings back what was",
        paper: "FIFO Queues are All You Need for Cache Eviction, SOSP 2023, section 4",
        traits: &[PageLevel],
        build: Build::Pages(|setup| Ok(Box::new(S3Fifo::new(setup)))),
    },
    PolicyInfo {
        name: "opt",
        kind: PolicyKind::Replacement,
        summary: "the page that is needed again last leaves: the least misses there can be",
        paper: "Belady, IBM Systems Journal 1966 (MIN); Mattson et al., 1970",
        traits: &[PageLevel, Offline],
        build: Build::Pages(|setup| Ok(Box::new(Opt::new(setup)?))),
    },
    PolicyInfo {
        name: AllocationName::Random.as_str(),
        kind: PolicyKind::Allocation,
        summary: "nobody owns frames, any page leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Random),
    },
    PolicyInfo {
        name: AllocationName::Fifo.as_str(),
        kind: PolicyKind::Allocation,
        summary: "nobody owns frames, the page that came first leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Fifo),
    },
    PolicyInfo {
        name: AllocationName::Clock.as_str(),
        kind: PolicyKind::Allocation,
        summary: "nobody owns frames, the page not referenced since the hand last passed leaves, clean ones first",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Clock),
    },
    PolicyInfo {
        name: AllocationName::Lru.as_str(),
        kind: PolicyKind::Allocation,
        summary: "nobody owns frames, the page not used for longest leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Lru),
    },
    PolicyInfo {
        name: AllocationName::DomainSeparation.as_str(),
        kind: PolicyKind::Allocation,
        summary: "frames belong to types of pages in fixed shares, LRU inside",
        paper: "Reiter, 1976; Chou, DeWitt, VLDB 1985, section 2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::DomainSeparation),
    },
    PolicyInfo {
        name: AllocationName::GroupLru.as_str(),
        kind: PolicyKind::Allocation,
        summary: "frames belong to types of pages that are ranked, the lowest type gives first",
        paper: "Hawthorn, in Nyberg, 1984; Chou, DeWitt, VLDB 1985, section 2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::GroupLru),
    },
    PolicyInfo {
        name: AllocationName::Kaplan.as_str(),
        kind: PolicyKind::Allocation,
        summary: "frames belong to relations that are ranked, MRU inside but for the newest page",
        paper: "Kaplan, 1980; Chou, DeWitt, VLDB 1985, section 2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Kaplan),
    },
    PolicyInfo {
        name: AllocationName::WorkingSet.as_str(),
        kind: PolicyKind::Allocation,
        summary: "a query keeps what it used within a window of its own processor time",
        paper: "Denning, 1968; Chou, DeWitt, VLDB 1985, section 4.2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::WorkingSet),
    },
    PolicyInfo {
        name: AllocationName::HotSet.as_str(),
        kind: PolicyKind::Allocation,
        summary: "a query has as many frames as its largest loop needs, LRU inside",
        paper: "Sacco, Schkolnick, VLDB 1982; Chou, DeWitt, VLDB 1985, section 4.2",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::HotSet),
    },
    PolicyInfo {
        name: AllocationName::Dbmin.as_str(),
        kind: PolicyKind::Allocation,
        summary: "every open file has a set of frames sized and replaced by how it is used",
        paper: "Chou, DeWitt, VLDB 1985, section 3",
        traits: &[PageLevel],
        build: Build::Frames(AllocationName::Dbmin),
    },
];

/// All policies, in the order in which tables show them.
pub fn all() -> &'static [PolicyInfo] {
    POLICIES
}

/// The policies a manager of sharing scans can be set to: those that decide how scans share, and those
/// that decide what leaves while every scan goes its own way.
pub fn sharing() -> impl Iterator<Item = PolicyName> {
    POLICIES.iter().filter_map(|info| match info.build {
        Build::Scans(build) => Some(PolicyName { info, build }),
        Build::Pages(_) | Build::Frames(_) => None,
    })
}

/// The policies a pool of pages can be set to.
pub fn pages() -> impl Iterator<Item = PagePolicyName> {
    POLICIES.iter().filter_map(|info| match info.build {
        Build::Pages(build) => Some(PagePolicyName { info, build }),
        Build::Scans(_) | Build::Frames(_) => None,
    })
}

/// The policies that say who owns the frames of a pool, each with its line. Some share a name with the page
/// replacement policy that they put over all frames.
pub fn allocations() -> impl Iterator<Item = (AllocationName, &'static PolicyInfo)> {
    POLICIES.iter().filter_map(|info| match info.build {
        Build::Frames(name) => Some((name, info)),
        Build::Scans(_) | Build::Pages(_) => None,
    })
}

/// The name of a policy that a manager can be set to.
#[derive(Clone, Copy)]
pub struct PolicyName {
    info: &'static PolicyInfo,
    build: fn() -> Box<dyn SharingPolicy>,
}

impl PolicyName {
    pub(crate) fn build(self) -> Box<dyn SharingPolicy> {
        (self.build)()
    }
}

impl FromStr for PolicyName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        sharing().find(|p| p.as_str() == name).ok_or_else(|| ConfigError::UnknownPolicy {
            name: name.to_owned(),
            known: sharing().map(PolicyName::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// The name of a policy that a pool of pages can be set to.
#[derive(Clone, Copy)]
pub struct PagePolicyName {
    info: &'static PolicyInfo,
    build: fn(&PageSetup) -> Result<Box<dyn PageReplacement>, PageSetupError>,
}

impl PagePolicyName {
    /// The policy of an empty pool.
    ///
    /// # Errors
    /// [`PageSetupError::NoFrames`], [`PageSetupError::TooManyFrames`], and [`PageSetupError::NeedsFuture`] for a
    /// policy that is [`Trait::Offline`] and was not told what comes.
    pub fn build(self, setup: &PageSetup) -> Result<Box<dyn PageReplacement>, PageSetupError> {
        match setup.frames {
            0 => Err(PageSetupError::NoFrames),
            frames if frames > PageSetup::FRAMES_MAX => Err(PageSetupError::TooManyFrames { frames }),
            _ => (self.build)(setup),
        }
    }
}

impl FromStr for PagePolicyName {
    type Err = PageSetupError;

    fn from_str(name: &str) -> Result<Self, PageSetupError> {
        pages().find(|p| p.as_str() == name).ok_or_else(|| PageSetupError::UnknownPolicy {
            name: name.to_owned(),
            known: pages().map(PagePolicyName::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// What the names have in common.
macro_rules! name_of_policy {
    ($name:ty) => {
        impl $name {
            /// Its line in the registry.
            pub fn info(self) -> &'static PolicyInfo {
                self.info
            }

            /// The name as text.
            pub fn as_str(self) -> &'static str {
                self.info.name
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.info.name == other.info.name
            }
        }

        impl Eq for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.info.name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.info.name)
            }
        }
    };
}

name_of_policy!(PolicyName);
name_of_policy!(PagePolicyName);
