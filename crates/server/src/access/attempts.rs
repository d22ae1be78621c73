//! How often somebody may try: failures are counted for each address and each user, and wear off.
//!
//! Nothing is locked for good, and a user is never locked out where the address has not failed itself: otherwise anybody could
//! keep anybody out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::AccessError;

/// So many failures are forgiven.
const FREE: u32 = 5;
/// The first wait; it doubles with every failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Failures are forgotten after this long without one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// So many addresses are remembered; then the oldest are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Failed logins by address.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Attempts {
    /// Whether this address may try now.
    pub(crate) fn may_try(&self, from: IpAddr, now: Instant) -> Result<(), AccessError> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&(count, last)) = failures.get(&block(from)) else { return Ok(()) };
        let next = last + wait_after(count);
        if next <= now {
            return Ok(());
        }
        Err(AccessError::TooOften((next - now).as_secs() + 1))
    }

    /// Notes a failure.
    pub(crate) fn failed(&self, from: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED_MAX {
            failures.retain(|_, (_, last)| now.duration_since(*last) < FORGOTTEN_AFTER);
        }
        if failures.len() >= REMEMBERED_MAX
            && let Some(oldest) =
                failures.iter().min_by_key(|(_, (_, last))| *last).map(|(&address, _)| address)
        {
            failures.remove(&oldest);
        }
        let entry = failures.entry(block(from)).or_insert((0, now));
        let forgotten = now.duration_since(entry.1) >= FORGOTTEN_AFTER;
        *entry = (if forgotten { 1 } else { entry.0.saturating_add(1) }, now);
    }

    /// Forgets what an address did, because it has a password.
    pub(crate) fn succeeded(&self, from: IpAddr) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&block(from));
    }
}

fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE) {
        None | Some(0) => Duration::ZERO,
        Some(more) => FIRST_WAIT.saturating_mul(1 << more.saturating_sub(1).min(16)).min(LONGEST_WAIT),
    }
}

/// Who has one address of IPv6 has a block of 2^64 of them.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            IpAddr::V6(octets.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn waits_grow_and_wear_off() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..FREE {
            attempts.failed(HERE, start);
            assert!(attempts.may_try(HERE, start).is_ok());
        }
        attempts.failed(HERE, start);
        assert_eq!(attempts.may_try(HERE, start), Err(AccessError::TooOften(2)));
        assert!(attempts.may_try(HERE, start + FIRST_WAIT).is_ok());
        (0..100).for_each(|_| attempts.failed(HERE, start));
        assert!(attempts.may_try(HERE, start + LONGEST_WAIT - FIRST_WAIT).is_err());
        assert!(attempts.may_try(HERE, start + LONGEST_WAIT).is_ok());
        attempts.failed(HERE, start + FORGOTTEN_AFTER);
        assert!(attempts.may_try(HERE, start + FORGOTTEN_AFTER).is_ok());
    }

    #[test]
    fn neighbours_in_ipv6_are_one() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        (0..20).for_each(|n| attempts.failed(format!("2001:db8::{n}").parse().unwrap(), start));
        assert!(attempts.may_try("2001:db8::ffff".parse().unwrap(), start).is_err());
        assert!(attempts.may_try("2001:db8:0:1::1".parse().unwrap(), start).is_ok());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for n in 0..REMEMBERED_MAX as u32 + 10 {
            attempts.failed(std::net::Ipv4Addr::from_bits(n).into(), start);
        }
        assert!(attempts.failures.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
