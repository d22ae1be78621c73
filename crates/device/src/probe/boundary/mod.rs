//! Boundaries at equal distances: found by timing random requests, confirmed on addresses that were not used
//! to find them.
//!
//! 1. *Scan* (`scan.rs`). Requests of one size at random cold addresses are timed, size after size, doubling.
//!    For a size, every period of two to four sizes is tried: folded by the right one, the requests that cross
//!    a boundary lie together, and their times rank above the others'.
//! 2. *Narrow*. With addresses spread wider and wider the period is known to the block; which of its multiples
//!    is the true one, and the offset, follow from times of chosen requests.
//! 3. *Confirm*. Interleaved pairs of one size at new addresses, one of each pair crossing by a block, the
//!    other ending or beginning at the boundary. Only what is seen there is reported.
//!
//! Thresholds allow for the number of tests. An effect below [`Search::effect_min`] is not reported, however certain.

mod narrow;
mod scan;

use serde::{Deserialize, Serialize};

use super::rank::{median_bounds, shift, z_above};
use super::{Estimate, ProbeError, Sample, Target};
use crate::statistics::median;

/// How boundaries are searched for.
#[derive(Clone, Debug)]
pub struct Search {
    /// Requests timed per size.
    pub samples: usize,
    /// The longest period to look for.
    pub period_max_bytes: u64,
    /// Pairs in the confirmation.
    pub pairs: usize,
    /// The least share of a request's time that counts as a penalty.
    pub effect_min: f64,
}

impl Default for Search {
    fn default() -> Self {
        Search { samples: 480, period_max_bytes: 16 << 20, pairs: 120, effect_min: 0.05 }
    }
}

/// Places that a request should not cross, at equal distances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    /// Bytes from one to the next.
    pub period_bytes: u64,
    /// Bytes from the start of the device to the first.
    pub offset_bytes: u64,
    /// Size of the requests that it was confirmed with.
    pub request_bytes: u64,
    /// What crossing one costs, in seconds.
    pub penalty_s: Estimate,
    /// The same as a share of the time of a request that does not.
    pub penalty_share: f64,
    /// Times by position in the period of requests of that size: for people to look at, not evidence.
    #[serde(default)]
    pub picture: Vec<Place>,
}

/// A place in the period of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Bytes behind the boundary.
    pub behind_bytes: u64,
    /// The median time of requests that begin there, in seconds.
    pub p50_s: Estimate,
}

/// Places of a picture, and requests at each.
const PLACES: u64 = 24;
const REQUESTS_AT_A_PLACE: u64 = 8;

/// In standard deviations: if a scan finds less, the next size is tried.
const SCAN_Z: f64 = 5.0;
/// The same for the confirmation, which is one test: chance reaches it once in 2000.
const CONFIRM_Z: f64 = 3.3;

/// A guess at a boundary.
#[derive(Clone, Copy, Debug)]
struct Guess {
    period: u64,
    offset: u64,
    /// Size of the requests that led to it.
    size: u64,
}

/// Looks for boundaries from short periods to long ones, and stops at the first that is confirmed. `None` if there is
/// none, or none that costs enough.
///
/// # Errors
/// If the target fails or a limit is reached.
pub fn find_boundary(
    target: &mut dyn Target,
    search: &Search,
    rng: &mut fastrand::Rng,
) -> Result<Option<Boundary>, ProbeError> {
    let block = target.block_bytes();
    let mut size = 2 * block;
    while 2 * size <= search.period_max_bytes && 8 * size <= target.bytes() {
        if let Some(guess) = scan::scan(target, search, size, rng)? {
            let guess = narrow::period(target, search, guess, rng)?;
            if let Some(guess) = narrow::offset(target, guess, rng)? {
                let guess = narrow::multiple(target, search, guess, rng)?;
                if let Some(mut found) = confirm(target, search, guess, rng)? {
                    match picture(target, guess, found.request_bytes, rng) {
                        Ok(places) => found.picture = places,
                        // The finding counts, even if the picture is missing.
                        Err(ProbeError::LimitReached) => {}
                        Err(error) => return Err(error),
                    }
                    return Ok(Some(found));
                }
            }
        }
        size *= 2;
    }
    Ok(None)
}

