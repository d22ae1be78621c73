//! Pauses before the next attempt: exponential with jitter, so that requests that failed together do not come
//! back together.

use std::time::Duration;

use crate::config::RetryConfig;

/// The factor of the number of tries for requests to stores, compared to reads of devices: stores ask to come
/// back later, devices do not.
const STORES_MORE: u32 = 2;

/// The pause after failure number `failures` (from 1), or none if that was the last attempt. `jitter` is a
/// random number from 0 to 1.
pub(super) fn backoff(config: &RetryConfig, failures: u32, of_store: bool, jitter: f64) -> Option<Duration> {
    let attempts = config.attempts.max(1).saturating_mul(if of_store { STORES_MORE } else { 1 });
    if failures >= attempts {
        return None;
    }
    let doubled = config.base_delay.saturating_mul(1 << (failures - 1).min(20));
    Some(doubled.min(config.max_delay).mul_f64(0.5 + jitter / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_end() {
        let ms = Duration::from_millis;
        let config = RetryConfig { attempts: 4, base_delay: ms(10), max_delay: ms(30) };
        let waits: Vec<_> = (1..=4).map(|n| backoff(&config, n, false, 1.0)).collect();
        assert_eq!(waits, [Some(ms(10)), Some(ms(20)), Some(ms(30)), None]);
        assert_eq!(backoff(&config, 1, false, 0.0), Some(ms(5)));
        assert_eq!(backoff(&config, 7, true, 1.0), Some(ms(30)));
        assert_eq!(backoff(&config, 8, true, 1.0), None);
    }
}
