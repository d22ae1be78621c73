//! The six queries of Chou & DeWitt 1985 (Table 3) with their plans: the selected tuples, the access path and
//! the joined relation of each. They are executed in `run.rs`.
//!
//! The paper names relations, selectivities, access paths and join methods, but no attributes. The attributes
//! here are chosen so that every selected tuple has exactly one partner. Results are stored:
//!
//! | query | selected | joined |
//! |---|---|---|
//! | I | 100 of A by `unique2`, clustered index | |
//! | II | 100 of B by `unique1`, non-clustered index | |
//! | III | 200 of A by `unique2`, clustered index | `A.unique2 = B.unique2`, clustered index |
//! | IV | 100 of A' by `unique2`, scan | `A'.hundred = B.unique1`, non-clustered index |
//! | V | 300 of A by `unique2`, clustered index | `A.hundred = B'.unique1`, nested loops |
//! | VI | 400 of A by `unique2`, clustered index | `A.thousand = A'.unique1`, hash file of the tuples of A |
//!
//! **Consequences of Table 2.** Query I has 17 disk operations, but 100 neighbouring tuples of 182 bytes lie
//! on five or six pages. So the result and more must be counted. Here every result is stored in a temporary
//! file, and opening a file reads its header. Query II has 99. This is the number of different pages behind
//! 100 tuples (90), an index, three headers and a result. So the column is of a pool in which a single query
//! loses nothing: `disk_operations_at_least` of [`Totals`](crate::Totals). Query IV has 120, of which the
//! scan of A' takes 46 and the result 10. That is too few for 100 different tuples of B, on 90 pages. It
//! suffices for 63 tuples, the distinct ones among 100 random values of `hundred`. A hash file of 20 pages,
//! an inner relation of 14 and one frame for each other open file (two for an index searched from its root)
//! give the hot set sizes exactly.
//!
//! **Remaining differences** in disk operations without replacement, at the median of many ranges of keys: I
//! 16 for 17, II 100 for 99, III 50 for 53, IV 124 for 120, V 64 for 55, VI 130 for 138. The paper's storage
//! system had other headers and other index pages, which would explain I, III and VI. Query V seems to have
//! stored fewer or shorter tuples than one for each of the 300 selected. With the locality sets alone II
//! needs 110 and IV 161. Locality sets do not keep pages of random references; these are read again unless
//! they are still on the free list. The hot set sizes are equal. The processor times are equal because
//! [`CpuModel`] was fitted to them. That of VI varies with the range by up to a tenth, as more or fewer pages
//! of its hash file overflow.
//!
//! **Nested loops** run for each tuple of A ([`NestedLoops::ByTuple`]) or for each page of them. The paper
//! does not say which, and its numbers do not decide it. For loops by tuple the hot set of 17 pages suffices.
//! An LRU list of 17 pages misses 160 pages (64 from 18 pages on), and the hot set algorithm comes close to
//! DBMIN, as in the paper. A loop by page also stores two pages of result; 17 pages miss 286, and 22 are
//! needed. But a loop by tuple takes 12 ms, which a working set with a window of 15 ms captures; the paper
//! says that it did not. A loop by page takes 0.2 s. In both, tuples are compared on their pages in a tight
//! loop. With 90,000 calls for the next tuple, each would have only 38 us, a fraction of its cost in the
//! other queries.

use std::fmt;
use std::ops::Range;

use coscan_pool::locality::plan::{AccessPath, IndexJoin, Join, QueryPlan, Select};
use coscan_pool::locality::set::{FileSize, LocalityModel};
use coscan_trace::pages::QueryTrace;
use fastrand::Rng;

use crate::cpu::CpuModel;
use crate::database::{A_PRIME_TUPLES, A_TUPLES, Database};
use crate::wisconsin::TUPLE_BYTES;
use crate::{btree, hash, heap};

/// A query of Table 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the header says what each is")]
pub enum Query {
    I,
    II,
    III,
    IV,
    V,
    VI,
}

/// The unit of the outer relation for which nested loops scan the inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedLoops {
    /// For each tuple of the outer relation.
    ByTuple,
    /// For all tuples on a page of the outer relation at once. Query V then takes about 0.5 s less than in
    /// the paper, because far fewer pages are fixed.
    ByPage,
}

/// The parameters of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Determines the range of keys. Queries with the same seed on the same copy of a database touch the same
    /// pages.
    pub seed: u64,
    /// Sizes the locality sets; its number of frames bounds the hot set.
    pub model: LocalityModel,
    /// The processor.
    pub cpu: CpuModel,
    /// The inner scans of query V.
    pub nested_loops: NestedLoops,
}

impl Default for Settings {
    /// Seed 0, a pool of 100 frames, the processor of the paper, nested loops by tuple.
    fn default() -> Self {
        Settings {
            seed: 0,
            model: LocalityModel::with_frames(100),
            cpu: CpuModel::VAX_11_750,
            nested_loops: NestedLoops::ByTuple,
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its trace string.
    pub trace: QueryTrace,
    /// Its result in the order of storing: the bytes of a tuple, or of two joined, the outer one first.
    pub rows: Vec<Vec<u8>>,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Query::I => "I",
            Query::II => "II",
            Query::III => "III",
            Query::IV => "IV",
            Query::V => "V",
            Query::VI => "VI",
        })
    }
}

impl Query {
    /// All queries.
    pub const ALL: [Query; 6] = [Query::I, Query::II, Query::III, Query::IV, Query::V, Query::VI];

    /// The number of selected tuples.
    pub fn selected(self) -> u16 {
        match self {
            Query::I | Query::II | Query::IV => 100,
            Query::III => 200,
            Query::V => 300,
            Query::VI => 400,
        }
    }

    /// The selected keys for a seed: any range of its relation.
    pub fn keys(self, seed: u64) -> Range<i16> {
        let tuples = if self == Query::IV { A_PRIME_TUPLES } else { A_TUPLES };
        let selected = self.selected();
        let first = Rng::with_seed(seed).u16(0..=tuples - selected) as i16;
        first..first + selected as i16
    }

    /// The plan, with the sizes of the files as statistics.
    pub fn plan(self, database: &Database) -> QueryPlan {
        use AccessPath::{ClusteredIndex, NonClusteredIndex, Scan};
        let (file, path) = match self {
            Query::I | Query::III | Query::V | Query::VI => (&database.a, ClusteredIndex),
            Query::II => (&database.b, NonClusteredIndex),
            Query::IV => (&database.a_prime, Scan),
        };
        let select = Select { file: heap::size(file), path, selected: self.selected().into() };
        QueryPlan { select, join: self.join(database), stores_result: true }
    }

    fn join(self, database: &Database) -> Join {
        match self {
            Query::I | Query::II => Join::None,
            Query::III | Query::IV => {
                let clustered = self == Query::III;
                let index = if clustered { &database.b_unique2 } else { &database.b_unique1 };
                Join::Index(IndexJoin {
                    inner: heap::size(&database.b),
                    index: btree::size(index),
                    clustered,
                    outer_in_order: clustered,
                    cluster: 1,
                    outer_repeats: !clustered,
                })
            }
            Query::V => Join::NestedLoops { inner: heap::size(&database.b_prime) },
            Query::VI => {
                let records = self.selected().into();
                let table = FileSize { records, pages: hash::pages_for(records, TUPLE_BYTES) };
                Join::Hash { table, probe: heap::size(&database.a_prime) }
            }
        }
    }
}
