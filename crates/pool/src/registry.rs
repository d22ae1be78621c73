//! Registry of the pool's policies. One entry feeds the names, the command line, docs and the conformance
//! tests.
//!
//! Policies of cooperative scans are in the registry of `coscan-core`.

use std::fmt;
use std::str::FromStr;

use Trait::{Offline, PageLevel};
pub use coscan_base::policy::{PolicyInfo, PolicyKind, Trait};

use crate::allocation::AllocationPolicy;
use crate::allocation::dbmin::Dbmin;
use crate::allocation::domain_separation::DomainSeparation;
use crate::allocation::global::Global;
use crate::allocation::group_lru::GroupLru;
use crate::allocation::hot_set::HotSet;
use crate::allocation::kaplan::Kaplan;
use crate::allocation::working_set::WorkingSet;
use crate::error::{PageSetupError, PoolConfigError};
use crate::replacement::PageReplacement;
use crate::replacement::arc::Arc;
use crate::replacement::clock::Clock;
use crate::replacement::linked::{Fifo, Lru, Mru};
use crate::replacement::lru_k::LruK;
use crate::replacement::opt::Opt;
use crate::replacement::random::Random;
use crate::replacement::s3_fifo::S3Fifo;
use crate::replacement::setup::PageSetup;
use crate::replacement::sieve::Sieve;
use crate::replacement::two_q::TwoQ;

/// Declares an enum of names, with the description and the constructor of each.
macro_rules! policies {
    (
        $(#[$doc:meta])*
        $names:ident: $kind:expr, built by $builder:ty;
        $($variant:ident {
            name: $name:literal, summary: $summary:literal, paper: $paper:literal, traits: $traits:expr, build: $build:expr,
        })*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $names {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $variant,)*
        }

        impl $names {
            /// All of them, in the order of the tables.
            pub const ALL: [$names; [$($names::$variant),*].len()] = [$($names::$variant),*];

            /// The description of the policy.
            pub const fn info(self) -> &'static PolicyInfo {
                match self {
                    $($names::$variant => &PolicyInfo {
                        name: $name,
                        kind: $kind,
                        summary: $summary,
                        paper: $paper,
                        traits: &$traits,
                    },)*
                }
            }

            /// The name as text.
            pub const fn as_str(self) -> &'static str {
                self.info().name
            }

            const fn builder(self) -> $builder {
                match self {
                    $($names::$variant => $build,)*
                }
            }

            fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|policy| policy.as_str() == name)
            }

            /// All names, separated by commas.
            fn known() -> String {
                Self::ALL.map(Self::as_str).join(", ")
            }
        }

        impl fmt::Display for $names {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

policies! {
    /// The page replacement policies.
    PagePolicyName: PolicyKind::Replacement,
        built by fn(&PageSetup) -> Result<Box<dyn PageReplacement>, PageSetupError>;

    Random {
        name: "random",
        summary: "any page leaves",
        paper: "Belady, IBM Systems Journal 1966 (RAND)",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(Random::new(setup))),
    }
    Fifo {
        name: "fifo",
        summary: "the page that came first leaves",
        paper: "Belady, IBM Systems Journal 1966",
        traits: [PageLevel],
        build: |_| Ok(Box::new(Fifo::new())),
    }
    Lru {
        name: "lru",
        summary: "the page that was not used for longest leaves",
        paper: "Mattson et al., IBM Systems Journal 1970",
        traits: [PageLevel],
        build: |_| Ok(Box::new(Lru::new())),
    }
    Mru {
        name: "mru",
        summary: "the page that was used last leaves: for loops longer than the pool",
        paper: "Chou, DeWitt, VLDB 1985, section 3",
        traits: [PageLevel],
        build: |_| Ok(Box::new(Mru::new())),
    }
    Clock {
        name: "clock",
        summary: "the page not referenced since the hand last passed leaves, clean ones first",
        paper: "Corbató, 1968; clean first: Chou, DeWitt, VLDB 1985, section 4",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(Clock::new(setup))),
    }
    Lru2 {
        name: "lru-2",
        summary: "the page whose last reference but one lies furthest back leaves",
        paper: "The LRU-K Page Replacement Algorithm, SIGMOD 1993, section 2.1",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(LruK::new(setup))),
    }
    TwoQ {
        name: "2q",
        summary: "pages that came back after they had left are kept by LRU, new ones pass through a short queue",
        paper: "2Q, VLDB 1994, full version",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(TwoQ::new(setup))),
    }
    Arc {
        name: "arc",
        summary: "recency and frequency share the frames by which of them was missed more",
        paper: "ARC, FAST 2003, section III",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(Arc::new(setup))),
    }
    Sieve {
        name: "sieve",
        summary: "a hand goes from old to new and takes the first page not visited; what it spares stays in place",
        paper: "SIEVE is Simpler than LRU, NSDI 2024, section 3",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(Sieve::new(setup))),
    }
    S3Fifo {
        name: "s3-fifo",
        summary: "a small queue filters what is not used again, a ghost queue brings back what was",
        paper: "FIFO Queues are All You Need for Cache Eviction, SOSP 2023, section 4",
        traits: [PageLevel],
        build: |setup| Ok(Box::new(S3Fifo::new(setup))),
    }
    Opt {
        name: "opt",
        summary: "the page that is needed again last leaves: the least misses there can be",
        paper: "Belady, IBM Systems Journal 1966 (MIN); Mattson et al., 1970",
        traits: [PageLevel, Offline],
        build: |setup| Ok(Box::new(Opt::new(setup)?)),
    }
}

