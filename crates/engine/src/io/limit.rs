//! A shared limit on reading: one token bucket for all requests.
//!
//! All requests together have the bandwidth, not each of them. Otherwise an experiment about shared I/O would
//! mean nothing. The bucket only computes times; callers wait. It knows the waiting requests, so that a
//! change of the limit, or a cancelled request, changes the times of the others. Everything is under one
//! lock. [`Pace`] has no clock of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::clock;
use crate::config::ReadLimit;
use crate::sync::Mutex;

/// The time during which an idle bucket saves up bytes.
const BURST: Duration = Duration::from_millis(50);

/// The share of the bandwidth with which point reads may overtake other reads.
pub const FIRST_SHARE: f64 = 0.5;

/// The maximum planned duration of a transfer: about thirty years.
const TRANSFER_MAX_S: f64 = 1e9;

type Clock = dyn Fn() -> Instant + Send + Sync;

/// Learns of changes of the limit.
pub(crate) trait LimitListener: Send + Sync {
    /// Called after each change.
    fn limit_changed(&self);
}

/// The limit that all reads share.
pub struct TokenBucket {
    clock: Box<Clock>,
    pace: Mutex<Pace>,
    /// Notified whenever waiting requests may be due at another time.
    changed: watch::Sender<()>,
    listeners: Mutex<Vec<Weak<dyn LimitListener>>>,
}

/// The requests that a bucket has admitted, including those that still wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Requests for at least one byte.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A request's place in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The promised times.
#[derive(Debug)]
struct Pace {
    limit: Option<ReadLimit>,
    /// The time at which everything admitted so far will have been transferred.
    free_at: Instant,
    /// The time at which the admitted point reads will have been transferred at their share of the bandwidth.
    points_free_at: Instant,
    waiting: BTreeMap<Ticket, Waiting>,
    next: u64,
    granted: Granted,
}

/// A request that has not started yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Its bytes, for [`Granted`].
    asked: u64,
    /// Bytes to transfer between `begin` and `finish`.
    bytes: f64,
    /// True if it is a point read.
    first: bool,
    begin: Instant,
    finish: Instant,
}

impl Waiting {
    /// The bytes that will not have been transferred by then.
    fn left(&self, now: Instant) -> f64 {
        let (rest, whole) = (self.finish.saturating_duration_since(now), self.finish - self.begin);
        if whole.is_zero() { 0.0 } else { self.bytes * rest.div_duration_f64(whole).min(1.0) }
    }
}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucket").field("pace", &self.pace).finish_non_exhaustive()
    }
}

impl TokenBucket {
    /// A bucket with this limit, or without a limit, by the system's clock.
    pub fn new(limit: Option<ReadLimit>) -> Self {
        Self::with_clock(limit, Box::new(clock::now))
    }

    pub(crate) fn with_clock(limit: Option<ReadLimit>, clock: Box<Clock>) -> Self {
        let pace = Mutex::new(Pace::new(clock(), limit));
        TokenBucket { clock, pace, changed: watch::Sender::new(()), listeners: Mutex::default() }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current limit.
    pub fn limit(&self) -> Option<ReadLimit> {
        self.pace().limit
    }

    /// Changes the limit, also for waiting requests. They are planned again, in their order, with the bytes
    /// that are not transferred yet.
    pub fn set_limit(&self, limit: Option<ReadLimit>) {
        let now = (self.clock)();
        self.pace().set_limit(now, limit);
        self.changed.send_replace(());
        let listeners: Vec<_> = {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.iter().filter_map(Weak::upgrade).collect()
        };
        listeners.into_iter().for_each(|listener| listener.limit_changed());
    }

    /// Registers a listener.
    pub(crate) fn listen(&self, listener: Weak<dyn LimitListener>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// The requests admitted so far.
    pub fn granted(&self) -> Granted {
        self.pace().granted
    }

    /// Reserves a place for a request of this many bytes. Point reads go before all waiting bulk reads, which
    /// are delayed by it. They may overtake with at most their share of the bandwidth, so that bulk reads
    /// keep the rest.
    pub(crate) fn reserve(&self, now: Instant, bytes: u64, point: bool) -> Ticket {
        self.pace().reserve(now, bytes, point)
    }

    /// The currently planned time at which the request may start.
    pub(crate) fn due(&self, ticket: Ticket) -> Option<Instant> {
        self.pace().due(ticket)
    }

    /// Removes the request: it starts, or is cancelled before it is due.
    pub(crate) fn leave(&self, now: Instant, ticket: Ticket) {
        if self.pace().leave(now, ticket) {
            self.changed.send_replace(());
        }
    }

    /// Takes `bytes` and waits until they may be used. The future may be dropped at any point.
    #[expect(clippy::disallowed_methods, reason = "waits on the caller's runtime, outside of any engine")]
    pub async fn wait(&self, bytes: u64) {
        let mut changed = self.changed.subscribe();
        let place = Place { bucket: self, ticket: self.reserve((self.clock)(), bytes, false) };
        while let Some(at) = self.due(place.ticket).filter(|at| *at > (self.clock)()) {
            tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                _ = changed.changed() => {}
            }
        }
    }
}

/// A place that is freed when dropped.
struct Place<'a> {
    bucket: &'a TokenBucket,
    ticket: Ticket,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bucket.leave((self.bucket.clock)(), self.ticket);
    }
}

