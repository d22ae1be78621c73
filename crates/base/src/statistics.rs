//! Medians and quantiles: the one definition for times of devices, figures of runs and reports.

/// The smallest value that this share of all values does not exceed (nearest rank); NaN without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // A product that differs from a whole number only by rounding is that number.
    let rank = (sorted.len() as f64 * share - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The value in the middle, or the mean of the two; NaN without values.
pub fn median(values: &[f64]) -> f64 {
    (quantile(values, 0.5) + quantile(values, 0.5 + 0.5 / values.len().max(1) as f64)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.07, 0.5, 0.99, 1.0].map(|share| quantile(&values, share)),
            [1.0, 7.0, 50.0, 99.0, 100.0]
        );
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.99), 4.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }
}
