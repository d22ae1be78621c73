//! A measured curve of the arm's travel times between cylinders.

use super::Picos;

const PICOS_PER_NANO: u64 = 1000;

/// Measured seek times, by distance in cylinders. Times between two points are interpolated linearly. Beyond
/// the last point the line through the last two is extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    /// Distance and time in nanoseconds, distances ascending from 1.
    points: Vec<(u32, u64)>,
}

impl SeekCurve {
    /// A curve through points of distance and nanoseconds.
    ///
    /// # Errors
    /// Says what is wrong with the points: fewer than two, or distances that do not ascend from 1.
    pub fn new(points: Vec<(u32, u64)>) -> Result<Self, &'static str> {
        if points.len() < 2 {
            return Err("a seek curve needs at least two points");
        }
        if points[0].0 != 1 || !points.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("the distances of a seek curve must ascend from 1");
        }
        Ok(SeekCurve { points })
    }

    /// The same curve with every distance and every time multiplied, for drives of the same make whose arms
    /// cross more cylinders or move faster.
    pub fn scaled(&self, distance: f64, time: f64) -> Self {
        let mut points: Vec<(u32, u64)> = Vec::new();
        for (far, ns) in &self.points {
            let far = if *far == 1 { 1 } else { (f64::from(*far) * distance).round().max(2.0) as u32 };
            if points.last().is_none_or(|last| last.0 < far) {
                points.push((far, (*ns as f64 * time).round() as u64));
            }
        }
        SeekCurve { points }
    }

    /// The time for a distance; zero for distance zero.
    pub(crate) fn time(&self, cylinders: u32) -> Picos {
        if cylinders == 0 {
            return 0;
        }
        let at = self.points.partition_point(|(distance, _)| *distance < cylinders);
        if let Some((_, ns)) = self.points.get(at).filter(|point| point.0 == cylinders) {
            return ns * PICOS_PER_NANO;
        }
        let next = at.clamp(1, self.points.len() - 1);
        let ((d1, t1), (d2, t2)) = (self.points[next - 1], self.points[next]);
        let (from, to) = ((t1 * PICOS_PER_NANO) as i64, (t2 * PICOS_PER_NANO) as i64);
        let (along, apart) = (i64::from(cylinders - d1), i64::from(d2 - d1));
        (from + along * (to - from) / apart).max(0) as Picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points_time_is_linear_and_beyond_the_last_it_goes_on() {
        let curve = SeekCurve::new(vec![(1, 1000), (10, 1900), (12, 1800), (20, 2600)]).unwrap();
        let ns = |cylinders| curve.time(cylinders) / PICOS_PER_NANO;
        assert_eq!(
            [0, 1, 2, 10, 11, 12, 16, 20, 30].map(ns),
            [0, 1000, 1100, 1900, 1850, 1800, 2200, 2600, 3600]
        );
    }

    #[test]
    fn curves_that_make_no_sense_are_refused() {
        assert!(SeekCurve::new(vec![(1, 5)]).is_err());
        assert!(SeekCurve::new(vec![(2, 5), (3, 6)]).is_err());
        assert!(SeekCurve::new(vec![(1, 5), (3, 6), (3, 7)]).is_err());
    }
}
