//! Cost of a request by its size: percentiles, and the line t = t0 + n / B through the medians.

use coscan_base::statistics::{median, quantile};

use super::profile::{Estimate, Latency, Profile};
use super::rank::median_bounds;
use super::{ProbeError, ProbeOptions, Sample, Target, anywhere};

/// Number of resamplings of the times, for the bounds of the line.
const RESAMPLES: usize = 200;
/// A request of this size spends nine tenths of its time on its bytes: t0 is a ninth of n / B.
const EFFICIENT: f64 = 9.0;

/// Reads of each size that suffice for a result if a limit is reached early.
const ROUNDS_MIN: usize = 10;

/// Times random reads of every size, all sizes interleaved.
pub(super) fn measure(
    target: &mut dyn Target,
    options: &ProbeOptions,
    rng: &mut fastrand::Rng,
    profile: &mut Profile,
) -> Result<(), ProbeError> {
    let (bytes, block) = (target.bytes(), target.block_bytes());
    let largest = options.bytes_max.min(bytes / 8).max(block);
    let sizes: Vec<u64> = std::iter::successors(Some(block), |size| Some(size * 2))
        .take_while(|size| *size <= largest)
        .collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut limit = Ok(());
    for round in 0..options.samples {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        rng.shuffle(&mut order);
        let sample = |size: &usize| {
            let bytes_each = sizes[*size];
            Sample { offset: anywhere(rng, bytes, block, bytes_each), bytes: bytes_each }
        };
        let asked: Vec<Sample> = order.iter().map(sample).collect();
        let run = match target.read(&asked, 1) {
            Err(ProbeError::LimitReached) if round >= ROUNDS_MIN => {
                limit = Err(ProbeError::LimitReached);
                break;
            }
            run => run?,
        };
        order.iter().zip(run.latency_s).for_each(|(size, time)| times[*size].push(time));
    }
    let latency = |(size, times): (&u64, &Vec<f64>)| Latency {
        bytes: *size,
        p50_s: Estimate::from(median_bounds(times)),
        p99_s: quantile(times, 0.99),
    };
    profile.latencies = sizes.iter().zip(&times).map(latency).collect();
    fit(&sizes, &times, rng, profile);
    limit
}

/// Fits the line, with bounds from resampled times. Values whose bounds include zero are left out.
fn fit(sizes: &[u64], times: &[Vec<f64>], rng: &mut fastrand::Rng, profile: &mut Profile) {
    if sizes.len() < 3 {
        return;
    }
    let (t0, per_byte) = line(sizes, times.iter().map(|times| median(times)));
    let mut drawn: Vec<(f64, f64)> = Vec::new();
    for _ in 0..RESAMPLES {
        let medians: Vec<f64> = times
            .iter()
            .map(|times| {
                median(&times.iter().map(|_| times[rng.usize(0..times.len())]).collect::<Vec<f64>>())
            })
            .collect();
        drawn.push(line(sizes, medians.into_iter()));
    }
    let estimate = |value: f64, of: fn(&(f64, f64)) -> f64| {
        let all: Vec<f64> = drawn.iter().map(of).collect();
        Estimate { value, low: quantile(&all, 0.025), high: quantile(&all, 0.975) }
    };
    let fixed = estimate(t0, |line| line.0);
    let rate = estimate(1.0 / per_byte, |line| 1.0 / line.1);
    let rate_known = estimate(per_byte, |line| line.1).low > 0.0;
    profile.fixed_cost_s = (fixed.low > 0.0).then_some(fixed);
    profile.bytes_per_s = rate_known.then_some(rate);
    if fixed.low > 0.0 && rate_known {
        profile.efficient_bytes =
            Some(estimate(EFFICIENT * t0 / per_byte, |line| EFFICIENT * line.0 / line.1));
    }
}

/// Fixed cost and cost per byte by least squares of relative errors, so that small requests count as much as
/// large ones.
fn line(sizes: &[u64], medians: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (size, time) in sizes.iter().zip(medians) {
        let (x, weight) = (*size as f64, 1.0 / (time * time).max(f64::MIN_POSITIVE));
        w += weight;
        wx += weight * x;
        wy += weight * time;
        wxx += weight * x * x;
        wxy += weight * x * time;
    }
    let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    ((wy - slope * wx) / w, slope)
}
