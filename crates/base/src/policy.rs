//! Descriptions of policies, the same for all registries.

use std::fmt;

/// The kind of decision that a policy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// The next chunk and the scan that gets it.
    Sharing,
    /// The page or chunk to evict. Every scan reads in table order, independently.
    Replacement,
    /// The number of frames of a query, and its admission.
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

/// A property of a policy. Users choose by it and tests check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Chunks come in table order.
    InOrder,
    /// Chunks come in any order.
    OutOfOrder,
    /// The load of one scan is meant to serve others.
    Cooperative,
    /// Prefers chunks that scans have announced over recently used ones.
    InterestAware,
    /// The wait of a starved scan has a stated bound that does not depend on the speed of other consumers.
    BoundedWait,
    /// Replaces pages in a pool. Not available for a manager of sharing scans.
    PageLevel,
    /// Needs all references in advance.
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

/// The description of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The name in settings and tables.
    pub name: &'static str,
    /// The kind of its decisions.
    pub kind: PolicyKind,
    /// Its idea in one sentence.
    pub summary: &'static str,
    /// Its source.
    pub paper: &'static str,
    /// Its properties.
    pub traits: &'static [Trait],
}
