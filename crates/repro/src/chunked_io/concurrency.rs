//! 2004, Table 3: the number of pages and chunks that an array of X disks serves at a time, and the bandwidth
//! of chunks.
//!
//! The number served at a time is the throughput, with as many requests in flight as needed, times the time
//! of one request alone. So a page write on RAID-5, which occupies two disks twice, counts as one request for
//! all of that time. For chunks the array is its own reference: throughput with several in flight over that
//! with one.

use coscan_device::{RaidLevel, Transfer};

use super::common::{MIB, Part, over_seeds, row, series};
use super::devices::{DESKTOP, DISKS, Reach, array};
use super::measure::{Run, Shape};
use crate::error::ReproError;
use crate::report::{Block, Row};
use coscan_figure::axis::{Axis, number};
use coscan_figure::line::{LineChart, LinePanel};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::Summary;

const PAGE_BYTES: u64 = 8192;
/// The paper's chunk of 1024 pages, on each disk that holds data: an array's chunk has 1024 pages per such
/// disk.
const CHUNK_BYTES_PER_DISK: u64 = 8 * MIB;
/// Random pages need far more requests in flight than disks to keep every disk busy.
const PAGES_IN_FLIGHT: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const CHUNKS_IN_FLIGHT: [usize; 5] = [1, 2, 4, 8, 16];
const PAGES: usize = 8000;
const CHUNKS: usize = 200;
/// Random addresses sometimes leave the last disk idle.
const TOLERANCE: f64 = 0.05;

/// A level and the values of the paper's table for X disks, reads then writes.
struct Level {
    name: &'static str,
    level: RaidLevel,
    /// Number of disks with distinct data.
    data_disks: u32,
    pages: [f64; 2],
    chunks: [f64; 2],
    /// In multiples of a single disk's bandwidth.
    bandwidth: [f64; 2],
}

fn levels() -> [Level; 3] {
    let x = f64::from(DISKS);
    let half = x / 2.0;
    let level = |name, level, data_disks, pages, chunks, bandwidth| Level {
        name,
        level,
        data_disks,
        pages,
        chunks,
        bandwidth,
    };
    [
        level("RAID-0", RaidLevel::Zero, DISKS, [x, x], [1.0, 1.0], [x, x]),
        level("RAID-1", RaidLevel::One, DISKS / 2, [x, half], [2.0, 1.0], [half, half]),
        level("RAID-5", RaidLevel::Five, DISKS - 1, [x, half], [1.0, 1.0], [x - 1.0, x - 1.0]),
    ]
}

/// The measurements of a level in one direction.
struct Measured {
    pages: Summary,
    chunks: Summary,
    bandwidth: Summary,
    /// Requests in flight and throughput, in multiples of a single disk's.
    page_curve: Vec<(f64, Summary)>,
    chunk_curve: Vec<(f64, Summary)>,
}

pub(crate) fn find() -> Result<Part, ReproError> {
    let levels = levels();
    let measured: Vec<[Measured; 2]> = levels
        .iter()
        .map(|level| [Transfer::Read, Transfer::Write].map(|kind| measure(level, kind)))
        .collect();
    let pairs = || levels.iter().zip(&measured);
    let rows = pairs().flat_map(|(level, both)| (0..2).flat_map(|at| rows(level, at, &both[at]))).collect();
    let at_x = measured[0][0].page_curve.iter().find(|(n, _)| *n == f64::from(DISKS));
    let text = format!(
        "X = {DISKS} disks. With X random pages in flight some disks have two and others none: RAID-0 then reads \
         {} times as many as a disk. It takes many more to keep all disks busy; the rows of the scoreboard \
         are for {} in flight. A page write on RAID-5 reads the old page and the old parity and then writes \
         both: X/2 at a time, as the paper says, but each for twice as long, so that the throughput is X/4. A \
         chunk has 8 MiB on each disk, not counting mirrors and parity: it occupies the whole array, and a \
         second one in flight gains nothing but on mirrors, where two readers settle on a side each.",
        at_x.map_or("–".to_owned(), |(_, throughput)| format!("{:.1}", throughput.median)),
        PAGES_IN_FLIGHT[PAGES_IN_FLIGHT.len() - 1],
    );
    let blocks = vec![
        Block::Heading("Requests that an array serves at a time".to_owned()),
        Block::Text(text),
        table(&levels, &measured),
        Block::Figure {
            caption: "Throughput in that of a single disk".to_owned(),
            svg: chart(&levels, &measured).svg()?,
        },
    ];
    Ok(Part { rows, blocks })
}

