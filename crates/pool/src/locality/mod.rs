//! How many pages will a database operation use again, and how soon?
//!
//! The query locality set model of Chou & DeWitt (VLDB 1985, section 3): every open file instance is referenced in
//! one of a few patterns. The pattern says how many frames are worth having (the locality set) and how to replace
//! pages in them. The patterns are here; [`yao`] estimates how many pages random accesses touch, [`set`] has the rule
//! of each pattern, [`plan`] says which patterns a query consists of, and [`hot_set`] is the model that the paper
//! compares with. An allocation policy decides which frames a pool gives.

pub mod hot_set;
pub mod plan;
pub mod set;
pub mod yao;

/// How an open file instance is referenced (section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// SS: page after page, once.
    StraightSequential,
    /// CS: sequential, with clusters that are read again (inner relation of a merge join).
    ClusteredSequential,
    /// LS: the same file again and again (inner relation of nested loops).
    LoopingSequential,
    /// IR: unrelated pages.
    IndependentRandom,
    /// CR: clusters of records that are wanted several times, lying anywhere in the file.
    ClusteredRandom,
    /// SH: down an index once.
    StraightHierarchical,
    /// H/SS: down an index once, then straight along its leaves.
    HierarchicalThenSequential,
    /// H/CS: down an index once, then along its leaves in clusters.
    HierarchicalThenClustered,
    /// LH: down an index again and again.
    LoopingHierarchical,
}

/// Which page of a locality set is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalReplacement {
    /// The one that came first.
    Fifo,
    /// The one that was used longest ago.
    Lru,
    /// The one that was used last.
    Mru,
    /// The one that came last.
    Lifo,
}
