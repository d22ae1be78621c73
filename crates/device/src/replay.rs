//! Replay of requests that arrive at given times, and DiskSim's ASCII format of such traces.
//!
//! A line of the format has five fields: arrival in milliseconds, device, first block, size in blocks, flags
//! in hexadecimal. Bit 0 of the flags is set for a read. Blocks are of 512 bytes. The rest of the line is
//! ignored, as in DiskSim. The module is pure: text in, requests out.

use coscan_base::{Instant, Span};

use crate::hard_disk::BLOCK_BYTES;
use crate::{Device, Request, RequestId, Transfer};

/// A request and its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time of arrival.
    pub at: Instant,
    /// Its first block.
    pub block: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The direction.
    pub kind: Transfer,
}

/// A trace that cannot be read or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is not of the format.
    #[error(
        "line {line}: {what}; a line is 'arrival_ms device block blocks flags', flags in hexadecimal with bit 0 \
         set for reads"
    )]
    Line {
        /// Counted from 1.
        line: usize,
        /// A description of the error.
        what: String,
    },
    /// A request for blocks that the device does not have.
    #[error(
        "request {nth} ends at block {end}, but the device has {blocks} blocks: use another model or trace"
    )]
    BeyondEnd {
        /// Counted from 1.
        nth: usize,
        /// The block behind its last.
        end: u64,
        /// Blocks of the device.
        blocks: u64,
    },
}

/// Reads a trace in DiskSim's ASCII format. All devices of the trace count as one. Empty lines are skipped.
///
/// # Errors
/// The first line that is not of the format, or whose arrival is before that of the previous line.
pub fn read_disksim_trace(text: &str) -> Result<Vec<Arrival>, TraceError> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let wrong = |what: String| TraceError::Line { line: nth + 1, what };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [at, _device, block, blocks, flags, ..] = fields[..] else {
            if fields.is_empty() {
                continue;
            }
            return Err(wrong(format!("{} fields instead of 5", fields.len())));
        };
        let at = milliseconds(at).ok_or_else(|| wrong(format!("'{at}' is no time in milliseconds")))?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| wrong(format!("'{text}' is no block number")));
        let digits = flags.strip_prefix("0x").or_else(|| flags.strip_prefix("0X")).unwrap_or(flags);
        let flags = u64::from_str_radix(digits, 16)
            .map_err(|_| wrong(format!("'{flags}' is no hexadecimal number")))?;
        if arrivals.last().is_some_and(|last| last.at > at) {
            return Err(wrong("it arrives before the line above".to_owned()));
        }
        let kind = if flags & 1 == 1 { Transfer::Read } else { Transfer::Write };
        let (block, blocks) = (number(block)?, number(blocks)?);
        if blocks == 0 {
            return Err(wrong("a request has at least one block".to_owned()));
        }
        arrivals.push(Arrival { at, block, blocks, kind });
    }
    Ok(arrivals)
}

/// The line of request number `nth` in a trace. Both are counted from 1; empty lines hold no request.
pub fn line_of_request(text: &str, nth: usize) -> Option<usize> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.nth(nth.checked_sub(1)?).map(|(at, _)| at + 1)
}

fn milliseconds(text: &str) -> Option<Instant> {
    let ms: f64 = text.parse().ok()?;
    let ns = ms * 1e6;
    (0.0..1e18).contains(&ns).then(|| Instant::from_nanos(ns.round() as u64))
}

/// Replays requests, each at its time, and returns the time of each, in the same order.
///
/// # Errors
/// The first request beyond the device's `blocks`.
pub fn replay(device: &mut dyn Device, blocks: u64, arrivals: &[Arrival]) -> Result<Vec<Span>, TraceError> {
    let end = |arrival: &Arrival| arrival.block.saturating_add(arrival.blocks);
    if let Some(nth) = arrivals.iter().position(|arrival| end(arrival) > blocks) {
        return Err(TraceError::BeyondEnd { nth: nth + 1, end: end(&arrivals[nth]), blocks });
    }
    let mut took = vec![Span::ZERO; arrivals.len()];
    let (mut next, mut done) = (0, Vec::new());
    loop {
        let arrival = arrivals.get(next);
        let now = match (device.next_completion(), arrival) {
            (Some(completion), Some(arrival)) => completion.min(arrival.at),
            (Some(completion), None) => completion,
            (None, Some(arrival)) => arrival.at,
            (None, None) => return Ok(took),
        };
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            let nth = completion.id.0 as usize;
            took[nth] = now.since(arrivals[nth].at);
        }
        if let Some(Arrival { at, block, blocks, kind }) =
            arrival.copied().filter(|arrival| arrival.at <= now)
        {
            let (offset, bytes) = (block * BLOCK_BYTES, blocks * BLOCK_BYTES);
            device.submit(at, Request { id: RequestId(next as u64), offset, bytes, kind });
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceModel, DeviceSpec};

    #[test]
    fn lines_are_read_and_mistakes_named() {
        let trace = read_disksim_trace("0.5 0 100 8 1\n\n2 3 7 16 0\n").unwrap();
        let read = Arrival { at: Instant::from_nanos(500_000), block: 100, blocks: 8, kind: Transfer::Read };
        assert_eq!(trace[0], read);
        assert_eq!(trace[1].kind, Transfer::Write);
        let message = |text| read_disksim_trace(text).unwrap_err().to_string();
        assert!(message("1 0 1 1\n").contains("line 1: 4 fields"));
        assert!(message("x 0 1 1 1\n").contains("'x' is no time"));
        assert!(message("1 0 1 1 1\n0 0 1 1 1\n").contains("line 2: it arrives before"));
        assert!(message("1 0 1 0 1\n").contains("line 1: a request has at least one block"));
        assert!(message("1 0 1 1 0x\n").contains("'0x' is no hexadecimal number"));
        assert!(message("1 0 -1 1 1\n").contains("'-1' is no block number"));
    }

    #[test]
    fn odd_lines_that_are_legal_are_read() {
        let trace = "  +1.5e1\t0 007 8 0x0\r\n\n   \n20. 3 9 1 0X1\n20 0 9 1 00000001 and a comment\n";
        let read = read_disksim_trace(trace).unwrap();
        let seen: Vec<_> = read.iter().map(|a| (a.at.as_nanos(), a.block, a.blocks, a.kind)).collect();
        let expected = [
            (15_000_000, 7, 8, Transfer::Write),
            (20_000_000, 9, 1, Transfer::Read),
            (20_000_000, 9, 1, Transfer::Read),
        ];
        assert_eq!(seen, expected);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|nth| line_of_request(trace, nth)),
            [None, Some(1), Some(4), Some(5), None]
        );
    }

    #[test]
    fn requests_take_from_their_arrival_to_their_completion() {
        let model = DeviceModel::SeekDisk { bytes_per_s: 512_000, seek: Span::from_millis(10) };
        let mut device = DeviceSpec::new(model).unwrap().build();
        let arrivals = read_disksim_trace("0 0 100 1 1\n1 0 101 2 1\n100 0 0 1 0").unwrap();
        let took = replay(&mut *device, 1000, &arrivals).unwrap();
        assert_eq!(took, [11, 12, 11].map(Span::from_millis));
        assert!(
            replay(&mut *device, 101, &arrivals)
                .unwrap_err()
                .to_string()
                .contains("request 2 ends at block 103")
        );
    }
}
