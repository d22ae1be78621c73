//! The host's facts about a running scan: its mailboxes.
//!
//! A mailbox is a place in shared memory that holds a chunk for a backend. To the manager it is a worker of
//! the scan. A scan has more mailboxes than processes, so that the next chunk is ready before it is needed.

use coscan_core::{ScanId, WorkerNo};

/// The state of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// It is empty and may request a chunk.
    Idle,
    /// It has requested a chunk from the manager.
    Requested,
    /// It holds a chunk that is kept for it.
    Held,
    /// Its backend still reads a chunk that was released, because other scans needed the room.
    Revoked,
    /// No chunk is left for it.
    Drained,
}

/// A running scan.
#[derive(Debug)]
pub struct RunningScan {
    /// The position of its manager.
    pub manager: usize,
    /// Its id in the manager.
    pub id: ScanId,
    /// Its table's handle.
    pub table: u32,
    /// Its mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// True if the manager gave it up, so that the backend reads without the manager.
    pub failed: bool,
}

impl RunningScan {
    /// True if as many mailboxes as the scan has processes wait for a chunk or hold one that is kept for them.
    /// A process may keep its chunk for as long as another one waits: a parallel worker that cannot send its
    /// rows waits for its leader.
    pub fn is_served(&self) -> bool {
        let served = |mailbox: &&Mailbox| matches!(mailbox, Mailbox::Requested | Mailbox::Held);
        let processes = self.mailboxes.len() - 1;
        self.mailboxes.iter().filter(served).count() >= processes.max(1)
    }

    /// The number of mailboxes that hold a chunk.
    pub fn held(&self) -> usize {
        self.mailboxes.iter().filter(|mailbox| **mailbox == Mailbox::Held).count()
    }

    /// The first mailbox that may request a chunk.
    pub fn idle(&self) -> Option<WorkerNo> {
        self.mailboxes.iter().position(|mailbox| *mailbox == Mailbox::Idle).map(|at| WorkerNo(at as u32))
    }
}
