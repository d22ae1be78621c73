//! 1996, section 4.1: sequential scans by one, two and five users (Fig. 6), and index scans (Table 2), on the
//! tape stacker.

use std::collections::BTreeMap;

use coscan_figure::axis::Axis;
use coscan_figure::bars::{BarSeries, GroupedBars};
use coscan_media::{Fragment, FragmentId, Library, MediumId, PolicyName, SchedulerConfig, Span};
use coscan_sim::media::{MediaOutcome, MediaQuery, MediaStart, MediaUser, MediaWorld, run};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::median;
use fastrand::Rng;

use super::heads::{HEADS, seek_minutes};
use super::relation::{BLOCK, Catalog, GB, MB, Piece, Relation, Shelf};
use super::{Part, Scheme, bar, row};
use crate::error::ReproError;
use crate::report::{Block, Row};

/// The cache.
pub(super) const CACHE_BYTES: u64 = 512 * MB;
/// Fragments of the simple tests.
const FRAGMENT_BYTES: u64 = 256 * MB;
/// The relation of the sequential scans.
const SCANNED_BYTES: u64 = 5 * GB;
/// Processor time of a scan, in picoseconds per byte: 0.125 s per MB.
pub(super) const SCAN_PICOS: u64 = 119_209;
/// Seeds of experiments with draws.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

pub(super) fn config() -> SchedulerConfig {
    // The paper has no bound on waiting; its baselines need none.
    SchedulerConfig { patience: Span::MAX, ..SchedulerConfig::new(CACHE_BYTES) }
}

pub(super) fn play(
    scheme: Scheme,
    library: &Library,
    catalog: Catalog,
    users: Vec<MediaUser>,
) -> Result<MediaOutcome, ReproError> {
    let policy: PolicyName = scheme.name().parse().expect("a name of the registry");
    let world =
        MediaWorld { library: library.clone(), config: config(), fragments: catalog.fragments, users };
    Ok(run(&world, policy.build())?)
}

pub(crate) fn find() -> Result<Part, ReproError> {
    let (mut rows, mut blocks) = sequential()?;
    let (index_rows, index_blocks) = index()?;
    rows.extend(index_rows);
    blocks.extend(index_blocks);
    Ok(Part { rows, blocks })
}

/// A scan of one relation by users with the given starts.
fn scan(scheme: Scheme, bytes: u64, starts: &[MediaStart]) -> Result<MediaOutcome, ReproError> {
    let relation = Relation {
        pieces: vec![Piece { medium: MediumId(0), position: 0, blocks: bytes / BLOCK, before: 0 }],
    };
    let mut catalog = Catalog::default();
    let list = catalog.sequential(&relation, scheme, FRAGMENT_BYTES);
    let query = MediaQuery { lists: vec![list], picos_per_byte: SCAN_PICOS };
    let users =
        starts.iter().map(|start| MediaUser { start: *start, queries: vec![query.clone()] }).collect();
    play(scheme, &Library::tape_stacker_1996(), catalog, users)
}

/// The starts of five users: behind the first by a tenth to a half of the relation.
fn five(relation: u64, seed: u64) -> Vec<MediaStart> {
    let mut rng = Rng::with_seed(seed);
    let (least, most) = (relation / 10, relation / 2);
    let later = (0..4).map(|_| MediaStart::AfterFirst { bytes: rng.u64(least..=most) });
    std::iter::once(MediaStart::default()).chain(later).collect()
}

