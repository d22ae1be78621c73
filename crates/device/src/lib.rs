//! Service-time models of storage devices: how long a request takes and how many are served at once.
//!
//! Pure like the core: no I/O, no clock, no randomness except from seeds that are passed in. A [`DeviceModel`] is
//! plain numbers. A [`DeviceSpec`] is a model that was checked; it builds any number of idle devices. The caller
//! reads files and units.
//!
//! | model | what it is | file |
//! |---|---|---|
//! | seek disk | one request after the other; a fixed cost unless it continues the last; bandwidth | `disk.rs` |
//! | hard disk | accurate to the sector: zones, skews, seeks, rotation, buffer, queue, bus | `hard_disk/` |
//! | RAID | levels 0, 1, 4 and 5 over members of any model | `raid/` |
//! | parallel | a solid-state drive or object store: several at once, latency, shared bandwidth | `parallel.rs` |
//! | solid state | channels, planes and stripes | `solid_state.rs` |
//! | throttled, faulty, delayed, bounded | wrappers of any device: a token bucket, failures, latency, boundaries | `wrap/` |
//!
//! `probe/` measures a device of any kind, simulated or not, and `replay.rs` replays traces.
//!
//! [`SharedRate`] is the processor sharing of the parallel device; simulated processors use it too. [`statistics`] has
//! the median and the quantile of everything that is measured here, simulated or reported.
#![deny(missing_docs)]

mod completed;
mod disk;
mod error;
pub mod hard_disk;
mod parallel;
pub mod probe;
mod raid;
pub mod replay;
mod sharing;
mod solid_state;
mod spec;
pub mod statistics;
mod transfer;
mod wrap;

use std::fmt::Debug;

use coscan_core::{Instant, Span};

pub use error::{Part, SpecError};
pub use raid::RaidLevel;
pub use sharing::SharedRate;
pub use solid_state::SolidStateModel;
pub use spec::{DeviceModel, DeviceSpec};
pub use transfer::transfer_time;
pub use wrap::{Boundaries, Delay, FaultRule};

/// The id of a request, given by the caller; no two pending requests may have the same.
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

impl Request {
    /// The byte behind its last.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its name.
    pub id: RequestId,
    /// Whether its bytes were transferred. A failed request took its time too.
    pub ok: bool,
}

/// A device in virtual time: takes requests, queues them, says when the next one is done.
pub trait Device: Debug {
    /// Takes a request at `now`; times never go backwards.
    fn submit(&mut self, now: Instant, request: Request);

    /// No request completes before this time if nothing more is submitted; `None` if there is none. A host calls
    /// [`Device::advance`] then. That call may return nothing, because a device that is made of devices has steps of
    /// its own; the next call of this function then returns a later time.
    fn next_completion(&self) -> Option<Instant>;

    /// Brings the device to `now` and appends what has completed by then, in order of completion.
    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>);

    /// For how long at least one request has been under way, up to the last call with a time.
    fn busy(&self) -> Span;
}
