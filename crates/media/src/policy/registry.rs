//! Registry of the policies of slow media, for the command line, settings, docs and the conformance tests.

use std::fmt;
use std::str::FromStr;

use crate::config::ConfigError;

use super::MediaPolicy;
use super::fcfs::FCFS;
use super::no_prefetch::NO_PREFETCH;
use super::prefetch::PREFETCH;
use super::reorder::Reorder;
use super::tape_queue::TapeQueue;

/// The description of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The name in settings and tables.
    pub name: &'static str,
    /// Its behaviour, in one sentence.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
    /// True if lists are run in their own order.
    pub in_order: bool,
}

struct Line {
    info: PolicyInfo,
    build: fn() -> Box<dyn MediaPolicy>,
}

static POLICIES: &[Line] = &[
    Line {
        info: PolicyInfo {
            name: "no-prefetch",
            summary: "every list fetches what it needs next, and nothing while it runs; first come first served, LRU \
                      cache",
            source: "Sarawagi & Stonebraker, VLDB 1996, section 4",
            in_order: true,
        },
        build: || Box::new(NO_PREFETCH),
    },
    Line {
        info: PolicyInfo {
            name: "prefetch",
            summary: "every list fetches the next subquery while one runs; first come first served, LRU cache",
            source: "Sarawagi & Stonebraker, VLDB 1996, section 4",
            in_order: true,
        },
        build: || Box::new(PREFETCH),
    },
    Line {
        info: PolicyInfo {
            name: "fcfs",
            summary: "lists are submitted whole and fetched first come first served; LRU cache",
            source: "what archives do without a queue for each tape",
            in_order: false,
        },
        build: || Box::new(FCFS),
    },
    Line {
        info: PolicyInfo {
            name: "tape-queue",
            summary: "a queue for each medium; a mount waits for enough bytes, requests or age, and serves the queue \
                      in the order of the medium",
            source: "retrieval queues of production tape archives such as CTA",
            in_order: false,
        },
        build: || Box::new(TapeQueue::default()),
    },
    Line {
        info: PolicyInfo {
            name: "reorder",
            summary: "finishes the mounted medium, prefers what completes subqueries with what is cached and what many \
                      want, and keeps what is wanted",
            source: "Sarawagi & Stonebraker, VLDB 1996, sections 2 and 3",
            in_order: false,
        },
        build: || Box::new(Reorder),
    },
];

/// Every policy, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> {
    POLICIES.iter().map(|line| &line.info)
}

/// The name of a policy of the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PolicyName(usize);

impl PolicyName {
    /// The default for slow media.
    pub const REORDER: PolicyName = PolicyName(POLICIES.len() - 1);

    /// Every name, in the order of the table.
    pub fn all() -> impl Iterator<Item = PolicyName> + Clone {
        (0..POLICIES.len()).map(PolicyName)
    }

    /// The name as text.
    pub fn as_str(self) -> &'static str {
        self.info().name
    }

    /// The description of the policy.
    pub fn info(self) -> &'static PolicyInfo {
        &POLICIES[self.0].info
    }

    /// A policy with its standard parameters.
    pub fn build(self) -> Box<dyn MediaPolicy> {
        (POLICIES[self.0].build)()
    }
}

impl From<PolicyName> for Box<dyn MediaPolicy> {
    fn from(name: PolicyName) -> Self {
        name.build()
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        PolicyName::all().find(|known| known.as_str() == name).ok_or_else(|| ConfigError::UnknownPolicy {
            name: name.to_owned(),
            known: all().map(|info| info.name).collect::<Vec<_>>().join(", "),
        })
    }
}
