//! The hot set model: the frames that a query needs to read each page once, if all its frames are one LRU
//! list. Source: Sacco & Schkolnick, VLDB 1982, as Chou & DeWitt 1985 describe it in section 2.3.
//!
//! DBMIN is compared with this model. The model gives one number for a whole query, suits LRU, and ignores
//! the phases of a query. It uses the plans of the query locality set model and none of its rules.

use super::plan::{Instance, QueryPlan};
use super::set::Reference;

impl Instance {
    /// The pages in the instance's loop, and those of a smaller loop inside it. With fewer frames than the
    /// first, LRU evicts every page before its next use. With fewer than the second, it evicts even those of
    /// the inner loop. Both are equal if there is one loop only.
    fn loop_pages(&self) -> (u32, u32) {
        match &self.reference {
            Reference::LoopingSequential { file } => (1, file.pages.max(1)),
            // The path from the root to a leaf: the root is needed again after a leaf has been read.
            Reference::LoopingHierarchical { index, .. } => (index.height().max(1), index.height().max(1)),
            Reference::ClusteredSequential { file, cluster } => (1, file.pages_of(*cluster)),
            Reference::ClusteredRandom { file, cluster } => {
                (1, u32::try_from(*cluster).unwrap_or(u32::MAX).clamp(1, file.pages.max(1)))
            }
            Reference::HierarchicalThenClustered { index, cluster } => (1, index.leaves().pages_of(*cluster)),
            // A hash file is searched in all places: its pages are a loop, even if their order is random. A
            // relation with fewer requests for records than pages has no loop.
            Reference::IndependentRandom { file, accesses } if *accesses > u64::from(file.pages) => {
                (1, file.pages.max(1))
            }
            Reference::StraightSequential
            | Reference::IndependentRandom { .. }
            | Reference::StraightHierarchical
            | Reference::HierarchicalThenSequential => (1, 1),
        }
    }
}

/// The hot points of a query, in pages and ascending. These are the buffer sizes at which the number of its
/// page faults drops because one more loop fits. The first is one frame for each stream of pages. Each
/// following one adds a loop, the smallest first.
pub fn hot_points(plan: &QueryPlan) -> Vec<u32> {
    let loops: Vec<_> = plan.instances().iter().map(Instance::loop_pages).collect();
    let streams = loops.iter().fold(0u32, |sum, (least, _)| sum.saturating_add(*least));
    let mut more: Vec<u32> =
        loops.iter().map(|(least, all)| all - least).filter(|&pages| pages > 0).collect();
    more.sort_unstable();
    let mut points = vec![streams];
    points.extend(more.iter().scan(streams, |sum, pages| {
        *sum = sum.saturating_add(*pages);
        Some(*sum)
    }));
    points
}

/// The hot set size of a query: its largest hot point that fits into `frames` frames, or its smallest if none
/// fits.
pub fn hot_set_pages(plan: &QueryPlan, frames: u32) -> u32 {
    let points = hot_points(plan);
    points.iter().rev().find(|&&pages| pages <= frames).or(points.first()).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{AccessPath, IndexJoin, Join, Select};
    use super::super::set::{DEFAULT_BETA, FileSize, IndexSize, LocalityModel};
    use super::*;

    const A: FileSize = FileSize { records: 10_000, pages: 455 };
    const A_PRIME: FileSize = FileSize { records: 1000, pages: 46 };
    const B_PRIME: FileSize = FileSize { records: 300, pages: 14 };
    const TABLE: FileSize = FileSize { records: 400, pages: 20 };

    fn query(file: FileSize, path: AccessPath, selected: u64, join: Join) -> QueryPlan {
        QueryPlan { select: Select { file, path, selected }, join, stores_result: true }
    }

    fn index_join(clustered: bool) -> Join {
        let index = IndexSize { entries: 10_000, level_pages: vec![1, 30] };
        Join::Index(IndexJoin {
            inner: A,
            index,
            clustered,
            outer_in_order: clustered,
            cluster: 1,
            outer_repeats: !clustered,
        })
    }

    /// The queries of Table 3.
    fn queries() -> [QueryPlan; 6] {
        use AccessPath::{ClusteredIndex, NonClusteredIndex, Scan};
        [
            query(A, ClusteredIndex, 100, Join::None),
            query(A, NonClusteredIndex, 100, Join::None),
            query(A, ClusteredIndex, 200, index_join(true)),
            query(A_PRIME, Scan, 100, index_join(false)),
            query(A, ClusteredIndex, 300, Join::NestedLoops { inner: B_PRIME }),
            query(A, ClusteredIndex, 400, Join::Hash { table: TABLE, probe: A_PRIME }),
        ]
    }

    #[test]
    fn table_2() {
        let sizes = queries().map(|plan| hot_set_pages(&plan, 100));
        assert_eq!(sizes, [3, 3, 5, 5, 17, 24]);
        // "almost identical to those from the query locality set model" (section 4.1.1)
        for beta in [3.0, DEFAULT_BETA, 60.0] {
            let model = LocalityModel { beta, frames: 100 };
            assert_eq!(queries().map(|plan| plan.locality_pages(&model)), sizes);
        }
    }

    #[test]
    fn a_nested_loop_is_hot_with_the_inner_relation_and_one_more() {
        let scan = QueryPlan {
            stores_result: false,
            ..query(A, AccessPath::Scan, 300, Join::NestedLoops { inner: B_PRIME })
        };
        assert_eq!(hot_points(&scan), [2, 15]);
        let mut by_index = scan.clone();
        by_index.select.path = AccessPath::ClusteredIndex;
        assert_eq!(hot_points(&by_index), [3, 16]);
    }

    #[test]
    fn the_largest_hot_point_that_fits() {
        let nested = &queries()[4];
        assert_eq!([100, 17, 16, 4, 1].map(|frames| hot_set_pages(nested, frames)), [17, 17, 4, 4, 4]);
    }

    #[test]
    fn clusters_are_loops() {
        let merge = query(A, AccessPath::Scan, 300, Join::Merge { inner: A, cluster: 66 });
        assert_eq!(hot_points(&merge), [3, 3 + 3]);
    }
}
