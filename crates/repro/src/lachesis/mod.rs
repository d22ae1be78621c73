//! Lachesis (Schindler, Ailamaki, Ganger, VLDB 2003): extents between the boundaries of a disk compared with
//! fixed ones.
//!
//! The paper replays traces of a commercial system that are not public. Here plan models of the 22 queries
//! replace them (`plans.rs`): tables of the benchmark's sizes, read in the order of the joins. Rows over the
//! queries rest on that reading, and say so. The plans and the replay were fixed without regard to the
//! results.
//!
//! | part | content | file |
//! |---|---|---|
//! | characteristics | Table 1, and the table that finds extents | `characteristics.rs` |
//! | efficiency | Fig. 3 | `efficiency.rs` |
//! | tables, plans | the objects that the queries read, and their order | `tables.rs`, `plans.rs` |
//! | volume | placement on the disks, and replay | `volume.rs` |
//! | queries | Fig. 1 and 5: one disk, alone and beside random reads | `queries.rs` |
//! | array | Fig. 6: RAID-5 | `array.rs` |
//! | readings | results under other readings of open points of the paper | `readings.rs` |
//! | prototype | Fig. 7 and 8, section 5.3: small extents, beside a client | `prototype.rs` |

mod array;
mod characteristics;
mod efficiency;
mod parallel;
mod plans;
mod prototype;
mod queries;
#[cfg(test)]
mod readings;
mod tables;
mod volume;

use coscan_sim::scenario::Basis;
use coscan_sim::statistics::Summary;

use crate::error::ReproError;
use crate::report::{Block, Finding, Row, Section};
use volume::JUDGED;

/// The experiment's name on the scoreboard and in `--only`.
pub(crate) const NAME: &str = "lachesis";
/// The default tolerance: a row agrees within this share of the paper's value.
const TOLERANCE: f64 = 0.25;
/// Random reads and single pages are drawn again for each seed.
const SEEDS: [u64; 3] = [1, 2, 3];

pub(crate) fn find(threads: usize) -> Result<Finding, ReproError> {
    let efficiency = efficiency::measure();
    let queries = queries::measure(threads, &JUDGED);
    let array = array::measure(threads, &JUDGED);
    let prototype = prototype::measure(threads, &JUDGED);
    let rows = characteristics::rows()
        .into_iter()
        .chain(efficiency.rows())
        .chain(queries.rows())
        .chain(array.rows())
        .chain(prototype.rows());
    let rows = rows.collect();
    let blocks = vec![
        Block::Text(READING.to_owned()),
        efficiency.shown()?,
        queries.shown(),
        array.shown(),
        prototype.shown(),
    ];
    let title = "Storage management by device characteristics (Lachesis, VLDB 2003)".to_owned();
    Ok(Finding { rows, section: Section { experiment: NAME.to_owned(), title, blocks } })
}

const READING: &str = "A gain is one minus the time of a query's requests with an extent per track over that with fixed \
     extents that ignore tracks. Stated by the paper: sizes of tables, pages, extents, prefetches and stripe units, two \
     requests outstanding, 8 KB random reads at 0, 25 and 150 a second. Reading: the plans; a volume that begins with \
     the disk; random reads over the whole volume; 32 commands at the disk, by positioning time or, in the array and \
     the prototype, in order of arrival; with an extent per track a scan reads whole extents. The disks are derived \
     from published figures (docs/devices.md). Of each query the first part of its tables is read, so that there are \
     about 400 prefetches and single pages.";

/// A row over seeds with the given basis of the paper's value.
fn row(quantity: &str, paper: f64, measured: &[f64], basis: Basis, note: impl Into<String>) -> Row {
    let (summary, seeds) = (Summary::of(measured.to_vec()), measured.len() as u32);
    let row = Row::of_summary(NAME, quantity.to_owned(), paper, summary, seeds, TOLERANCE);
    Row { note: note.into(), ..row.on(basis) }
}

/// The row with another tolerance.
fn tolerating(tolerance: f64, row: Row) -> Row {
    Row { tolerance, ..row }.judged()
}

/// The row without its note if it agrees: notes explain disagreement.
fn explained(row: Row) -> Row {
    if row.within { Row { note: String::new(), ..row } } else { row }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}
