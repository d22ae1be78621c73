//! Table 1, and the table that finds extents (section 4).
//!
//! Values that a model has by construction are shown too, on the basis `input`: they do not count. Mean seeks
//! are measured: random reads of one block, minus half a revolution.

use coscan_core::{Instant, Span};
use coscan_device::hard_disk::{
    BLOCK_BYTES, DiskOverheads, HardDiskModel, ReadAhead, atlas3, atlas10k, atlas10k3, c2247, cheetahx15,
    ultrastar18lzx,
};
use coscan_device::replay::{Arrival, replay};
use coscan_device::{DeviceModel, Transfer};
use coscan_layout::Extents;
use coscan_sim::scenario::Basis;

use super::volume::build;
use super::{row, tolerating};
use crate::report::Row;

/// Random reads for a mean seek.
const READS: u64 = 4000;

/// A line of Table 1.
struct Stated {
    name: &'static str,
    seek_ms: f64,
    sectors: (f64, f64),
    tracks: f64,
    gigabytes: f64,
    /// The basis of the model's seeks and capacity.
    basis: Basis,
    /// The basis of the model's sectors and tracks.
    geometry: Basis,
    note: &'static str,
}

const ATLAS_10K: Stated = Stated {
    name: "atlas10k",
    seek_ms: 5.0,
    sectors: (334.0, 224.0),
    tracks: 60_126.0,
    gigabytes: 9.1,
    basis: Basis::Stated,
    geometry: Basis::Stated,
    note: "the parameters are those that were measured for DiskSim",
};

const ATLAS_10K_III: Stated = Stated {
    name: "atlas10k3",
    seek_ms: 4.5,
    sectors: (686.0, 396.0),
    tracks: 124_088.0,
    gigabytes: 36.7,
    basis: Basis::Fitted,
    geometry: Basis::Input,
    note: "seek curve and zones were chosen for it",
};

const DERIVED: &str = "derived: the seek curve was stretched to it, zones are assumed";

/// The drives that are known from Table 1 only.
const OTHERS: [(Stated, fn() -> HardDiskModel); 4] = [
    (derived("c2247", 10.0, (96.0, 56.0), 25_649.0, 1.0), c2247),
    (derived("atlas3", 8.5, (256.0, 168.0), 80_570.0, 9.0), atlas3),
    (derived("ultrastar18lzx", 5.9, (382.0, 195.0), 116_340.0, 18.0), ultrastar18lzx),
    (derived("cheetahx15", 3.9, (386.0, 286.0), 103_750.0, 18.0), cheetahx15),
];

const fn derived(
    name: &'static str,
    seek_ms: f64,
    sectors: (f64, f64),
    tracks: f64,
    gigabytes: f64,
) -> Stated {
    Stated {
        name,
        seek_ms,
        sectors,
        tracks,
        gigabytes,
        basis: Basis::Fitted,
        geometry: Basis::Input,
        note: DERIVED,
    }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = of(&ATLAS_10K, &atlas10k());
    rows.extend(of(&ATLAS_10K_III, &atlas10k3()));
    rows.extend(OTHERS.iter().flat_map(|(stated, disk)| of(stated, &disk())));
    let disk = atlas10k3();
    let table = Extents::between(&disk.track_starts(0, disk.blocks()));
    let kilobytes = table.table_bytes() as f64 / 1000.0;
    rows.push(row(
        "extents.table_kb",
        990.0,
        &[kilobytes],
        Basis::Input,
        "8 bytes an extent, one extent a track",
    ));
    rows.push(tolerating(
        1.0,
        row("extents.waste", 0.01, &[table.waste()], Basis::Range, "the paper says less than 2%"),
    ));
    rows
}

fn of(stated: &Stated, disk: &HardDiskModel) -> Vec<Row> {
    let tracks = disk.track_starts(0, disk.blocks()).len() as f64;
    let sectors = |zone: usize| f64::from(disk.zones[zone].sectors);
    let gigabytes = (disk.blocks() * BLOCK_BYTES) as f64 / 1e9;
    let row = |what: &str, paper, measured: f64, basis, note| {
        row(&format!("{}.{what}", stated.name), paper, &[measured], basis, note)
    };
    vec![
        row("mean_seek_ms", stated.seek_ms, mean_seek_ms(disk), stated.basis, stated.note),
        row("sectors_outermost", stated.sectors.0, sectors(0), stated.geometry, ""),
        row("sectors_innermost", stated.sectors.1, sectors(disk.zones.len() - 1), stated.geometry, ""),
        row("tracks", stated.tracks, tracks, stated.geometry, ""),
        row("gigabytes", stated.gigabytes, gigabytes, stated.basis, stated.note),
    ]
}

fn mean_seek_ms(disk: &HardDiskModel) -> f64 {
    let mut disk = disk.clone();
    disk.overheads = DiskOverheads::default();
    disk.bus.block = Span::ZERO;
    disk.cache.read_ahead = ReadAhead::None;
    disk.cache.free_reads = false;
    let blocks = disk.blocks();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut at = 0;
    let arrival = |_| {
        at += 100_000_000 + rng.u64(0..10_000_000);
        Arrival { at: Instant::from_nanos(at), block: rng.u64(0..blocks), blocks: 1, kind: Transfer::Read }
    };
    let arrivals: Vec<Arrival> = (0..READS).map(arrival).collect();
    let mut device = build(DeviceModel::HardDisk(Box::new(disk.clone())));
    let took = replay(&mut *device, blocks, &arrivals);
    let total_ns = took.map_or(f64::NAN, |took| took.iter().map(|span| span.as_nanos() as f64).sum());
    total_ns / READS as f64 / 1e6 - 30_000.0 / f64::from(disk.rpm)
}
