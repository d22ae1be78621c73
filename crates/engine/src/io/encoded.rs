//! The encoded bytes of a part: in memory, or left in the page cache.

use std::ops::Range;

use bytes::Bytes;

/// Encoded bytes of a range of a file.
#[derive(Clone, Debug)]
pub(crate) enum Encoded {
    /// Bytes in memory of their own.
    InMemory(Bytes),
    /// This many bytes in the page cache. Decoders read them from there.
    InPageCache(u64),
}

/// Encoded bytes with their offset in the file.
pub(crate) type Piece = (u64, Encoded);

/// Returns whether all pieces are in memory.
pub(crate) fn are_in_memory(pieces: &[Piece]) -> bool {
    pieces.iter().all(|(_, bytes)| matches!(bytes, Encoded::InMemory(_)))
}

impl Encoded {
    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Encoded::InMemory(bytes) => bytes.len() as u64,
            Encoded::InPageCache(len) => *len,
        }
    }

    /// A range of the bytes.
    pub(crate) fn slice(&self, within: Range<usize>) -> Self {
        match self {
            Encoded::InMemory(bytes) => Encoded::InMemory(bytes.slice(within)),
            Encoded::InPageCache(_) => Encoded::InPageCache(within.len() as u64),
        }
    }

    /// A copy in memory that no other part uses.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Encoded::InMemory(bytes) => Encoded::InMemory(Bytes::copy_from_slice(bytes)),
            Encoded::InPageCache(len) => Encoded::InPageCache(*len),
        }
    }
}

impl From<Bytes> for Encoded {
    fn from(bytes: Bytes) -> Self {
        Encoded::InMemory(bytes)
    }
}
