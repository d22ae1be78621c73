//! A hard disk accurate to the sector, with the mechanisms that DiskSim 4.0 describes. These are zones,
//! skews, head and cylinder switches, a measured seek curve, rotation and zero-latency access. The drive has
//! a segmented buffer with read-ahead and write-back, command queueing, and a bus slower or faster than the
//! medium.
//!
//! | part | content | file |
//! |---|---|---|
//! | model | the numbers | `model.rs` |
//! | geometry | places of blocks | `geometry.rs` |
//! | seek curve | travel times of the arm | `seek.rs` |
//! | mechanism | times at which sectors pass | `mechanism.rs` |
//! | cache | blocks in the buffer | `cache.rs` |
//! | schedule | choice of the next command | `schedule.rs` |
//! | drive | order of events; the device | `drive.rs`, `job.rs` |
//! | drives | known models | `drives.rs` |
//!
//! Not modelled: thermal recalibration, remapped sectors, power states, several drives on a bus.

mod cache;
mod drive;
mod drives;
mod geometry;
mod job;
mod mechanism;
mod model;
mod schedule;
mod seek;

/// Times within a disk, in picoseconds. Nanoseconds are too coarse: one is 1/18 of a thousandth of a sector,
/// and revolutions must add up over hours.
type Picos = u64;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 512;

pub(crate) use drive::HardDisk;
pub use drives::{DRIVES, Drive, atlas3, atlas10k, atlas10k2, atlas10k3, c2247, cheetahx15, ultrastar18lzx};
pub use geometry::{TrackOrder, Zone};
pub use model::{DiskBus, DiskCache, DiskOverheads, HardDiskModel, ReadAhead};
pub use schedule::Schedule;
pub use seek::SeekCurve;
