//! Fig. 3: the share of an access's time that moves data, by its size, aligned to tracks and unaligned.
//!
//! The disk turns, seeks and switches heads. There is no read-ahead, and bus and commands take no time, as in
//! the figure's definition of efficiency.

use coscan_core::{Instant, Span};
use coscan_device::hard_disk::{DiskOverheads, HardDiskModel, ReadAhead, atlas10k, atlas10k2};
use coscan_device::replay::{Arrival, replay};
use coscan_device::{DeviceModel, Transfer};
use coscan_figure::axis::Axis;
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};
use coscan_sim::scenario::Basis;

use super::row;
use super::volume::build;
use crate::error::ReproError;
use crate::report::{Block, Row};

/// Random requests per size.
const REQUESTS: u64 = 120;
/// Sizes as eighths of a track.
const EIGHTHS: u64 = 48;

/// Efficiency by size in eighths of a track, from one on.
struct Curves {
    aligned: Vec<f64>,
    unaligned: Vec<f64>,
    streaming: f64,
}

/// The curves of the figure's disk, and of the disk with measured parameters.
pub(super) struct Efficiency {
    derived: Curves,
    measured: Curves,
    /// Mean seek in the first zone of the figure's disk, in ms.
    seek_ms: f64,
}

pub(super) fn measure() -> Efficiency {
    let figure = mechanism(atlas10k2());
    Efficiency {
        seek_ms: seek_ms(&figure),
        derived: curves(&figure),
        measured: curves(&mechanism(atlas10k())),
    }
}

fn curves(disk: &HardDiskModel) -> Curves {
    let by_size = |aligned: bool| (1..=EIGHTHS).map(|eighths| efficiency(disk, eighths, aligned)).collect();
    Curves { aligned: by_size(true), unaligned: by_size(false), streaming: streaming(disk) }
}

/// The disk with its mechanism alone.
fn mechanism(mut disk: HardDiskModel) -> HardDiskModel {
    disk.overheads = DiskOverheads::default();
    disk.bus.block = Span::ZERO;
    disk.cache.read_ahead = ReadAhead::None;
    disk.cache.free_reads = false;
    disk.cache.segment_blocks = 1 << 14;
    disk
}

fn track(disk: &HardDiskModel) -> u64 {
    u64::from(disk.zones[0].sectors)
}

/// The first blocks of the first zone's tracks.
fn tracks(disk: &HardDiskModel) -> Vec<u64> {
    let cylinders = u64::from(disk.zones[0].last_cylinder + 1);
    let end = cylinders * u64::from(disk.heads) * track(disk) - u64::from(disk.zones[0].spares) - 1;
    disk.track_starts(0, end.saturating_sub(disk.zones[0].slips.len() as u64))
}

/// The time in which this many sectors of the first zone pass, in seconds.
fn passing_s(disk: &HardDiskModel, blocks: u64) -> f64 {
    blocks as f64 / track(disk) as f64 * 60.0 / f64::from(disk.rpm)
}

/// The efficiency of random reads in the first zone, far enough apart that each meets an idle disk.
fn efficiency(disk: &HardDiskModel, eighths: u64, aligned: bool) -> f64 {
    let (track, tracks) = (track(disk), tracks(disk));
    let blocks = eighths * track / 8;
    let places = tracks.len() - blocks.div_ceil(track) as usize - 1;
    let mut rng = fastrand::Rng::with_seed(eighths);
    let mut at = 0;
    let arrival = |_| {
        at += 200_000_000 + rng.u64(0..10_000_000);
        let block = tracks[rng.usize(0..places)] + if aligned { 0 } else { rng.u64(0..track) };
        Arrival { at: Instant::from_nanos(at), block, blocks, kind: Transfer::Read }
    };
    let arrivals: Vec<Arrival> = (0..REQUESTS).map(arrival).collect();
    REQUESTS as f64 * passing_s(disk, blocks) / total_s(disk, &arrivals)
}

