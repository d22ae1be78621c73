//! 1996, section 4.2: the mixed workload (Table 3) on tape and optical, with one drive and two, and with a
//! hot set.

use coscan_figure::axis::Axis;
use coscan_figure::bars::{BarSeries, GroupedBars};
use coscan_media::Library;
use coscan_sim::media::{MediaOutcome, MediaQuery, MediaStart, MediaUser};
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::median;
use fastrand::Rng;

use super::relation::{Catalog, GB, MB, Relation, Shelf};
use super::scans::{SCAN_PICOS, play};
use super::{Part, Scheme, bar, row};
use crate::error::ReproError;
use crate::report::Block;

/// A sixth of the cache.
const FRAGMENT_BYTES: u64 = 85 * MB;
const RELATIONS: usize = 10;
const QUERIES: usize = 5;
const SEEDS: [u64; 3] = [1, 2, 3];

/// The fetched data of an index scan with a selectivity of, say, 1 %, which the paper does not define.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexScan {
    /// A run of 1 % of the blocks: the index is clustered.
    Range,
    /// 1 % of the blocks, at random places.
    Scattered,
    /// The blocks of 1 % of the tuples, at random places. Of the 874 tuples in a block one nearly always
    /// qualifies, so this is the whole relation. Without prefetching it would be a block for each tuple.
    Tuples,
}

/// Table 3, and the variations.
#[derive(Clone, Copy)]
struct Setting {
    index: IndexScan,
    /// Processor time of a scan, in picoseconds per byte.
    picos: u64,
    optical: bool,
    drives: u32,
    users: usize,
    /// True if four of five accesses go to three of the ten relations.
    hot: bool,
}

fn measure(setting: Setting, scheme: Scheme, seed: u64) -> Result<MediaOutcome, ReproError> {
    let (library, media, capacity) = if setting.optical {
        (Library::optical_jukebox_1996(), 32, 1_300 * MB)
    } else {
        (Library::tape_stacker_1996(), 10, 10 * GB)
    };
    let library = library.with_drives(setting.drives).expect("one drive or two");
    // The same relations and queries for every scheme.
    let mut rng = Rng::with_seed(seed);
    let mut shelf = Shelf::new(media, capacity);
    let relations: Vec<Relation> = (0..RELATIONS)
        .map(|_| {
            let (bytes, pieces) = (rng.u64(100 * MB..=10 * GB), rng.u64(1..=5));
            shelf.spread(bytes, pieces, &mut rng)
        })
        .collect();
    let mut catalog = Catalog::default();
    let mut users = Vec::new();
    for _ in 0..setting.users {
        let queries =
            (0..QUERIES).map(|_| query(setting, scheme, &relations, &mut catalog, &mut rng)).collect();
        users.push(MediaUser { start: MediaStart::default(), queries });
    }
    play(scheme, &library, catalog, users)
}

/// A select or a hash join: one list for each relation, the build side first.
fn query(
    setting: Setting,
    scheme: Scheme,
    relations: &[Relation],
    catalog: &mut Catalog,
    rng: &mut Rng,
) -> MediaQuery {
    let scans = if rng.bool() { 2 } else { 1 };
    let mut lists = Vec::new();
    for _ in 0..scans {
        let hot = setting.hot && rng.u32(0..10) < 8;
        let relation = match (setting.hot, hot) {
            (false, _) => rng.usize(0..RELATIONS),
            (true, true) => rng.usize(0..3),
            (true, false) => rng.usize(3..RELATIONS),
        };
        let relation = &relations[relation];
        // Draws must be independent of the scheme.
        let (indexed, per_myriad, seed) = (rng.u32(0..10) < 8, rng.u64(10..=1000), rng.u64(..));
        let blocks = relation.blocks();
        let wanted = (blocks * per_myriad / 10_000).max(1);
        let mut own = Rng::with_seed(seed);
        lists.push(match setting.index {
            IndexScan::Scattered if indexed => {
                catalog.index(relation, wanted, scheme, FRAGMENT_BYTES, &mut own)
            }
            IndexScan::Range if indexed => {
                let range = relation.range(own.u64(0..=blocks - wanted), wanted);
                catalog.sequential(&range, scheme, FRAGMENT_BYTES)
            }
            _ => catalog.sequential(relation, scheme, FRAGMENT_BYTES),
        });
    }
    MediaQuery { lists, picos_per_byte: setting.picos }
}

