//! Random requests of one size, folded by every possible period.

use super::super::rank::{rank_z, ranks, tied};
use super::super::{ProbeError, Sample, Target};
use super::{Guess, SCAN_Z, Search};

/// Parts of a period when times are folded by it, unless it has fewer blocks.
const PARTS: u64 = 32;

/// Timed requests of one size.
pub(super) struct Timed {
    size: u64,
    block: u64,
    offsets: Vec<u64>,
    ranks: Vec<f64>,
    tied: f64,
}

/// The fit of a period to the times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub z: f64,
    /// Place of the boundary in the period, to a part.
    pub offset: u64,
}

impl Timed {
    /// Times requests of a size at random places of a range.
    ///
    /// # Errors
    /// If the target cannot be read.
    pub fn measure(
        target: &mut dyn Target,
        (from, span): (u64, u64),
        size: u64,
        samples: usize,
        rng: &mut fastrand::Rng,
    ) -> Result<Self, ProbeError> {
        let block = target.block_bytes();
        let places = (span - size) / block;
        let sample = |_| Sample { offset: from + rng.u64(0..=places) * block, bytes: size };
        let asked: Vec<Sample> = (0..samples).map(sample).collect();
        let run = target.read(&asked, 1)?;
        Ok(Timed {
            size,
            block,
            offsets: asked.iter().map(|sample| sample.offset).collect(),
            tied: tied(&run.latency_s),
            ranks: ranks(&run.latency_s),
        })
    }

    /// Folds the times by a period. Returns the stretch whose times rank highest, among all stretches as long
    /// as the one from which a request crosses a boundary.
    pub fn fold(&self, period: u64) -> Fold {
        let parts = PARTS.min(period / self.block);
        let (mut sums, mut counts) = (vec![0.0; parts as usize], vec![0.0; parts as usize]);
        for (offset, rank) in self.offsets.iter().zip(&self.ranks) {
            let part = (offset % period * parts / period) as usize;
            sums[part] += rank;
            counts[part] += 1.0;
        }
        // A request of n blocks crosses a boundary from n - 1 places.
        let places = self.size - self.block;
        let width = ((places * parts) as f64 / period as f64).round().max(1.0) as usize;
        let all = self.ranks.len() as f64;
        let (mut sum, mut count): (f64, f64) = (sums[..width].iter().sum(), counts[..width].iter().sum());
        let mut best = Fold { z: f64::NEG_INFINITY, offset: 0 };
        for start in 0..sums.len() {
            let z = rank_z(sum, count, all - count, self.tied);
            let next = (start + width) % sums.len();
            if z > best.z {
                // Requests that begin in the stretch cross the boundary at its end.
                best = Fold { z, offset: next as u64 * period / parts };
            }
            sum += sums[next] - sums[start];
            count += counts[next] - counts[start];
        }
        best
    }
}

/// The period, of two to four sizes, that best explains the times of requests of a size, if any does.
pub(super) fn scan(
    target: &mut dyn Target,
    search: &Search,
    size: u64,
    rng: &mut fastrand::Rng,
) -> Result<Option<Guess>, ProbeError> {
    let block = target.block_bytes();
    let span = (2 * search.samples as u64 * size).min(target.bytes());
    let from = rng.u64(0..=(target.bytes() - span) / block) * block;
    let timed = Timed::measure(target, (from, span), size, search.samples, rng)?;
    let mut best: Option<(f64, Guess)> = None;
    let mut period = 2 * size;
    while period < (4 * size).min(search.period_max_bytes + 1) {
        let fold = timed.fold(period);
        if fold.z > best.map_or(SCAN_Z, |(z, _)| z) {
            best = Some((fold.z, Guess { period, offset: fold.offset, size }));
        }
        period += step(size, period, span, block);
    }
    Ok(best.map(|(_, guess)| guess))
}

/// The greatest distance between two tried periods at which none between them is missed: over the whole span
/// they differ by a quarter of a request.
pub(super) fn step(size: u64, period: u64, span: u64, block: u64) -> u64 {
    let step = u128::from(size) * u128::from(period) / (4 * u128::from(span));
    (step as u64 / block * block).max(block)
}
