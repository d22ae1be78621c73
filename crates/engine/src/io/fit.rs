//! Consequences of a device's profile beyond single requests: the size of chunks, the ranges of parts of
//! objects, the patience of point reads, and the cost of reading some ranges. Pure.
//!
//! They follow from the profile as it was measured, not from corrections that are learned while the engine
//! runs: the chunks of a file in use cannot change.

use std::ops::Range;
use std::time::Duration;

use super::coalesce::REQUEST_BYTES_MAX;

/// The minimum of the size up to which requests of a profiled device may be joined.
const REQUEST_BYTES_MIN: u64 = 1 << 20;

/// The number of requests per chunk. A chunk has all columns of a table, and a scan reads some of them. With
/// a quarter, a scan's part of a chunk is one efficient request.
const REQUESTS_PER_CHUNK: u64 = 4;

/// Up to this size of chunks the time of queries depends on it by less than it varies anyway (`docs/records/chunk-size.md`).
const CHUNK_BYTES_MAX: u64 = 32 << 20;

/// A point read is late when it has taken this many times as long as it takes alone.
const PATIENCE: u32 = 2;

/// The size at which nine tenths of a request's time are for its bytes.
pub(super) fn request_bytes(fixed_s: f64, bytes_per_s: f64) -> u64 {
    ((9.0 * fixed_s * bytes_per_s) as u64).clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX)
}

/// The size of a chunk, if requests of `request_bytes` are efficient and this many run at the same time. At
/// most the size at which these requests, each for another chunk, fit into half of the buffer. At least
/// `usual`, the size without a profile, because smaller chunks make more requests for the same bytes.
pub(super) fn chunk_bytes(request_bytes: u64, requests: usize, buffer_bytes: u64, usual: u64) -> u64 {
    let room = buffer_bytes / 2 / requests.max(1) as u64;
    (REQUESTS_PER_CHUNK * request_bytes).min(CHUNK_BYTES_MAX).min(room).max(usual)
}

/// The time that a point read may wait before loads are delayed for it: `constant`, but at least a few times
/// the time that it takes alone, because delaying loads cannot make it faster.
pub(super) fn point_latency(constant: Duration, alone: Duration) -> Duration {
    if constant.is_zero() { constant } else { constant.max(alone.saturating_mul(PATIENCE)) }
}

/// The cost of reading ranges (ascending, disjoint) on a device, in bytes: the ranges, the gaps up to
/// `gap_bytes`, which are read too, and `request_bytes` for each request.
pub(crate) fn cost_bytes(
    ranges: impl IntoIterator<Item = Range<u64>>,
    request_bytes: u64,
    gap_bytes: u64,
) -> u64 {
    let mut cost = 0u64;
    let mut end = None;
    for range in ranges {
        let gap = end.map(|end| range.start.saturating_sub(end)).filter(|gap| *gap <= gap_bytes);
        let before = gap.unwrap_or(request_bytes);
        cost = cost.saturating_add(before).saturating_add(range.end.saturating_sub(range.start));
        end = Some(range.end);
    }
    cost
}

/// Returns whether a range of a part is read as several of about `bytes`: if it has at least one and a half
/// times as many.
pub(crate) fn is_cut(range: &Range<u64>, bytes: u64) -> bool {
    ranges_wanted(range, bytes) > 1
}

fn ranges_wanted(range: &Range<u64>, bytes: u64) -> u64 {
    range.end.saturating_sub(range.start).saturating_add(bytes / 2) / bytes.max(1)
}

/// Cuts a range of a part into about equal ones of about `bytes`, so that they are read at the same time. The
/// cuts are at `borders` (ascending, where pages begin). Does nothing unless [`is_cut`].
pub(crate) fn cut(range: &Range<u64>, bytes: u64, borders: &[u64]) -> Vec<Range<u64>> {
    let all = range.end.saturating_sub(range.start);
    let wanted = ranges_wanted(range, bytes);
    let mut cut = Vec::new();
    let mut start = range.start;
    for nth in 1..wanted {
        let even = range.start + (u128::from(all) * u128::from(nth) / u128::from(wanted)) as u64;
        let after = borders.partition_point(|border| *border < even);
        let near = borders[after.saturating_sub(1)..].iter().take(2);
        let border = near.copied().filter(|at| *at > start && *at < range.end);
        let Some(border) = border.min_by_key(|at| at.abs_diff(even)) else { continue };
        cut.push(start..border);
        start = border;
    }
    cut.push(start..range.end);
    cut
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