struct Compared {
    /// Over seeds, for each scheme.
    totals: [Vec<f64>; 3],
    transfers: [Vec<f64>; 3],
}

impl Compared {
    /// Runs only these schemes; the others have no numbers.
    fn by(setting: Setting, schemes: &[Scheme], seeds: &[u64]) -> Result<Self, ReproError> {
        let mut compared = Compared { totals: Default::default(), transfers: Default::default() };
        for scheme in schemes {
            for seed in seeds {
                let outcome = measure(setting, *scheme, *seed)?;
                compared.totals[*scheme as usize].push(outcome.total_s);
                compared.transfers[*scheme as usize].push(outcome.transfer_s);
            }
        }
        Ok(compared)
    }

    /// One scheme's time over another's, seed by seed.
    fn ratio(&self, a: Scheme, b: Scheme) -> Vec<f64> {
        self.totals[a as usize].iter().zip(&self.totals[b as usize]).map(|(a, b)| a / b).collect()
    }

    /// The same ratio of the time spent transferring.
    fn transfer_ratio(&self, a: Scheme, b: Scheme) -> Vec<f64> {
        self.transfers[a as usize].iter().zip(&self.transfers[b as usize]).map(|(a, b)| a / b).collect()
    }
}

/// Two of the schemes, and the paper's ratio of the first to the second.
struct Stated {
    what: &'static str,
    of: fn(&Measured) -> Vec<f64>,
    paper: f64,
    note: &'static str,
}

/// The measurements.
struct Measured {
    tape: Compared,
    optical: Compared,
    hot: Compared,
}

impl Measured {
    fn of(index: IndexScan, picos: u64, schemes: &[Scheme], seeds: &[u64]) -> Result<Self, ReproError> {
        let setting = Setting { index, picos, optical: false, drives: 1, users: 3, hot: false };
        Ok(Measured {
            tape: Compared::by(setting, schemes, seeds)?,
            optical: Compared::by(Setting { optical: true, ..setting }, schemes, seeds)?,
            hot: Compared::by(
                Setting { drives: 2, users: 5, hot: true, ..setting },
                &schemes[schemes.len() - 2..],
                seeds,
            )?,
        })
    }
}

const NO_PREFETCH: &str = "where users take turns, a block of 256 KB costs a switch and a seek as a unit of 8 MB does, so that by \
    Table 1 prefetch gains up to 29 times on tape and 16 on optical; how much of the time users took turns depends on sizes \
    and queries that the paper drew and does not give; the table has other readings";
const REORDER: &str = "by Table 1 a unit of 8 MB that has to be switched to costs 46 s on tape and 30 s on optical, of which 4 \
    and 16 s are transfer: what reordering can gain depends on how often users take turns, and on optical is under 2 where \
    transfers are equal; the table has other readings";
const SHARED: &str = "how much users share follows from queries that the paper drew and does not give; the table has other readings";

const STATED: [Stated; 5] = [
    Stated {
        what: "mixed, tape: prefetch / no-prefetch",
        of: |m| m.tape.ratio(Scheme::Prefetch, Scheme::NoPrefetch),
        paper: 0.2,
        note: NO_PREFETCH,
    },
    Stated {
        what: "mixed, tape: reorder / prefetch",
        of: |m| m.tape.ratio(Scheme::Reorder, Scheme::Prefetch),
        paper: 1.0 / 7.0,
        note: REORDER,
    },
    Stated {
        what: "mixed, optical: prefetch / no-prefetch",
        of: |m| m.optical.ratio(Scheme::Prefetch, Scheme::NoPrefetch),
        paper: 1.0 / 3.0,
        note: NO_PREFETCH,
    },
    Stated {
        what: "mixed, optical: reorder / prefetch",
        of: |m| m.optical.ratio(Scheme::Reorder, Scheme::Prefetch),
        paper: 1.0 / 3.0,
        note: REORDER,
    },
    Stated {
        what: "mixed, hot set, 5 users, 2 drives: transfer of reorder / prefetch",
        of: |m| m.hot.transfer_ratio(Scheme::Reorder, Scheme::Prefetch),
        paper: 0.5,
        note: SHARED,
    },
];

/// The processor time by the paper's 2.5 s for a cached fragment (section 4.3), applied to the largest of 85
/// MB.
const STATED_PICOS: u64 = 2_500_000_000_000 / FRAGMENT_BYTES;

