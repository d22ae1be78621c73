//! Tests and bounds for times. Times have long tails, so all functions use ranks.

use coscan_base::statistics::median;

/// The distance of the times of `a` above those of `b`, in standard deviations under chance: the Mann-Whitney
/// test with ties, normal approximation. Zero if either is empty or all are equal.
pub(super) fn z_above(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks = ranks(&all);
    rank_z(ranks[..a.len()].iter().sum(), a.len() as f64, b.len() as f64, tied(&all))
}

/// The same from the sum of ranks of one side and the sizes of both. `tied` is the sum of t^3 - t over groups
/// of t equal times.
pub(super) fn rank_z(sum: f64, n1: f64, n2: f64, tied: f64) -> f64 {
    let n = n1 + n2;
    if n1 == 0.0 || n2 == 0.0 {
        return 0.0;
    }
    let variance = n1 * n2 / 12.0 * (n + 1.0 - tied / (n * (n - 1.0)));
    if variance <= 0.0 { 0.0 } else { (sum - n1 * (n + 1.0) / 2.0) / variance.sqrt() }
}

/// Ranks from 1; equal values share the mean of their ranks.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut ranks = vec![0.0; values.len()];
    for group in equal(values) {
        let mean = (group.0 + group.1.len() as f64 / 2.0) + 0.5;
        group.1.iter().for_each(|at| ranks[*at] = mean);
    }
    ranks
}

/// The sum of t^3 - t over groups of t equal values.
pub(super) fn tied(values: &[f64]) -> f64 {
    let group = |(_, group): (f64, Vec<usize>)| (group.len() as f64).powi(3) - group.len() as f64;
    equal(values).into_iter().map(group).sum()
}

/// Groups of equal values in ascending order: the number of smaller values, and the positions of the group.
fn equal(values: &[f64]) -> Vec<(f64, Vec<usize>)> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for (smaller, at) in order.into_iter().enumerate() {
        match groups.last_mut() {
            Some((_, group)) if values[group[0]] == values[at] => group.push(at),
            _ => groups.push((smaller as f64, vec![at])),
        }
    }
    groups
}

/// A value between bounds of 95% confidence.
pub(super) type Bounds = (f64, f64, f64);

/// The distance of `a` above `b`: the median of all differences (Hodges and Lehmann), and its 95% bounds.
pub(super) fn shift(a: &[f64], b: &[f64]) -> Bounds {
    let mut differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| x - y)).collect();
    differences.sort_by(f64::total_cmp);
    let (n1, n2) = (a.len() as f64, b.len() as f64);
    let half = 1.96 * (n1 * n2 * (n1 + n2 + 1.0) / 12.0).sqrt();
    let at = |rank: f64| {
        let last = differences.len().saturating_sub(1) as f64;
        differences.get(rank.round().clamp(0.0, last) as usize).copied().unwrap_or(f64::NAN)
    };
    (at(n1 * n2 / 2.0), at(n1 * n2 / 2.0 - half), at(n1 * n2 / 2.0 + half))
}

/// The median and its 95% bounds, by order statistics.
pub(super) fn median_bounds(values: &[f64]) -> Bounds {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let at = |rank: f64| {
        let last = sorted.len().saturating_sub(1) as f64;
        sorted.get(rank.clamp(0.0, last) as usize).copied().unwrap_or(f64::NAN)
    };
    let half = 0.98 * n.sqrt();
    (median(values), at((n / 2.0 - half).floor()), at((n / 2.0 + half).ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_and_the_test_sees_what_lies_above() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(tied(&[3.0, 1.0, 3.0, 2.0]), 6.0);
        let low: Vec<f64> = (0..50).map(f64::from).collect();
        let high: Vec<f64> = (0..50).map(|n| f64::from(n) + 40.0).collect();
        assert!(z_above(&high, &low) > 7.0);
        assert!(z_above(&low, &high) < -7.0);
        assert!(z_above(&low, &low).abs() < 1e-9);
        assert_eq!(z_above(&[], &low), 0.0);
        assert_eq!(z_above(&[1.0, 1.0], &[1.0]), 0.0);
    }

    #[test]
    fn a_shift_is_found_with_its_bounds() {
        let mut rng = fastrand::Rng::with_seed(1);
        let a: Vec<f64> = (0..100).map(|_| rng.f64() + 0.5).collect();
        let b: Vec<f64> = (0..100).map(|_| rng.f64()).collect();
        let (shift, low, high) = shift(&a, &b);
        assert!(low < 0.5 && 0.5 < high && (shift - 0.5).abs() < 0.15, "{shift} {low} {high}");
        let (median, low, high) = median_bounds(&b);
        assert!(low < median && median < high && high - low < 0.4);
    }
}
