//! Query plans: the file instances that a query opens, and the reference pattern of each. Every operation is
//! a composition of simple patterns (Chou & DeWitt 1985, section 3.1).
//!
//! A plan covers the six queries of the paper: a selection, an optional join and an optional stored result.
//! Access paths and statistics (sizes, selected tuples, clusters) are given; nothing is optimized.

use super::set::{FileSize, IndexSize, LocalityModel, LocalitySet, Reference};

/// A query: a selection, an optional join, and an optional stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPlan {
    /// The selection. Its relation is the outer relation of a join.
    pub select: Select,
    /// The use of the selected tuples.
    pub join: Join,
    /// True if the result is written to a temporary file.
    pub stores_result: bool,
}

/// A selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// The relation.
    pub file: FileSize,
    /// The access path to its tuples.
    pub path: AccessPath,
    /// Number of selected tuples.
    pub selected: u64,
}

/// The way in which a selection finds its tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPath {
    /// The whole file is read.
    Scan,
    /// Through an index; the file is in the index's order.
    ClusteredIndex,
    /// Through an index; the file is in another order.
    NonClusteredIndex,
}

/// The work for every tuple of the outer relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// Nothing.
    None,
    /// The inner relation is scanned again for each tuple, or each page of tuples, of the outer one.
    NestedLoops {
        /// The inner relation.
        inner: FileSize,
    },
    /// The inner relation is searched through an index.
    Index(IndexJoin),
    /// Both relations are in the order of the key. Records of the inner one with the same key are read again
    /// for every tuple of the outer one with this key.
    Merge {
        /// The inner relation.
        inner: FileSize,
        /// Its largest number of records with the same key.
        cluster: u64,
    },
    /// A hash file is made of the selected tuples. Another relation is scanned, and each of its tuples is
    /// searched in the hash file.
    Hash {
        /// The hash file.
        table: FileSize,
        /// The relation that is scanned.
        probe: FileSize,
    },
}

/// An inner relation with an index on the key of the join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexJoin {
    /// The inner relation.
    pub inner: FileSize,
    /// The index.
    pub index: IndexSize,
    /// True if the inner relation is in the order of the index.
    pub clustered: bool,
    /// True if the tuples of the outer relation come in the order of the index.
    pub outer_in_order: bool,
    /// The largest number of records of the inner relation with the same key.
    pub cluster: u64,
    /// True if several tuples of the outer relation have the same key.
    pub outer_repeats: bool,
}

/// The role of a file instance in its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The index of the selection.
    OuterIndex,
    /// The relation that is selected from.
    Outer,
    /// The index of the inner relation.
    InnerIndex,
    /// The inner relation.
    Inner,
    /// The hash file.
    HashTable,
    /// The relation whose tuples are searched in the hash file.
    Probe,
    /// The result.
    Result,
}

/// A file instance of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its role.
    pub role: Role,
    /// Its references.
    pub reference: Reference,
}

impl QueryPlan {
    /// The file instances, in the order in which a query opens them.
    pub fn instances(&self) -> Vec<Instance> {
        let mut instances = self.select.instances();
        instances.extend(self.join.instances(self.select.selected));
        if self.stores_result {
            instances.push(instance(Role::Result, Reference::StraightSequential));
        }
        instances
    }

    /// The locality set of every file instance.
    pub fn locality_sets(&self, model: &LocalityModel) -> Vec<(Role, LocalitySet)> {
        self.instances().iter().map(|i| (i.role, model.set(&i.reference))).collect()
    }

    /// The frames of all locality sets in total. A query that closes files before it opens others, such as a
    /// hash join, never has all of them at once.
    pub fn locality_pages(&self, model: &LocalityModel) -> u32 {
        self.locality_sets(model).iter().fold(0, |sum, (_, set)| sum.saturating_add(set.pages))
    }
}

fn instance(role: Role, reference: Reference) -> Instance {
    Instance { role, reference }
}

impl Select {
    /// A scan is SS. An index is descended once and then followed along its leaves, H/SS. The tuples behind a
    /// clustered index are SS, those behind another index IR (section 3.1).
    fn instances(&self) -> Vec<Instance> {
        let index = || instance(Role::OuterIndex, Reference::HierarchicalThenSequential);
        let sequential = || instance(Role::Outer, Reference::StraightSequential);
        match self.path {
            AccessPath::Scan => vec![sequential()],
            AccessPath::ClusteredIndex => vec![index(), sequential()],
            AccessPath::NonClusteredIndex => {
                let random = Reference::IndependentRandom { file: self.file, accesses: self.selected };
                vec![index(), instance(Role::Outer, random)]
            }
        }
    }
}

impl Join {
    fn instances(&self, outer_tuples: u64) -> Vec<Instance> {
        match self {
            Join::None => vec![],
            Join::NestedLoops { inner } => {
                vec![instance(Role::Inner, Reference::LoopingSequential { file: *inner })]
            }
            Join::Index(join) => join.instances(outer_tuples),
            Join::Merge { inner, cluster } => {
                let inner = Reference::ClusteredSequential { file: *inner, cluster: *cluster };
                vec![instance(Role::Inner, inner)]
            }
            // Random while it is filled and while it is searched: one instance serves both.
            Join::Hash { table, probe } => {
                let accesses = outer_tuples.saturating_add(probe.records);
                vec![
                    instance(Role::HashTable, Reference::IndependentRandom { file: *table, accesses }),
                    instance(Role::Probe, Reference::StraightSequential),
                ]
            }
        }
    }
}

