//! Service-time models of storage devices: how long a request takes and how many are served at once.
//!
//! Pure like the core: no I/O, no clock, no randomness of its own.

use std::fmt::Debug;

use coscan_core::{Instant, Span};

/// A request's name, given by whoever submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One transfer of a contiguous run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Where it begins, in bytes from the start of the device.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it reads or writes.
    pub kind: Transfer,
}

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
}

/// A device in virtual time: takes requests, queues them as it pleases, says when the next one is done.
pub trait Device: Debug {
    /// Takes a request at `now`; times never go backwards.
    fn submit(&mut self, now: Instant, request: Request);

    /// When the next request completes if nothing more is submitted; `None` if none is under way.
    fn next_completion(&self) -> Option<Instant>;

    /// Brings the device to `now` and appends what has completed by then, in order of completion.
    fn advance(&mut self, now: Instant, done: &mut Vec<RequestId>);

    /// For how long at least one request has been in service, up to the last call.
    fn busy(&self) -> Span;
}
