//! 2004, §3.2 and §4.2: why reads come in chunks, measured on models of the paper's disks in virtual time.
//!
//! Three questions, a file each: how large a chunk must be for good bandwidth (`bandwidth`), how many
//! requests an array serves at once (`concurrency`), and from which selectivity on an index that fetches
//! single pages loses to reading the whole chunk (`index`). `devices` has the disks and where their numbers
//! come from, `measure` drives them. No buffer manager and no policy is involved.

mod bandwidth;
mod concurrency;
mod devices;
mod index;
mod measure;

use super::{Finding, ReproError};
use crate::figure::line::{Draw, Point, Series};
use crate::outcome::Summary;
use crate::report::{Block, Row, Section};

/// What the scoreboard and `--only` call the experiment.
pub(super) const NAME: &str = "scan04-chunked-io";
/// Addresses and tuples are drawn anew for each.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
const MIB: u64 = 1 << 20;

/// What one question adds.
struct Part {
    rows: Vec<Row>,
    blocks: Vec<Block>,
}

pub(super) fn find() -> Result<Finding, ReproError> {
    let (mut rows, mut blocks) = (Vec::new(), vec![Block::Text(devices::described())]);
    for part in [bandwidth::find()?, concurrency::find()?, index::find()?] {
        rows.extend(part.rows);
        blocks.extend(part.blocks);
    }
    let title = "Chunked I/O (2004, Fig. 5, Table 3, Fig. 7)".to_owned();
    Ok(Finding { rows, section: Section { experiment: NAME.to_owned(), title, blocks } })
}

/// A row over the seeds, judged by its tolerance.
fn row(quantity: String, paper: f64, measured: Summary, tolerance: f64, note: impl Into<String>) -> Row {
    Row {
        experiment: NAME.to_owned(),
        quantity,
        paper,
        measured: measured.median,
        spread: measured.quartiles,
        seeds: SEEDS.len() as u32,
        tolerance,
        within: false,
        note: note.into(),
    }
    .judged()
}

/// The same measurement for every seed.
fn over_seeds(measure: impl Fn(u64) -> f64) -> Summary {
    Summary::of(SEEDS.iter().map(|seed| measure(*seed)).collect())
}

/// A curve of medians with the middle half of the seeds.
fn series(name: &str, points: impl IntoIterator<Item = (f64, Summary)>) -> Series {
    let point = |(x, y): (f64, Summary)| Point { x, y: y.median, spread: y.quartiles };
    let points = points.into_iter().map(point).collect();
    Series { name: name.to_owned(), points, draw: Draw::Marked, look: None }
}

/// Where a curve of ascending `x` first rises to `level`, on logarithmic axes between its points.
fn rises_to(curve: &[(f64, f64)], level: f64) -> Option<f64> {
    let (at, (x, y)) = curve.iter().enumerate().find(|(_, (_, y))| *y >= level)?;
    let Some((x_before, y_before)) = at.checked_sub(1).map(|before| curve[before]) else { return Some(*x) };
    let part = (level / y_before).ln() / (y / y_before).ln();
    Some(x_before * (x / x_before).powf(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_found_between_points_of_a_power_law() {
        let curve: Vec<(f64, f64)> = [1.0, 4.0, 16.0].map(|x: f64| (x, x.sqrt())).to_vec();
        assert!((rises_to(&curve, 3.0).unwrap() - 9.0).abs() < 1e-9);
        assert_eq!(rises_to(&curve, 0.5), Some(1.0));
        assert_eq!(rises_to(&curve, 5.0), None);
    }
}
