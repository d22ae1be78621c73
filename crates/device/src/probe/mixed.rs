//! Reads beside writes: the slowdown of reads when every second request is a write.

use super::load::{random, request_bytes};
use super::profile::{Estimate, Mixed, Profile};
use super::rank::{median_bounds, shift};
use super::{ProbeError, ProbeOptions, Sample, Target};
use crate::Transfer;

/// Requests in flight.
const DEPTH: usize = 4;
/// Rounds of each kind, interleaved.
const ROUNDS: usize = 4;

/// Times reads alone and reads that alternate with writes, round by round.
pub(super) fn measure(
    target: &mut dyn Target,
    options: &ProbeOptions,
    rng: &mut fastrand::Rng,
    profile: &mut Profile,
) -> Result<(), ProbeError> {
    let (mut alone, mut beside, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let each = options.samples.div_ceil(ROUNDS).max(2 * DEPTH);
    for _ in 0..ROUNDS {
        let reads: Vec<(Sample, Transfer)> =
            random(target, each, rng).into_iter().map(|sample| (sample, Transfer::Read)).collect();
        alone.extend(target.mixed(&reads, DEPTH)?.latency_s);
        let kind = |nth: usize| if nth.is_multiple_of(2) { Transfer::Read } else { Transfer::Write };
        let both: Vec<(Sample, Transfer)> = random(target, 2 * each, rng)
            .into_iter()
            .enumerate()
            .map(|(nth, sample)| (sample, kind(nth)))
            .collect();
        for ((_, kind), time) in both.iter().zip(target.mixed(&both, DEPTH)?.latency_s) {
            match kind {
                Transfer::Read => beside.push(time),
                Transfer::Write => writes.push(time),
            }
        }
    }
    let logs = |times: &[f64]| -> Vec<f64> { times.iter().map(|time| time.max(1e-9).ln()).collect() };
    let (value, low, high) = shift(&logs(&beside), &logs(&alone));
    profile.mixed = Some(Mixed {
        request_bytes: request_bytes(target),
        requests: DEPTH,
        read_s: Estimate::from(median_bounds(&alone)),
        write_s: Estimate::from(median_bounds(&writes)),
        read_beside_writes: Estimate { value: value.exp(), low: low.exp(), high: high.exp() },
    });
    Ok(())
}