fn measure(level: &Level, kind: Transfer) -> Measured {
    let (raid, disk) = (array(level.level, Reach::Random), DESKTOP.spec(Reach::Random));
    let page = Shape { bytes: PAGE_BYTES, kind };
    let chunk = Shape { bytes: CHUNK_BYTES_PER_DISK * u64::from(level.data_disks), kind };
    let part = Shape { bytes: CHUNK_BYTES_PER_DISK, kind };
    let rate = |spec, shape, in_flight, count| {
        move |seed| Run::random(spec, shape, in_flight, count, seed).per_second()
    };
    let (page_alone, page_disk) = (rate(&raid, page, 1, PAGES / 8), rate(&disk, page, 1, PAGES / 8));
    let (chunk_alone, chunk_disk) = (rate(&raid, chunk, 1, CHUNKS), rate(&disk, part, 1, CHUNKS));
    let pages = |in_flight| rate(&raid, page, in_flight, PAGES);
    let chunks = |in_flight| rate(&raid, chunk, in_flight, CHUNKS);
    let most = PAGES_IN_FLIGHT[PAGES_IN_FLIGHT.len() - 1];
    let parts = f64::from(level.data_disks);
    let best = |seed| CHUNKS_IN_FLIGHT.iter().map(|n| chunks(*n)(seed)).fold(0.0, f64::max);
    let page_point = |n: usize| (n as f64, over_seeds(|seed| pages(n)(seed) / page_disk(seed)));
    let chunk_point = |n: usize| (n as f64, over_seeds(|seed| chunks(n)(seed) / chunk_disk(seed) * parts));
    Measured {
        pages: over_seeds(|seed| pages(most)(seed) / page_alone(seed)),
        chunks: over_seeds(|seed| best(seed) / chunk_alone(seed)),
        bandwidth: over_seeds(|seed| chunk_alone(seed) / chunk_disk(seed) * parts),
        page_curve: PAGES_IN_FLIGHT.into_iter().map(page_point).collect(),
        chunk_curve: CHUNKS_IN_FLIGHT.into_iter().map(chunk_point).collect(),
    }
}

const DIRECTIONS: [&str; 2] = ["read", "write"];

fn rows(level: &Level, at: usize, measured: &Measured) -> [Row; 3] {
    let (name, direction) = (level.name, DIRECTIONS[at]);
    let (page_basis, page_note) = match (level.level, at) {
        (RaidLevel::Five, 1) => {
            (Basis::Input, "X/2 by the definition of a request's time; the throughput is X/4")
        }
        _ => (Basis::Stated, ""),
    };
    let pages = format!("{name} of {DISKS}: page {direction}s at a time");
    let chunks = format!("{name} of {DISKS}: chunk {direction}s at a time");
    let bandwidth = format!("{name} of {DISKS}: bandwidth of a chunk {direction} (single disks)");
    [
        row(pages, level.pages[at], measured.pages, TOLERANCE, page_note).on(page_basis),
        row(chunks, level.chunks[at], measured.chunks, TOLERANCE, ""),
        row(bandwidth, level.bandwidth[at], measured.bandwidth, TOLERANCE, ""),
    ]
}

fn table(levels: &[Level], measured: &[[Measured; 2]]) -> Block {
    let header =
        ["level", "pages read", "pages written", "chunks read", "bandwidth", "chunks written", "bandwidth"];
    let line = |(level, [read, write]): (&Level, &[Measured; 2])| {
        let cell =
            |measured: Summary, paper| format!("{} (paper {})", number(measured.median), number(paper));
        vec![
            level.name.to_owned(),
            cell(read.pages, level.pages[0]),
            cell(write.pages, level.pages[1]),
            cell(read.chunks, level.chunks[0]),
            cell(read.bandwidth, level.bandwidth[0]),
            cell(write.chunks, level.chunks[1]),
            cell(write.bandwidth, level.bandwidth[1]),
        ]
    };
    Block::Table {
        caption: format!(
            "Requests at a time with X = {DISKS} disks, and bandwidth of a chunk in single disks"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: levels.iter().zip(measured).map(line).collect(),
    }
}

fn chart(levels: &[Level], measured: &[[Measured; 2]]) -> LineChart {
    let in_flight = |most: u32| {
        let ticks = (0..).map(|bit| 1 << bit).take_while(|n| *n <= most).map(f64::from);
        Axis::log("requests in flight").ticks(ticks.collect())
    };
    let panel = |title: &str, most, of: fn(&[Measured; 2]) -> &Vec<(f64, Summary)>| LinePanel {
        title: title.to_owned(),
        x: in_flight(most),
        y: Axis::linear("throughput / single disk").range(0.0, f64::from(DISKS) * 1.05),
        series: levels
            .iter()
            .zip(measured)
            .map(|(level, both)| series(level.name, of(both).iter().copied()))
            .collect(),
    };
    LineChart {
        title: format!("Throughput of arrays of {DISKS} disks"),
        description: "Throughput over requests in flight, per level, for pages and for chunks.".to_owned(),
        panels: vec![
            panel("page reads", 512, |both| &both[0].page_curve),
            panel("page writes", 512, |both| &both[1].page_curve),
            panel("chunk reads", 16, |both| &both[0].chunk_curve),
            panel("chunk writes", 16, |both| &both[1].chunk_curve),
        ],
        columns: 2,
    }
}
