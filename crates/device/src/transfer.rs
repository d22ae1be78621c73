//! Conversion of bytes and bandwidth to time, in whole numbers, and the account of a device's busy time.

use coscan_base::{Instant, Span};

const NANOS_PER_S: u128 = 1_000_000_000;

/// The time of `bytes` at `bytes_per_s`, rounded up to a nanosecond, so that rounding never exceeds the
/// bandwidth. [`Span::MAX`] if the result does not fit.
///
/// # Panics
/// If the bandwidth is zero; a [`crate::DeviceSpec`] has none of zero.
pub fn transfer_time(bytes: u64, bytes_per_s: u64) -> Span {
    let ns = (u128::from(bytes) * NANOS_PER_S).div_ceil(u128::from(bytes_per_s));
    Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The total time during which work was in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusyTime {
    total_ns: u64,
    since: Option<Instant>,
}

impl BusyTime {
    /// Notes that work is or is not in progress from `now` on.
    pub(crate) fn set(&mut self, now: Instant, under_way: bool) {
        if let Some(since) = self.since {
            self.total_ns += (now - since).as_nanos();
        }
        self.since = under_way.then_some(now);
    }

    /// The sum up to the last call.
    pub(crate) fn total(&self) -> Span {
        Span::from_nanos(self.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_rounded_up_and_saturates() {
        assert_eq!(transfer_time(0, 7), Span::ZERO);
        assert_eq!(transfer_time(50_000_000, 50_000_000), Span::from_millis(1000));
        assert_eq!(transfer_time(1, 3_000_000_000), Span::from_nanos(1));
        assert_eq!(transfer_time(u64::MAX, 1), Span::MAX);
    }

    #[test]
    fn busy_time_leaves_gaps_out() {
        let mut busy = BusyTime::default();
        for (at, under_way) in [(10, true), (15, true), (20, false), (50, true), (51, false), (99, false)] {
            busy.set(Instant::from_nanos(at), under_way);
        }
        assert_eq!(busy.total(), Span::from_nanos(11));
    }
}
