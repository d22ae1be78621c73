//! Throughput with many requests: the requests in flight that a device needs, the gain of sequential order,
//! and changes of throughput.

use coscan_base::statistics::median;

use super::profile::{Depth, Estimate, Large, Profile, Regime, Throughput};
use super::rank::{shift, z_above};
use super::{ProbeError, ProbeOptions, Sample, Target, anywhere};

/// Size of the requests, where the device is large enough.
const REQUEST_BYTES: u64 = 64 << 10;
/// Size of large requests. Each run has at least `LARGE_TURNS` of them per request in flight.
const LARGE_BYTES: u64 = 1 << 20;
const LARGE_TURNS: usize = 2;
/// Runs per depth, interleaved.
const ROUNDS: usize = 3;
/// A depth is enough if it reaches this share of the best throughput.
const ENOUGH: f64 = 0.95;
/// Requests in a row that count as sequential.
const IN_A_ROW: usize = 8;
/// Batches in the search for changes of regime.
const BATCHES: usize = 40;
/// In standard deviations; with 38 places to split at, chance reaches it once in a thousand runs.
const REGIME_Z: f64 = 4.2;
/// A smaller change is ignored.
const REGIME_SHARE: f64 = 0.2;

pub(super) fn request_bytes(target: &dyn Target) -> u64 {
    let block = target.block_bytes();
    (REQUEST_BYTES.min(target.bytes() / 64) / block).max(1) * block
}

pub(super) fn random(target: &dyn Target, count: usize, rng: &mut fastrand::Rng) -> Vec<Sample> {
    sized(target, request_bytes(target), count, rng)
}

fn sized(target: &dyn Target, bytes: u64, count: usize, rng: &mut fastrand::Rng) -> Vec<Sample> {
    let (all, block) = (target.bytes(), target.block_bytes());
    (0..count).map(|_| Sample { offset: anywhere(rng, all, block, bytes), bytes }).collect()
}

/// Measures the throughput of random reads by requests in flight.
pub(super) fn measure_depth(
    target: &mut dyn Target,
    options: &ProbeOptions,
    rng: &mut fastrand::Rng,
    profile: &mut Profile,
) -> Result<(), ProbeError> {
    let depths: Vec<usize> = std::iter::successors(Some(1), |depth| Some(depth * 2))
        .take_while(|d| *d <= options.depth_max)
        .collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); depths.len()];
    for _ in 0..ROUNDS {
        let mut order: Vec<usize> = (0..depths.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let asked = random(target, options.samples.max(8 * depths[at]), rng);
            let run = target.read(&asked, depths[at])?;
            let bytes: u64 = asked.iter().map(|sample| sample.bytes).sum();
            rates[at].push(bytes as f64 / run.elapsed_s.max(1e-9));
        }
    }
    let enough = |rates: &[f64]| {
        let peak = rates.iter().copied().fold(0.0, f64::max);
        let at = rates.iter().position(|rate| *rate >= ENOUGH * peak).unwrap_or(0);
        depths[at] as f64
    };
    let medians: Vec<f64> = rates.iter().map(|rates| median(rates)).collect();
    let rounds: Vec<f64> =
        (0..ROUNDS).map(|nth| enough(&rates.iter().map(|rates| rates[nth]).collect::<Vec<f64>>())).collect();
    let value = enough(&medians);
    let low = rounds.iter().copied().fold(value, f64::min);
    let high = rounds.iter().copied().fold(value, f64::max);
    let throughput = |(depth, rates): (&usize, &Vec<f64>)| Throughput {
        requests: *depth,
        bytes_per_s: Estimate {
            value: median(rates),
            low: rates.iter().copied().fold(f64::INFINITY, f64::min),
            high: rates.iter().copied().fold(0.0, f64::max),
        },
    };
    profile.depth = Some(Depth {
        request_bytes: request_bytes(target),
        enough: Estimate { value, low, high },
        throughput: depths.iter().zip(&rates).map(throughput).collect(),
        large: None,
    });
    let large = measure_large(target, options, value as usize, rng)?;
    if let Some(depth) = &mut profile.depth {
        depth.large = Some(large);
    }
    Ok(())
}

