//! Requests of a query, always so many outstanding, beside random requests that arrive on their own.

use std::collections::BTreeMap;

use coscan_core::{Instant, Span};
use coscan_device::hard_disk::BLOCK_BYTES;
use coscan_device::{Device, Request, RequestId, Transfer};

use crate::Read;

/// Random reads beside the query, arriving at random (a Poisson process).
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Per second.
    pub per_s: f64,
    /// Blocks of each, aligned to their length.
    pub blocks: u64,
    /// They lie in the first so many blocks.
    pub within_blocks: u64,
    /// For the draws.
    pub seed: u64,
}

/// What came of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// From the start until the query's last request is done, in seconds.
    pub io_s: f64,
    /// Random reads that were done by then.
    pub random_reads: u64,
    /// Their mean response time in seconds; zero without any.
    pub random_response_s: f64,
}

/// Replays a query's requests in their order with `outstanding` of them at the device.
pub fn replay(
    device: &mut dyn Device,
    reads: &[Read],
    outstanding: usize,
    beside: Option<Beside>,
) -> Replayed {
    let mut rng = fastrand::Rng::with_seed(beside.map_or(0, |beside| beside.seed));
    let mut gap = |per_s: f64| Span::from_nanos((-(1.0 - rng.f64()).ln() / per_s * 1e9) as u64);
    let mut places = fastrand::Rng::with_seed(beside.map_or(1, |beside| !beside.seed));
    let beside = beside.filter(|beside| beside.per_s > 0.0);
    let mut arrival = beside.map(|beside| Instant::ZERO + gap(beside.per_s));
    // Requests of the query by number; random ones count on from there.
    let query = reads.len() as u64;
    let (mut next, mut flying, mut left) = (0, 0, reads.len());
    let mut arrived: BTreeMap<RequestId, Instant> = BTreeMap::new();
    let (mut random, mut waited_ns) = (0_u64, 0_u64);
    let (mut now, mut done) = (Instant::ZERO, Vec::new());
    let read = |id, block: u64, blocks: u64| Request {
        id: RequestId(id),
        offset: block * BLOCK_BYTES,
        bytes: blocks * BLOCK_BYTES,
        kind: Transfer::Read,
    };
    let mut submitted_random = 0;
    while left > 0 {
        while flying < outstanding && next < reads.len() {
            device.submit(now, read(next as u64, reads[next].block, reads[next].blocks));
            (next, flying) = (next + 1, flying + 1);
        }
        now = match (device.next_completion(), arrival) {
            (Some(completion), Some(arrival)) => completion.min(arrival),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => break,
        };
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            if let Some(at) = arrived.remove(&completion.id) {
                random += 1;
                waited_ns += (now - at).as_nanos();
            } else {
                (flying, left) = (flying - 1, left - 1);
            }
        }
        if let (Some(beside), Some(at)) = (beside, arrival)
            && at <= now
        {
            let block = places.u64(0..beside.within_blocks / beside.blocks) * beside.blocks;
            let id = query + submitted_random;
            submitted_random += 1;
            arrived.insert(RequestId(id), at);
            device.submit(at, read(id, block, beside.blocks));
            arrival = Some(at + gap(beside.per_s));
        }
    }
    Replayed {
        io_s: now.as_nanos() as f64 / 1e9,
        random_reads: random,
        random_response_s: waited_ns as f64 / 1e9 / random.max(1) as f64,
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
        let beside = Beside { per_s: 20.0, blocks: 2, within_blocks: 100_000, seed: 3 };
        let replayed = replay(&mut *disk(), &reads, 2, Some(beside));
        let rate = replayed.random_reads as f64 / replayed.io_s;
        assert!((rate - 20.0).abs() < 3.0, "{rate}");
        assert!(replayed.io_s > 22.0 && replayed.random_response_s > 0.006, "{replayed:?}");
    }
}
