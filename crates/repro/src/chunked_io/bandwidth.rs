//! 2004, Fig. 5: bandwidth of random reads by chunk size.
//!
//! A device is near its best at 90% of the bandwidth of one long read. This definition is ours, because the
//! paper reads the point off its curves. The paper gives 4 MB for the desktop disk, 8 MB for the server disk
//! and 32 MB for the array, on an axis of powers of two.

use coscan_device::{DeviceSpec, RaidLevel};

use super::common::{MIB, Part, over_seeds, rises_to, row, series};
use super::devices::{ARRAY, DESKTOP, Reach, SERVER, array};
use super::measure::{Run, Shape, streaming};
use crate::error::ReproError;
use crate::report::{Block, Row};
use coscan_figure::axis::{Axis, number};
use coscan_figure::line::{LineChart, LinePanel};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::Summary;

/// The share of streaming bandwidth that counts as near the best.
const NEAR_BEST: f64 = 0.9;
/// Chunk sizes are powers of two: 64 KiB to 128 MiB.
const CHUNK_BITS: std::ops::RangeInclusive<u32> = 16..=27;
/// Number of random chunks read per point and seed.
const READS: usize = 100;

/// A device and the paper's value for it.
struct Subject {
    name: &'static str,
    spec: DeviceSpec,
    paper_mib: f64,
    note: &'static str,
}

/// The measurements of a device.
struct Curve {
    name: &'static str,
    streaming: f64,
    /// Chunk size in MiB and share of the streaming bandwidth.
    shares: Vec<(f64, Summary)>,
}

fn subjects() -> [Subject; 3] {
    let disk = |name, spec, paper_mib, note| Subject { name, spec, paper_mib, note };
    let server_note = "the paper names the next size; with access time and bandwidth of this disk 90% are \
                       reached below 4 MiB and 95% below 8 MiB";
    [
        disk(DESKTOP.name, DESKTOP.spec(Reach::Random), 4.0, ""),
        disk(SERVER.name, SERVER.spec(Reach::Random), 8.0, server_note),
        disk(ARRAY, array(RaidLevel::Five, Reach::Random), 32.0, ""),
    ]
}

pub(crate) fn find() -> Result<Part, ReproError> {
    let subjects = subjects();
    let curves: Vec<Curve> = subjects.iter().map(measure).collect();
    let rows = subjects.iter().zip(&curves).flat_map(|(subject, curve)| rows(subject, curve)).collect();
    let text = "Random reads of one chunk at a time: a chunk costs an access and its transfer, and is near the \
                device's best, 90% of the bandwidth of one long read, when the transfer takes nine times as \
                long as the access. An array divides a chunk among its disks, so it needs chunks larger by \
                as much. MiB are 2^20 bytes as in the paper's chunks of 1024 pages, MB/s are 10^6.";
    let blocks = vec![
        Block::Heading("Bandwidth against chunk size".to_owned()),
        Block::Text(text.to_owned()),
        table(&curves),
        Block::Figure {
            caption: "Random reads of one chunk at a time".to_owned(),
            svg: chart(&curves).svg()?,
        },
    ];
    Ok(Part { rows, blocks })
}

fn measure(subject: &Subject) -> Curve {
    let streaming = streaming(&subject.spec);
    let share = |bytes: u64| {
        let rate = |seed| Run::random(&subject.spec, Shape::read(bytes), 1, READS, seed).per_second();
        over_seeds(|seed| rate(seed) * bytes as f64 / streaming)
    };
    let point = |bits: u32| ((1u64 << bits) as f64 / MIB as f64, share(1 << bits));
    Curve { name: subject.name, streaming, shares: CHUNK_BITS.map(point).collect() }
}

impl Curve {
    fn medians(&self) -> Vec<(f64, f64)> {
        self.shares.iter().map(|(mib, share)| (*mib, share.median)).collect()
    }

    /// The first measured chunk size near the best, and the interpolated size at which the curve gets there.
    fn near_best_mib(&self) -> (f64, f64) {
        let medians = self.medians();
        let first = medians.iter().find(|(_, share)| *share >= NEAR_BEST).map_or(f64::NAN, |(mib, _)| *mib);
        (first, rises_to(&medians, NEAR_BEST).unwrap_or(f64::NAN))
    }
}

fn rows(subject: &Subject, curve: &Curve) -> Vec<Row> {
    let Subject { name, paper_mib, note, .. } = subject;
    let (first, between) = curve.near_best_mib();
    // Sizes are a factor of two apart: half is the next lower one.
    let size = format!("{name}: chunk size with 90% of streaming bandwidth (MiB)");
    let stop = if note.is_empty() { "" } else { "; " };
    let size_note = format!("between the sizes measured: {}{stop}{note}", number(between));
    let at_paper = curve.shares.iter().find(|(mib, _)| mib == paper_mib).map(|(_, share)| *share);
    let share = format!("{name}: share of streaming bandwidth at {paper_mib} MiB");
    let share_note = "near its best at this size, says the paper; within means at least 90%";
    let mut rows = vec![row(size, *paper_mib, Summary::exactly(first), 0.5, size_note)];
    rows.extend(at_paper.map(|measured| row(share, 1.0, measured, 1.0 - NEAR_BEST, share_note)));
    // 90 % is coscan's reading of the paper's "optimal".
    rows.into_iter().map(|row| row.on(Basis::Reading)).collect()
}

fn table(curves: &[Curve]) -> Block {
    let mib = |curve: &Curve, level| rises_to(&curve.medians(), level).map_or("–".to_owned(), number);
    let line = |curve: &Curve| {
        let shares = [0.8, 0.9, 0.95].map(|level| mib(curve, level));
        [curve.name.to_owned(), number(curve.streaming / 1e6)].into_iter().chain(shares).collect()
    };
    let header = ["device", "streaming (MB/s)", "80% at (MiB)", "90% at (MiB)", "95% at (MiB)"];
    Block::Table {
        caption: "Chunk size for a share of the streaming bandwidth".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: curves.iter().map(line).collect(),
    }
}

fn chart(curves: &[Curve]) -> LineChart {
    let x = || Axis::log("chunk size (MiB)").ticks([0.25, 1.0, 4.0, 8.0, 32.0, 128.0].to_vec());
    let panel = |title: &str, y, of: fn(&Curve) -> f64| {
        let scaled = |curve: &Curve| {
            let factor = of(curve);
            let scaled = |(mib, share): &(f64, Summary)| (*mib, share.map(|share| share * factor));
            series(curve.name, curve.shares.iter().map(scaled))
        };
        LinePanel { title: title.to_owned(), x: x(), y, series: curves.iter().map(scaled).collect() }
    };
    LineChart {
        title: "Bandwidth against chunk size".to_owned(),
        description: "Bandwidth of random chunk reads over the chunk size, per device.".to_owned(),
        panels: vec![
            panel("bandwidth", Axis::log("MB/s"), |curve| curve.streaming / 1e6),
            panel("share of one long read", Axis::linear("%").range(0.0, 100.0), |_| 100.0),
        ],
        columns: 2,
    }
}