/// Measures the throughput of large random reads, with the smallest sufficient number in flight. The first
/// round is not counted, so that burst credit is used up.
fn measure_large(
    target: &mut dyn Target,
    options: &ProbeOptions,
    depth: usize,
    rng: &mut fastrand::Rng,
) -> Result<Large, ProbeError> {
    let block = target.block_bytes();
    let bytes = (LARGE_BYTES.min(options.bytes_max).min(target.bytes() / 64) / block).max(1) * block;
    let mut rates = Vec::new();
    for _ in 0..=ROUNDS {
        let asked = sized(target, bytes, options.samples.min(30).max(LARGE_TURNS * depth), rng);
        let moved: u64 = asked.iter().map(|sample| sample.bytes).sum();
        rates.push(moved as f64 / target.read(&asked, depth)?.elapsed_s.max(1e-9));
    }
    let counted = &rates[1..];
    let low = counted.iter().copied().fold(f64::INFINITY, f64::min);
    let high = counted.iter().copied().fold(0.0, f64::max);
    Ok(Large { request_bytes: bytes, bytes_per_s: Estimate { value: median(counted), low, high } })
}

/// Measures the time of a random read relative to one that follows the last.
pub(super) fn measure_sequential(
    target: &mut dyn Target,
    options: &ProbeOptions,
    rng: &mut fastrand::Rng,
    profile: &mut Profile,
) -> Result<(), ProbeError> {
    let bytes = request_bytes(target);
    let (mut scattered, mut following) = (Vec::new(), Vec::new());
    while following.len() < options.samples {
        let run = (IN_A_ROW as u64 + 1) * bytes;
        let from = anywhere(rng, target.bytes(), target.block_bytes(), run.min(target.bytes()));
        let row = |nth: u64| Sample { offset: from + nth * bytes, bytes };
        let mut asked: Vec<Sample> = (0..=IN_A_ROW as u64).map(row).collect();
        asked.extend(random(target, IN_A_ROW, rng));
        let times = target.read(&asked, 1)?.latency_s;
        following.extend(&times[1..=IN_A_ROW]);
        scattered.extend(&times[IN_A_ROW + 1..]);
    }
    let logs = |times: &[f64]| -> Vec<f64> { times.iter().map(|time| time.max(1e-9).ln()).collect() };
    let (value, low, high) = shift(&logs(&scattered), &logs(&following));
    profile.random_over_sequential = Some(Estimate { value: value.exp(), low: low.exp(), high: high.exp() });
    Ok(())
}

/// Detects a change of throughput during continuous reading, such as used up burst credit or heat.
pub(super) fn measure_regime(
    target: &mut dyn Target,
    options: &ProbeOptions,
    rng: &mut fastrand::Rng,
    profile: &mut Profile,
) -> Result<(), ProbeError> {
    let depth = profile.depth.as_ref().map_or(1, |depth| depth.enough.value as usize).max(1);
    let (mut rates, mut bytes_each) = (Vec::new(), 0);
    for _ in 0..BATCHES {
        let asked = random(target, options.samples.max(8 * depth), rng);
        bytes_each = asked.iter().map(|sample| sample.bytes).sum::<u64>();
        rates.push(bytes_each as f64 / target.read(&asked, depth)?.elapsed_s.max(1e-9));
    }
    let split = |at: usize| z_above(&rates[..at], &rates[at..]).abs();
    let at = (1..rates.len()).max_by(|a, b| split(*a).total_cmp(&split(*b))).unwrap_or(1);
    let (before, after) = (median(&rates[..at]), median(&rates[at..]));
    profile.regime_searched = true;
    let changed = (before / after - 1.0).abs() >= REGIME_SHARE;
    profile.regime = (split(at) > REGIME_Z && changed).then_some(Regime {
        after_bytes: at as u64 * bytes_each,
        bytes_per_s_before: before,
        bytes_per_s_after: after,
    });
    Ok(())
}
