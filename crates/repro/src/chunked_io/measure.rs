//! Measurements of a device in virtual time: a fixed number of requests in flight, or batch after batch.
//!
//! Every measurement begins with an idle device whose head positions are unknown.

use coscan_core::Instant;
use coscan_device::{Completion, Device, DeviceSpec, Request, RequestId, Transfer};
use fastrand::Rng;

/// Addresses are drawn from this many bytes: the size of the paper's disks.
const SPAN_BYTES: u64 = 32 << 30;
/// One read of this size counts as streaming.
const STREAM_BYTES: u64 = 4 << 30;

/// Requests of one size and kind.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) bytes: u64,
    pub(crate) kind: Transfer,
}

impl Shape {
    pub(crate) fn read(bytes: u64) -> Self {
        Shape { bytes, kind: Transfer::Read }
    }
}

/// The result of a run with a fixed number of requests in flight.
pub(crate) struct Run {
    in_flight: usize,
    /// Completions of requests, ascending.
    finished: Vec<Instant>,
}

impl Run {
    /// Runs `count` requests at random multiples of their size, `in_flight` of them at a time. `count` must
    /// exceed `in_flight`.
    pub(crate) fn random(spec: &DeviceSpec, shape: Shape, in_flight: usize, count: usize, seed: u64) -> Self {
        assert!(in_flight < count, "a rate needs a time in which all places are taken");
        let mut rng = Rng::with_seed(seed);
        let mut requests = (0..count).map(|id| Request {
            id: RequestId(id as u64),
            offset: rng.u64(0..SPAN_BYTES / shape.bytes) * shape.bytes,
            bytes: shape.bytes,
            kind: shape.kind,
        });
        let mut device = spec.build();
        for request in requests.by_ref().take(in_flight) {
            device.submit(Instant::ZERO, request);
        }
        let (mut finished, mut done) = (Vec::with_capacity(count), Vec::new());
        while finished.len() < count {
            let at = step(device.as_mut(), &mut done);
            for _ in done.drain(..) {
                finished.push(at);
                if let Some(request) = requests.next() {
                    device.submit(at, request);
                }
            }
        }
        Run { in_flight, finished }
    }

    /// Requests per second, up to the last completion that was followed by a submission.
    pub(crate) fn per_second(&self) -> f64 {
        let full = self.finished.len() - self.in_flight;
        full as f64 / seconds(self.finished[full - 1])
    }
}

/// Bytes per second of one long read.
pub(crate) fn streaming(spec: &DeviceSpec) -> f64 {
    let read = Request { id: RequestId(0), offset: 0, bytes: STREAM_BYTES, kind: Transfer::Read };
    STREAM_BYTES as f64 / batches(spec, [vec![read]])
}

/// Seconds for batches of requests, each submitted when the previous one is done.
pub(crate) fn batches(spec: &DeviceSpec, batches: impl IntoIterator<Item = Vec<Request>>) -> f64 {
    let (mut device, mut now, mut done) = (spec.build(), Instant::ZERO, Vec::new());
    for batch in batches {
        let count = batch.len();
        batch.into_iter().for_each(|request| device.submit(now, request));
        while done.len() < count {
            now = step(device.as_mut(), &mut done);
        }
        done.clear();
    }
    seconds(now)
}

/// The device's next step, and its time.
fn step(device: &mut dyn Device, done: &mut Vec<Completion>) -> Instant {
    let at = device.next_completion().expect("requests are under way");
    device.advance(at, done);
    at
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
