//! The storage manager of Lachesis (Schindler, Ailamaki, Ganger, VLDB 2003): pages are in extents between the
//! boundaries of a device, and scans read whole extents.
//!
//! | part | content | file |
//! |---|---|---|
//! | extents | the place of each page, with fixed extents or with extents between boundaries | `extents.rs` |
//! | stream | the requests of a table or index that is read in order | `stream.rs` |
//! | replay | requests one after the other, beside random ones, in virtual time | `replay.rs` |
//!
//! The crate is pure: no I/O, no clock, no randomness except from seeds. It has no cache: a block that is
//! requested twice is read twice.

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
    /// The number of blocks.
    pub blocks: u64,
}
