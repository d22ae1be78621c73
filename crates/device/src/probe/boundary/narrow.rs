//! Refinement of a rough period: its exact value, its offset, and the true multiple.

use coscan_base::statistics::median;

use super::super::rank::z_above;
use super::super::{ProbeError, Sample, Target};
use super::scan::{Timed, step};
use super::{Guess, Search, boundary_at};

/// Requests per question in a search by halving.
const ASKED: usize = 48;

/// Spreads addresses wider until periods that differ by a block can be distinguished.
pub(super) fn period(
    target: &mut dyn Target,
    search: &Search,
    guess: Guess,
    rng: &mut fastrand::Rng,
) -> Result<Guess, ProbeError> {
    let block = target.block_bytes();
    let mut span = (2 * search.samples as u64 * guess.size).min(target.bytes());
    let mut guess = guess;
    loop {
        let coarse = step(guess.size, guess.period, span, block);
        if coarse == block && drift(guess, span) <= block {
            return Ok(guess);
        }
        let wider = span.saturating_mul(8).min(target.bytes());
        let fine = step(guess.size, guess.period, wider, block);
        let from = rng.u64(0..=(target.bytes() - wider) / block) * block;
        let timed = Timed::measure(target, (from, wider), guess.size, search.samples, rng)?;
        let reach = 2 * coarse.max(block);
        let mut folds = Vec::new();
        let mut period = guess.period.saturating_sub(reach).max(2 * block);
        while period <= guess.period + reach {
            folds.push((period, timed.fold(period)));
            period += fine;
        }
        let top = folds.iter().map(|(_, fold)| fold.z).fold(f64::NEG_INFINITY, f64::max);
        // The roundest number among the periods that explain the times about equally well.
        let good = folds.iter().filter(|(_, fold)| fold.z >= top - 1.0);
        if let Some((period, fold)) = good.max_by_key(|(period, _)| period.trailing_zeros()) {
            guess = Guess { period: *period, offset: fold.offset, ..guess };
        }
        if wider == span {
            return Ok(guess);
        }
        span = wider;
    }
}

/// The shift at the end of a span of a period that is wrong by half a block, in relation to a request.
fn drift(guess: Guess, span: u64) -> u64 {
    (u128::from(guess.size) * u128::from(guess.period) / (2 * u128::from(span))) as u64
}

/// The offset to the block, by halving. A request that ends at a place crosses the boundary if and only if
/// the boundary lies before that place.
pub(super) fn offset(
    target: &mut dyn Target,
    guess: Guess,
    rng: &mut fastrand::Rng,
) -> Result<Option<Guess>, ProbeError> {
    let block = target.block_bytes();
    let size = (guess.period / 2 / block * block).clamp(2 * block, guess.size);
    let mut times = |ends: u64, rng: &mut fastrand::Rng| -> Result<Vec<f64>, ProbeError> {
        let at = Guess { offset: ends % guess.period, ..guess };
        let sample =
            |_| Sample { offset: boundary_at(target.bytes(), at, 2 * guess.period, rng) - size, bytes: size };
        let asked: Vec<Sample> = (0..ASKED).map(sample).collect();
        Ok(target.read(&asked, 1)?.latency_s)
    };
    // The fold gives the position to one part in 32; the search covers three parts on both sides.
    let around = (guess.period * 3 / 32 / block + 1) * block;
    let middle = guess.offset / block * block + guess.period;
    let (mut low, mut high) = (middle - around, middle + around);
    let (before, behind) = (times(low, rng)?, times(high, rng)?);
    if z_above(&behind, &before) < 2.0 {
        return Ok(None);
    }
    // `low` does not cross, `high` does. The boundary is at the last place that does not.
    let halfway = (median(&before) + median(&behind)) / 2.0;
    while high - low > block {
        let place = low + (high - low) / 2 / block * block;
        if median(&times(place, rng)?) > halfway { high = place } else { low = place }
    }
    Ok(Some(Guess { offset: low % guess.period, ..guess }))
}

/// Checks whether only every second or third of the boundaries costs time; those are then the boundaries.
pub(super) fn multiple(
    target: &mut dyn Target,
    search: &Search,
    guess: Guess,
    rng: &mut fastrand::Rng,
) -> Result<Guess, ProbeError> {
    let block = target.block_bytes();
    let mut guess = guess;
    let mut factor = 2;
    while factor <= 3 {
        let size = (guess.period / 2 / block * block).clamp(2 * block, guess.size);
        let longer = guess.period * factor;
        if longer > search.period_max_bytes || 8 * longer > target.bytes() {
            return Ok(guess);
        }
        let place = |nth: u64, lead: u64, rng: &mut fastrand::Rng| {
            let at = Guess { period: longer, offset: guess.offset + nth * guess.period, size };
            Sample { offset: boundary_at(target.bytes(), at, 2 * longer, rng) - lead, bytes: size }
        };
        // One set that does not cross, and one for each of the boundaries in the longer period.
        let sets = 1 + factor as usize;
        let sample = |nth: usize| match nth % sets {
            0 => place(rng.u64(0..factor), 0, rng),
            set => place(set as u64 - 1, block, rng),
        };
        let asked: Vec<Sample> = (0..3 * ASKED * sets).map(sample).collect();
        let run = target.read(&asked, 1)?;
        let times =
            |set: usize| -> Vec<f64> { run.latency_s.iter().skip(set).step_by(sets).copied().collect() };
        let within = times(0);
        let above: Vec<f64> = (1..sets).map(|set| z_above(&times(set), &within)).collect();
        let top = above.iter().copied().fold(0.0, f64::max);
        // One of them is the boundary if its times lie above those within and above those of every other one.
        // The others must stay below 0.4 of its distance: a larger one shows that half of a set costs more,
        // which is not chance.
        let only = (0..above.len()).max_by(|a, b| above[*a].total_cmp(&above[*b])).unwrap_or(0);
        let alone = (0..above.len())
            .filter(|nth| *nth != only)
            .all(|nth| above[nth] < 0.4 * top && z_above(&times(only + 1), &times(nth + 1)) > 3.0);
        if alone && top > 3.0 {
            let offset = (guess.offset + only as u64 * guess.period) % longer;
            guess = Guess { period: longer, offset, ..guess };
            factor = 2;
        } else {
            factor += 1;
        }
    }
    Ok(guess)
}
