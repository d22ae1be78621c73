//! Fig. 1 and 5: the queries on one disk, alone and beside random reads.

use coscan_device::hard_disk::{HardDiskModel, Schedule, atlas10k3};
use coscan_layout::{Arrivals, Extents, PAGE_BLOCKS, Read, Unit};
use coscan_sim::scenario::Basis;

use super::plans::{PLANS, Phase, Play, part};
use super::tables::Placement;
use super::volume::{Reading, Setting, one_at_a_time_per_s};
use super::{explained, mean, parallel, row, tolerating};
use crate::report::{Block, Row};

/// Random reads beside the queries, per second: none, light and heavy traffic (stated).
const TRAFFIC: [f64; 3] = [0.0, 25.0, 150.0];
/// Pages of a prefetch and of an extent: 768 blocks (stated).
const PREFETCH_PAGES: u64 = 48;
/// Scale of the benchmark (stated).
const SCALE: u64 = 10;
/// The tolerance of times that the paper finds changed by a few percent.
const CLOSE: f64 = 0.05;

/// One query: by seed and traffic, seconds with fixed extents and with extents between boundaries.
struct Query {
    number: usize,
    by_seed: Vec<[(f64, f64); 3]>,
    /// Without traffic: the fixed layout with its requests cut at boundaries, over the fixed layout.
    cut: f64,
    /// Requests in a row that are contiguous, with fixed extents.
    run: f64,
}

/// The results of all queries.
pub(super) struct Queries {
    queries: Vec<Query>,
    /// Random reads per second one at a time.
    most_per_s: f64,
    /// Time of random single pages, between boundaries over fixed.
    transactions: Vec<f64>,
}

/// The volume in both layouts.
struct Volume {
    reading: Reading,
    disk: HardDiskModel,
    placement: Placement,
    fixed: Extents,
    between: Extents,
}

impl Volume {
    fn new(reading: &Reading) -> Self {
        let disk = reading.disk(atlas10k3(), Schedule::Sptf);
        let placement = Placement::new(SCALE, PREFETCH_PAGES);
        let extents = placement.pages().div_ceil(PREFETCH_PAGES);
        // The volume is longer by a twentieth to make up for the parts of tracks that pages leave empty.
        let blocks = extents * PREFETCH_PAGES * PAGE_BLOCKS;
        Volume {
            fixed: Extents::fixed(0, extents, PREFETCH_PAGES),
            between: Extents::between(&disk.track_starts(0, blocks + blocks / 20)),
            disk,
            placement,
            reading: *reading,
        }
    }

    fn within(&self) -> (u64, u64) {
        (0, self.placement.pages() * PAGE_BLOCKS)
    }

    fn requests(&self, plan: &[Phase], extents: &Extents, unit: Unit, seed: u64) -> Vec<Read> {
        let part = part(plan, &self.placement);
        let all_in_turns = self.reading.all_in_turns;
        Play { placement: self.placement, extents, unit, part, all_in_turns }.requests(plan, seed)
    }

    fn seconds(&self, reads: &[Read], per_s: f64, seed: u64) -> f64 {
        let arrivals = Arrivals::PerSecond(per_s);
        let outstanding = self.reading.outstanding;
        Setting { disk: &self.disk, within: self.within(), arrivals, outstanding }.replay(reads, seed).io_s
    }

    fn query(&self, number: usize) -> Query {
        let plan = PLANS[number - 1];
        let of_seed = |seed: &u64| {
            let fixed = self.requests(plan, &self.fixed, Unit::Extent, *seed);
            let between = self.requests(plan, &self.between, Unit::Extent, *seed);
            TRAFFIC.map(|per_s| (self.seconds(&fixed, per_s, *seed), self.seconds(&between, per_s, *seed)))
        };
        let by_seed: Vec<[(f64, f64); 3]> = self.reading.seeds.iter().map(of_seed).collect();
        let cut = self.requests(plan, &self.between, Unit::Pages(PREFETCH_PAGES), self.reading.seeds[0]);
        let fixed = self.requests(plan, &self.fixed, Unit::Extent, self.reading.seeds[0]);
        Query {
            number,
            cut: self.seconds(&cut, 0.0, self.reading.seeds[0]) / by_seed[0][0].0,
            run: run_length(&fixed),
            by_seed,
        }
    }

    /// Time of random single pages of the first gigabyte (stated: ten warehouses).
    fn transactions(&self, seed: u64) -> f64 {
        const READS: usize = 2000;
        const PAGES: u64 = (1 << 30) / 8192;
        let [between, fixed] = [&self.between, &self.fixed].map(|extents| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let reads: Vec<Read> = (0..READS).flat_map(|_| extents.reads(rng.u64(0..PAGES), 1)).collect();
            self.seconds(&reads, 0.0, seed)
        });
        between / fixed
    }
}

/// Mean number of contiguous requests in a row.
fn run_length(reads: &[Read]) -> f64 {
    let jumps = reads.windows(2).filter(|two| two[0].block + two[0].blocks != two[1].block).count();
    reads.len() as f64 / (jumps + 1) as f64
}

