//! The disks and how requests are replayed on them.

use coscan_core::Span;
use coscan_device::hard_disk::{HardDiskModel, Schedule};
use coscan_device::{Device, DeviceModel, DeviceSpec};
use coscan_layout::{Arrivals, Beside, PAGE_BLOCKS, Read, Replayed, replay};

/// Requests of a query at the disk (stated).
pub(super) const OUTSTANDING: usize = 2;
/// Commands that the disk holds (reading: tagged queueing).
const QUEUE_DEPTH: u32 = 32;

/// A disk with its queue in use. Reading: by positioning time where random reads come by themselves, because at 150 a
/// second they are nearly all that the disk serves one after the other, and the paper's queries take only 2.6 times as
/// long beside them. In order of arrival where everybody waits for answers, so that nobody starves.
pub(super) fn queueing(mut disk: HardDiskModel, schedule: Schedule) -> HardDiskModel {
    (disk.queue_depth, disk.schedule) = (QUEUE_DEPTH, schedule);
    disk
}

/// An idle device of a model of this experiment.
pub(super) fn build(model: DeviceModel) -> Box<dyn Device> {
    DeviceSpec::new(model).unwrap_or_else(|error| unreachable!("a model of this experiment: {error}")).build()
}

/// A disk, the blocks that random reads go to, and how often they come.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) disk: &'a HardDiskModel,
    pub(super) within: (u64, u64),
    pub(super) arrivals: Arrivals,
}

impl Setting<'_> {
    pub(super) fn replay(&self, reads: &[Read], seed: u64) -> Replayed {
        let beside = Beside { arrivals: self.arrivals, blocks: PAGE_BLOCKS, within: self.within, seed };
        let mut disk = build(DeviceModel::HardDisk(Box::new(self.disk.clone())));
        replay(&mut *disk, reads, OUTSTANDING, Some(beside))
    }
}

/// Random 8 KB reads per second, one at a time and nothing else.
pub(super) fn one_at_a_time_per_s(disk: &HardDiskModel, within: (u64, u64)) -> f64 {
    const READS: u64 = 2000;
    let mut rng = fastrand::Rng::with_seed(1);
    let places = (within.1 - within.0) / PAGE_BLOCKS;
    let read = |_| Read { block: within.0 + rng.u64(0..places) * PAGE_BLOCKS, blocks: PAGE_BLOCKS };
    let reads: Vec<Read> = (0..READS).map(read).collect();
    let mut disk = build(DeviceModel::HardDisk(Box::new(disk.clone())));
    READS as f64 / replay(&mut *disk, &reads, 1, None).io_s
}

/// A client that never stops, if it thinks so long between two reads.
pub(super) fn client(think_us: u64) -> Arrivals {
    Arrivals::OneAtATime(Span::from_nanos(think_us * 1000))
}
