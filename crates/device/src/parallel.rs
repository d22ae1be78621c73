//! A device that serves several requests at once: a solid-state drive, or an object store.
//!
//! A request waits for one of a limited number of places, then for a fixed latency, then transfers its bytes.
//! Transfers share the device's bandwidth evenly, and each has its own limit as well. The place of a request
//! and its direction do not matter. Wear, caches and burst credit are not modelled.

use std::collections::VecDeque;

use coscan_base::{Instant, Span};

use crate::completed::Completed;
use crate::transfer::{BusyTime, transfer_time};
use crate::{Completion, Device, Request, RequestId, SharedRate};

/// Up to `places` requests at once; latency, then a transfer. **Cost:** each call is logarithmic per request
/// that takes a step.
#[derive(Debug)]
pub(crate) struct Parallel {
    places: u32,
    latency: Span,
    bytes_per_s_each: u64,
    waiting: VecDeque<Request>,
    /// Requests in their latency, by its end. The latency is the same for all, so the order is that of
    /// admission.
    opening: VecDeque<(Instant, Request)>,
    transferring: SharedRate<RequestId>,
    done: Completed,
    busy: BusyTime,
}

impl Parallel {
    /// An idle device; `bytes_per_s_each` is the limit of one request, `bytes_per_s` that of all requests
    /// together.
    pub(crate) fn new(places: u32, latency: Span, bytes_per_s_each: u64, bytes_per_s: u64) -> Self {
        Parallel {
            places,
            latency,
            bytes_per_s_each,
            waiting: VecDeque::new(),
            opening: VecDeque::new(),
            transferring: SharedRate::new(bytes_per_s, bytes_per_s_each),
            done: Completed::default(),
            busy: BusyTime::default(),
        }
    }

    fn under_way(&self) -> usize {
        self.opening.len() + self.transferring.running()
    }

    fn next_step(&self) -> Option<Instant> {
        let opened = self.opening.front().map(|(at, _)| *at);
        opened.into_iter().chain(self.transferring.next_completion()).min()
    }

    /// Takes one step after the other up to `now`: free places are taken at once.
    fn catch_up(&mut self, now: Instant) {
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            let mut transferred = Vec::new();
            self.transferring.advance(at, &mut transferred);
            for id in transferred {
                self.done.push(at, Completion { id, ok: true });
            }
            while let Some((_, request)) = self.opening.pop_front_if(|(opened, _)| *opened <= at) {
                let alone = transfer_time(request.bytes, self.bytes_per_s_each);
                self.transferring.start(at, request.id, alone);
            }
            self.admit(at);
        }
        self.busy.set(now, self.under_way() > 0);
    }

    fn admit(&mut self, now: Instant) {
        while self.under_way() < self.places as usize
            && let Some(request) = self.waiting.pop_front()
        {
            self.opening.push_back((now + self.latency, request));
        }
        self.busy.set(now, self.under_way() > 0);
    }
}

impl Device for Parallel {
    fn submit(&mut self, now: Instant, request: Request) {
        self.catch_up(now);
        self.waiting.push_back(request);
        self.admit(now);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.done.first().or_else(|| self.next_step())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now);
        self.done.drain_into(done);
    }

    fn busy(&self) -> Span {
        self.busy.total()
    }
}
