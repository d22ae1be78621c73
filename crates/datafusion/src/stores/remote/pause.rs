//! Pauses before a request is repeated.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Attempts of requests other than the engine's reads.
pub(super) const ATTEMPTS: u32 = 8;

/// Longest total time of these attempts, with all pauses.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Returns the pause after failure number `failures` (from 1), if the store asks for none. It doubles each
/// time, and is randomized so that requests that failed together are not repeated together.
pub(super) fn after(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    let jitter = RandomState::new().hash_one(failures) % 500;
    doubled.mul_f64(0.5 + jitter as f64 / 1000.0)
}

/// Parses the header `Retry-After`: seconds, or the time of a date.
pub(super) fn asked_for(header: &str) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Duration::from_secs(seconds_of(header)?).saturating_sub(now))
}

/// Returns the seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds_of(date: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, date) = date.split_once(", ")?;
    let mut parts = date.split([' ', ':']);
    let day: u64 = parts.next()?.parse().ok()?;
    let month = MONTHS.find(parts.next().filter(|name| name.len() == 3)?)? as u64 / 3 + 1;
    let year: u64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut time = 0;
    for _ in 0..3 {
        time = time * 60 + parts.next()?.parse::<u64>().ok().filter(|part| *part < 61)?;
    }
    // In a year that begins in March the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    Some(days.checked_sub(719_469)? * 86_400 + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(asked_for(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(seconds_of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds_of("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        assert_eq!(asked_for("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO), "long ago");
        for other in ["soon", "-1", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov"] {
            assert_eq!(asked_for(other), None, "{other}");
        }
    }
}
