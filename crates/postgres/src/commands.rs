//! What the fetcher and the host say to each other: scans are announced, and commands come back.
//!
//! Names and numbers are those of shared memory: slots of scans, mailboxes in them, handles of tables, frames.

use coscan_core::PolicyName;

/// What a scan announces.
#[derive(Clone, Copy, Debug)]
pub struct Announcement {
    /// The policy its session chose.
    pub policy: PolicyName,
    /// The file it reads.
    pub key: RelKey,
    /// The chunks of the file.
    pub chunks: u32,
    /// The first chunk that it needs; it needs all from there on.
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

/// How a chunk came to be there when it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Source {
    /// Pages had to be read, and this is their first use.
    Read = 0,
    /// All pages were in shared buffers already, and this is their first use here.
    Cached = 1,
    /// Another scan has used them before: nothing was read for this one.
    Shared = 2,
}

/// What the fetcher is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A table is used from now on.
    OpenTable {
        /// Its handle.
        table: u32,
        /// Its file.
        key: RelKey,
    },
    /// The table's last scan is gone: nothing of it may be touched any more.
    CloseTable {
        /// Its handle.
        table: u32,
    },
    /// Read a chunk into a frame, keep it, and answer with [`Host::loaded`](crate::host::Host::loaded).
    Load {
        /// The read's name.
        load: u64,
        /// The table.
        table: u32,
        /// The chunk.
        chunk: u32,
        /// The frame.
        frame: u32,
    },
    /// Let go of a frame; if it is still being read, stop.
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
        /// The frame it lies in.
        frame: u32,
        /// How it came.
        source: Source,
    },
    /// No chunk is left that is not in a mailbox.
    Finish {
        /// The scan's slot.
        slot: u32,
    },
    /// The scan is not served any more and goes on by itself.
    Fail {
        /// The scan's slot.
        slot: u32,
    },
    /// What a mailbox holds is not kept any longer, because others waited for the room.
    Revoked {
        /// The scan's slot.
        slot: u32,
    },
}
