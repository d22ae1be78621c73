//! The timeline of predictive buffer management: parts in buckets by the time of their next use.
//!
//! Near times have narrow buckets and distant times wide ones. There are ten groups of five buckets. The
//! first group's buckets are 100 ms wide, each further group's twice as wide as those before. The last bucket
//! has everything beyond. A part stays in its bucket as time passes. If the bucket's time has passed and the
//! part is still there, its scan was slower than predicted, and the part is predicted again. The parts of the
//! latest bucket are evicted first.
//!
//! Source: Switakowski, Boncz, Zukowski, VLDB 2012, section 3. **Deviation:** the paper shifts all buckets by
//! one place as time passes. Here a bucket keeps the absolute time at which it ends, so nothing is shifted,
//! and a jump of the clock costs nothing. The order is the same. **Choice:** within a bucket the part that
//! was added last is evicted first: scans go forward, so it is the furthest. **Choice:** a chunk wanted only
//! by scans that had to give it back goes into the last bucket. **Cost:** insertion and removal are constant,
//! besides one logarithmic look-up of the part and one among about a hundred buckets.

use std::collections::BTreeMap;
use std::fmt;

use coscan_base::{Instant, Span};

use super::next_use::NextUse;
use super::{Predictive, unwanted_parts, wanted_parts};
use crate::eviction::Victims;
use crate::ids::{ChunkNo, TableId};
use crate::nodes::Nodes;
use crate::part::PartKey;
use crate::state::State;

const SLICE: Span = Span::from_millis(100);
const GROUPS: u32 = 10;
const BUCKETS_PER_GROUP: u64 = 5;
/// The number of slices that all groups together cover.
const REACH: u64 = BUCKETS_PER_GROUP * ((1 << GROUPS) - 1);

/// The end of the bucket of an event `until` after `now`, in slices since the origin.
fn bucket_of(now: Instant, until: Span) -> u64 {
    let present = now.as_nanos() / SLICE.as_nanos();
    let at = (now + until).as_nanos() / SLICE.as_nanos();
    let ahead = (at - present).min(REACH - 1);
    let group = (ahead / BUCKETS_PER_GROUP + 1).ilog2();
    let width = 1u64 << group;
    // Buckets of one width are adjacent, counted from the origin.
    ((present + ahead) / width + 1).saturating_mul(width)
}

#[derive(Clone, Copy, Debug)]
struct Node {
    part: PartKey,
    bucket: u64,
    before: Option<u32>,
    after: Option<u32>,
}

/// The parts in their buckets.
#[derive(Clone, Default)]
pub struct Timeline {
    nodes: Nodes<Node>,
    index: BTreeMap<PartKey, u32>,
    /// The part that was added last to each bucket, by the bucket's end.
    buckets: BTreeMap<u64, u32>,
}

/// Compares the buckets, not the links.
impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = self.buckets.iter().map(|(end, first)| (end, self.bucket(*first).collect::<Vec<_>>()));
        f.debug_map().entries(buckets).finish()
    }
}

impl Timeline {
    /// Moves a part into the bucket of its next use. A part whose bucket does not change keeps its place in
    /// it.
    fn place(&mut self, part: PartKey, bucket: u64) {
        match self.index.get(&part).copied() {
            Some(at) if self.nodes[at].bucket == bucket => return,
            Some(_) => self.remove(part),
            None => {}
        }
        let after = self.buckets.get(&bucket).copied();
        let node = Node { part, bucket, before: None, after };
        let at = self.nodes.add(node);
        if let Some(after) = after {
            self.nodes[after].before = Some(at);
        }
        self.buckets.insert(bucket, at);
        self.index.insert(part, at);
    }

    fn remove(&mut self, part: PartKey) {
        let Some(at) = self.index.remove(&part) else { return };
        let Node { bucket, before, after, .. } = self.nodes[at];
        if let Some(after) = after {
            self.nodes[after].before = before;
        }
        match (before, after) {
            (Some(before), after) => self.nodes[before].after = after,
            (None, Some(after)) => drop(self.buckets.insert(bucket, after)),
            (None, None) => drop(self.buckets.remove(&bucket)),
        }
        self.nodes.free(at);
    }

    /// The parts of one bucket, last added first.
    fn bucket(&self, first: u32) -> impl Iterator<Item = PartKey> {
        let nodes = std::iter::successors(Some(first), |at| self.nodes[*at].after);
        nodes.map(|at| self.nodes[at].part)
    }

    /// All parts, the one consumed last first.
    fn furthest(&self) -> impl Iterator<Item = PartKey> {
        self.buckets.values().rev().flat_map(|first| self.bucket(*first))
    }
}

impl Predictive for Timeline {
    fn refresh(&mut self, state: &State, next_use: &NextUse, table: TableId, chunk: ChunkNo) {
        for part in unwanted_parts(&self.index, state, table, chunk) {
            self.remove(part);
        }
        let mut wanted = wanted_parts(state, table, chunk).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let soonest = next_use.of_chunk(state, table, chunk);
        for part in wanted {
            let until = soonest.get(&part.column).copied().unwrap_or(Span::MAX);
            self.place(part, bucket_of(state.now(), until));
        }
    }