pub(super) fn measure(threads: usize, reading: &Reading) -> Queries {
    let volume = Volume::new(reading);
    let numbers: Vec<usize> = (1..=PLANS.len()).collect();
    Queries {
        queries: parallel::map(threads, &numbers, |number| volume.query(*number)),
        most_per_s: one_at_a_time_per_s(&volume.disk, volume.within()),
        transactions: parallel::map(threads, reading.seeds, |seed| volume.transactions(*seed)),
    }
}

impl Query {
    /// Time between boundaries over time with fixed extents.
    fn ratios(&self, traffic: usize) -> impl Iterator<Item = f64> {
        self.by_seed.iter().map(move |by| by[traffic].1 / by[traffic].0)
    }

    fn ratio(&self, traffic: usize) -> f64 {
        mean(self.ratios(traffic))
    }
}

impl Queries {
    /// The mean gain over some queries, seed by seed.
    fn gains(&self, traffic: usize, which: impl Fn(usize) -> bool) -> Vec<f64> {
        let of_seed = |seed: usize| {
            let chosen = self.queries.iter().filter(|query| which(query.number));
            1.0 - mean(chosen.map(|query| {
                let (fixed, between) = query.by_seed[seed][traffic];
                between / fixed
            }))
        };
        (0..self.seeds()).map(of_seed).collect()
    }

    fn seeds(&self) -> usize {
        self.queries.iter().map(|query| query.by_seed.len()).min().unwrap_or(0)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let all = |_| true;
        let slower =
            |seed: usize| mean(self.queries.iter().map(|q| q.by_seed[seed][2].0 / q.by_seed[seed][0].0));
        let slower: Vec<f64> = (0..self.seeds()).map(slower).collect();
        let gains_of_9: Vec<f64> = self.queries[8].ratios(0).map(|ratio| 1.0 - ratio).collect();
        let speedups_of_16: Vec<f64> = self.queries[15].ratios(2).map(|ratio| 1.0 / ratio).collect();
        let run = self.queries[9].run;
        let stated = Basis::Stated;
        let alone = |number: usize, paper| {
            let ratios: Vec<f64> = self.queries[number - 1].ratios(0).collect();
            let row = row(&format!("db2.q{number}.time_ratio.alone"), paper, &ratios, stated, "");
            tolerating(CLOSE, row)
        };
        vec![
            explained(row("db2.most_random_reads_per_s", 150.0, &[self.most_per_s], stated, "")),
            tolerating(0.34, row("db2.q10.requests_in_a_row", 3.0, &[run], Basis::Range, self.runs())),
            explained(row("db2.gain.alone", 0.11, &self.gains(0, all), stated, self.why_alone())),
            explained(row("db2.gain.light", 0.21, &self.gains(1, all), stated, self.why_alone())),
            explained(row("db2.gain.heavy", 0.33, &self.gains(2, all), stated, self.why_alone())),
            alone(1, 0.99),
            alone(4, 1.04),
            explained(row("db2.q9.gain.alone", 0.33, &gains_of_9, stated, self.why_alone())),
            alone(10, 1.01),
            alone(15, 0.99),
            explained(row("db2.q16.speedup.heavy", 3.0, &speedups_of_16, stated, self.why_alone())),
            row("db2.heavy_over_alone", 2.6, &slower, Basis::Fitted, self.why_slower()),
            tolerating(CLOSE, row("db2.tpcc_time_ratio", 1.0, &self.transactions, stated, "")),
        ]
    }

    fn runs(&self) -> String {
        let longest = self.queries.iter().map(|query| query.run).fold(0.0, f64::max);
        format!(
            "the paper says 2 to 4; between those of the large table, runs of one of the small ones count too; scans have {longest:.0}"
        )
    }

    /// The measured reasons for the gains.
    fn why_alone(&self) -> String {
        let share = |traffic: usize| {
            let gaining = self.queries.iter().filter(|query| query.ratio(traffic) < 0.95).count();
            format!("{gaining} of {}", self.queries.len())
        };
        let cut = 1.0 - mean(self.queries.iter().map(|query| query.cut));
        format!(
            "{} queries gain more than 5% alone, {} at 25 and {} at 150 reads a second: those whose plans go over \
             several tables in turns. With the requests of \
             fixed extents cut at boundaries and not read to the ends of extents, the mean gain alone is {:.0}%",
            share(0),
            share(1),
            share(2),
            100.0 * cut
        )
    }

    fn why_slower(&self) -> String {
        format!(
            "the order of service, by positioning time, was chosen by it; the disk serves {:.0} random reads a second one \
             at a time",
            self.most_per_s
        )
    }

    /// A line per query.
    pub(super) fn shown(&self) -> Block {
        let percent = |ratio: f64| format!("{:.0}%", 100.0 * (1.0 - ratio));
        let line = |query: &Query| {
            let slower = query.by_seed[0][2].0 / query.by_seed[0][0].0;
            std::iter::once(format!("Q{}", query.number))
                .chain([0, 1, 2].map(|traffic| percent(query.ratio(traffic))))
                .chain([percent(query.cut), format!("{:.1}", query.run), format!("{slower:.1}")])
                .collect()
        };
        let header =
            ["query", "alone", "25/s", "150/s", "alone, only cut", "requests in a row", "150/s over alone"];
        Block::Table {
            caption: "Time saved by extents that end where tracks end; of fixed extents, requests in a row and slowdown"
                .to_owned(),
            header: header.map(str::to_owned).to_vec(),
            rows: self.queries.iter().map(line).collect(),
        }
    }
}
