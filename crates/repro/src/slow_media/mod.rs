//! Sarawagi & Stonebraker 1996, section 4: the gain of reordering over slow media, on the paper's tape
//! stacker and optical jukebox, and on a present-day LTO-9 library.
//!
//! `relation` places relations on media and converts scans to lists of subqueries for each of the three
//! schemes. `scans` has the simple tests, `heads` their seeks by other rules, `mixed` the mixed workload,
//! `overhead` the cost of scheduling, and `library` the present-day library. Executors, drives and time are
//! those of `coscan_sim::media`.

mod heads;
mod library;
mod mixed;
mod overhead;
mod relation;
mod scans;

use coscan_figure::bars::Bar;
use coscan_sim::scenario::Basis;
use coscan_sim::statistics::Spread;

use crate::error::ReproError;
use crate::report::{Block, Finding, Row, Section};

/// The experiment's name on the scoreboard and in `--only`.
pub(crate) const NAME: &str = "slow-media";

/// The three schemes, with their names in the paper and the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheme {
    NoPrefetch,
    Prefetch,
    Reorder,
}

impl Scheme {
    pub(crate) const ALL: [Scheme; 3] = [Scheme::NoPrefetch, Scheme::Prefetch, Scheme::Reorder];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::NoPrefetch => "no-prefetch",
            Scheme::Prefetch => "prefetch",
            Scheme::Reorder => "reorder",
        }
    }
}

/// The basis of the numbers.
const BASIS: &str = "Stated: devices (Table 1), cache, block, prefetch unit, sizes and layouts of the index scans, sizes and \
    shares of the mixed workload (Table 3). Fitted: processor time of a scan, 0.125 s per MB, so that one user gains 20 % by \
    overlap; those two rows do not count. Reading: the relation of the sequential scans has 5 GB, which the paper does not \
    say and which is what the next test has on each tape; an index scan of the mixed workload fetches its selectivity as a \
    run of the blocks of each relation, as a clustered index does, because by an unclustered one nearly all blocks would \
    qualify and without prefetching each tuple would be a block; platters of 1.3 GB \
    hold as many pieces of a relation as it takes; one processor for all users, a drive each for switches. Devices are taken \
    exactly as stated, and the policies' bound on waiting is off.";

pub(crate) fn find() -> Result<Finding, ReproError> {
    let (mut rows, mut blocks) = (Vec::new(), vec![Block::Text(BASIS.to_owned())]);
    for part in [scans::find()?, mixed::find()?, overhead::find()?, library::find()?] {
        rows.extend(part.rows);
        blocks.extend(part.blocks);
    }
    let title = "Reordering over slow media (Sarawagi & Stonebraker 1996)".to_owned();
    Ok(Finding { rows, section: Section { experiment: NAME.to_owned(), title, blocks } })
}

/// Rows and blocks of the report.
pub(crate) struct Part {
    pub(crate) rows: Vec<Row>,
    pub(crate) blocks: Vec<Block>,
}

/// A bar over seeds: the median and the range.
pub(crate) fn bar(measured: impl IntoIterator<Item = f64>) -> Option<Bar> {
    let Spread { median, min, max } = Spread::of(measured)?;
    Some(Bar { value: median, spread: (min, max), paper: None })
}

/// A row whose value is the median of the measurements; the note is kept if the row is outside the tolerance.
pub(crate) fn row(
    quantity: String,
    paper: f64,
    measured: &[f64],
    tolerance: f64,
    basis: Basis,
    note: &str,
) -> Row {
    let row = Row::of_median(NAME, quantity, paper, measured, measured.len() as u32, tolerance);
    let mut row = row.on(basis);
    if !row.within || !basis.is_judged() {
        row.note = note.to_owned();
    }
    row
}
