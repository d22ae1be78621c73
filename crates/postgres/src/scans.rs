//! What the host knows of a running scan: its mailboxes.
//!
//! A mailbox is the place in shared memory where a backend finds a chunk. To the manager it is a worker of the
//! scan. A scan has more mailboxes than processes, so that the next chunk is ready before it is needed.

use coscan_core::{ScanId, WorkerNo};

/// What a mailbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// Nothing; it may ask.
    Idle,
    /// It has asked the manager for a chunk.
    Requested,
    /// It holds a chunk that is kept for it.
    Held,
    /// Its backend still reads a chunk that is no longer kept for it, because others needed the room.
    Revoked,
    /// Nothing is left for it.
    Drained,
}

/// A running scan.
#[derive(Debug)]
pub struct RunningScan {
    /// Where its manager is.
    pub manager: usize,
    /// Its id there.
    pub id: ScanId,
    /// Its table's handle.
    pub table: u32,
    /// Its mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// Whether the manager gave it up, so that the backend reads without it.
    pub failed: bool,
}

impl RunningScan {
    /// Whether a mailbox waits for a chunk or holds one that is kept for it.
    pub fn is_served(&self) -> bool {
        self.mailboxes.iter().any(|mailbox| matches!(mailbox, Mailbox::Requested | Mailbox::Held))
    }

    /// The mailboxes that hold a chunk.
    pub fn held(&self) -> usize {
        self.mailboxes.iter().filter(|mailbox| **mailbox == Mailbox::Held).count()
    }

    /// The first mailbox that may ask.
    pub fn idle(&self) -> Option<WorkerNo> {
        self.mailboxes.iter().position(|mailbox| *mailbox == Mailbox::Idle).map(|at| WorkerNo(at as u32))
    }
}