    fn overdue(&mut self, now: Instant) -> Vec<(TableId, ChunkNo)> {
        let present = now.as_nanos() / SLICE.as_nanos();
        let passed: Vec<PartKey> =
            self.buckets.range(..=present).flat_map(|(_, first)| self.bucket(*first)).collect();
        passed.into_iter().map(|part| (part.table, part.chunk)).collect()
    }

    fn choose_victims(&mut self, state: &State, _next_use: &NextUse, victims: &mut Victims<'_>) {
        let mut left = Vec::new();
        for part in self.furthest() {
            if !state.recency().contains(part) {
                left.push(part);
            } else if victims.add(part) {
                break;
            }
        }
        for part in left {
            self.remove(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ColumnNo;
    use fastrand::Rng;

    fn part(chunk: u32) -> PartKey {
        PartKey { table: TableId(0), chunk: ChunkNo(chunk), column: ColumnNo(0) }
    }

    fn end_ms(now_ms: u64, until_ms: u64) -> u64 {
        bucket_of(Instant::from_nanos(now_ms * 1_000_000), Span::from_millis(until_ms)) * 100
    }

    #[test]
    fn buckets_double_in_width_from_group_to_group() {
        assert_eq!([0, 99, 100, 499].map(|ms| end_ms(0, ms)), [100, 100, 200, 500]);
        assert_eq!([500, 600, 1400].map(|ms| end_ms(0, ms)), [600, 800, 1600], "width 200");
        assert_eq!([1500, 3400].map(|ms| end_ms(0, ms)), [1600, 3600], "width 400");
        assert_eq!(end_ms(10_070, 20), 10_100, "the bucket that is under way");
        assert_eq!(end_ms(10_070, 40), 10_200);
        let last = end_ms(0, REACH * 100 - 1);
        assert_eq!([REACH * 100, u64::MAX / 2_000_000].map(|ms| end_ms(0, ms)), [last, last], "beyond");
        assert_eq!(bucket_of(Instant::from_nanos(5), Span::MAX) * 100, last, "nobody knows when");
    }

    #[test]
    fn a_prediction_lies_in_its_bucket_and_ends_keep_the_order_of_times() {
        let mut rng = Rng::with_seed(7);
        for _ in 0..20_000 {
            let now = rng.u64(0..1_000_000);
            let (a, b) = (rng.u64(0..REACH * 100), rng.u64(0..REACH * 100));
            let (near, far) = (a.min(b), a.max(b));
            assert!(end_ms(now, near) > now + near, "it has not ended by then");
            assert!(end_ms(now, near) <= end_ms(now, far), "{now}: {near} before {far}");
            let width = (end_ms(now, near) - now - near).div_ceil(100);
            assert!((width - 1) * 100 <= near / 5 + 100, "{now} + {near}: a bucket of {width} slices");
        }
    }

    #[test]
    fn the_lists_agree_with_a_sorted_vector_on_random_operations() {
        let mut rng = Rng::with_seed(3);
        let mut timeline = Timeline::default();
        // (bucket, order of arrival) by part.
        let mut model: BTreeMap<PartKey, (u64, u64)> = BTreeMap::new();
        for step in 0..20_000 {
            let part = part(rng.u32(0..60));
            if rng.u32(0..4) == 0 {
                timeline.remove(part);
                model.remove(&part);
            } else {
                let bucket = rng.u64(0..12);
                timeline.place(part, bucket);
                let kept = model.get(&part).copied().filter(|(b, _)| *b == bucket);
                model.insert(part, kept.unwrap_or((bucket, step)));
            }
            if step % 7 == 0 {
                let mut expected: Vec<_> = model.iter().map(|(part, place)| (*place, *part)).collect();
                expected.sort_by(|a, b| b.cmp(a));
                let expected: Vec<PartKey> = expected.into_iter().map(|(_, part)| part).collect();
                assert_eq!(timeline.furthest().collect::<Vec<_>>(), expected, "step {step}");
                assert_eq!(timeline.nodes.in_use(), timeline.index.len());
            }
        }
    }

    #[test]
    fn what_has_passed_is_overdue_and_nothing_else() {
        let mut timeline = Timeline::default();
        let start = Instant::ZERO;
        for (chunk, ms) in [(1, 0), (2, 150), (3, 4000)] {
            timeline.place(part(chunk), bucket_of(start, Span::from_millis(ms)));
        }
        let overdue = |timeline: &mut Timeline, ms| -> Vec<u32> {
            let passed = timeline.overdue(start + Span::from_millis(ms));
            passed.into_iter().map(|(_, chunk)| chunk.0).collect()
        };
        assert!(overdue(&mut timeline, 99).is_empty());
        assert_eq!(overdue(&mut timeline, 100), [1]);
        assert_eq!(overdue(&mut timeline, 200), [1, 2]);
        assert_eq!(overdue(&mut timeline, 3_600_000), [1, 2, 3], "after a jump of the clock");
    }
}