/// Pairs at new addresses: one crosses the boundary by a block, the other does not.
fn confirm(
    target: &mut dyn Target,
    search: &Search,
    guess: Guess,
    rng: &mut fastrand::Rng,
) -> Result<Option<Boundary>, ProbeError> {
    let block = target.block_bytes();
    let size = (guess.period / 2 / block * block).clamp(2 * block, guess.size.max(2 * block));
    let (mut crossing, mut within) = (Vec::new(), Vec::new());
    let mut samples = Vec::new();
    for _ in 0..search.pairs {
        let [at, other] = [0, 1].map(|_| boundary_at(target.bytes(), guess, 2 * guess.size, rng));
        // It crosses by its first block or by its last; the other one begins or ends at the boundary.
        let (over, beside) = if rng.bool() { (at - block, other) } else { (at + block - size, other - size) };
        let pair = [(over, true), (beside, false)];
        let pair = if rng.bool() { pair } else { [pair[1], pair[0]] };
        samples.extend(pair.map(|(offset, crosses)| (Sample { offset, bytes: size }, crosses)));
    }
    let asked: Vec<Sample> = samples.iter().map(|(sample, _)| *sample).collect();
    let run = target.read(&asked, 1)?;
    for ((_, crosses), time) in samples.iter().zip(&run.latency_s) {
        if *crosses { crossing.push(*time) } else { within.push(*time) }
    }
    let (penalty, low, high) = shift(&crossing, &within);
    let share = penalty / median(&within);
    let seen = z_above(&crossing, &within) > CONFIRM_Z && share >= search.effect_min;
    Ok(seen.then_some(Boundary {
        period_bytes: guess.period,
        offset_bytes: guess.offset,
        request_bytes: size,
        penalty_s: Estimate { value: penalty, low, high },
        penalty_share: share,
        picture: Vec::new(),
    }))
}

/// Requests that begin all over the period, interleaved.
fn picture(
    target: &mut dyn Target,
    guess: Guess,
    bytes: u64,
    rng: &mut fastrand::Rng,
) -> Result<Vec<Place>, ProbeError> {
    let block = target.block_bytes();
    let places = PLACES.min(guess.period / block);
    let behind: Vec<u64> = (0..places).map(|nth| nth * guess.period / places / block * block).collect();
    let mut order: Vec<usize> = (0..REQUESTS_AT_A_PLACE).flat_map(|_| 0..places as usize).collect();
    rng.shuffle(&mut order);
    let room = 2 * guess.period.max(bytes);
    let sample = |place: &usize| {
        let at = boundary_at(target.bytes(), guess, room, rng);
        Sample { offset: at + behind[*place], bytes }
    };
    let asked: Vec<Sample> = order.iter().map(sample).collect();
    let run = target.read(&asked, 1)?;
    let mut times = vec![Vec::new(); behind.len()];
    order.iter().zip(run.latency_s).for_each(|(place, time)| times[*place].push(time));
    let place = |(behind, times): (&u64, &Vec<f64>)| Place {
        behind_bytes: *behind,
        p50_s: Estimate::from(median_bounds(times)),
    };
    Ok(behind.iter().zip(&times).map(place).collect())
}

/// A boundary somewhere, with room for this many bytes on both sides.
fn boundary_at(target_bytes: u64, guess: Guess, room: u64, rng: &mut fastrand::Rng) -> u64 {
    let first = (room.saturating_sub(guess.offset)).div_ceil(guess.period);
    let last = (target_bytes - room).saturating_sub(guess.offset) / guess.period;
    guess.offset + rng.u64(first..=last.max(first)) * guess.period
}
