//! Server-side handles: values under random names, each for one user.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::access::random;

/// Maximum number of values in all and per user. Beyond it, the oldest is removed.
const KEPT_MAX: usize = 10_000;
const KEPT_PER_USER: usize = 1_000;

/// Values by name, with an expiry time.
pub(crate) struct Kept<T> {
    lifetime: Duration,
    things: Mutex<HashMap<Bytes, Thing<T>>>,
}

struct Thing<T> {
    user: String,
    since: Instant,
    thing: T,
}

impl<T: Clone> Kept<T> {
    /// `lifetime` is the time for which values are kept.
    pub(crate) fn new(lifetime: Duration) -> Self {
        Kept { lifetime, things: Mutex::default() }
    }

    /// Keeps a value for a user and returns its name.
    pub(crate) fn keep(&self, user: &str, thing: T, now: Instant) -> Bytes {
        let name = Bytes::copy_from_slice(&random::<32>());
        self.keep_as(name.clone(), user, thing, now);
        name
    }

    /// Keeps a value under an existing name, and forgets its earlier value.
    pub(crate) fn keep_as(&self, name: Bytes, user: &str, thing: T, now: Instant) {
        let mut things = self.things.lock().unwrap_or_else(PoisonError::into_inner);
        things.retain(|_, thing| now.duration_since(thing.since) < self.lifetime);
        let own = things.values().filter(|thing| thing.user == user).count();
        if things.len() >= KEPT_MAX || own >= KEPT_PER_USER {
            let all = own < KEPT_PER_USER;
            let oldest = things
                .iter()
                .filter(|(_, thing)| all || thing.user == user)
                .min_by_key(|(_, thing)| thing.since);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                things.remove(&oldest);
            }
        }
        things.insert(name, Thing { user: user.to_owned(), since: now, thing });
    }

    /// The value under this name, if it belongs to this user.
    pub(crate) fn get(&self, user: &str, name: &[u8], now: Instant) -> Option<T> {
        let things = self.things.lock().unwrap_or_else(PoisonError::into_inner);
        let found = things.get(name).filter(|thing| self.is_good(thing, user, now));
        found.map(|thing| thing.thing.clone())
    }

    /// The value under this name, which is then forgotten.
    pub(crate) fn take(&self, user: &str, name: &[u8], now: Instant) -> Option<T> {
        let mut things = self.things.lock().unwrap_or_else(PoisonError::into_inner);
        things.get(name).filter(|thing| self.is_good(thing, user, now))?;
        things.remove(name).map(|thing| thing.thing)
    }

    fn is_good(&self, thing: &Thing<T>, user: &str, now: Instant) -> bool {
        thing.user == user && now.duration_since(thing.since) < self.lifetime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_for_its_user_for_a_while() {
        let (kept, now, hour) =
            (Kept::new(Duration::from_secs(3600)), Instant::now(), Duration::from_secs(3600));
        let name = kept.keep("ann", 7, now);
        assert_eq!((kept.get("ann", &name, now), kept.get("bob", &name, now)), (Some(7), None));
        assert_eq!((kept.take("bob", &name, now), kept.get("ann", &name, now + hour)), (None, None));
        assert_eq!((kept.take("ann", &name, now), kept.take("ann", &name, now)), (Some(7), None), "once");
        assert_eq!(kept.get("ann", b"", now), None);
    }

    #[test]
    fn one_user_does_not_push_out_what_others_have() {
        let (kept, now) = (Kept::new(Duration::from_secs(60)), Instant::now());
        let bobs = kept.keep("bob", 0, now);
        let anns: Vec<_> = (0..KEPT_PER_USER + 5)
            .map(|n| kept.keep("ann", n, now + Duration::from_micros(n as u64)))
            .collect();
        assert!(kept.get("bob", &bobs, now).is_some() && kept.get("ann", &anns[0], now).is_none());
        assert!(kept.get("ann", &anns[KEPT_PER_USER + 4], now).is_some());
    }
}