impl PagePolicyName {
    /// The policy of an empty pool.
    ///
    /// # Errors
    /// [`PageSetupError::NoFrames`], [`PageSetupError::TooManyFrames`], and [`PageSetupError::NeedsFuture`]
    /// for a policy with the trait [`Offline`] without a future.
    pub fn build(self, setup: &PageSetup) -> Result<Box<dyn PageReplacement>, PageSetupError> {
        match setup.frames {
            0 => Err(PageSetupError::NoFrames),
            frames if frames > PageSetup::FRAMES_MAX => Err(PageSetupError::TooManyFrames { frames }),
            _ => self.builder()(setup),
        }
    }
}

impl FromStr for PagePolicyName {
    type Err = PageSetupError;

    fn from_str(name: &str) -> Result<Self, PageSetupError> {
        let unknown = || PageSetupError::UnknownPolicy { name: name.to_owned(), known: Self::known() };
        Self::named(name).ok_or_else(unknown)
    }
}

policies! {
    /// The allocation policies. Some share a name with the page replacement policy that they apply to all
    /// frames.
    AllocationName: PolicyKind::Allocation, built by fn(&PageSetup) -> Box<dyn AllocationPolicy>;

    Random {
        name: "random",
        summary: "nobody owns frames, any page leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: [PageLevel],
        build: |setup| global(Random::new(setup), setup),
    }
    Fifo {
        name: "fifo",
        summary: "nobody owns frames, the page that came first leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: [PageLevel],
        build: |setup| global(Fifo::new(), setup),
    }
    Clock {
        name: "clock",
        summary: "nobody owns frames, the page not referenced since the hand last passed leaves, clean ones first",
        paper: "Chou, DeWitt, VLDB 1985, section 4.2",
        traits: [PageLevel],
        build: |setup| global(Clock::new(setup), setup),
    }
    Lru {
        name: "lru",
        summary: "nobody owns frames, the page not used for longest leaves",
        paper: "Chou, DeWitt, VLDB 1985, section 2",
        traits: [PageLevel],
        build: |setup| global(Lru::new(), setup),
    }
    DomainSeparation {
        name: "domain-separation",
        summary: "frames belong to types of pages in fixed shares, LRU inside",
        paper: "Reiter, 1976; Chou, DeWitt, VLDB 1985, section 2",
        traits: [PageLevel],
        build: |setup| Box::new(DomainSeparation::new(setup.frames as u32)),
    }
    GroupLru {
        name: "group-lru",
        summary: "frames belong to types of pages that are ranked, the lowest type gives first",
        paper: "Hawthorn, in Nyberg, 1984; Chou, DeWitt, VLDB 1985, section 2",
        traits: [PageLevel],
        build: |_| Box::<GroupLru>::default(),
    }
    Kaplan {
        name: "kaplan",
        summary: "frames belong to relations that are ranked, MRU inside but for the newest page",
        paper: "Kaplan, 1980; Chou, DeWitt, VLDB 1985, section 2",
        traits: [PageLevel],
        build: |_| Box::<Kaplan>::default(),
    }
    WorkingSet {
        name: "working-set",
        summary: "a query keeps what it used within a window of its own processor time",
        paper: "Denning, 1968; Chou, DeWitt, VLDB 1985, section 4.2",
        traits: [PageLevel],
        build: |_| Box::<WorkingSet>::default(),
    }
    HotSet {
        name: "hot-set",
        summary: "a query has as many frames as its largest loop needs, LRU inside",
        paper: "Sacco, Schkolnick, VLDB 1982; Chou, DeWitt, VLDB 1985, section 4.2",
        traits: [PageLevel],
        build: |_| Box::<HotSet>::default(),
    }
    Dbmin {
        name: "dbmin",
        summary: "every open file has a set of frames sized and replaced by how it is used",
        paper: "Chou, DeWitt, VLDB 1985, section 3",
        traits: [PageLevel],
        build: |_| Box::<Dbmin>::default(),
    }
}

/// One page replacement policy over all frames.
fn global(replacement: impl PageReplacement + 'static, setup: &PageSetup) -> Box<dyn AllocationPolicy> {
    Box::new(Global::new(Box::new(replacement), setup.frames as u32))
}

impl AllocationName {
    /// The policy for a pool of `frames` frames; policies that draw random numbers use `seed`.
    pub fn build(self, frames: u32, seed: u64) -> Box<dyn AllocationPolicy> {
        self.builder()(&PageSetup { seed, ..PageSetup::new(frames as usize) })
    }
}

impl FromStr for AllocationName {
    type Err = PoolConfigError;

    fn from_str(name: &str) -> Result<Self, PoolConfigError> {
        Self::named(name).ok_or_else(|| PoolConfigError::UnknownName {
            what: "allocation policy",
            name: name.to_owned(),
            known: Self::known(),
        })
    }
}

/// All policies of the pool, in the order of the tables.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> {
    let pages = PagePolicyName::ALL.into_iter().map(PagePolicyName::info);
    pages.chain(AllocationName::ALL.into_iter().map(AllocationName::info))
}
