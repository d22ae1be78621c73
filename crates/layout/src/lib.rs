//! The storage manager of Lachesis (Schindler, Ailamaki, Ganger, VLDB 2003): pages lie in extents between the
//! places that a device does not like to be read across, and scans read whole extents.
//!
//! | part | what it is | file |
//! |---|---|---|
//! | extents | where each page is, with fixed extents or with extents between boundaries | `extents.rs` |
//! | stream | a table or index that is read in order, as requests | `stream.rs` |
//! | replay | requests one after the other beside random ones, in virtual time | `replay.rs` |
//!
//! Pure: no I/O, no clock, no randomness but from seeds. Nothing is cached here: what is asked for twice is read
//! twice.

#![deny(missing_docs)]

mod extents;
mod replay;
mod stream;

pub use extents::{Extents, Location, PAGE_BLOCKS};
pub use replay::{Arrivals, Beside, Replayed, replay};
pub use stream::{Stream, Unit};

/// A run of blocks to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its first block, of 512 bytes.
    pub block: u64,
    /// How many.
    pub blocks: u64,
}
