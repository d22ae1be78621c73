//! A token bucket in front of a device: a request passes when its bytes have been earned.
//!
//! The bucket limits the start of requests, not their transfer, and keeps their order.

use std::collections::VecDeque;

use coscan_base::{Instant, Span};

use crate::completed::Completed;
use crate::transfer::transfer_time;
use crate::{Completion, Device, Request};

/// In any span of time the device gets at most the bytes of a full bucket and those that the rate earns. A
/// request larger than the bucket waits until the rest has been earned too.
#[derive(Debug)]
pub(crate) struct Throttled {
    bytes_per_s: u64,
    /// Time in which an empty bucket fills.
    burst: Span,
    /// Time at which the bucket is full if no more bytes are requested.
    full_at: Instant,
    held: VecDeque<(Instant, Request)>,
    device: Box<dyn Device>,
    done: Completed,
}

impl Throttled {
    pub(crate) fn new(bytes_per_s: u64, burst_bytes: u64, device: Box<dyn Device>) -> Self {
        // Rounded down, while requests are rounded up: the bucket never gives more than it holds.
        let burst_ns = u128::from(burst_bytes) * 1_000_000_000 / u128::from(bytes_per_s);
        let burst = Span::from_nanos(u64::try_from(burst_ns).unwrap_or(u64::MAX));
        let (full_at, done) = (Instant::ZERO, Completed::default());
        Throttled { bytes_per_s, burst, full_at, held: VecDeque::new(), device, done }
    }

    fn next_step(&self) -> Option<Instant> {
        let released = self.held.front().map(|(at, _)| *at);
        released.into_iter().chain(self.device.next_completion()).min()
    }

    fn catch_up(&mut self, now: Instant) {
        let mut done = Vec::new();
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            self.device.advance(at, &mut done);
            for completion in done.drain(..) {
                self.done.push(at, completion);
            }
            while let Some((_, request)) = self.held.pop_front_if(|(released, _)| *released <= at) {
                self.device.submit(at, request);
            }
        }
        // All steps up to `now` are done; this only tells the device the time.
        self.device.advance(now, &mut done);
    }
}

impl Device for Throttled {
    fn submit(&mut self, now: Instant, request: Request) {
        self.catch_up(now);
        self.full_at = self.full_at.max(now) + transfer_time(request.bytes, self.bytes_per_s);
        let burst_before = self.full_at.as_nanos().saturating_sub(self.burst.as_nanos());
        let released = Instant::from_nanos(burst_before).max(now);
        if released <= now && self.held.is_empty() {
            self.device.submit(now, request);
        } else {
            self.held.push_back((released, request));
        }
    }

    fn next_completion(&self) -> Option<Instant> {
        self.done.first().or_else(|| self.next_step())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now);
        self.done.drain_into(done);
    }

    fn busy(&self) -> Span {
        self.device.busy()
    }
}