impl Pace {
    fn new(now: Instant, limit: Option<ReadLimit>) -> Self {
        let (waiting, granted) = (BTreeMap::new(), Granted::default());
        Pace { limit, free_at: now, points_free_at: now, waiting, next: 0, granted }
    }

    fn reserve(&mut self, now: Instant, bytes: u64, first: bool) -> Ticket {
        self.granted.requests += u64::from(bytes > 0);
        self.granted.bytes = self.granted.bytes.saturating_add(bytes);
        let ticket = Ticket(self.next);
        self.next += 1;
        self.plan(now, ticket, bytes, bytes as f64, first);
        ticket
    }

    /// Assigns a time to a request with this many bytes left.
    fn plan(&mut self, now: Instant, ticket: Ticket, asked: u64, bytes: f64, first: bool) {
        let (begin, finish) = match self.limit.map(|limit| limit.bytes_per_s).filter(|rate| *rate > 0) {
            None => (now, now),
            Some(rate) => {
                let transfer = Duration::from_secs_f64((bytes / rate as f64).min(TRANSFER_MAX_S));
                let idle_since = now.checked_sub(BURST).unwrap_or(now);
                let overtakes = first && self.free_at > now;
                let begin = self.free_at.max(idle_since);
                self.free_at = begin + transfer;
                if overtakes {
                    let begin = self.points_free_at.max(idle_since);
                    self.points_free_at = begin + transfer.mul_f64(1.0 / FIRST_SHARE);
                    (begin, self.points_free_at.max(now + transfer))
                } else {
                    (begin, self.free_at.max(now))
                }
            }
        };
        self.waiting.insert(ticket, Waiting { asked, bytes, first, begin, finish });
    }

    fn due(&self, ticket: Ticket) -> Option<Instant> {
        let latency = self.limit.map_or(Duration::ZERO, |limit| limit.latency);
        Some(self.waiting.get(&ticket)?.finish + latency)
    }

    /// Removes a request. Returns whether other requests are due at another time.
    fn leave(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(left) = self.waiting.remove(&ticket) else { return false };
        if left.finish <= now {
            return false;
        }
        self.granted.requests -= u64::from(left.asked > 0);
        self.granted.bytes = self.granted.bytes.saturating_sub(left.asked);
        self.plan_anew(now);
        true
    }

    fn set_limit(&mut self, now: Instant, limit: Option<ReadLimit>) {
        // Bytes transferred by now had the old rate.
        let waiting = std::mem::take(&mut self.waiting);
        let left = waiting.into_iter().map(|(ticket, w)| (ticket, Waiting { bytes: w.left(now), ..w }));
        let left: Vec<_> = left.collect();
        self.limit = limit;
        self.plan_all(now, left);
    }

    fn plan_anew(&mut self, now: Instant) {
        self.set_limit(now, self.limit);
    }

