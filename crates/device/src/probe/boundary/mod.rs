//! Search for boundaries at equal distances: found by timing random requests, confirmed on fresh addresses.
//!
//! 1. *Scan* (`scan.rs`). Requests of one size at random cold addresses are timed, size after size, doubling.
//!    For a size, every period of two to four sizes is tried. Folded by the right period, the requests that
//!    cross a boundary lie together, and their times rank above the others'.
//! 2. *Narrow*. With addresses spread wider and wider the period becomes exact to the block. Times of chosen
//!    requests then give the true one of its multiples, and the offset.
//! 3. *Confirm*. Interleaved pairs of one size at new addresses: one of each pair crosses by a block, the
//!    other ends or begins at the boundary. Only the result of this step is reported.
//!
//! Thresholds allow for the number of tests. An effect below [`Search::effect_min`] is not reported, however
//! certain it is.

mod narrow;
mod scan;

use serde::{Deserialize, Serialize};

use coscan_base::statistics::median;

use super::rank::{median_bounds, shift, z_above};
use super::{Estimate, ProbeError, Sample, Target};

/// Parameters of the search for boundaries.
#[derive(Clone, Debug)]
pub struct Search {
    /// Requests timed per size.
    pub samples: usize,
    /// The longest period to search for.
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

/// Boundaries at equal distances that a request should not cross.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    /// Distance between two boundaries, in bytes.
    pub period_bytes: u64,
    /// Bytes from the start of the device to the first boundary.
    pub offset_bytes: u64,
    /// Size of the requests that it was confirmed with.
    pub request_bytes: u64,
    /// Cost of crossing one, in seconds.
    pub penalty_s: Estimate,
    /// The same as a share of the time of a request that crosses none.
    pub penalty_share: f64,
    /// Times by position in the period of requests of that size. They are for people to look at, and no
    /// evidence.
    #[serde(default)]
    pub picture: Vec<Place>,
}

/// A place in the period of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Bytes behind the boundary.
    pub behind_bytes: u64,
    /// The median time of requests that begin at this place, in seconds.
    pub p50_s: Estimate,
}

/// Places of a picture, and requests at each.
const PLACES: u64 = 24;
const REQUESTS_AT_A_PLACE: u64 = 8;

/// In standard deviations. If the result of a scan is lower, the next size is tried.
const SCAN_Z: f64 = 5.0;
/// The same for the confirmation, which is one test. Chance reaches it once in 2000 tests.
const CONFIRM_Z: f64 = 3.3;

/// A guess at a boundary.
#[derive(Clone, Copy, Debug)]
struct Guess {
    period: u64,
    offset: u64,
    /// Size of the requests that led to the guess.
    size: u64,
}

/// Searches for boundaries from short periods to long ones, and ends at the first confirmed one. Returns
/// `None` if there is none, or none with a sufficient effect.
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
                        // The boundary counts, even if the picture is missing.
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

/// Times pairs at new addresses: one crosses the boundary by a block, the other does not.
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
        // One crosses by its first block or by its last. The other begins or ends at the boundary.
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

/// Times requests that begin at places all over the period, interleaved.
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

/// A random boundary with room for `room` bytes on both sides.
fn boundary_at(target_bytes: u64, guess: Guess, room: u64, rng: &mut fastrand::Rng) -> u64 {
    let first = (room.saturating_sub(guess.offset)).div_ceil(guess.period);
    let last = (target_bytes - room).saturating_sub(guess.offset) / guess.period;
    guess.offset + rng.u64(first..=last.max(first)) * guess.period
}
