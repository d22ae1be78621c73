//! How long to wait before the next attempt: exponential with jitter, so that requests that failed
//! together do not come back together.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use crate::config::RetryConfig;

/// The wait after failure number `failures` (from 1), or none if that was the last attempt.
pub(super) fn backoff(config: &RetryConfig, failures: u32) -> Option<Duration> {
    backoff_with(config, failures, jitter())
}

fn backoff_with(config: &RetryConfig, failures: u32, jitter: f64) -> Option<Duration> {
    if failures >= config.attempts.max(1) {
        return None;
    }
    let doubled = config.base_delay.saturating_mul(1 << (failures - 1).min(20));
    Some(doubled.min(config.max_delay).mul_f64(0.5 + jitter / 2.0))
}

/// A number from 0 to 1 out of the standard library's per-instance hash keys: good enough to spread
/// requests, and no dependency.
fn jitter() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_end() {
        let ms = Duration::from_millis;
        let config = RetryConfig { attempts: 4, base_delay: ms(10), max_delay: ms(30) };
        let waits: Vec<_> = (1..=4).map(|n| backoff_with(&config, n, 1.0)).collect();
        assert_eq!(waits, [Some(ms(10)), Some(ms(20)), Some(ms(30)), None]);
        assert_eq!(backoff_with(&config, 1, 0.0), Some(ms(5)));
        assert!((0.0..=1.0).contains(&jitter()));
    }
}
