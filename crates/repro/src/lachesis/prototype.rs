//! Fig. 7 and 8, Table 2 and section 5.3.4: the prototype, with extents of 8 pages compared with extents of a
//! track.

use coscan_device::hard_disk::{HardDiskModel, Schedule, atlas10k3};
use coscan_layout::{Arrivals, Extents, PAGE_BLOCKS, Read, Replayed, Unit};
use coscan_sim::scenario::Basis;

use super::plans::{PROTOTYPE, Phase, Play};
use super::tables::Placement;
use super::volume::{Reading, Setting, client};
use super::{explained, mean, parallel, row, tolerating};
use crate::report::{Block, Row};

/// Pages of an extent: 128 blocks (stated).
const EXTENT_PAGES: u64 = 8;
/// Scale of the benchmark (stated).
const SCALE: u64 = 1;
/// Plans are played for 1/`PART` of their length.
const PART: u64 = 16;
/// Blocks of the transactions' volume: 100 MB (stated) beside the other (stated).
const TRANSACTIONS_BLOCKS: u64 = 100_000_000 / 512;
/// Processor time between two reads of a client, in microseconds. Reading of Table 2: one client makes 844
/// transactions a minute, and the processor is busy for 34% of the time. So a transaction computes for 24 ms,
/// with ten reads each.
const THINK_US: u64 = 2400;
/// Time of a comparison in the table that finds extents: a cache line from memory (reading), in seconds.
const COMPARISON_S: f64 = 100e-9;

/// The traffic levels. Light traffic is not given for the prototype: that of the other experiment is used.
/// Heavy traffic is a client without thinking time (stated).
fn traffic() -> [Arrivals; 3] {
    [Arrivals::PerSecond(0.0), Arrivals::PerSecond(25.0), client(THINK_US)]
}

/// One query, by seed and traffic: with fixed extents and with extents between boundaries.
struct Query {
    number: usize,
    by_seed: Vec<[(Replayed, Replayed); 3]>,
}

/// The results of the prototype.
pub(super) struct Prototype {
    queries: Vec<Query>,
    /// Share of a scan's time for looking up extents.
    lookup: f64,
}

/// The volume on the innermost tracks of the disk, whose extents have 418 and 396 blocks (stated).
struct Volume {
    reading: Reading,
    disk: HardDiskModel,
    placement: Placement,
    fixed: Extents,
    between: Extents,
    transactions: (u64, u64),
}

impl Volume {
    fn new(reading: &Reading) -> Self {
        let disk = reading.disk(atlas10k3(), Schedule::Fcfs);
        let placement = Placement::new(SCALE, EXTENT_PAGES);
        let extents = placement.pages().div_ceil(EXTENT_PAGES);
        let blocks = extents * EXTENT_PAGES * PAGE_BLOCKS;
        let from = disk.blocks() - blocks - blocks / 20;
        Volume {
            fixed: Extents::fixed(from, extents, EXTENT_PAGES),
            between: Extents::between(&disk.track_starts(from, disk.blocks())),
            transactions: (from - TRANSACTIONS_BLOCKS, from),
            disk,
            placement,
            reading: *reading,
        }
    }

    fn requests(&self, extents: &Extents, plan: &[Phase]) -> Vec<Read> {
        let (placement, all_in_turns) = (self.placement, self.reading.all_in_turns);
        Play { placement, extents, unit: Unit::Extent, part: PART, all_in_turns }.requests(plan, 0)
    }

    fn query(&self, number: usize, plan: &[Phase]) -> Query {
        let (fixed, between) = (self.requests(&self.fixed, plan), self.requests(&self.between, plan));
        let of_seed = |seed: &u64| {
            traffic().map(|arrivals| {
                let (within, outstanding) = (self.transactions, self.reading.outstanding);
                let setting = Setting { disk: &self.disk, within, arrivals, outstanding };
                (setting.replay(&fixed, *seed), setting.replay(&between, *seed))
            })
        };
        Query { number, by_seed: self.reading.seeds.iter().map(of_seed).collect() }
    }

    /// The share of time of a search for every page. A search takes as many comparisons as the binary length
    /// of the table.
    fn lookup(&self, query: &Query) -> f64 {
        let pages: u64 =
            self.requests(&self.between, PROTOTYPE[0].1).iter().map(|r| r.blocks / PAGE_BLOCKS).sum();
        let comparisons = (self.between.len() as f64).log2().ceil() * pages as f64;
        comparisons * COMPARISON_S / query.by_seed[0][0].1.io_s
    }
}

pub(super) fn measure(threads: usize, reading: &Reading) -> Prototype {
    let volume = Volume::new(reading);
    let queries = parallel::map(threads, &PROTOTYPE, |(number, plan)| volume.query(*number, plan));
    Prototype { lookup: volume.lookup(&queries[0]), queries }
}

impl Prototype {
    fn over_seeds(&self, of: impl Fn(&(Replayed, Replayed)) -> f64, traffic: usize) -> Vec<f64> {
        let of_seed = |seed: usize| mean(self.queries.iter().map(|query| of(&query.by_seed[seed][traffic])));
        let seeds = self.queries.iter().map(|query| query.by_seed.len()).min().unwrap_or(0);
        (0..seeds).map(of_seed).collect()
    }

    fn gains(&self, traffic: usize) -> Vec<f64> {
        self.over_seeds(|(fixed, between)| 1.0 - between.io_s / fixed.io_s, traffic)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let rate = |replayed: &Replayed| replayed.random_reads as f64 / replayed.io_s;
        let faster = self.over_seeds(|(fixed, between)| rate(between) / rate(fixed), 2);
        let alone = "the paper gives 6% to 15% of the whole time; here two small requests outstanding stream like large ones, \
                     and the time is that of requests, without the processor's";
        let beside = "time of requests, without the processor's, which the paper's times include; requests are served in \
                      order of arrival, so that the share of a scan grows with the size of its requests";
        let client = "in order of arrival, the client's read waits for up to two of the scan's, which are three times as \
                      long with extents of a track: what the scans gain is more than in the paper, and the client loses";
        vec![
            tolerating(0.43, row("prototype.gain.alone", 0.105, &self.gains(0), Basis::Range, alone)),
            explained(row("prototype.gain.light", 0.14, &self.gains(1), Basis::Stated, beside)),
            explained(row("prototype.gain.heavy", 0.32, &self.gains(2), Basis::Stated, beside)),
            explained(tolerating(
                0.05,
                row("prototype.client_speedup.heavy", 1.07, &faster, Basis::Stated, client),
            )),
            tolerating(
                1.0,
                row(
                    "prototype.lookup_share",
                    0.005,
                    &[self.lookup],
                    Basis::Input,
                    "a formula: the comparisons of a search times an assumed cost of one",
                ),
            ),
        ]
    }

    pub(super) fn shown(&self) -> Block {
        let percent = |query: &Query, traffic: usize| {
            let ratio = mean(query.by_seed.iter().map(|by| by[traffic].1.io_s / by[traffic].0.io_s));
            format!("{:.0}%", 100.0 * (1.0 - ratio))
        };
        let line = |query: &Query| {
            let gains = [0, 1, 2].map(|traffic| percent(query, traffic));
            std::iter::once(format!("Q{}", query.number)).chain(gains).collect()
        };
        Block::Table {
            caption: "The prototype: time saved by extents of a track over extents of 8 pages".to_owned(),
            header: ["query", "alone", "25/s", "beside a client"].map(str::to_owned).to_vec(),
            rows: self.queries.iter().map(line).collect(),
        }
    }
}
