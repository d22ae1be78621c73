//! The simulated disk: a Fujitsu Eagle that serves requests in the order of arrival.
//!
//! The head position is a random process. Every access seeks a random distance and waits a random part of a
//! turn. The places of pages are not modelled.
//!
//! Source: Chou & DeWitt 1985, section 4.1.2 (27.6 ms on average for a page of 4 KB).
//! **Choice:** the seek time rises with the distance x as 5 + 15 sqrt(x) + 15 x ms, where x is a part of all
//! cylinders, between two uniform positions. That is 18 ms on average, between the 5 ms and 35 ms of the
//! drive's shortest and longest seek.

use std::collections::VecDeque;

use coscan_core::{Instant, Span};
use coscan_pool::FrameNo;

/// Milliseconds of the shortest seek.
const SEEK_MS_MIN: f64 = 5.0;
/// Milliseconds by which a seek grows with the root of its distance, and with the distance.
const SEEK_MS_PER: [f64; 2] = [15.0, 15.0];
/// Milliseconds of a turn: 7.5 ms of latency on average.
const TURN_MS: f64 = 15.0;
/// Milliseconds to transfer a page.
const TRANSFER_MS: f64 = 2.1;

/// The mean time of an access, in milliseconds.
pub const ACCESS_MS_MEAN: f64 = 27.6;

/// A transfer of a frame's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// A page is read.
    Read(FrameNo),
    /// A page is written.
    Write(FrameNo),
}

/// The disk and its queue.
#[derive(Debug)]
pub struct Disk {
    queue: VecDeque<Transfer>,
    serving: Option<(Transfer, Instant)>,
    /// Start of the current service.
    began: Instant,
    busy: Span,
    rng: fastrand::Rng,
}

impl Disk {
    /// An idle disk.
    pub fn new(seed: u64) -> Self {
        Disk {
            queue: VecDeque::new(),
            serving: None,
            began: Instant::ZERO,
            busy: Span::ZERO,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Queues a transfer.
    pub fn submit(&mut self, now: Instant, transfer: Transfer) {
        self.queue.push_back(transfer);
        self.begin(now);
    }

    /// True if it is idle.
    pub fn is_idle(&self) -> bool {
        self.serving.is_none()
    }

    /// End of the current service.
    pub fn next_completion(&self) -> Option<Instant> {
        self.serving.map(|(_, done)| done)
    }

    /// Ends the transfer that is done by `now` and begins the next.
    pub fn complete(&mut self, now: Instant) -> Option<Transfer> {
        let (transfer, done) = self.serving.filter(|(_, done)| *done <= now)?;
        self.busy = Span::from_nanos(self.busy.as_nanos() + done.since(self.began).as_nanos());
        self.serving = None;
        self.begin(now);
        Some(transfer)
    }

    /// Its busy time up to `now`.
    pub fn busy(&self, now: Instant) -> Span {
        let present = self.serving.map_or(Span::ZERO, |_| now.since(self.began));
        Span::from_nanos(self.busy.as_nanos() + present.as_nanos())
    }

    fn begin(&mut self, now: Instant) {
        if self.serving.is_some() {
            return;
        }
        if let Some(transfer) = self.queue.pop_front() {
            self.began = now;
            self.serving = Some((transfer, now + self.access_time()));
        }
    }

    fn access_time(&mut self) -> Span {
        let distance = (self.rng.f64() - self.rng.f64()).abs();
        let seek = SEEK_MS_MIN + SEEK_MS_PER[0] * distance.sqrt() + SEEK_MS_PER[1] * distance;
        let ms = seek + TURN_MS * self.rng.f64() + TRANSFER_MS;
        Span::from_nanos((ms * 1e6) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_take_what_the_paper_says_on_average() {
        let mut disk = Disk::new(3);
        let times: Vec<f64> = (0..100_000).map(|_| disk.access_time().as_nanos() as f64 / 1e6).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - ACCESS_MS_MEAN).abs() < 0.1, "{mean} ms");
        assert!(times.iter().all(|ms| (7.1..=52.1).contains(ms)));
    }

    #[test]
    fn requests_are_served_in_the_order_they_come() {
        let mut disk = Disk::new(1);
        assert!(disk.is_idle());
        let order = [Transfer::Read(FrameNo(3)), Transfer::Write(FrameNo(0)), Transfer::Read(FrameNo(1))];
        for transfer in order {
            disk.submit(Instant::ZERO, transfer);
        }
        let mut served = Vec::new();
        while let Some(now) = disk.next_completion() {
            served.extend(disk.complete(now));
        }
        assert_eq!(served, order);
    }

    #[test]
    fn busy_time_counts_what_is_under_way() {
        let mut disk = Disk::new(1);
        disk.submit(Instant::ZERO, Transfer::Read(FrameNo(0)));
        let at = Instant::from_nanos(1_000_000);
        assert_eq!(disk.busy(at), Span::from_millis(1));
        assert_eq!(disk.complete(at), None, "no access takes a millisecond");
        let done = disk.next_completion().unwrap();
        disk.complete(done);
        assert_eq!(disk.busy(done + Span::from_millis(100)), done - Instant::ZERO);
    }
}