/// The stated ratios under every reading of the paper's open points, for one seed. They show the influence of
/// each point.
fn readings() -> Result<Block, ReproError> {
    let all: &[Scheme] = &Scheme::ALL;
    let both: &[Scheme] = &[Scheme::Prefetch, Scheme::Reorder];
    let lines = [
        ("a run of blocks (the rows above)", IndexScan::Range, SCAN_PICOS, all),
        ("the same; 2.5 s of processor for a fragment", IndexScan::Range, STATED_PICOS, all),
        ("blocks at random places", IndexScan::Scattered, SCAN_PICOS, all),
        ("tuples at random places: whole relations", IndexScan::Tuples, SCAN_PICOS, both),
    ];
    let mut rows = vec![
        std::iter::once("the paper".to_owned()).chain(STATED.iter().map(|s| inverse(s.paper))).collect(),
    ];
    for (name, index, picos, schemes) in lines {
        let measured = Measured::of(index, picos, schemes, &SEEDS[..1])?;
        let cell =
            |stated: &Stated| (stated.of)(&measured).first().map_or_else(|| "-".to_owned(), |r| inverse(*r));
        rows.push(std::iter::once(name.to_owned()).chain(STATED.iter().map(cell)).collect());
    }
    Ok(Block::Table {
        caption: "Mixed workload by what an index scan fetches, first seed".to_owned(),
        header: std::iter::once("an index scan fetches")
            .chain(STATED.iter().map(|s| s.what))
            .map(str::to_owned)
            .collect(),
        rows,
    })
}

fn inverse(ratio: f64) -> String {
    format!("1/{:.1}", 1.0 / ratio)
}

pub(crate) fn find() -> Result<Part, ReproError> {
    use Scheme::{Prefetch, Reorder};
    let measured = Measured::of(IndexScan::Range, SCAN_PICOS, &Scheme::ALL, &SEEDS)?;
    let Measured { tape, optical, .. } = &measured;
    let setting = Setting {
        index: IndexScan::Range,
        picos: SCAN_PICOS,
        optical: false,
        drives: 2,
        users: 3,
        hot: false,
    };
    let two = &Compared::by(setting, &Scheme::ALL, &SEEDS)?;
    let gap = |compared: &Compared| median(&compared.ratio(Reorder, Prefetch));
    let narrower = f64::from(u8::from(gap(two) > gap(tape)));
    let ordered = |compared: &Compared| {
        let totals: Vec<f64> = compared.totals.iter().map(|of| median(of)).collect();
        f64::from(u8::from(totals[2] < totals[1])) + f64::from(u8::from(totals[1] < totals[0]))
    };
    let stated = |s: &Stated| row(s.what.into(), s.paper, &(s.of)(&measured), 0.25, Basis::Stated, s.note);
    let mut rows: Vec<_> = STATED.iter().map(stated).collect();
    rows.push(row(
        "mixed: two drives narrow the gap of reorder and prefetch".into(),
        1.0,
        &[narrower],
        0.0,
        Basis::Stated,
        "",
    ));
    rows.push(row(
        "mixed: orders on tape, optical, two drives".into(),
        6.0,
        &[ordered(tape) + ordered(optical) + ordered(two)],
        0.0,
        Basis::Stated,
        "",
    ));
    let names = ["tape", "optical", "tape, two drives"];
    let all = [tape, optical, two];
    let shares = |of: &[f64], base: &[f64]| bar(of.iter().zip(base).map(|(a, b)| a / b));
    let series = Scheme::ALL.into_iter().enumerate().map(|(at, scheme)| BarSeries {
        name: scheme.name().to_owned(),
        bars: all.iter().map(|compared| shares(&compared.totals[at], &compared.totals[0])).collect(),
    });
    let bars = GroupedBars {
        title: "Mixed workload".to_owned(),
        description: "Time of each scheme over that of no-prefetch.".to_owned(),
        y: Axis::log("time / no-prefetch"),
        groups: names.map(str::to_owned).to_vec(),
        series: series.collect(),
    };
    let caption = "Mixed workload, 1996 Fig. 7; median and range over seeds".to_owned();
    Ok(Part { rows, blocks: vec![Block::Figure { caption, svg: bars.svg()? }, readings()?] })
}
