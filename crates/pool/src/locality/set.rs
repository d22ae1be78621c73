//! Locality sets: frames for a file instance, and the replacement inside them (Chou & DeWitt 1985, section
//! 3.2: one rule for each pattern).
//!
//! Queries and buffer pools are outside this module. [`plan`](super::plan) lists the references that a query
//! makes, and an allocation policy uses the sets.

use super::yao::pages_touched;
use super::{LocalReplacement, Pattern};

/// The default threshold of the rules for random references: a page is kept if it will be used at least ten
/// more times. The paper does not give the threshold. With every value from 3 to 60 the locality sets of its
/// six queries are as large as the hot sets of Table 2; section 4.1.1 says that the two are similar.
pub const DEFAULT_BETA: f64 = 10.0;

/// The parameters of the rules besides the references.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalityModel {
    /// Pages with a residual value `(k - b) / b` above this are expected to be used again.
    pub beta: f64,
    /// The frames of the buffer pool: the upper bound of each set.
    pub frames: u32,
}

/// Records (or index entries) and the pages that hold them, evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSize {
    /// Number of records.
    pub records: u64,
    /// Number of pages that hold records; pages without records (a header) do not count.
    pub pages: u32,
}

/// An index as a tree of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// The entries of all leaves.
    pub entries: u64,
    /// The pages of every level, from the root (level 0) to the leaves.
    pub level_pages: Vec<u32>,
}

/// References to a file instance, with the numbers that its rule needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// SS: once from front to back; also the writing of a result.
    StraightSequential,
    /// CS: in order, where `cluster` records with the same key may be read again before the next key.
    ClusteredSequential {
        /// The file.
        file: FileSize,
        /// The records of the largest cluster.
        cluster: u64,
    },
    /// LS: the whole file repeatedly.
    LoopingSequential {
        /// The file.
        file: FileSize,
    },
    /// IR: unrelated records.
    IndependentRandom {
        /// The file.
        file: FileSize,
        /// Total number of requested records.
        accesses: u64,
    },
    /// CR: clusters of records used several times, in any place of the file.
    ClusteredRandom {
        /// The file.
        file: FileSize,
        /// The records of the largest cluster.
        cluster: u64,
    },
    /// SH: down an index, once.
    StraightHierarchical,
    /// H/SS: down an index once, then straight along the leaves.
    HierarchicalThenSequential,
    /// H/CS: down an index once, then along the leaves, where the entries of a cluster may be read again.
    HierarchicalThenClustered {
        /// The index.
        index: IndexSize,
        /// The entries of the largest cluster.
        cluster: u64,
    },
    /// LH: down an index repeatedly.
    LoopingHierarchical {
        /// The index.
        index: IndexSize,
        /// Number of descents.
        accesses: u64,
    },
}

/// The model's answer for a file instance when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalitySet {
    /// The pattern of references.
    pub pattern: Pattern,
    /// The frames for the instance, at least one.
    pub pages: u32,
    /// The replacement when there are more pages.
    pub replacement: LocalReplacement,
}

impl LocalityModel {
    /// The model with [`DEFAULT_BETA`] for a pool of `frames` frames.
    pub fn with_frames(frames: u32) -> Self {
        LocalityModel { beta: DEFAULT_BETA, frames }
    }

    /// The locality set of an instance with these references.
    ///
    /// - SS, SH, H/SS: one page. The replacement does not matter in a set of one; LRU.
    /// - CS, H/CS: the records of the largest cluster over the records on a page; FIFO.
    /// - LS: the pages of the file; MRU.
    /// - IR: `b` pages by Yao's formula if `(k - b) / b > beta`, else 1; LRU.
    /// - CR: the pages that the records of the largest cluster lie on, by Yao's formula (footnote 4); LRU.
    /// - LH: `(1 + sum_{i=1..j} b_i) + 1`, with `j` the lowest level where `(k - b_i) / b_i > beta`; LIFO,
    ///   which keeps the first arrivals, the root and the levels below it, and replaces in the last frame.
    pub fn set(&self, reference: &Reference) -> LocalitySet {
        use LocalReplacement::{Fifo, Lifo, Lru, Mru};
        let (pages, replacement) = match reference {
            Reference::StraightSequential
            | Reference::StraightHierarchical
            | Reference::HierarchicalThenSequential => (1, Lru),
            Reference::ClusteredSequential { file, cluster } => (file.pages_of(*cluster), Fifo),
            Reference::LoopingSequential { file } => (file.pages, Mru),
            Reference::IndependentRandom { file, accesses } => (self.independent(*file, *accesses), Lru),
            Reference::ClusteredRandom { file, cluster } => (rounded(file.touched(*cluster)), Lru),
            Reference::HierarchicalThenClustered { index, cluster } => {
                (index.leaves().pages_of(*cluster), Fifo)
            }
            Reference::LoopingHierarchical { index, accesses } => (self.hierarchical(index, *accesses), Lifo),
        };
        LocalitySet { pattern: reference.pattern(), pages: pages.min(self.frames).max(1), replacement }
    }

