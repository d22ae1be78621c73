//! A disk that serves one request after the other, in the order of arrival.
//!
//! The position of the head matters in one way only. A request that begins at the end of the last one costs
//! its transfer; every other request also costs a fixed time for seek and rotation. Tracks, zones and caches
//! are not modelled. With a fixed cost of zero this is the perfect 50 MB/s disk of Cooperative Scans 2004,
//! §3.1.

use std::collections::VecDeque;

use coscan_base::{Instant, Span};

use crate::transfer::{BusyTime, transfer_time};
use crate::{Completion, Device, Request, RequestId};

/// First come, first served; a fixed cost per request that does not continue the last; bandwidth. **Cost:**
/// each call is constant per request that completes.
#[derive(Debug)]
pub(crate) struct SeekDisk {
    bytes_per_s: u64,
    seek: Span,
    /// End of the last submitted request; unknown before the first.
    head: Option<u64>,
    free_at: Instant,
    queue: VecDeque<(Instant, RequestId)>,
    busy: BusyTime,
}

impl SeekDisk {
    /// An idle disk whose head position is unknown, so that the first request seeks.
    pub(crate) fn new(bytes_per_s: u64, seek: Span) -> Self {
        SeekDisk {
            bytes_per_s,
            seek,
            head: None,
            free_at: Instant::ZERO,
            queue: VecDeque::new(),
            busy: BusyTime::default(),
        }
    }

    /// Accounts for busy time: between two calls the disk is busy until it has served its queue.
    fn account(&mut self, now: Instant) {
        self.busy.set(now.min(self.free_at), false);
        self.busy.set(now, now < self.free_at);
    }
}

impl Device for SeekDisk {
    fn submit(&mut self, now: Instant, request: Request) {
        self.account(now);
        let seek = if self.head == Some(request.offset) { Span::ZERO } else { self.seek };
        self.head = Some(request.end());
        self.free_at = self.free_at.max(now) + seek + transfer_time(request.bytes, self.bytes_per_s);
        self.busy.set(now, now < self.free_at);
        self.queue.push_back((self.free_at, request.id));
    }

    fn next_completion(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.account(now);
        while let Some((_, id)) = self.queue.pop_front_if(|(at, _)| *at <= now) {
            done.push(Completion { id, ok: true });
        }
    }

    fn busy(&self) -> Span {
        self.busy.total()
    }
}