fn sequential() -> Result<(Vec<Row>, Vec<Block>), ReproError> {
    use Scheme::{NoPrefetch, Prefetch, Reorder};
    let alone = [MediaStart::default()];
    let second = MediaStart::AfterFirst { bytes: CACHE_BYTES + BLOCK };
    let two = [MediaStart::default(), second];
    let time = |scheme, starts: &[MediaStart]| scan(scheme, SCANNED_BYTES, starts).map(|o| o.total_s);
    let one: Vec<f64> = Scheme::ALL.map(|s| time(s, &alone)).into_iter().collect::<Result<_, _>>()?;
    let both: Vec<f64> = Scheme::ALL.map(|s| time(s, &two)).into_iter().collect::<Result<_, _>>()?;
    let (mut many, mut seeks) = (Vec::new(), Vec::new());
    let mut five_bars = [Vec::new(), Vec::new()];
    for seed in SEEDS {
        let starts = five(SCANNED_BYTES, seed);
        let prefetch = scan(Prefetch, SCANNED_BYTES, &starts)?;
        let reorder = scan(Reorder, SCANNED_BYTES, &starts)?;
        many.push(reorder.total_s / prefetch.total_s);
        seeks.push(prefetch.seek_s / prefetch.total_s);
        five_bars[0].push(prefetch.total_s);
        five_bars[1].push(reorder.total_s);
    }
    let overlap = "the processor time of a scan was chosen so that one user gains 20 %; by the 2.5 s that the paper says a \
                   cached fragment takes it would be 6 %";
    let two_note = "two users who take turns pay for each block of 256 KB, which takes 0.125 s, a seek of 2 s and 512 MB at \
                    200 MB/s, 4.7 s in all by Table 1, up to 75 times the transfer for both; 1/15 comes out for a relation of \
                    0.7 to 0.8 GB only, whose size the paper does not give; the shorter relation would not let five users \
                    stagger as they do";
    let five_note = "by Table 1 five users who take turns pay at least 4 s of transfer and 2 s of seek start-up for each unit \
                     of 8 MB and user, 7.5 times what one sweep takes, and with seeks at 80 % of the time, as the paper \
                     says, 25 times; 1/5 with 80 % seeks would need prefetch to transfer no more than reorder does";
    let ratio = |a: Scheme, b: Scheme, of: &[f64]| of[a as usize] / of[b as usize];
    let rows = vec![
        row(
            "one user: prefetch / no-prefetch".into(),
            0.8,
            &[ratio(Prefetch, NoPrefetch, &one)],
            0.25,
            Basis::Fitted,
            overlap,
        ),
        row(
            "one user: reorder / no-prefetch".into(),
            0.8,
            &[ratio(Reorder, NoPrefetch, &one)],
            0.25,
            Basis::Fitted,
            overlap,
        ),
        row(
            "two users: reorder / no-prefetch".into(),
            1.0 / 15.0,
            &[ratio(Reorder, NoPrefetch, &both)],
            0.25,
            Basis::Stated,
            two_note,
        ),
        row(
            "two users: reorder / prefetch (under half)".into(),
            0.25,
            &[ratio(Reorder, Prefetch, &both)],
            1.0,
            Basis::Range,
            "",
        ),
        row("five users: reorder / prefetch".into(), 0.2, &many, 0.25, Basis::Stated, five_note),
        row(
            "five users: seeks of prefetch, share of its time".into(),
            0.8,
            &seeks,
            0.25,
            Basis::Stated,
            "seeks grow with the distance between users, so with the size of the relation, which the paper does not give",
        ),
        row(
            "orders: two users and five, reorder before prefetch before no-prefetch".into(),
            3.0,
            &[orders(&both) + f64::from(u8::from(many.iter().all(|r| *r < 1.0)))],
            0.0,
            Basis::Stated,
            "",
        ),
    ];
    let bar = |seconds: f64| bar([seconds / 60.0]);
    let bars = GroupedBars {
        title: "Sequential scans of 5 GB on the tape stacker".to_owned(),
        description: "Minutes from the first query to the last answer.".to_owned(),
        y: Axis::log("minutes"),
        groups: ["one user", "two users", "five users"].map(str::to_owned).to_vec(),
        series: vec![
            BarSeries { name: "no-prefetch".into(), bars: vec![bar(one[0]), bar(both[0]), None] },
            BarSeries {
                name: "prefetch".into(),
                bars: vec![bar(one[1]), bar(both[1]), bar(median(&five_bars[0]))],
            },
            BarSeries {
                name: "reorder".into(),
                bars: vec![bar(one[2]), bar(both[2]), bar(median(&five_bars[1]))],
            },
        ],
    };
    let caption = "Sequential scans, 1996 Fig. 6; five users: median over seeds".to_owned();
    Ok((rows, vec![Block::Figure { caption, svg: bars.svg()? }, sizes()?]))
}

