//! Login throttling: failures are counted per address and user, and expire.
//!
//! A login clears only the failures of its own user from its own address. One known password therefore does not help
//! to guess another. A client that guesses passwords of many users from one address has to wait for all of them.
//!
//! No user and no address is locked out permanently. A user is never locked out at an address without failures;
//! otherwise any client could lock out any user.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::AccessError;

/// Number of failures of a user at an address that cause no wait.
const FREE: u32 = 5;
/// Number of failures of an address that cause no wait. Each of its users counts for at most [`FREE`], so one client
/// with an old password does not lock out others behind the same address.
const FREE_OF_ADDRESS: u32 = 5 * FREE;
/// The first wait. It doubles with every failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Failures are forgotten after this long without one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// Maximum number of remembered addresses. Beyond it, the oldest are forgotten.
const ADDRESSES_MAX: usize = 10_000;
/// Maximum number of separate users per address. All others count as one.
const USERS_MAX: usize = 64;

/// Failed logins by address and user.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<IpAddr, Failures>>,
    /// Clients choose the names, so they are kept as hashes of fixed length.
    names: RandomState,
}

/// Failures of an address, by user.
#[derive(Debug, Default)]
struct Failures {
    users: HashMap<u64, Failed>,
    others: Option<Failed>,
}

/// Number of failures, and time of the last one.
#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    last: Instant,
}

impl Attempts {
    /// Checks that this user may try from this address now.
    pub(crate) fn may_try(&self, from: IpAddr, user: &str, now: Instant) -> Result<(), AccessError> {
        let all = self.lock();
        let Some(failures) = all.get(&block(from)) else { return Ok(()) };
        match failures.next(self.names.hash_one(user), now).filter(|next| *next > now) {
            Some(next) => Err(AccessError::TooOften((next - now).as_secs() + 1)),
            None => Ok(()),
        }
    }

    /// Records a failure.
    pub(crate) fn failed(&self, from: IpAddr, user: &str, now: Instant) {
        let (from, user) = (block(from), self.names.hash_one(user));
        let mut all = self.lock();
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&from) {
            all.retain(|_, failures| failures.last().is_some_and(|last| !forgotten(last, now)));
            let oldest = all.iter().min_by_key(|(_, failures)| failures.last()).map(|(&address, _)| address);
            if let Some(oldest) = oldest.filter(|_| all.len() >= ADDRESSES_MAX) {
                all.remove(&oldest);
            }
        }
        all.entry(from).or_default().add(user, now);
    }

    /// Forgets the failures of a user at an address after a successful login.
    pub(crate) fn succeeded(&self, from: IpAddr, user: &str) {
        let (from, user) = (block(from), self.names.hash_one(user));
        let mut all = self.lock();
        if let Some(failures) = all.get_mut(&from) {
            failures.users.remove(&user);
            if failures.last().is_none() {
                all.remove(&from);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    fn all(&self) -> impl Iterator<Item = &Failed> {
        self.users.values().chain(&self.others)
    }

    fn last(&self) -> Option<Instant> {
        self.all().map(|failed| failed.last).max()
    }

    fn add(&mut self, user: u64, now: Instant) {
        self.users.retain(|_, failed| !forgotten(failed.last, now));
        self.others = self.others.filter(|failed| !forgotten(failed.last, now));
        let failed = if self.users.len() < USERS_MAX || self.users.contains_key(&user) {
            self.users.entry(user).or_insert(Failed { count: 0, last: now })
        } else {
            self.others.get_or_insert(Failed { count: 0, last: now })
        };
        *failed = Failed { count: failed.count.saturating_add(1), last: now };
    }

    /// The time at which this user may try again.
    fn next(&self, user: u64, now: Instant) -> Option<Instant> {
        let fresh = |failed: &&Failed| !forgotten(failed.last, now);
        let own = self.users.get(&user).or(self.others.as_ref()).filter(fresh);
        let own = own.map(|failed| failed.last + wait_after(failed.count, FREE));
        let count: u32 = self.all().filter(fresh).map(|failed| failed.count.min(FREE)).sum();
        let together = self.last().map(|last| last + wait_after(count, FREE_OF_ADDRESS));
        own.max(together)
    }
}

fn forgotten(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) >= FORGOTTEN_AFTER
}

fn wait_after(failures: u32, free: u32) -> Duration {
    match failures.checked_sub(free) {
        None | Some(0) => Duration::ZERO,
        Some(more) => FIRST_WAIT.saturating_mul(1 << more.saturating_sub(1).min(16)).min(LONGEST_WAIT),
    }
}

/// The owner of one IPv6 address has a block of 2^64 addresses.
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
            attempts.failed(HERE, "ann", start);
            assert!(attempts.may_try(HERE, "ann", start).is_ok());
        }
        attempts.failed(HERE, "ann", start);
        assert_eq!(attempts.may_try(HERE, "ann", start), Err(AccessError::TooOften(2)));
        assert!(attempts.may_try(HERE, "ann", start + FIRST_WAIT).is_ok());
        (0..100).for_each(|_| attempts.failed(HERE, "ann", start));
        assert!(attempts.may_try(HERE, "ann", start + LONGEST_WAIT - FIRST_WAIT).is_err());
        assert!(attempts.may_try(HERE, "ann", start + LONGEST_WAIT).is_ok());
        attempts.failed(HERE, "ann", start + FORGOTTEN_AFTER);
        assert!(attempts.may_try(HERE, "ann", start + FORGOTTEN_AFTER).is_ok());
    }

    #[test]
    fn a_login_forgives_its_own_user_only() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..=FREE {
            attempts.failed(HERE, "bob", start);
            attempts.succeeded(HERE, "ann");
        }
        assert!(attempts.may_try(HERE, "bob", start).is_err(), "guessed by turns with a valid login");
        assert!(attempts.may_try(HERE, "ann", start).is_ok(), "one user's failures keep out no other");
        attempts.succeeded(HERE, "bob");
        assert!(attempts.may_try(HERE, "bob", start).is_ok());
        assert!(attempts.lock().is_empty());
    }

    #[test]
    fn who_guesses_for_many_users_waits_for_all() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for n in 0..=FREE_OF_ADDRESS {
            assert!(attempts.may_try(HERE, &n.to_string(), start).is_ok(), "{n}");
            attempts.failed(HERE, &n.to_string(), start);
            attempts.succeeded(HERE, "ann");
        }
        assert!(attempts.may_try(HERE, "another", start).is_err());
        assert!(attempts.may_try(HERE, "another", start + FORGOTTEN_AFTER).is_ok());
        // Users beyond the maximum count as one.
        (0..10 * USERS_MAX).for_each(|n| attempts.failed(HERE, &n.to_string(), start));
        assert_eq!(attempts.lock()[&HERE].users.len(), USERS_MAX);
    }

    #[test]
    fn neighbours_in_ipv6_are_one() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        (0..20).for_each(|n| attempts.failed(format!("2001:db8::{n}").parse().unwrap(), "ann", start));
        assert!(attempts.may_try("2001:db8::ffff".parse().unwrap(), "ann", start).is_err());
        assert!(attempts.may_try("2001:db8:0:1::1".parse().unwrap(), "ann", start).is_ok());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for n in 0..ADDRESSES_MAX as u32 + 10 {
            attempts.failed(std::net::Ipv4Addr::from_bits(n).into(), "ann", start);
        }
        assert!(attempts.lock().len() <= ADDRESSES_MAX);
    }
}
