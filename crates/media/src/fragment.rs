//! Fragments, and the sets in which they are wanted.

use thiserror::Error;

use crate::ids::{FragmentId, MediumId};

/// Contiguous data on one medium that one request fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its name; it never changes.
    pub id: FragmentId,
    /// The medium it is on.
    pub medium: MediumId,
    /// Its start on the medium, in bytes.
    pub position: u64,
    /// Its length.
    pub bytes: u64,
}

/// An invalid fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentError {
    /// The name belongs to a fragment at another place.
    #[error("fragment {0} is known at another place or with another size: use a new id for new data")]
    Differs(FragmentId),
    /// It has no bytes.
    #[error("fragment {0} has no bytes")]
    Empty(FragmentId),
}

/// The fragments that one subquery of a plan needs together. For each scan below the schedule node these are
/// the fragments that it reads, usually one.
///
/// A scan of R gives `(R1) (R2) ...`. A join without a hash table over R and S gives `(R1, S1) (R1, S2) ...`.
/// An index scan gives, for each fragment, the list of its blocks. A merge gives one subquery with all
/// fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subquery {
    /// By input (scan). All subqueries of a list have the same number of inputs, in the same order of scans.
    pub inputs: Vec<Vec<FragmentId>>,
}

impl Subquery {
    /// One fragment of each input.
    pub fn of(fragments: impl IntoIterator<Item = FragmentId>) -> Self {
        Subquery { inputs: fragments.into_iter().map(|fragment| vec![fragment]).collect() }
    }

    /// Every fragment once, ascending.
    pub fn fragments(&self) -> Vec<FragmentId> {
        let mut all: Vec<FragmentId> = self.inputs.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