/// The efficiency of one long read in order: only head switches cost time.
fn streaming(disk: &HardDiskModel) -> f64 {
    let mut disk = disk.clone();
    disk.zero_latency = false;
    let blocks = 40 * track(&disk);
    let arrival = Arrival { at: Instant::ZERO, block: 0, blocks, kind: Transfer::Read };
    passing_s(&disk, blocks) / total_s(&disk, &[arrival])
}

/// The mean seek between random tracks of the first zone: their reads take a seek and, from any landing
/// point, a revolution.
fn seek_ms(disk: &HardDiskModel) -> f64 {
    let revolution_ms = 60_000.0 / f64::from(disk.rpm);
    revolution_ms / efficiency(disk, 8, true) - revolution_ms
}

fn total_s(disk: &HardDiskModel, arrivals: &[Arrival]) -> f64 {
    let mut device = build(DeviceModel::HardDisk(Box::new(disk.clone())));
    let took = replay(&mut *device, disk.blocks(), arrivals);
    took.map_or(f64::NAN, |took| took.iter().map(|span| span.as_nanos() as f64 / 1e9).sum())
}

impl Curves {
    /// The points of the figure at one track.
    fn at_one_track(&self) -> (f64, f64) {
        (self.aligned[7], self.unaligned[7])
    }

    /// The size in tracks at which an unaligned request is as efficient as an aligned one of one track.
    fn catches_up_at(&self) -> f64 {
        let (aligned, _) = self.at_one_track();
        let caught_up = self.unaligned.iter().position(|unaligned| *unaligned >= aligned);
        caught_up.map_or(f64::INFINITY, |at| (at + 1) as f64 / 8.0)
    }

    fn panel(&self, title: &str) -> LinePanel {
        let points = |values: &[f64]| -> Vec<Point> {
            let point = |(at, y): (usize, &f64)| Point { x: (at + 1) as f64 / 8.0, y: *y, spread: (*y, *y) };
            values.iter().enumerate().map(point).collect()
        };
        let series = |name: &str, values: &[f64]| Series {
            name: name.to_owned(),
            points: points(values),
            draw: Draw::Line,
            look: None,
        };
        LinePanel {
            title: title.to_owned(),
            x: Axis::linear("size in tracks"),
            y: Axis::linear("efficiency"),
            series: vec![series("aligned", &self.aligned), series("unaligned", &self.unaligned)],
        }
    }
}

impl Efficiency {
    pub(super) fn rows(&self) -> Vec<Row> {
        let curves = &self.derived;
        let (aligned, _) = curves.at_one_track();
        let stated = Basis::Stated;
        let seek = "the seek curve was scaled to the mean seek that the paper states for the zone";
        let (other, other_unaligned) = self.measured.at_one_track();
        let check = format!(
            "the Atlas 10K, whose parameters are measured: {other:.2} aligned, {other_unaligned:.2} not, {:.2} streaming",
            self.measured.streaming
        );
        vec![
            row("fig3.mean_seek_ms", 2.2, &[self.seek_ms], Basis::Fitted, seek),
            row("fig3.streaming", 0.89, &[curves.streaming], Basis::Fitted, "the skew was chosen for it"),
            row(
                "fig3.aligned_track",
                0.73,
                &[aligned],
                Basis::Input,
                format!("follows from the fitted seek; {check}"),
            ),
            row(
                "fig3.aligned_over_streaming",
                0.82,
                &[aligned / curves.streaming],
                Basis::Input,
                "follows from the fitted seek and skew",
            ),
            row(
                "fig3.unaligned_tracks_to_catch_up",
                4.0,
                &[curves.catches_up_at()],
                stated,
                "in eighths of a track",
            ),
        ]
    }

    pub(super) fn shown(&self) -> Result<Block, ReproError> {
        let chart = LineChart {
            title: "Disk access efficiency by request size (Fig. 3)".to_owned(),
            description: "Share of the access time that moves data, aligned to tracks and not.".to_owned(),
            panels: vec![
                self.derived.panel("Atlas 10K II, first zone"),
                self.measured.panel("Atlas 10K, first zone"),
            ],
            columns: 2,
        };
        Ok(Block::Figure {
            caption: "Aligned reads peak at multiples of the track".to_owned(),
            svg: chart.svg()?,
        })
    }
}
