//! The disks and the replay of requests on them.

use coscan_core::Span;
use coscan_device::hard_disk::{HardDiskModel, ReadAhead, Schedule};
use coscan_device::{Device, DeviceModel, DeviceSpec};
use coscan_layout::{Arrivals, Beside, PAGE_BLOCKS, Read, Replayed, replay};

use super::SEEDS;

/// A reading of the paper's open points. The rows use [`JUDGED`]; `readings.rs` shows the results of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Random reads and single pages are drawn again for each seed.
    pub(super) seeds: &'static [u64],
    /// Outstanding requests of a query.
    pub(super) outstanding: usize,
    /// Commands that the disk holds.
    pub(super) queue_depth: u32,
    /// The order of commands for every experiment; `None` for each experiment's own.
    pub(super) schedule: Option<Schedule>,
    /// True if disks read ahead.
    pub(super) reads_ahead: bool,
    /// True if all tables of a query are read alternately rather than one join after the other.
    pub(super) all_in_turns: bool,
}

/// Stated: two requests outstanding. Readings: tagged queueing; disks that read ahead, as all disks of the
/// time did; plans by the rules of `plans.rs`.
pub(super) const JUDGED: Reading = Reading {
    seeds: &SEEDS,
    outstanding: 2,
    queue_depth: 32,
    schedule: None,
    reads_ahead: true,
    all_in_turns: false,
};

impl Reading {
    /// A disk with its queue in use. Each experiment's `schedule` is a reading. Random reads that arrive by
    /// themselves are served by positioning time. The reason is their rate: 150 a second are nearly all that
    /// the disk serves one after the other, but the paper's queries take only 2.6 times as long beside them.
    /// If all clients wait for answers, the order is that of arrival, which avoids starvation.
    pub(super) fn disk(&self, mut disk: HardDiskModel, schedule: Schedule) -> HardDiskModel {
        (disk.queue_depth, disk.schedule) = (self.queue_depth, self.schedule.unwrap_or(schedule));
        if !self.reads_ahead {
            disk.cache.read_ahead = ReadAhead::None;
        }
        disk
    }
}

/// An idle device of a model of this experiment.
pub(super) fn build(model: DeviceModel) -> Box<dyn Device> {
    DeviceSpec::new(model).unwrap_or_else(|error| unreachable!("a model of this experiment: {error}")).build()
}

/// A disk, the range of blocks of random reads, and their rate.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) disk: &'a HardDiskModel,
    pub(super) within: (u64, u64),
    pub(super) arrivals: Arrivals,
    pub(super) outstanding: usize,
}

impl Setting<'_> {
    pub(super) fn replay(&self, reads: &[Read], seed: u64) -> Replayed {
        let beside = Beside { arrivals: self.arrivals, blocks: PAGE_BLOCKS, within: self.within, seed };
        let mut disk = build(DeviceModel::HardDisk(Box::new(self.disk.clone())));
        replay(&mut *disk, reads, self.outstanding, Some(beside))
    }
}

/// Random 8 KB reads per second, one at a time, without other requests.
pub(super) fn one_at_a_time_per_s(disk: &HardDiskModel, within: (u64, u64)) -> f64 {
    const READS: u64 = 2000;
    let mut rng = fastrand::Rng::with_seed(1);
    let places = (within.1 - within.0) / PAGE_BLOCKS;
    let read = |_| Read { block: within.0 + rng.u64(0..places) * PAGE_BLOCKS, blocks: PAGE_BLOCKS };
    let reads: Vec<Read> = (0..READS).map(read).collect();
    let mut disk = build(DeviceModel::HardDisk(Box::new(disk.clone())));
    READS as f64 / replay(&mut *disk, &reads, 1, None).io_s
}

/// An endless client with this thinking time between two reads.
pub(super) fn client(think_us: u64) -> Arrivals {
    Arrivals::OneAtATime(Span::from_nanos(think_us * 1000))
}
