//! Page types, for the policies that treat types differently.
//!
//! A reference names the instance, not the level of an index on which the page lies. **Choice:** the type of
//! a page is that of the last reference to it, by the pattern of the instance.

use crate::locality::Pattern;

/// Types of pages, least worth keeping first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PageType {
    /// Data and leaves that are read once.
    Passed,
    /// Data that is accessed at random.
    Random,
    /// Data that is read again, in whole or in part.
    Reread,
    /// Indexes that are descended.
    Index,
}

impl PageType {
    pub(super) const ALL: [PageType; 4] =
        [PageType::Passed, PageType::Random, PageType::Reread, PageType::Index];

    pub(super) fn of(pattern: Pattern) -> Self {
        match pattern {
            Pattern::StraightSequential => PageType::Passed,
            Pattern::IndependentRandom | Pattern::ClusteredRandom => PageType::Random,
            Pattern::ClusteredSequential | Pattern::LoopingSequential => PageType::Reread,
            Pattern::StraightHierarchical
            | Pattern::HierarchicalThenSequential
            | Pattern::HierarchicalThenClustered
            | Pattern::LoopingHierarchical => PageType::Index,
        }
    }
}