    fn plan_all(&mut self, now: Instant, left: Vec<(Ticket, Waiting)>) {
        (self.free_at, self.points_free_at) = (now, now);
        for (ticket, waiting) in left {
            if waiting.finish <= now {
                // It only waits for the latency.
                self.waiting.insert(ticket, waiting);
            } else {
                self.plan(now, ticket, waiting.asked, waiting.bytes, waiting.first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn limit(bytes_per_s: u64) -> Option<ReadLimit> {
        Some(ReadLimit { bytes_per_s, latency: Duration::ZERO })
    }

    /// A bucket that has been idle for long, and the current time.
    fn pace(limit: Option<ReadLimit>) -> (Pace, Instant) {
        let long_ago = clock::now();
        (Pace::new(long_ago, limit), long_ago + Duration::from_secs(1))
    }

    fn due(pace: &mut Pace, now: Instant, bytes: u64, first: bool) -> Instant {
        let ticket = pace.reserve(now, bytes, first);
        pace.due(ticket).unwrap()
    }

    #[test]
    fn requests_share_the_bandwidth() {
        let (mut pace, now) = pace(limit(1_000_000));
        assert_eq!(due(&mut pace, now, 50_000, false), now, "the burst is free");
        assert_eq!(due(&mut pace, now, 100_000, false), now + ms(100));
        assert_eq!(due(&mut pace, now, 100_000, false), now + ms(200));
        pace.set_limit(now, None);
        assert_eq!(due(&mut pace, now, u64::MAX, false), now);
    }

    #[test]
    fn point_reads_overtake_with_their_share_and_bulk_reads_pay() {
        let (mut pace, now) = pace(limit(1_000_000));
        assert_eq!(due(&mut pace, now, 1_050_000, false), now + ms(1000), "bulk reads, the burst free");
        assert_eq!(due(&mut pace, now, 10_000, true), now + ms(10), "past them");
        assert_eq!(
            due(&mut pace, now, 100_000, true),
            now + ms(170),
            "at half the bandwidth, the burst free"
        );
        assert_eq!(due(&mut pace, now, 10_000, false), now + ms(1120), "bulk reads wait for what overtook");
        assert_eq!(pace.granted, Granted { requests: 4, bytes: 1_170_000 });
        let (mut idle, now) = self::pace(limit(1_000_000));
        assert_eq!(due(&mut idle, now, 100_000, true), now + ms(50), "alone there is nobody to overtake");
    }

    #[test]
    fn latency_does_not_use_up_bandwidth() {
        let latency = ms(10);
        let (mut pace, now) = pace(Some(ReadLimit { bytes_per_s: 0, latency }));
        assert_eq!(due(&mut pace, now, 1 << 30, false), now + latency);
        assert_eq!(due(&mut pace, now, 1 << 30, false), now + latency);
    }

    #[test]
    fn another_limit_counts_for_those_who_wait_with_what_is_left_of_them() {
        let (mut pace, now) = pace(limit(1_000));
        let tickets: Vec<_> = (0..3).map(|_| pace.reserve(now, 1_000_050, false)).collect();
        assert!(pace.due(tickets[0]).unwrap() >= now + Duration::from_secs(1_000));
        // Half of the first is transferred.
        let later = now + Duration::from_secs(500);
        pace.set_limit(later, limit(1_000_000));
        let waits = |pace: &Pace, at: usize| pace.due(tickets[at]).unwrap() - later;
        assert!(waits(&pace, 0).abs_diff(ms(500)) < ms(1), "{:?}", waits(&pace, 0));
        assert!(waits(&pace, 1).abs_diff(ms(1_500)) < ms(1), "{:?}", waits(&pace, 1));
        pace.leave(later, tickets[1]);
        assert!(waits(&pace, 2).abs_diff(ms(1_500)) < ms(1), "who is given up takes no time");
        assert_eq!(pace.granted.requests, 2);
        pace.set_limit(later, None);
        assert_eq!(pace.due(tickets[2]), Some(later));
    }

    #[test]
    fn changing_the_limit_again_and_again_does_not_hold_anybody_up() {
        let (mut pace, mut now) = pace(limit(1_000));
        let ticket = pace.reserve(now, 10_000, false);
        let mut steps = 0;
        while pace.due(ticket).unwrap() > now {
            now += ms(100);
            pace.set_limit(now, limit(1_000));
            steps += 1;
        }
        assert!((95..=101).contains(&steps), "{steps} tenths of a second for ten");
    }

    /// Any sequence of requests: the waiting ones finish in the time that their bytes take, in their order,
    /// and none is lost.
    #[test]
    fn the_pace_holds_in_random_histories() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let rate = random.u64(1..100_000);
            let (mut pace, start) = pace(limit(rate));
            let (mut now, mut open, mut taken) = (start, Vec::new(), 0u64);
            for _ in 0..200 {
                now += ms(random.u64(0..300));
                match random.u8(0..6) {
                    0..=2 => open.push((pace.reserve(now, random.u64(0..20_000), false), false)),
                    3 if !open.is_empty() => {
                        let (ticket, _) = open.swap_remove(random.usize(..open.len()));
                        pace.leave(now, ticket);
                    }
                    4 => pace.set_limit(now, limit(rate)),
                    _ => {}
                }
                let (due, rest): (Vec<_>, Vec<_>) =
                    open.into_iter().partition(|(ticket, _)| pace.due(*ticket).unwrap() <= now);
                due.into_iter().for_each(|(ticket, _)| {
                    taken += pace.waiting[&ticket].asked;
                    assert!(!pace.leave(now, ticket), "seed {seed}: who goes ahead moves nobody");
                });
                open = rest;
                let mut dues: Vec<_> = open.iter().map(|(t, _)| (*t, pace.due(*t).unwrap())).collect();
                dues.sort();
                assert!(dues.is_sorted_by_key(|(_, due)| *due), "seed {seed}: first come, first served");
            }
            let most = ((now - start).as_secs_f64() + 0.051) * rate as f64 + 20_000.0;
            assert!((taken as f64) <= most, "seed {seed}: {taken} bytes, the limit allows {most}");
            assert!(
                pace.free_at <= now + Duration::from_secs_f64(open.len() as f64 * 20_000.0 / rate as f64)
            );
        }
    }
}
