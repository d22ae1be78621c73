//! Messages between host and fetcher: announcements of scans, and commands to the fetcher.
//!
//! Names and numbers are those of shared memory: slots of scans, mailboxes in them, handles of tables,
//! frames.

use coscan_core::PolicyName;

/// The announcement of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Announcement {
    /// The policy its session chose.
    pub policy: PolicyName,
    /// The file it reads.
    pub key: RelKey,
    /// The chunks of the file.
    pub chunks: u32,
    /// The first chunk that it needs; it needs all following ones too.
    pub first: u32,
    /// Its mailboxes, at least one.
    pub mailboxes: u32,
}

/// A file of a table, as PostgreSQL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct RelKey {
    /// Its tablespace.
    pub tablespace: u32,
    /// Its database.
    pub database: u32,
    /// Its file number.
    pub relation: u32,
}

/// The origin of a delivered chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Source {
    /// Pages had to be read, and this is their first use.
    Read = 0,
    /// All pages were in shared buffers, and this is their first use in a cooperative scan.
    Cached = 1,
    /// Another scan has used them before: nothing was read for this one.
    Shared = 2,
}

/// An instruction to the fetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A table comes into use.
    OpenTable {
        /// Its handle.
        table: u32,
        /// Its file.
        key: RelKey,
    },
    /// The table's last scan has ended: its pages must not be used.
    CloseTable {
        /// Its handle.
        table: u32,
    },
    /// Read a chunk into a frame, keep it, and answer with [`Host::loaded`](crate::host::Host::loaded).
    Load {
        /// The id of the read.
        load: u64,
        /// The table.
        table: u32,
        /// The chunk.
        chunk: u32,
        /// The frame.
        frame: u32,
    },
    /// Release a frame; if it is still being read, stop.
    Evict {
        /// The frame.
        frame: u32,
    },
    /// Put a chunk into a mailbox.
    Deliver {
        /// The scan's slot.
        slot: u32,
        /// The mailbox.
        mailbox: u32,
        /// The chunk.
        chunk: u32,
        /// The frame that contains it.
        frame: u32,
        /// Its origin.
        source: Source,
    },
    /// All remaining chunks are in mailboxes.
    Finish {
        /// The scan's slot.
        slot: u32,
    },
    /// The manager has given the scan up; the scan continues alone.
    Fail {
        /// The scan's slot.
        slot: u32,
    },
    /// Chunks in the scan's mailboxes were released, because other scans wait for the room.
    Revoked {
        /// The scan's slot.
        slot: u32,
    },
}