    /// True if `accesses` to `pages` pages use each page so often that it is worth keeping.
    fn worth_keeping(&self, accesses: u64, pages: f64) -> bool {
        residual_value(accesses, pages).is_some_and(|value| value > self.beta)
    }

    fn independent(&self, file: FileSize, accesses: u64) -> u32 {
        let touched = file.touched(accesses);
        if self.worth_keeping(accesses, touched) { rounded(touched) } else { 1 }
    }

    /// The levels below the root that fit and are worth keeping, the root, and one frame for the other pages.
    fn hierarchical(&self, index: &IndexSize, accesses: u64) -> u32 {
        let Some(below_root) = index.level_pages.get(1..).filter(|levels| !levels.is_empty()) else {
            return 1;
        };
        let mut pages = 2;
        for &level in below_root {
            let touched = pages_touched(index.entries, level.into(), accesses);
            let with_level = rounded(touched).saturating_add(pages);
            // Lower levels have more pages: their residual values are smaller still.
            if !self.worth_keeping(accesses, touched) || with_level > self.frames {
                break;
            }
            pages = with_level;
        }
        pages
    }
}

/// The residual value `(k - b) / b` of a page when `k` accesses touch `b` pages: the number of repeated uses
/// of each. `None` if the accesses touch no page.
pub fn residual_value(accesses: u64, pages: f64) -> Option<f64> {
    (pages > 0.0).then(|| (accesses as f64 - pages) / pages)
}

fn rounded(pages: f64) -> u32 {
    // A cast from floating point saturates.
    pages.round() as u32
}

impl FileSize {
    /// The pages that `records` neighbouring records fill, at least one.
    pub fn pages_of(self, records: u64) -> u32 {
        let pages = (u128::from(records) * u128::from(self.pages)).div_ceil(u128::from(self.records.max(1)));
        u32::try_from(pages).unwrap_or(u32::MAX).min(self.pages).max(1)
    }

    /// The pages that `records` records in any place touch.
    fn touched(self, records: u64) -> f64 {
        pages_touched(self.records, self.pages.into(), records)
    }
}

impl IndexSize {
    /// The entries and pages of the leaf level.
    pub fn leaves(&self) -> FileSize {
        FileSize { records: self.entries, pages: self.level_pages.last().copied().unwrap_or(0) }
    }

    /// The pages from root to leaf.
    pub fn height(&self) -> u32 {
        self.level_pages.len() as u32
    }
}