/// The number of pairs of the three schemes in the paper's order, without the pair of no-prefetch and
/// prefetch.
fn orders(of: &[f64]) -> f64 {
    f64::from(u8::from(of[2] < of[1])) + f64::from(u8::from(of[1] < of[0]))
}

/// Two users and five, by the size of the relation, which the paper does not give. No size gives all stated
/// values.
fn sizes() -> Result<Block, ReproError> {
    let two = [MediaStart::default(), MediaStart::AfterFirst { bytes: CACHE_BYTES + BLOCK }];
    let mut rows = Vec::new();
    for mb in [600, 640, 704, 1024, 2048, 5120, 10_000] {
        let of: Vec<f64> = Scheme::ALL
            .map(|scheme| scan(scheme, mb * MB, &two).map(|outcome| outcome.total_s))
            .into_iter()
            .collect::<Result<_, _>>()?;
        let prefetch = scan(Scheme::Prefetch, mb * MB, &five(mb * MB, 1))?;
        let reorder = scan(Scheme::Reorder, mb * MB, &five(mb * MB, 1))?;
        rows.push(vec![
            mb.to_string(),
            format!("1/{:.1}", of[0] / of[2]),
            format!("1/{:.2}", of[1] / of[2]),
            format!("1/{:.2}", prefetch.total_s / reorder.total_s),
            format!("{:.0} %", 100.0 * prefetch.seek_s / prefetch.total_s),
        ]);
    }
    let stated = ["the paper", "1/15", "under 1/2", "almost 1/5", "almost 80 %"];
    rows.push(stated.map(str::to_owned).to_vec());
    Ok(Block::Table {
        caption: "Sequential scans by the size of the relation in MB".to_owned(),
        header: [
            "MB",
            "two users: reorder / no-prefetch",
            "two users: reorder / prefetch",
            "five users: reorder / prefetch",
            "five users: seeks of prefetch",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
    })
}

/// Table 2 of the paper: minutes in total, transferring, switching, seeking.
const TABLE_2: [(usize, Scheme, [f64; 4]); 9] = [
    (1, Scheme::NoPrefetch, [5619.0, 19.4, 4010.0, 1527.0]),
    (1, Scheme::Prefetch, [297.3, 17.5, 2.5, 276.0]),
    (1, Scheme::Reorder, [297.3, 17.5, 2.5, 276.0]),
    (2, Scheme::NoPrefetch, [12351.0, 38.9, 8035.0, 4215.0]),
    (2, Scheme::Prefetch, [1339.0, 35.0, 302.5, 1000.0]),
    (2, Scheme::Reorder, [586.0, 35.0, 3.0, 548.0]),
    (5, Scheme::NoPrefetch, [30171.0, 100.0, 20090.0, 9919.0]),
    (5, Scheme::Prefetch, [3144.5, 87.5, 600.0, 2450.0]),
    (5, Scheme::Reorder, [1467.0, 87.5, 6.5, 1372.0]),
];

/// A relation of 25 GB, a tuple of 300 bytes, a selectivity of 0.01 %.
const INDEXED_BYTES: u64 = 25 * GB;
const TUPLES: u64 = INDEXED_BYTES / 300 / 10_000;

/// The relations of the index scans: 5 GB on each of five tapes.
fn indexed(users: usize, rng: &mut Rng) -> Vec<Relation> {
    let mut shelf = Shelf::new(13, 10 * GB);
    let part = INDEXED_BYTES / 5 / BLOCK;
    if users < 5 {
        let on = |user: usize, shelf: &mut Shelf| (user..user + 5).map(|at| shelf.put(at, part)).collect();
        return (0..users).map(|user| Relation { pieces: on(user, &mut shelf) }).collect();
    }
    (0..users).map(|_| shelf.spread(INDEXED_BYTES, 5, rng)).collect()
}

type Places = BTreeMap<FragmentId, Fragment>;

fn index_scan(users: usize, scheme: Scheme, seed: u64) -> Result<(MediaOutcome, Places), ReproError> {
    let mut rng = Rng::with_seed(seed);
    let relations = indexed(users, &mut rng);
    let mut catalog = Catalog::default();
    let mut all = Vec::new();
    for relation in &relations {
        let list = catalog.index(relation, TUPLES, scheme, FRAGMENT_BYTES, &mut rng);
        // Only one or two tuples of a block are processed.
        let query = MediaQuery { lists: vec![list], picos_per_byte: 0 };
        all.push(MediaUser { start: MediaStart::default(), queries: vec![query] });
    }
    let places = catalog.fragments.iter().map(|fragment| (fragment.id, *fragment)).collect();
    Ok((play(scheme, &Library::tape_stacker_1996(), catalog, all)?, places))
}

fn index() -> Result<(Vec<Row>, Vec<Block>), ReproError> {
    let mut rows = Vec::new();
    let (mut lines, mut by_head) = (Vec::new(), Vec::new());
    let note = "the paper's seeks of no-prefetch are 9.8, 13.6 and 12.4 s an access, nearer than the load point to the middle \
                of 5 GB (14.5 s by Table 1), where a switch that rewinds leaves the head; its seeks of prefetch are 45 \
                and 54 s for each switch, as far as rewinding and seeking from the load point take: no one rule for the \
                head gives both, as the table of rules shows, and Table 1 counts rewinding as part of the switch";
    let mut orders = 0.0;
    let mut totals: Vec<f64> = Vec::new();
    for (users, scheme, paper) in TABLE_2 {
        let seeds = if scheme == Scheme::NoPrefetch { &SEEDS[..3] } else { &SEEDS[..] };
        let runs: Vec<(MediaOutcome, Places)> =
            seeds.iter().map(|seed| index_scan(users, scheme, *seed)).collect::<Result<_, _>>()?;
        let mut heads = vec![format!("{users}"), scheme.name().to_owned(), format!("{}", paper[3])];
        heads.extend(HEADS.map(|(rule, _)| format!("{:.0}", seek_minutes(&runs[0].0, &runs[0].1, rule))));
        by_head.push(heads);
        let outcomes: Vec<MediaOutcome> = runs.into_iter().map(|(outcome, _)| outcome).collect();
        let figures: [fn(&MediaOutcome) -> f64; 4] =
            [|o| o.total_s, |o| o.transfer_s, |o| o.switch_s, |o| o.seek_s];
        let names = ["total", "transfer", "switch", "seek"];
        let mut line = vec![format!("{users}"), scheme.name().to_owned()];
        for ((name, paper), figure) in names.into_iter().zip(paper).zip(figures) {
            let measured: Vec<f64> = outcomes.iter().map(|o| figure(o) / 60.0).collect();
            let quantity = format!("index scans, {users} users, {}: {name} (min)", scheme.name());
            let row = row(quantity, paper, &measured, 0.25, Basis::Stated, note);
            line.push(format!("{:.1} (paper {paper})", row.measured));
            if name == "total" {
                totals.push(row.measured);
            }
            rows.push(row);
        }
        lines.push(line);
    }
    for of in totals.chunks(3) {
        orders += f64::from(u8::from(of[1] < of[0])) + f64::from(u8::from(of[2] <= of[1] * 1.001));
    }
    rows.push(row("index scans: orders of totals".into(), 6.0, &[orders], 0.0, Basis::Stated, ""));
    let table = Block::Table {
        caption: "Index scans, 1996 Table 2, in minutes; median over seeds".to_owned(),
        header: ["users", "scheme", "total", "transfer", "switch", "seek"].map(str::to_owned).to_vec(),
        rows: lines,
    };
    let by_head = Block::Table {
        caption: "Index scans: minutes of seeking, by where a switch leaves the head, first seed".to_owned(),
        header: ["users", "scheme", "paper"]
            .into_iter()
            .chain(HEADS.map(|(_, name)| name))
            .map(str::to_owned)
            .collect(),
        rows: by_head,
    };
    Ok((rows, vec![table, by_head]))
}
