//! All policies of the manager in one table. The command line, SQL settings, docs and the conformance suite
//! use it. A new policy is one file and one entry here. Policies of page pools are in the registry of
//! `coscan-pool`, with entries of the same form.

use std::fmt;
use std::str::FromStr;

pub use coscan_base::policy::{PolicyInfo, PolicyKind, Trait};

use crate::error::ConfigError;
use crate::policy::{Policy, SharingPolicy};
use crate::replacement::sampling::Sampling;
use crate::replacement::timeline::Timeline;
use crate::sharing::attach::Attach;
use crate::sharing::attach_2004::Attach2004;
use crate::sharing::elevator::Elevator;
use crate::sharing::normal::Normal;
use crate::sharing::pbm::Pbm;
use crate::sharing::relevance::Relevance;
use crate::sharing::relevance_2004::Relevance2004;
use crate::sharing::relevance_2007::Relevance2007;

/// One line of the registry.
struct Line {
    info: PolicyInfo,
    build: fn() -> Box<dyn SharingPolicy>,
}

use Trait::{BoundedWait, Cooperative, InOrder, InterestAware, OutOfOrder};

static POLICIES: &[Line] = &[
    Line {
        info: PolicyInfo {
            name: "normal",
            kind: PolicyKind::Sharing,
            summary: "every scan reads its chunks in table order, first come first served, LRU buffer",
            paper: "Cooperative Scans, VLDB 2007, section 3",
            traits: &[InOrder, BoundedWait],
        },
        build: || Box::new(Normal::default()),
    },
    Line {
        info: PolicyInfo {
            name: "attach",
            kind: PolicyKind::Sharing,
            summary: "a new scan joins the running scan it overlaps most and wraps around, LRU buffer",
            paper: "Cooperative Scans, VLDB 2007, sections 3 and 6.2",
            traits: &[OutOfOrder, Cooperative, BoundedWait],
        },
        build: || Box::new(Attach::default()),
    },
    Line {
        info: PolicyInfo {
            name: "attach-2004",
            kind: PolicyKind::Sharing,
            summary: "a new scan starts at the chunk that was fetched last and wraps around, LRU buffer",
            paper: "Cooperative Scans, CWI INS-E0411, 2004, section 3.1",
            traits: &[OutOfOrder, Cooperative, BoundedWait],
        },
        build: || Box::new(Attach2004::default()),
    },
    Line {
        info: PolicyInfo {
            name: "elevator",
            kind: PolicyKind::Sharing,
            summary: "one cursor per table sweeps over what anybody needs; fewest reads, slowest scan sets the pace",
            paper: "Cooperative Scans, VLDB 2007, section 3",
            traits: &[OutOfOrder, Cooperative, InterestAware],
        },
        build: || Box::new(Elevator::default()),
    },
    Line {
        info: PolicyInfo {
            name: "relevance",
            kind: PolicyKind::Sharing,
            summary: "loads, keeps and hands out chunks by their relevance to all scans, short and starved scans first",
            paper: "Cooperative Scans, VLDB 2007, sections 4 and 6",
            traits: &[OutOfOrder, Cooperative, InterestAware, BoundedWait],
        },
        build: || Box::new(Relevance::default()),
    },
    Line {
        info: PolicyInfo {
            name: "relevance-2007",
            kind: PolicyKind::Sharing,
            summary: "the relevance functions of 2007 to the letter, chunk by chunk with the pages of each; slower decisions",
            paper: "Cooperative Scans, VLDB 2007, Fig. 3 and Fig. 11",
            traits: &[OutOfOrder, Cooperative, InterestAware, BoundedWait],
        },
        build: || Box::new(Relevance2007::default()),
    },
    Line {
        info: PolicyInfo {
            name: "relevance-2004",
            kind: PolicyKind::Sharing,
            summary: "the first relevance functions: loads what most starved scans want, keeps what most scans want",
            paper: "Cooperative Scans, CWI INS-E0411, 2004, sections 3.1 and 4.1",
            traits: &[OutOfOrder, Cooperative, InterestAware],
        },
        build: || Box::new(Relevance2004::default()),
    },
    Line {
        info: PolicyInfo {
            name: "pbm",
            kind: PolicyKind::Replacement,
            summary: "scans in table order; what is predicted to be consumed last leaves first, by a timeline",
            paper: "From Cooperative Scans to Predictive Buffer Management, VLDB 2012",
            traits: &[InOrder, InterestAware, BoundedWait],
        },
        build: || Box::new(Pbm::<Timeline>::default()),
    },
    Line {
        info: PolicyInfo {
            name: "pbm-sampling",
            kind: PolicyKind::Replacement,
            summary: "as pbm, but of ten parts drawn at random the one consumed last leaves",
            paper: "From Cooperative Scans to Predictive Buffer Management, VLDB 2012; sampling: Vanderkooy, 2023",
            traits: &[InOrder, InterestAware, BoundedWait],
        },
        build: || Box::new(Pbm::<Sampling>::default()),
    },
];

/// All policies, in the order of display.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> {
    POLICIES.iter().map(|line| &line.info)
}

/// The policies of a manager of sharing scans: sharing policies, and replacement policies under which every
/// scan reads independently.
pub fn sharing() -> impl Iterator<Item = PolicyName> {
    POLICIES.iter().map(PolicyName)
}

/// The name of a manager's policy.
#[derive(Clone, Copy)]
pub struct PolicyName(&'static Line);

impl PolicyName {
    /// The description of the policy.
    pub fn info(self) -> &'static PolicyInfo {
        &self.0.info
    }

    /// The name as text.
    pub fn as_str(self) -> &'static str {
        self.0.info.name
    }
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        Policy::from_builder(name.as_str(), name.0.build)
    }
}

impl PartialEq<PolicyName> for Policy {
    fn eq(&self, name: &PolicyName) -> bool {
        self.as_str() == name.as_str()
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

impl PartialEq for PolicyName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for PolicyName {}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
