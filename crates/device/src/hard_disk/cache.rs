//! The buffer of a disk: segments, each a run of blocks. The least recently used segment is reused first.

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Empty.
    Empty,
    /// Data that is on the disk as well.
    Clean,
    /// The mechanism reads into the segment.
    Reading,
    /// Data that is not on the disk yet.
    Dirty,
}

/// A run of blocks in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub state: State,
    pub start: u64,
    pub end: u64,
    /// End of reading ahead.
    pub read_until: u64,
    /// The first block of a dirty segment that is not on the disk.
    pub unwritten: u64,
    /// Commands that move data out of it or into it.
    pub users: u32,
    /// Number of the last use; orders segments by recency.
    used: u64,
}

impl Segment {
    /// Empties the segment and restarts it at block `at`.
    pub fn restart(&mut self, state: State, at: u64) {
        *self = Segment { state, start: at, end: at, read_until: at, unwritten: at, ..self.clone() };
    }

    /// Drops the oldest blocks if there is no room for blocks up to `end`.
    pub fn wrap(&mut self, end: u64, size: u64) {
        self.start = self.start.max(end.saturating_sub(size).min(self.end));
    }

    fn overlaps(&self, first: u64, end: u64) -> bool {
        self.state != State::Empty && first < self.end && self.start < end
    }
}

/// The part of a read that the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// All of it, in this segment.
    Whole(usize),
    /// Its first block but not its last.
    Partial(usize),
    /// Not its first block.
    None,
}

/// All segments.
#[derive(Debug)]
pub(super) struct Cache {
    pub segments: Vec<Segment>,
    /// Blocks in each segment.
    pub size: u64,
    count: u64,
}

impl Cache {
    pub fn new(segments: u32, size: u32) -> Self {
        let empty =
            Segment { state: State::Empty, start: 0, end: 0, read_until: 0, unwritten: 0, users: 0, used: 0 };
        Cache { segments: vec![empty; segments as usize], size: u64::from(size), count: 0 }
    }

    /// The place of a read's blocks: newest data first, complete before partial.
    pub fn find(&self, first: u64, end: u64, stream_hits: bool) -> Hit {
        let freshness = |state| match state {
            State::Dirty => 3,
            State::Reading => 2,
            State::Clean => 1,
            State::Empty => 0,
        };
        let holds = |(_, segment): &(usize, &Segment)| {
            let comes_next = stream_hits && segment.state == State::Reading && first == segment.end;
            segment.state != State::Empty && ((segment.start..segment.end).contains(&first) || comes_next)
        };
        let rank = |segment: &Segment| (segment.end >= end, freshness(segment.state));
        let best = self.segments.iter().enumerate().filter(holds).max_by_key(|(_, segment)| rank(segment));
        match best {
            Some((at, segment)) if segment.end >= end => Hit::Whole(at),
            Some((at, _)) => Hit::Partial(at),
            None => Hit::None,
        }
    }

    /// A segment for blocks that are in none: an empty one, or the least recently used clean one that no
    /// command uses. A write prefers the segment that it makes stale.
    pub fn victim(&self, stale: Option<(u64, u64)>) -> Option<usize> {
        let free = |segment: &Segment| match segment.state {
            State::Empty => true,
            State::Clean => segment.users == 0,
            State::Reading | State::Dirty => false,
        };
        let is_stale = |segment: &Segment| stale.is_some_and(|(first, end)| segment.overlaps(first, end));
        let rank = |segment: &Segment| (!is_stale(segment), segment.state != State::Empty, segment.used);
        let candidates = self.segments.iter().enumerate().filter(|(_, segment)| free(segment));
        candidates.min_by_key(|(_, segment)| rank(segment)).map(|(at, _)| at)
    }

    /// Takes a segment for a command.
    pub fn take(&mut self, at: usize) {
        self.count += 1;
        self.segments[at].used = self.count;
        self.segments[at].users += 1;
    }

    /// Drops clean data that a write replaces.
    pub fn forget(&mut self, first: u64, end: u64, except: Option<usize>) {
        for (at, segment) in self.segments.iter_mut().enumerate() {
            if Some(at) != except
                && segment.state == State::Clean
                && segment.users == 0
                && segment.overlaps(first, end)
            {
                segment.state = State::Empty;
            }
        }
    }

    /// The segment with data that is not on the disk yet, if any; there is at most one.
    pub fn dirty(&self) -> Option<usize> {
        self.segments.iter().position(|segment| segment.state == State::Dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(cache: &mut Cache, at: usize, state: State, start: u64, end: u64) {
        cache.segments[at].restart(state, start);
        cache.segments[at].end = end;
        cache.take(at);
        cache.segments[at].users = 0;
    }

    #[test]
    fn a_read_finds_the_whole_before_a_part_and_dirty_data_first() {
        let mut cache = Cache::new(4, 100);
        assert_eq!(cache.find(5, 10, false), Hit::None);
        hold(&mut cache, 0, State::Dirty, 0, 8);
        hold(&mut cache, 1, State::Clean, 4, 10);
        assert_eq!(cache.find(5, 10, false), Hit::Whole(1));
        assert_eq!(cache.find(5, 11, false), Hit::Partial(0));
        assert_eq!(cache.find(10, 11, false), Hit::None);
    }

    #[test]
    fn stale_segments_go_first_then_empty_ones_then_the_least_recently_used() {
        let mut cache = Cache::new(3, 100);
        hold(&mut cache, 0, State::Clean, 0, 8);
        hold(&mut cache, 1, State::Clean, 100, 108);
        assert_eq!(cache.victim(None), Some(2));
        assert_eq!(cache.victim(Some((104, 105))), Some(1));
        hold(&mut cache, 2, State::Dirty, 300, 308);
        assert_eq!(cache.victim(None), Some(0));
        cache.segments[0].users = 1;
        assert_eq!(cache.victim(None), Some(1));
        cache.forget(100, 101, Some(0));
        assert_eq!(cache.segments[1].state, State::Empty);
    }
}
