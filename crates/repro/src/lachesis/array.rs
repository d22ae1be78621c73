//! Fig. 6: the queries on RAID-5 of four disks; stripe unit and requests of 256 KB compared with one track.

use coscan_device::hard_disk::{BLOCK_BYTES, HardDiskModel, ReadAhead, Schedule, Zone, atlas10k3};
use coscan_device::{DeviceModel, RaidLevel};
use coscan_layout::{Extents, PAGE_BLOCKS, Unit, replay};
use coscan_sim::scenario::Basis;

use super::plans::{PLANS, Phase, Play, part};
use super::tables::Placement;
use super::volume::{Reading, build};
use super::{explained, mean, parallel, row};
use crate::report::{Block, Row};

/// Disks (stated).
const DISKS: u32 = 4;
/// The stripe unit that ignores tracks (stated), in blocks.
const UNIT: u64 = 512;
/// Sectors of a track in the used zone (stated).
const TRACK: u32 = 584;
/// Scale of the benchmark (stated).
const SCALE: u64 = 10;

/// Time with stripe units of a track over time with 256 KB, by query.
pub(super) struct Array {
    ratios: Vec<f64>,
    /// The same on disks that do not read ahead while they wait.
    without_read_ahead: Vec<f64>,
    track: u64,
}

/// A disk with all tracks as long as those of the closest zone, so that units lie on tracks.
fn one_zone(reading: &Reading) -> (HardDiskModel, u64) {
    let mut disk = reading.disk(atlas10k3(), Schedule::Fcfs);
    let last_cylinder = disk.zones.last().map_or(0, |zone| zone.last_cylinder);
    let nearest = disk.zones.iter().min_by_key(|zone| zone.sectors.abs_diff(TRACK)).cloned();
    disk.zones = nearest.map(|zone| Zone { last_cylinder, ..zone }).into_iter().collect();
    let track = disk.zones.first().map_or(0, |zone| u64::from(zone.sectors));
    (disk, track)
}

pub(super) fn measure(threads: usize, reading: &Reading) -> Array {
    let (disk, track) = one_zone(reading);
    let mut plain = disk.clone();
    plain.cache.read_ahead = ReadAhead::None;
    let seconds = |disk: &HardDiskModel, plan: &[Phase], unit: u64| {
        let placement = Placement::new(SCALE, unit / PAGE_BLOCKS);
        let units = placement.pages().div_ceil(unit / PAGE_BLOCKS) + 1;
        let extents = Extents::between(&(0..=units).map(|nth| nth * unit).collect::<Vec<u64>>());
        let (part, all_in_turns) = (part(plan, &placement), reading.all_in_turns);
        let play = Play { placement, extents: &extents, unit: Unit::Extent, part, all_in_turns };
        let reads = play.requests(plan, reading.seeds[0]);
        let member = Box::new(DeviceModel::HardDisk(Box::new(disk.clone())));
        let stripe_unit_bytes = unit * BLOCK_BYTES;
        let model = DeviceModel::Raid { level: RaidLevel::Five, disks: DISKS, stripe_unit_bytes, member };
        replay(&mut *build(model), &reads, reading.outstanding, None).io_s
    };
    let ratios = |disk: &HardDiskModel| {
        parallel::map(threads, &PLANS, |plan| seconds(disk, plan, track) / seconds(disk, plan, UNIT))
    };
    Array { ratios: ratios(&disk), without_read_ahead: ratios(&plain), track }
}

impl Array {
    pub(super) fn rows(&self) -> Vec<Row> {
        let gain = 1.0 - mean(self.ratios.iter().copied());
        let plain = 1.0 - mean(self.without_read_ahead.iter().copied());
        let note = format!(
            "two requests keep two of four disks busy, and here the others read ahead meanwhile, which hides the break \
             in sequential access that the paper names as the reason for its gain; with disks that do not read ahead \
             the gain is {:.0}%. The disks have {} sectors on every track",
            100.0 * plain,
            self.track
        );
        vec![explained(row("raid5.gain", 0.25, &[gain], Basis::Stated, note))]
    }

    pub(super) fn shown(&self) -> Block {
        let line = |(nth, ratio): (usize, &f64)| {
            let percent = |ratio: f64| format!("{:.0}%", 100.0 * (1.0 - ratio));
            vec![format!("Q{}", nth + 1), percent(*ratio), percent(self.without_read_ahead[nth])]
        };
        Block::Table {
            caption: "RAID-5 of four disks: time saved by stripe units and requests of a track".to_owned(),
            header: ["query", "gain", "gain without read-ahead"].map(str::to_owned).to_vec(),
            rows: self.ratios.iter().enumerate().map(line).collect(),
        }
    }
}