impl Reference {
    /// The pattern by name.
    pub fn pattern(&self) -> Pattern {
        match self {
            Reference::StraightSequential => Pattern::StraightSequential,
            Reference::ClusteredSequential { .. } => Pattern::ClusteredSequential,
            Reference::LoopingSequential { .. } => Pattern::LoopingSequential,
            Reference::IndependentRandom { .. } => Pattern::IndependentRandom,
            Reference::ClusteredRandom { .. } => Pattern::ClusteredRandom,
            Reference::StraightHierarchical => Pattern::StraightHierarchical,
            Reference::HierarchicalThenSequential => Pattern::HierarchicalThenSequential,
            Reference::HierarchicalThenClustered { .. } => Pattern::HierarchicalThenClustered,
            Reference::LoopingHierarchical { .. } => Pattern::LoopingHierarchical,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 tuples, 22 on a page.
    const A: FileSize = FileSize { records: 10_000, pages: 455 };
    const MODEL: LocalityModel = LocalityModel { beta: DEFAULT_BETA, frames: 100 };

    fn set(reference: &Reference) -> (u32, LocalReplacement) {
        let set = MODEL.set(reference);
        (set.pages, set.replacement)
    }

    fn index(level_pages: &[u32]) -> IndexSize {
        IndexSize { entries: 10_000, level_pages: level_pages.to_vec() }
    }

    #[test]
    fn what_is_read_once_needs_one_frame() {
        for reference in [
            Reference::StraightSequential,
            Reference::StraightHierarchical,
            Reference::HierarchicalThenSequential,
        ] {
            assert_eq!(MODEL.set(&reference).pages, 1);
        }
    }

    #[test]
    fn a_cluster_stays_together() {
        let clustered = |cluster| set(&Reference::ClusteredSequential { file: A, cluster });
        assert_eq!(clustered(0), (1, LocalReplacement::Fifo));
        assert_eq!(clustered(1), (1, LocalReplacement::Fifo));
        // 22 tuples fill 1.001 pages: the last page of the file is not full.
        assert_eq!(clustered(21), (1, LocalReplacement::Fifo));
        assert_eq!(clustered(100), (5, LocalReplacement::Fifo));
        let leaves = Reference::HierarchicalThenClustered { index: index(&[1, 30]), cluster: 1000 };
        assert_eq!(set(&leaves), (3, LocalReplacement::Fifo));
        // Scattered, ten records lie on ten pages, and 100 on 90.
        let scattered = |cluster| set(&Reference::ClusteredRandom { file: A, cluster });
        assert_eq!(scattered(10), (10, LocalReplacement::Lru));
        assert_eq!(scattered(100), (90, LocalReplacement::Lru));
    }

    #[test]
    fn a_loop_gets_the_file_as_far_as_it_fits() {
        let inner = FileSize { records: 300, pages: 14 };
        assert_eq!(set(&Reference::LoopingSequential { file: inner }), (14, LocalReplacement::Mru));
        assert_eq!(set(&Reference::LoopingSequential { file: A }), (100, LocalReplacement::Mru));
    }

    #[test]
    fn random_pages_are_kept_if_they_are_wanted_often() {
        // Query II: each of 90 pages is wanted 1.1 times. Query VI: each of 20 pages 50 times.
        assert_eq!(set(&Reference::IndependentRandom { file: A, accesses: 100 }).0, 1);
        let hash = FileSize { records: 400, pages: 20 };
        assert_eq!(set(&Reference::IndependentRandom { file: hash, accesses: 1000 }).0, 20);
        // The threshold itself is not above the threshold.
        assert_eq!(residual_value(220, 20.0), Some(10.0));
        let one_each = FileSize { records: 20, pages: 20 };
        assert_eq!(set(&Reference::IndependentRandom { file: one_each, accesses: 220 }).0, 1);
        assert_eq!(set(&Reference::IndependentRandom { file: one_each, accesses: 221 }).0, 20);
        let eager = LocalityModel { beta: 0.0, frames: 1000 };
        assert_eq!(eager.set(&Reference::IndependentRandom { file: A, accesses: 100 }).pages, 90);
    }

    #[test]
    fn an_index_keeps_its_root_and_the_levels_worth_it() {
        let looping = |levels: &[u32], accesses| {
            set(&Reference::LoopingHierarchical { index: index(levels), accesses }).0
        };
        assert_eq!(looping(&[1], 100), 1);
        assert_eq!(looping(&[1, 30], 100), 2);
        assert_eq!(looping(&[1, 30], 10_000), 1 + 30 + 1);
        // The second level is kept with its five pages, the third is not with its 200.
        assert_eq!(looping(&[1, 5, 200], 100), 1 + 5 + 1);
        // It would be worth it, but does not fit.
        assert_eq!(looping(&[1, 5, 200], 10_000), 1 + 5 + 1);
        let larger = LocalityModel { frames: 500, ..MODEL };
        let all = Reference::LoopingHierarchical { index: index(&[1, 5, 200]), accesses: 10_000 };
        assert_eq!(larger.set(&all).pages, 1 + 5 + 200 + 1);
    }

    #[test]
    fn sizes_that_make_no_sense_give_one_frame() {
        let nothing = FileSize { records: 0, pages: 0 };
        for reference in [
            Reference::LoopingSequential { file: nothing },
            Reference::ClusteredSequential { file: nothing, cluster: 7 },
            Reference::ClusteredRandom { file: nothing, cluster: 7 },
            Reference::IndependentRandom { file: nothing, accesses: 7 },
            Reference::LoopingHierarchical { index: IndexSize::default(), accesses: 7 },
        ] {
            assert_eq!(MODEL.set(&reference).pages, 1, "{reference:?}");
            assert_eq!(LocalityModel::with_frames(0).set(&reference).pages, 1, "{reference:?}");
        }
    }
}
