//! Common parts of the three questions: seeds, rows, curves.

use coscan_figure::line::{Draw, Point, Series};
use coscan_sim::statistics::Summary;

use crate::report::{Block, Row};

/// The experiment's name on the scoreboard and in `--only`.
pub(crate) const NAME: &str = "scan04-chunked-io";
/// Addresses and tuples are drawn again for each seed.
pub(super) const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
pub(super) const MIB: u64 = 1 << 20;

/// The result of one question.
pub(super) struct Part {
    pub(super) rows: Vec<Row>,
    pub(super) blocks: Vec<Block>,
}

/// A row over the seeds, judged by its tolerance.
pub(super) fn row(
    quantity: String,
    paper: f64,
    measured: Summary,
    tolerance: f64,
    note: impl Into<String>,
) -> Row {
    let row = Row::of_summary(NAME, quantity, paper, measured, SEEDS.len() as u32, tolerance);
    Row { note: note.into(), ..row }
}

/// The same measurement for every seed.
pub(super) fn over_seeds(measure: impl Fn(u64) -> f64) -> Summary {
    Summary::of(SEEDS.iter().map(|seed| measure(*seed)).collect())
}

/// A curve of medians with the middle half of the seeds.
pub(super) fn series(name: &str, points: impl IntoIterator<Item = (f64, Summary)>) -> Series {
    let point = |(x, y): (f64, Summary)| Point { x, y: y.median, spread: y.quartiles };
    let points = points.into_iter().map(point).collect();
    Series { name: name.to_owned(), points, draw: Draw::Marked, look: None }
}

/// The point where a curve of ascending `x` first rises to `level`, interpolated on logarithmic axes.
pub(super) fn rises_to(curve: &[(f64, f64)], level: f64) -> Option<f64> {
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
