//! Service-time models of storage devices: the duration of requests, and how many are served at once.
//!
//! The crate is pure like the core: no I/O, no clock, no randomness except from seeds that are passed in. A
//! [`DeviceModel`] is plain numbers. A [`DeviceSpec`] is a checked model; it builds any number of idle
//! devices. The caller reads files and units.
//!
//! | model | description | file |
//! |---|---|---|
//! | seek disk | one request after the other; a fixed cost unless a request continues the last; bandwidth | `disk.rs` |
//! | hard disk | accurate to the sector: zones, skews, seeks, rotation, buffer, queue, bus | `hard_disk/` |
//! | RAID | levels 0, 1, 4 and 5 over members of any model | `raid/` |
//! | parallel | a solid-state drive or object store: several at once, latency, shared bandwidth | `parallel.rs` |
//! | solid state | channels, planes and stripes | `solid_state.rs` |
//! | throttled, faulty, delayed, bounded | wrappers of any device: a token bucket, failures, latency, boundaries | `wrap/` |
//!
//! `probe/` measures a device of any kind, simulated or not, and `replay.rs` replays traces.
//!
//! [`SharedRate`] is the processor sharing of the parallel device; simulated processors use it too.
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
mod transfer;
mod wrap;

use std::fmt::Debug;

use coscan_base::{Instant, Span};

pub use error::{Part, SpecError};
pub use raid::RaidLevel;
pub use sharing::SharedRate;
pub use solid_state::SolidStateModel;
pub use spec::{DeviceModel, DeviceSpec};
pub use transfer::transfer_time;
pub use wrap::{Boundaries, Delay, FaultRule};

/// The id of a request, given by the caller. It is unique among pending requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One transfer of a contiguous run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Its start, in bytes from the start of the device.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its direction.
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
    /// True if its bytes were transferred. A failed request took its time too.
    pub ok: bool,
}

/// A device in virtual time: takes requests, queues them, and tells when the next one is done.
pub trait Device: Debug {
    /// Takes a request at `now`; times never decrease.
    fn submit(&mut self, now: Instant, request: Request);

    /// No request completes before this time unless another is submitted; `None` if there is none. The host
    /// calls [`Device::advance`] at this time. That call may return no completion, because a device made of
    /// devices has steps of its own. The next call of this function then returns a later time.
    fn next_completion(&self) -> Option<Instant>;

    /// Advances the device to `now` and appends the requests that have completed by then, in order of
    /// completion.
    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>);

    /// The time during which at least one request was in progress, up to the last call with a time.
    fn busy(&self) -> Span;
}
