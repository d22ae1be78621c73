//! Batch means: a throughput with its confidence interval, from one long run.
//!
//! The run is cut into 20 batches of equal length whose throughputs count as independent. If the interval is too
//! wide, the run goes on until batches twice as long are complete.
//!
//! Source: Chou & DeWitt 1985, section 4.1.3 (Sargent 1976): 20 batches, longer ones where the interval was not
//! within 5 % of the mean. The level is not said there; **choice:** 95 %.

use coscan_core::{Instant, Span};

/// Batches of a run.
pub const BATCHES: usize = 20;
/// The 97.5 % quantile of Student's t with 19 degrees of freedom.
const T_QUANTILE: f64 = 2.093;
const _: () = assert!(BATCHES == 20, "the quantile is that of 19 degrees of freedom");

/// How exact a throughput must be, and how long to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The length of a batch at first; one such batch at the start is not counted.
    pub batch: Span,
    /// The half width of the interval that suffices, as a part of the mean.
    pub relative_half_width: f64,
    /// How often the batches may be doubled.
    pub doublings_max: u32,
}

impl Precision {
    /// The paper's 5 %. A batch is 100 s at first, and at most 1600 s: nine hours of the simulated system.
    pub const PAPER: Precision =
        Precision { batch: Span::from_millis(100_000), relative_half_width: 0.05, doublings_max: 4 };
}

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Events per second.
    pub mean_per_s: f64,
    /// The interval reaches this far to both sides.
    pub half_width_per_s: f64,
}

/// Counts events batch by batch.
#[derive(Debug)]
pub struct Batches {
    precision: Precision,
    /// The length of a batch now.
    length: Span,
    doublings: u32,
    /// When the batch that is being counted began; the first is for warming up.
    began: Instant,
    warm: bool,
    count: u64,
    counts: Vec<u64>,
}

impl Batches {
    /// Nothing counted.
    pub fn new(precision: Precision) -> Self {
        Batches {
            precision,
            length: precision.batch,
            doublings: 0,
            began: Instant::ZERO,
            warm: false,
            count: 0,
            counts: Vec::new(),
        }
    }

    /// When the batch that is being counted ends.
    pub fn next_end(&self) -> Instant {
        self.began + self.length
    }

    /// Whether the system has been warmed up.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// Something happened within the batch.
    pub fn count(&mut self) {
        self.count += 1;
    }

    /// The batch is over. If the run can end with it, what was measured.
    pub fn end_batch(&mut self) -> Option<Estimate> {
        self.began = self.next_end();
        let count = std::mem::take(&mut self.count);
        if !std::mem::replace(&mut self.warm, true) {
            return None;
        }
        self.counts.push(count);
        if self.counts.len() < BATCHES {
            return None;
        }
        let estimate = self.estimate();
        let exact = estimate.mean_per_s > 0.0
            && estimate.half_width_per_s <= self.precision.relative_half_width * estimate.mean_per_s;
        if exact || self.doublings == self.precision.doublings_max {
            return Some(estimate);
        }
        self.doublings += 1;
        self.length = Span::from_nanos(self.length.as_nanos() * 2);
        self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        None
    }

    fn estimate(&self) -> Estimate {
        let n = self.counts.len() as f64;
        let mean = self.counts.iter().sum::<u64>() as f64 / n;
        let squares: f64 = self.counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
        let half_width = T_QUANTILE * (squares / (n - 1.0) / n).sqrt();
        let seconds = self.length.as_nanos() as f64 / 1e9;
        Estimate { mean_per_s: mean / seconds, half_width_per_s: half_width / seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(precision: Precision, mut count_of: impl FnMut(usize) -> u64) -> (Estimate, usize) {
        let mut batches = Batches::new(precision);
        for batch in 0.. {
            for _ in 0..count_of(batch) {
                batches.count();
            }
            if let Some(estimate) = batches.end_batch() {
                return (estimate, batch + 1);
            }
        }
        unreachable!("the number of doublings is bounded");
    }

    const PRECISION: Precision =
        Precision { batch: Span::from_millis(10_000), relative_half_width: 0.05, doublings_max: 2 };

    #[test]
    fn the_first_batch_does_not_count() {
        let (estimate, batches) = run(PRECISION, |batch| if batch == 0 { 1000 } else { 20 });
        assert_eq!((estimate.mean_per_s, estimate.half_width_per_s, batches), (2.0, 0.0, 21));
    }

    #[test]
    fn the_interval_is_students() {
        // Ten batches of 99 and ten of 101: the variance is 20/19, its root over that of 20 is 0.2294.
        let (estimate, _) = run(PRECISION, |batch| 99 + 2 * (batch as u64 % 2));
        assert!((estimate.half_width_per_s - 2.093 * 0.2294 / 10.0).abs() < 1e-4, "{estimate:?}");
    }

    #[test]
    fn batches_are_doubled_until_the_interval_is_narrow_or_the_bound_is_reached() {
        // What alternates between batches is gone when they are joined in pairs; those that follow are as long.
        let alternating = |batch| if batch <= 20 && batch % 2 == 0 { 0 } else { 40 };
        let (estimate, batches) = run(PRECISION, alternating);
        assert_eq!((estimate.half_width_per_s, estimate.mean_per_s, batches), (0.0, 2.0, 1 + 20 + 10));
        let (estimate, batches) = run(PRECISION, |batch| if batch < 21 { 0 } else { 40 });
        assert!(estimate.half_width_per_s > 0.05 * estimate.mean_per_s);
        assert_eq!(batches, 1 + 20 + 10 + 10);
    }
}
