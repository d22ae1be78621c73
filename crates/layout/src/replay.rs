//! Replay of a query's requests, with a fixed number outstanding, beside random requests of other queries.

use std::collections::BTreeMap;

use coscan_core::{Instant, Span};
use coscan_device::hard_disk::BLOCK_BYTES;
use coscan_device::{Completion, Device, Request, RequestId, Transfer};

use crate::Read;

/// The arrival of random reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At random, this many per second on average (a Poisson process), independent of earlier reads.
    PerSecond(f64),
    /// From a client that waits for each read, and then for this time before the next one.
    OneAtATime(Span),
}

/// Random reads beside the query.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Their arrivals.
    pub arrivals: Arrivals,
    /// Blocks of each read, aligned to its length.
    pub blocks: u64,
    /// The range of blocks: the first, and the one behind the last.
    pub within: (u64, u64),
    /// Seed of the draws.
    pub seed: u64,
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// Time from the start to the end of the query's last request, in seconds.
    pub io_s: f64,
    /// Random reads completed by then.
    pub random_reads: u64,
    /// Their mean response time in seconds; zero without any.
    pub random_response_s: f64,
}

/// Replays a query's requests in their order. `outstanding` of them are at the device at a time.
pub fn replay(
    device: &mut dyn Device,
    reads: &[Read],
    outstanding: usize,
    beside: Option<Beside>,
) -> Replayed {
    // The query's requests are numbered from zero; random ones continue after them.
    let mut others = Others::new(beside, reads.len() as u64);
    let (mut next, mut flying, mut left) = (0, 0, reads.len());
    let (mut now, mut done) = (Instant::ZERO, Vec::new());
    while left > 0 {
        while flying < outstanding && next < reads.len() {
            device.submit(now, request(next as u64, reads[next]));
            (next, flying) = (next + 1, flying + 1);
        }
        now = match (device.next_completion(), others.arrival) {
            (Some(completion), Some(arrival)) => completion.min(arrival),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => break,
        };
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            if !others.done(now, completion) {
                (flying, left) = (flying - 1, left - 1);
            }
        }
        others.arrive(now, device);
    }
    Replayed {
        io_s: now.as_nanos() as f64 / 1e9,
        random_reads: others.reads,
        random_response_s: others.waited_ns as f64 / 1e9 / others.reads.max(1) as f64,
    }
}

fn request(id: u64, read: Read) -> Request {
    Request {
        id: RequestId(id),
        offset: read.block * BLOCK_BYTES,
        bytes: read.blocks * BLOCK_BYTES,
        kind: Transfer::Read,
    }
}

/// The random reads.
struct Others {
    beside: Option<Beside>,
    times: fastrand::Rng,
    places: fastrand::Rng,
    next_id: u64,
    /// The next arrival, if it is known.
    arrival: Option<Instant>,
    /// Reads in progress, with their arrivals.
    came: BTreeMap<RequestId, Instant>,
    reads: u64,
    waited_ns: u64,
}

impl Others {
    fn new(beside: Option<Beside>, next_id: u64) -> Self {
        let beside = beside.filter(|beside| beside.arrivals != Arrivals::PerSecond(0.0));
        let seed = beside.map_or(0, |beside| beside.seed);
        let mut others = Others {
            beside,
            times: fastrand::Rng::with_seed(seed),
            places: fastrand::Rng::with_seed(!seed),
            next_id,
            arrival: None,
            came: BTreeMap::new(),
            reads: 0,
            waited_ns: 0,
        };
        others.arrival = beside.map(|beside| Instant::ZERO + others.pause(beside.arrivals));
        others
    }

    fn pause(&mut self, arrivals: Arrivals) -> Span {
        match arrivals {
            Arrivals::OneAtATime(pause) => pause,
            Arrivals::PerSecond(rate) => {
                Span::from_nanos((-(1.0 - self.times.f64()).ln() / rate * 1e9) as u64)
            }
        }
    }

    /// True if the completed request was a random read.
    fn done(&mut self, now: Instant, completion: Completion) -> bool {
        let Some(came) = self.came.remove(&completion.id) else { return false };
        self.reads += 1;
        self.waited_ns += (now - came).as_nanos();
        if let Some(Beside { arrivals: Arrivals::OneAtATime(pause), .. }) = self.beside {
            self.arrival = Some(now + pause);
        }
        true
    }

    fn arrive(&mut self, now: Instant, device: &mut dyn Device) {
        let (Some(beside), Some(at)) = (self.beside, self.arrival) else { return };
        if at > now {
            return;
        }
        let (first, end) = beside.within;
        let places = (end - first) / beside.blocks;
        let block = first + self.places.u64(0..places) * beside.blocks;
        self.came.insert(RequestId(self.next_id), at);
        device.submit(now, request(self.next_id, Read { block, blocks: beside.blocks }));
        self.next_id += 1;
        self.arrival = match beside.arrivals {
            Arrivals::OneAtATime(_) => None,
            arrivals => Some(at + self.pause(arrivals)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_device::{DeviceModel, DeviceSpec};

    fn disk() -> Box<dyn Device> {
        let model = DeviceModel::SeekDisk { bytes_per_s: 512_000, seek: Span::from_millis(4) };
        DeviceSpec::new(model).unwrap().build()
    }

    #[test]
    fn a_query_alone_takes_the_time_of_its_requests() {
        let reads =
            [Read { block: 10, blocks: 2 }, Read { block: 12, blocks: 1 }, Read { block: 0, blocks: 1 }];
        let replayed = replay(&mut *disk(), &reads, 2, None);
        assert!((replayed.io_s - 0.012).abs() < 1e-9, "{replayed:?}");
        assert_eq!(replayed.random_reads, 0);
    }

    #[test]
    fn random_reads_arrive_at_their_rate_and_slow_it_down() {
        let reads: Vec<Read> = (0..20_000).map(|nth| Read { block: nth, blocks: 1 }).collect();
        let arrivals = Arrivals::PerSecond(20.0);
        let beside = Beside { arrivals, blocks: 2, within: (0, 100_000), seed: 3 };
        let replayed = replay(&mut *disk(), &reads, 2, Some(beside));
        let rate = replayed.random_reads as f64 / replayed.io_s;
        assert!((rate - 20.0).abs() < 3.0, "{rate}");
        assert!(replayed.io_s > 22.0 && replayed.random_response_s > 0.006, "{replayed:?}");
    }

    #[test]
    fn a_client_that_waits_has_one_read_at_the_device() {
        let reads: Vec<Read> = (0..2_000).map(|nth| Read { block: nth, blocks: 1 }).collect();
        let pause = Span::from_millis(6);
        let beside =
            Beside { arrivals: Arrivals::OneAtATime(pause), blocks: 2, within: (50_000, 100_000), seed: 3 };
        let replayed = replay(&mut *disk(), &reads, 2, Some(beside));
        let cycle_s = replayed.random_response_s + 0.006;
        let cycles = replayed.io_s / cycle_s;
        assert!((replayed.random_reads as f64 - cycles).abs() < 2.0, "{replayed:?}");
    }
}
