//! Summaries of several values: a figure over seeds, and its name.

pub use coscan_base::statistics::{median, quantile};

/// A figure that every run has.
#[derive(Debug)]
pub struct Quantity<R> {
    /// Its name in JSON and in expectations.
    pub key: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// Its value in a run; NaN if the run has none.
    pub of: fn(&R) -> f64,
}

impl<R> Clone for Quantity<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Quantity<R> {}

/// The median of a figure over seeds, and the middle half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The first and the third quartile.
    pub quartiles: (f64, f64),
}

impl Summary {
    /// The summary of at least one value.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share| interpolated(&values, share);
        Summary { median: at(0.5), quartiles: (at(0.25), at(0.75)) }
    }

    /// The summary of a single value.
    pub fn exactly(value: f64) -> Self {
        Summary { median: value, quartiles: (value, value) }
    }

    /// The summary of an increasing function of the values.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Summary { median: of(self.median), quartiles: (of(self.quartiles.0), of(self.quartiles.1)) }
    }
}

/// The value below which a share of sorted values lies, interpolated between neighbours.
fn interpolated(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * rest
}

/// The median of a figure over seeds, and the least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of the values that are numbers; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Spread { median: median(&values), min, max })
    }
}

/// The mean; zero without values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles_interpolate() {
        let summary = Summary::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Summary { median: 2.5, quartiles: (1.75, 3.25) });
        assert_eq!(Summary::of(vec![7.0]), Summary::exactly(7.0));
    }

    #[test]
    fn a_spread_is_of_what_was_measured() {
        let spread = Spread { median: 2.0, min: 1.0, max: 3.0 };
        assert_eq!(Spread::of([3.0, 1.0, f64::NAN, 2.0]), Some(spread));
        assert_eq!(Spread::of([1.0, 2.0]).map(|spread| spread.median), Some(1.5));
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}
