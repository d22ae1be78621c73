//! A modelled device as a target: requests in virtual time, one after the other or several at once.

use coscan_base::{Instant, Span};

use super::{ProbeError, Run, Sample, Target};
use crate::{Device, Request, RequestId, Transfer};

/// A device in virtual time as a target. It rests between two requests for a varying time, like a machine
/// that does other work.
#[derive(Debug)]
pub struct Simulated {
    device: Box<dyn Device>,
    bytes: u64,
    block_bytes: u64,
    now: Instant,
    requests: u64,
    rng: fastrand::Rng,
}

impl Simulated {
    /// A device of `bytes` bytes, read in multiples of a block.
    pub fn new(device: Box<dyn Device>, bytes: u64, block_bytes: u64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Simulated { device, bytes, block_bytes, now: Instant::ZERO, requests: 0, rng }
    }

    fn submit(&mut self, sample: Sample, kind: Transfer) {
        let Sample { offset, bytes } = sample;
        let id = RequestId(self.requests);
        self.requests += 1;
        self.device.submit(self.now, Request { id, offset, bytes, kind });
    }
}

impl Target for Simulated {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn read(&mut self, samples: &[Sample], depth: usize) -> Result<Run, ProbeError> {
        let reads: Vec<_> = samples.iter().map(|sample| (*sample, Transfer::Read)).collect();
        self.mixed(&reads, depth)
    }

    fn mixed(&mut self, samples: &[(Sample, Transfer)], depth: usize) -> Result<Run, ProbeError> {
        let (first, begun) = (self.requests, self.now);
        let mut started = vec![self.now; samples.len()];
        let mut latency_s = vec![0.0; samples.len()];
        let (mut next, mut flying, mut done) = (0, 0, Vec::new());
        loop {
            while next < samples.len() && flying < depth {
                if depth == 1 {
                    self.now = self.now + Span::from_nanos(self.rng.u64(1000..10_000_000));
                }
                started[next] = self.now;
                let (sample, kind) = samples[next];
                self.submit(sample, kind);
                (next, flying) = (next + 1, flying + 1);
            }
            let Some(at) = self.device.next_completion() else { break };
            self.now = self.now.max(at);
            self.device.advance(self.now, &mut done);
            for completion in done.drain(..) {
                let nth = (completion.id.0 - first) as usize;
                latency_s[nth] = (self.now - started[nth]).as_nanos() as f64 / 1e9;
                flying -= 1;
            }
        }
        let elapsed_s = (self.now - begun).as_nanos() as f64 / 1e9;
        Ok(Run { latency_s, elapsed_s })
    }
}