impl IndexJoin {
    fn instances(&self, outer_tuples: u64) -> Vec<Instance> {
        let accesses = outer_tuples.saturating_mul(self.cluster.max(1));
        vec![
            instance(Role::InnerIndex, self.index_reference(outer_tuples)),
            instance(Role::Inner, self.inner_reference(accesses)),
        ]
    }

    /// Ordered keys lead along the leaves, and backwards only by a cluster: H/CS. Other keys descend from the
    /// root each time: LH.
    fn index_reference(&self, outer_tuples: u64) -> Reference {
        let index = self.index.clone();
        if self.outer_in_order {
            Reference::HierarchicalThenClustered { index, cluster: self.cluster }
        } else {
            Reference::LoopingHierarchical { index, accesses: outer_tuples }
        }
    }

    /// Ordered on both sides: CS. Ordered keys that repeat, into a file in another order: CR (section 3.1).
    /// Otherwise IR.
    fn inner_reference(&self, accesses: u64) -> Reference {
        let (file, cluster) = (self.inner, self.cluster);
        match (self.outer_in_order, self.clustered) {
            (true, true) => Reference::ClusteredSequential { file, cluster },
            (true, false) if self.outer_repeats => Reference::ClusteredRandom { file, cluster },
            _ => Reference::IndependentRandom { file, accesses },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    const A: FileSize = FileSize { records: 10_000, pages: 455 };

    fn plan(path: AccessPath, join: Join) -> QueryPlan {
        QueryPlan { select: Select { file: A, path, selected: 200 }, join, stores_result: true }
    }

    fn patterns(plan: &QueryPlan) -> Vec<(Role, Pattern)> {
        plan.instances().iter().map(|i| (i.role, i.reference.pattern())).collect()
    }

    fn index_join(clustered: bool, outer_in_order: bool, outer_repeats: bool) -> Join {
        let index = IndexSize { entries: 10_000, level_pages: vec![1, 30] };
        Join::Index(IndexJoin { inner: A, index, clustered, outer_in_order, cluster: 3, outer_repeats })
    }

    #[test]
    fn selections() {
        use Pattern::{HierarchicalThenSequential, IndependentRandom, StraightSequential};
        use Role::{Outer, OuterIndex, Result};
        let result = (Result, StraightSequential);
        let of = |path| patterns(&plan(path, Join::None));
        assert_eq!(of(AccessPath::Scan), [(Outer, StraightSequential), result]);
        let index = (OuterIndex, HierarchicalThenSequential);
        assert_eq!(of(AccessPath::ClusteredIndex), [index, (Outer, StraightSequential), result]);
        assert_eq!(of(AccessPath::NonClusteredIndex), [index, (Outer, IndependentRandom), result]);
        let kept = QueryPlan { stores_result: false, ..plan(AccessPath::Scan, Join::None) };
        assert_eq!(patterns(&kept), [(Outer, StraightSequential)]);
    }

    #[test]
    fn index_joins() {
        use Pattern::*;
        let inner = |clustered, in_order, repeats| {
            let plan = plan(AccessPath::Scan, index_join(clustered, in_order, repeats));
            let found = patterns(&plan);
            assert_eq!((found[1].0, found[2].0), (Role::InnerIndex, Role::Inner));
            (found[1].1, found[2].1)
        };
        assert_eq!(inner(true, true, false), (HierarchicalThenClustered, ClusteredSequential));
        assert_eq!(inner(false, true, true), (HierarchicalThenClustered, ClusteredRandom));
        assert_eq!(inner(false, true, false), (HierarchicalThenClustered, IndependentRandom));
        assert_eq!(inner(false, false, true), (LoopingHierarchical, IndependentRandom));
        assert_eq!(inner(true, false, false), (LoopingHierarchical, IndependentRandom));
    }

    #[test]
    fn the_other_joins() {
        let small = FileSize { records: 300, pages: 14 };
        let table = FileSize { records: 200, pages: 10 };
        let model = LocalityModel::with_frames(100);
        let sizes = |join| {
            let sets = plan(AccessPath::ClusteredIndex, join).locality_sets(&model);
            sets.iter().map(|(role, set)| (*role, set.pages)).collect::<Vec<_>>()
        };
        use Role::*;
        let nested = [(OuterIndex, 1), (Outer, 1), (Inner, 14), (Result, 1)];
        assert_eq!(sizes(Join::NestedLoops { inner: small }), nested);
        let merge = [(OuterIndex, 1), (Outer, 1), (Inner, 3), (Result, 1)];
        assert_eq!(sizes(Join::Merge { inner: small, cluster: 50 }), merge);
        let hash = [(OuterIndex, 1), (Outer, 1), (HashTable, 10), (Probe, 1), (Result, 1)];
        assert_eq!(sizes(Join::Hash { table, probe: small }), hash);
        let nested = plan(AccessPath::ClusteredIndex, Join::NestedLoops { inner: small });
        assert_eq!(nested.locality_pages(&model), 17);
    }
}
