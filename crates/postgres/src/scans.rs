//! What the host knows of a running scan: its seats.
//!
//! A seat is the place in shared memory where a backend finds a chunk. It is a worker of the scan in the
//! manager's eyes. A scan has more seats than processes that read, so that the next chunk lies ready.

use coscan_core::{ScanId, WorkerNo};

/// What a seat is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// Nothing; it may ask.
    Idle,
    /// It has asked the manager for a chunk.
    Asked,
    /// It holds a chunk that is kept for it.
    Holds,
    /// Its backend is still at a chunk that the manager counts as finished: the room was needed.
    Revoked,
    /// Nothing is left for it.
    Home,
}

/// A running scan.
#[derive(Debug)]
pub struct RunningScan {
    /// Where its manager is.
    pub manager: usize,
    /// Its name there.
    pub id: ScanId,
    /// Its table's handle.
    pub table: u32,
    /// Its seats.
    pub seats: Vec<Seat>,
    /// Whether the manager gave it up: the backend reads by itself.
    pub failed: bool,
}

impl RunningScan {
    /// Whether a seat waits for a chunk or holds one that is kept for it.
    pub fn is_served(&self) -> bool {
        self.seats.iter().any(|seat| matches!(seat, Seat::Asked | Seat::Holds))
    }

    /// The seats that hold a chunk.
    pub fn held(&self) -> usize {
        self.seats.iter().filter(|seat| **seat == Seat::Holds).count()
    }

    /// The first seat that may ask.
    pub fn idle(&self) -> Option<WorkerNo> {
        self.seats.iter().position(|seat| *seat == Seat::Idle).map(|at| WorkerNo(at as u32))
    }
}
