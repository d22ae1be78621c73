//! Batch means: a throughput with its confidence interval, from one long run.
//!
//! The run is cut into 20 batches of equal length whose throughputs count as independent. If the interval is
//! too wide, the run continues with longer batches. Their length is the one that the interval suggests.
//!
//! Source: Chou & DeWitt 1985, section 4.1.3 (Sargent 1976): 20 batches, longer ones if the interval was not
//! within 5 % of the mean. The paper does not give the level; **choice:** 90 %.

use coscan_core::{Instant, Span};

/// Batches of a run.
pub const BATCHES: usize = 20;
/// The 95 % quantile of Student's t with 19 degrees of freedom.
const T_QUANTILE: f64 = 1.729;
const _: () = assert!(BATCHES == 20, "the quantile is that of 19 degrees of freedom");
/// Maximum growth of batches between two looks at the interval, because the interval itself is uncertain.
const GROWTH_MAX: f64 = 4.0;

/// The required accuracy of a throughput, and the effort for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The initial length of a batch. The same time at the start is not counted.
    pub batch: Span,
    /// The sufficient half width of the interval, as a part of the mean.
    pub relative_half_width: f64,
    /// The maximum length of batches, as a multiple of the initial one; at least 1.
    pub stretch_max: u32,
}

impl Precision {
    /// The paper's 5 %. A batch is 100 s at first, and at most 60,000 s: two weeks of the simulated system.
    pub const PAPER: Precision =
        Precision { batch: Span::from_millis(100_000), relative_half_width: 0.05, stretch_max: 600 };
}

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Events per second.
    pub mean_per_s: f64,
    /// The interval extends this far to both sides.
    pub half_width_per_s: f64,
}

impl Estimate {
    /// The half width as a part of the mean; infinite without events.
    fn relative_half_width(self) -> f64 {
        if self.mean_per_s > 0.0 { self.half_width_per_s / self.mean_per_s } else { f64::INFINITY }
    }
}

/// Counts events, piece by piece of the run. A piece is a batch at first; later, batches consist of several
/// pieces.
#[derive(Debug)]
pub struct Batches {
    precision: Precision,
    /// Pieces of a batch.
    stretch: u32,
    /// Start of the current piece; the first piece is for warming up.
    began: Instant,
    warm: bool,
    count: u64,
    counts: Vec<u64>,
}

impl Batches {
    /// A counter without events.
    pub fn new(precision: Precision) -> Self {
        let (began, warm, count, counts) = (Instant::ZERO, false, 0, Vec::new());
        Batches { precision, stretch: 1, began, warm, count, counts }
    }

    /// End of the current piece.
    pub fn next_end(&self) -> Instant {
        self.began + self.precision.batch
    }

    /// True if the system has been warmed up.
    pub fn is_warm(&self) -> bool {
        self.warm
    }

    /// Counts an event of the piece.
    pub fn count(&mut self) {
        self.count += 1;
    }

    /// Ends the piece. Returns the measurement if the run can end with it.
    pub fn end_piece(&mut self) -> Option<Estimate> {
        self.began = self.next_end();
        let count = std::mem::take(&mut self.count);
        if !std::mem::replace(&mut self.warm, true) {
            return None;
        }
        self.counts.push(count);
        if self.counts.len() < BATCHES * self.stretch as usize {
            return None;
        }
        let estimate = self.estimate();
        let excess = estimate.relative_half_width() / self.precision.relative_half_width;
        if excess <= 1.0 || self.stretch >= self.precision.stretch_max {
            return Some(estimate);
        }
        // The interval shrinks with the root of the length.
        let longer = (f64::from(self.stretch) * (excess * excess).min(GROWTH_MAX)).ceil() as u32;
        self.stretch = longer.clamp(self.stretch + 1, self.precision.stretch_max.max(self.stretch + 1));
        None
    }

    fn estimate(&self) -> Estimate {
        let batches =
            self.counts.chunks(self.stretch as usize).map(|pieces| pieces.iter().sum::<u64>() as f64);
        let n = BATCHES as f64;
        let mean = batches.clone().sum::<f64>() / n;
        let squares: f64 = batches.map(|count| (count - mean).powi(2)).sum();
        let half_width = T_QUANTILE * (squares / (n - 1.0) / n).sqrt();
        let seconds = f64::from(self.stretch) * self.precision.batch.as_nanos() as f64 / 1e9;
        Estimate { mean_per_s: mean / seconds, half_width_per_s: half_width / seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(precision: Precision, mut count_of: impl FnMut(usize) -> u64) -> (Estimate, usize) {
        let mut batches = Batches::new(precision);
        for piece in 0.. {
            for _ in 0..count_of(piece) {
                batches.count();
            }
            if let Some(estimate) = batches.end_piece() {
                return (estimate, piece + 1);
            }
        }
        unreachable!("how long a run may become is bounded");
    }

    const PRECISION: Precision =
        Precision { batch: Span::from_millis(10_000), relative_half_width: 0.05, stretch_max: 5 };

    #[test]
    fn the_first_piece_does_not_count() {
        let (estimate, pieces) = run(PRECISION, |piece| if piece == 0 { 1000 } else { 20 });
        assert_eq!((estimate.mean_per_s, estimate.half_width_per_s, pieces), (2.0, 0.0, 21));
    }

    #[test]
    fn the_interval_is_students() {
        // Ten batches of 99 and ten of 101: the variance is 20/19, its root over that of 20 is 0.2294.
        let (estimate, _) = run(PRECISION, |piece| 99 + 2 * (piece as u64 % 2));
        assert!((estimate.half_width_per_s - 1.729 * 0.2294 / 10.0).abs() < 1e-4, "{estimate:?}");
    }

    #[test]
    fn batches_become_longer_until_the_interval_is_narrow_or_the_bound_is_reached() {
        // 33 and 47 alternate. The half width is 1.729 * 7 / sqrt(19) / 40 = 6.9 % of the mean. For 5 %,
        // batches must be (6.9 / 5)^2 = 1.93 times as long: two pieces each, one of 33 and one of 47.
        let (estimate, pieces) = run(PRECISION, |piece| 33 + 14 * (piece as u64 % 2));
        assert_eq!(pieces, 1 + 40);
        assert_eq!((estimate.mean_per_s, estimate.half_width_per_s), (4.0, 0.0));
        // Events in the second half only never become even: the batch grows from one piece to four, then to
        // the bound.
        let (estimate, pieces) = run(PRECISION, |piece| if piece < 51 { 0 } else { 40 });
        assert!(estimate.half_width_per_s > 0.05 * estimate.mean_per_s);
        assert_eq!(pieces, 1 + 100);
    }
}
