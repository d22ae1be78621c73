//! A solid-state drive of channels and planes; data is spread over them in stripes.
//!
//! A plane reads or programs one page at a time. A channel moves the pages of its planes one after the other,
//! and the link to the host moves all pages. Each serves in the order of arrival. A request within a stripe
//! keeps one plane busy, longer ones several: the stripe is the drive's boundary, the planes its parallelism.
//! Wear, garbage collection and caches are not modelled.

use std::collections::BTreeSet;

use coscan_base::{Instant, Span};

use crate::transfer::{BusyTime, transfer_time};
use crate::{Completion, Device, Request, RequestId, Transfer};

/// A solid-state drive as plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolidStateModel {
    /// Channels.
    pub channels: u32,
    /// Planes on each.
    pub planes: u32,
    /// Bytes that a plane reads or programs at once.
    pub page_bytes: u64,
    /// Contiguous bytes on one plane before the data continues at the next channel; whole pages.
    pub stripe_bytes: u64,
    /// Time to read a page.
    pub read: Span,
    /// Time to program a page.
    pub program: Span,
    /// Fixed part of every request.
    pub latency: Span,
    /// Bandwidth of a channel.
    pub channel_bytes_per_s: u64,
    /// Bandwidth of the link to the host.
    pub link_bytes_per_s: u64,
}

impl SolidStateModel {
    /// Returns the first implausible number, if any. Bandwidths are checked elsewhere.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if !(1..=1024).contains(&self.channels) || !(1..=1024).contains(&self.planes) {
            return Err("a solid-state drive has 1 to 1024 channels and as many planes on each");
        }
        if self.page_bytes < 512
            || self.stripe_bytes == 0
            || !self.stripe_bytes.is_multiple_of(self.page_bytes)
        {
            return Err("a page has at least 512 bytes, and a stripe is made of whole pages");
        }
        if self.read.max(self.program).max(self.latency) > Span::from_millis(10_000) {
            return Err("a page takes less than 10 s");
        }
        Ok(())
    }
}

/// The drive. **Cost:** a request is linear in its stripes.
#[derive(Debug)]
pub(crate) struct SolidState {
    model: SolidStateModel,
    /// The times at which each plane, channel by channel, and each channel has finished all its work.
    planes: Vec<Instant>,
    channels: Vec<Instant>,
    link: Instant,
    done: BTreeSet<(Instant, u64, RequestId)>,
    submitted: u64,
    busy: BusyTime,
}

impl SolidState {
    /// An idle drive.
    pub(crate) fn new(model: &SolidStateModel) -> Self {
        let channels = model.channels as usize;
        SolidState {
            planes: vec![Instant::ZERO; channels * model.planes as usize],
            channels: vec![Instant::ZERO; channels],
            link: Instant::ZERO,
            done: BTreeSet::new(),
            submitted: 0,
            busy: BusyTime::default(),
            model: *model,
        }
    }

    /// The time at which the part of a request in one stripe has passed the channel.
    fn serve(&mut self, now: Instant, kind: Transfer, from: u64, to: u64) -> Instant {
        let model = &self.model;
        let stripe = from / model.stripe_bytes;
        let at = (stripe % self.planes.len() as u64) as usize;
        let (plane, channel) = (&mut self.planes[at], &mut self.channels[at % model.channels as usize]);
        let pages = (to - 1) / model.page_bytes - from / model.page_bytes + 1;
        let moves = transfer_time(to - from, model.channel_bytes_per_s);
        let cells = |page: Span| Span::from_nanos(page.as_nanos() * pages);
        match kind {
            Transfer::Read => {
                *channel = (now.max(*plane) + cells(model.read)).max(*channel) + moves;
                *plane = *channel;
                *channel
            }
            Transfer::Write => {
                *channel = now.max(*channel) + moves;
                *plane = (*channel).max(*plane) + cells(model.program);
                *plane
            }
        }
    }
}

impl Device for SolidState {
    fn submit(&mut self, now: Instant, request: Request) {
        let from = now + self.model.latency;
        let (mut at, mut last) = (request.offset, from);
        while at < request.end() {
            let end = request.end().min((at / self.model.stripe_bytes + 1) * self.model.stripe_bytes);
            last = last.max(self.serve(from, request.kind, at, end));
            at = end;
        }
        let moves = transfer_time(request.bytes, self.model.link_bytes_per_s);
        self.link = self.link.max(from) + moves;
        let done = last.max(self.link);
        self.done.insert((done, self.submitted, request.id));
        self.submitted += 1;
        self.busy.set(now, true);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.done.first().map(|(at, ..)| *at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        while self.done.first().is_some_and(|(at, ..)| *at <= now)
            && let Some((at, _, id)) = self.done.pop_first()
        {
            self.busy.set(at, !self.done.is_empty());
            done.push(Completion { id, ok: true });
        }
        self.busy.set(now, !self.done.is_empty());
    }

    fn busy(&self) -> Span {
        self.busy.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: SolidStateModel = SolidStateModel {
        channels: 4,
        planes: 2,
        page_bytes: 4096,
        stripe_bytes: 8192,
        read: Span::from_nanos(50_000),
        program: Span::from_nanos(500_000),
        latency: Span::from_nanos(10_000),
        channel_bytes_per_s: 409_600_000,
        link_bytes_per_s: 4_096_000_000,
    };

    /// Completion of some requests that start at time zero, in microseconds.
    fn done_us(kind: Transfer, runs: &[(u64, u64)]) -> Vec<u64> {
        let mut device = SolidState::new(&MODEL);
        for (id, (offset, bytes)) in (0..).zip(runs) {
            device.submit(Instant::ZERO, Request { id: RequestId(id), offset: *offset, bytes: *bytes, kind });
        }
        let (mut us, mut done) = (vec![0; runs.len()], Vec::new());
        while let Some(at) = device.next_completion() {
            device.advance(at, &mut done);
            done.drain(..).for_each(|completion| us[completion.id.0 as usize] = at.as_nanos() / 1000);
        }
        us
    }

    #[test]
    fn planes_work_side_by_side_and_a_channel_moves_one_page_after_the_other() {
        assert_eq!(done_us(Transfer::Read, &[(0, 4096)]), [10 + 50 + 10]);
        assert_eq!(done_us(Transfer::Read, &[(4096, 8192)]), [10 + 50 + 10], "two stripes, two channels");
        assert_eq!(done_us(Transfer::Read, &[(0, 8192)]), [10 + 100 + 20], "two pages of one plane");
        // The fifth stripe is on the first channel again, on its other plane.
        assert_eq!(done_us(Transfer::Read, &[(0, 4096), (4 * 8192, 4096)]), [70, 80]);
        assert_eq!(done_us(Transfer::Write, &[(0, 4096)]), [10 + 10 + 500]);
    }

    #[test]
    fn models_that_make_no_sense_are_refused() {
        assert!(SolidStateModel { channels: 0, ..MODEL }.check().is_err());
        assert!(SolidStateModel { stripe_bytes: 5000, ..MODEL }.check().is_err());
        assert!(MODEL.check().is_ok());
    }
}
