//! A present-day library: LTO-9, 8 drives, 2000 cartridges, 200 users. These numbers are in no paper: they are
//! a table of the report, and the scoreboard has no rows of them.
//!
//! 400 datasets of 40 files of 8 GB lie on one to five cartridges each. Every user submits three queries
//! within a day, each for all or a quarter of the files of one dataset. The popularity of datasets follows a
//! Zipf law (0.8). Files may come in any order. The disk cache holds 10 TB, and the patience is 12 hours.

use coscan_figure::axis::Axis;
use coscan_figure::bars::{BarSeries, GroupedBars};
use coscan_media::model::Lto;
use coscan_media::{Fragment, FragmentId, Library, MediumId, PolicyName, SchedulerConfig, Span, Subquery};
use coscan_sim::media::{MediaOutcome, MediaQuery, MediaStart, MediaUser, MediaWorld, run};
use coscan_sim::statistics::median;
use fastrand::Rng;

use super::{Part, bar};
use crate::error::ReproError;
use crate::report::Block;

const DRIVES: u32 = 8;
const CARTRIDGES: u32 = 2000;
const USERS: usize = 200;
const QUERIES_EACH: usize = 3;
const DATASETS: usize = 400;
const FILES: u64 = 40;
const FILE_BYTES: u64 = 8_000_000_000;
const DAY_S: u64 = 86_400;
const SEEDS: [u64; 3] = [1, 2, 3];
const POLICIES: [&str; 3] = ["fcfs", "tape-queue", "reorder"];

fn world(seed: u64) -> MediaWorld {
    let mut rng = Rng::with_seed(seed);
    let library = Library::lto(Lto::nine(DRIVES, 2)).expect("numbers make sense");
    let capacity = library.medium_bytes().expect("tapes have an end");
    let mut fragments = Vec::new();
    let mut datasets: Vec<Vec<FragmentId>> = Vec::new();
    for _ in 0..DATASETS {
        let media: Vec<MediumId> = (0..rng.u32(1..=5)).map(|_| MediumId(rng.u32(0..CARTRIDGES))).collect();
        let mut files = Vec::new();
        for _ in 0..FILES {
            let id = FragmentId(fragments.len() as u64);
            let medium = media[rng.usize(0..media.len())];
            let position = rng.u64(0..capacity / FILE_BYTES) * FILE_BYTES;
            fragments.push(Fragment { id, medium, position, bytes: FILE_BYTES });
            files.push(id);
        }
        datasets.push(files);
    }
    let weights: Vec<f64> = (1..=DATASETS).map(|rank| (rank as f64).powf(-0.8)).collect();
    let all: f64 = weights.iter().sum();
    let draw = |rng: &mut Rng| {
        let mut at = rng.f64() * all;
        weights.iter().position(|weight| {
            at -= weight;
            at <= 0.0
        })
    };
    let mut users = Vec::new();
    for _ in 0..USERS {
        // Queries of one user do not wait for each other: each is a separate user of the simulation.
        for _ in 0..QUERIES_EACH {
            let dataset = draw(&mut rng).unwrap_or(0);
            let share = if rng.u32(0..10) < 3 { 1 } else { 4 };
            let mut files = datasets[dataset].clone();
            rng.shuffle(&mut files);
            files.truncate((FILES / share) as usize);
            let list = files.into_iter().map(|id| Subquery::of([id])).collect();
            let start = MediaStart::At(Span::from_millis(rng.u64(0..DAY_S * 1000)));
            users.push(MediaUser {
                start,
                queries: vec![MediaQuery { lists: vec![list], picos_per_byte: 1 }],
            });
        }
    }
    let config = SchedulerConfig {
        patience: Span::from_millis(12 * 3_600_000),
        ..SchedulerConfig::new(10_000_000_000_000)
    };
    MediaWorld { library, config, fragments, users }
}

/// Mean and 99th percentile of latencies in hours, mounts, Jain's index over users' mean latencies.
fn figures(outcome: &MediaOutcome) -> [f64; 4] {
    let (mean, p99) = (outcome.mean_latency_s() / 3600.0, outcome.latency_quantile_s(0.99) / 3600.0);
    let by_user: Vec<f64> =
        outcome.latencies_s.chunks(QUERIES_EACH).map(|of| of.iter().flatten().sum::<f64>()).collect();
    let (sum, squares) = by_user.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    [mean, p99, outcome.mounts as f64, sum * sum / (by_user.len() as f64 * squares)]
}

pub(crate) fn find() -> Result<Part, ReproError> {
    let mut by_policy: Vec<[Vec<f64>; 4]> = Vec::new();
    for policy in POLICIES {
        let policy: PolicyName = policy.parse().expect("a name of the registry");
        let mut of: [Vec<f64>; 4] = Default::default();
        for seed in SEEDS {
            let found = figures(&run(&world(seed), policy.build())?);
            of.iter_mut().zip(found).for_each(|(all, one)| all.push(one));
        }
        by_policy.push(of);
    }
    let names = ["mean latency (h)", "p99 latency (h)", "mounts", "fairness between users (Jain)"];
    let lines = POLICIES.iter().zip(&by_policy).map(|(policy, of)| {
        std::iter::once((*policy).to_owned())
            .chain(of.iter().map(|all| format!("{:.3}", median(all))))
            .collect()
    });
    let table = Block::Table {
        caption: "LTO-9: 8 drives, 2000 cartridges, 200 users, 600 queries in a day; median over seeds"
            .to_owned(),
        header: std::iter::once("policy").chain(names).map(str::to_owned).collect(),
        rows: lines.collect(),
    };
    let bars = GroupedBars {
        title: "LTO-9 library, 200 users".to_owned(),
        description: "Hours from submission to the last file of a query.".to_owned(),
        y: Axis::log("hours"),
        groups: names[..2].iter().map(|name| (*name).to_owned()).collect(),
        series: POLICIES
            .iter()
            .zip(&by_policy)
            .map(|(policy, of)| BarSeries {
                name: (*policy).to_owned(),
                bars: of[..2].iter().map(|all| bar(all.iter().copied())).collect(),
            })
            .collect(),
    };
    let caption = "Latency in the LTO-9 library; median and range over seeds".to_owned();
    Ok(Part { rows: Vec::new(), blocks: vec![table, Block::Figure { caption, svg: bars.svg()? }] })
}
