//! Joins parts to requests: the neighbours that one request reads. Pure.

use std::ops::Range;

/// The maximum size of a request for several parts. A single part may be larger.
pub(crate) const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// The maximum number of parts per request, far below the 1024 buffers of one `preadv`.
const REQUEST_PARTS_MAX: usize = 256;
const _: () = assert!(2 * REQUEST_PARTS_MAX < 1024);

/// The parts that one request may read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joins {
    /// The maximum distance of neighbours in bytes.
    pub(crate) gap: u64,
    /// The maximum size of a request for several parts. A single part may be larger.
    pub(crate) bytes_max: u64,
    /// Boundaries that requests do not cross: bytes from one to the next, and from the start of the file to
    /// the first.
    pub(crate) boundary: Option<(u64, u64)>,
}

impl Joins {
    /// Neighbours at most `gap` bytes apart, wherever they are.
    pub(crate) fn within(gap: u64) -> Self {
        Joins { gap, bytes_max: REQUEST_BYTES_MAX, boundary: None }
    }

    /// Returns whether a request must end between the end of one part and the start of the next.
    pub(crate) fn cut_between(&self, end: u64, start: u64) -> bool {
        self.boundary.is_some_and(|(period, offset)| {
            let before = |at: u64| (at + period - offset % period) / period;
            // A boundary at the end of the first part counts; one within its last byte does not.
            before(start) > before(end.saturating_sub(1))
        })
    }
}

/// Groups parts into requests: neighbours that `joins` allows. Takes ranges in order of urgency. Returns
/// groups of their positions, by offset within a group; the group with the most urgent part is first.
pub(crate) fn coalesce(ranges: &[Range<u64>], joins: &Joins) -> Vec<Vec<usize>> {
    let mut by_offset: Vec<usize> = (0..ranges.len()).collect();
    by_offset.sort_by_key(|&at| ranges[at].start);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in by_offset {
        let range = &ranges[at];
        let together = groups.last().is_some_and(|group| {
            let (first, last) = (&ranges[group[0]], &ranges[group[group.len() - 1]]);
            group.len() < REQUEST_PARTS_MAX
                && range.start >= last.end
                && range.start - last.end <= joins.gap
                && range.end - first.start <= joins.bytes_max
                && !joins.cut_between(last.end, range.start)
        });
        match groups.last_mut() {
            Some(group) if together => group.push(at),
            _ => groups.push(vec![at]),
        }
    }
    groups.sort_by_key(|group| group.iter().min().copied());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_go_together_and_the_urgent_come_first() {
        let ranges = [500..600, 0..100, 110..200, 1000..1001, 600..700];
        assert_eq!(coalesce(&ranges, &Joins::within(10)), vec![vec![0, 4], vec![1, 2], vec![3]]);
        assert_eq!(coalesce(&ranges, &Joins::within(0)), vec![vec![0, 4], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn requests_end_at_boundaries() {
        let joins = Joins { boundary: Some((100, 0)), ..Joins::within(10) };
        assert_eq!(coalesce(&[90..98, 101..120, 121..130], &joins), vec![vec![0], vec![1, 2]]);
    }

    #[test]
    fn overlapping_or_huge_parts_stay_apart() {
        assert_eq!(coalesce(&[0..100, 50..150], &Joins::within(10)), vec![vec![0], vec![1]]);
        let big = REQUEST_BYTES_MAX;
        assert_eq!(coalesce(&[0..big, big..big + 1], &Joins::within(10)).len(), 2);
    }

    #[test]
    fn cuts_lie_where_boundaries_are() {
        let joins = Joins { gap: 10, bytes_max: 1000, boundary: Some((100, 30)) };
        assert!(joins.cut_between(125, 135) && joins.cut_between(130, 130) && joins.cut_between(125, 130));
        assert!(!joins.cut_between(131, 135) && !joins.cut_between(120, 129));
        assert!(!Joins::within(10).cut_between(125, 135));
    }
}
