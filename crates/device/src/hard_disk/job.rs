//! What the mechanism is doing: reading into a segment, or writing from it, block after block.

use super::cache::Segment;
use super::mechanism::Pass;

/// A run of blocks that the mechanism transfers.
#[derive(Debug)]
pub(super) struct Job {
    pub segment: usize,
    pub pass: Pass,
    /// The block behind the last that a command needs.
    pub goal: u64,
    /// A write that was combined with this one in the buffer and is next: the block behind its last.
    pub then: Option<u64>,
    /// Whether a write was combined with the one it began with; there is one at most, as in DiskSim 4.0.
    pub combined: bool,
    /// Whether a command waits for it; otherwise it reads ahead, and any other command may end it.
    pub foreground: bool,
    /// Blocks of this track that passed before their turn.
    early: Option<(u64, u64)>,
}

impl Job {
    pub fn new(segment: usize, pass: Pass, goal: u64) -> Self {
        Job { segment, pass, goal, then: None, combined: false, foreground: true, early: None }
    }

    /// What was taken before its turn belongs to one track.
    pub fn leave_track(&mut self) {
        self.early = None;
    }

    /// Where transfers on the track under the head end: at its end or at the end of what is wanted.
    fn last(&self, wanted: u64) -> u64 {
        self.pass.track.as_ref().map_or(wanted, |track| wanted.min(track.end))
    }

    /// A block that may be read has passed. Returns the end of what the segment holds.
    pub fn block_read(&mut self, segment: &mut Segment, block: u64, size: u64) -> u64 {
        let last = self.last(if self.foreground { self.goal } else { segment.read_until });
        if block < segment.start && segment.start == segment.end {
            // Passed before the first that was asked for: kept, because it is free.
            (segment.start, segment.end) = (block, block + 1);
        } else {
            segment.end = self.take(segment.end, block, last);
        }
        let held = self.early.map_or(segment.end, |(_, end)| end).max(segment.end);
        segment.wrap(held, size);
        segment.end
    }

    /// A block that may be written has passed, of those up to `end`. Returns the first that is not on the disk.
    pub fn block_written(&mut self, segment: &mut Segment, block: u64, end: u64) -> u64 {
        let last = self.last(end);
        segment.unwritten = self.take(segment.unwritten, block, last);
        segment.unwritten
    }

    /// Where the blocks without a gap end after one more, if they ended at `next` before.
    fn take(&mut self, next: u64, block: u64, last: u64) -> u64 {
        if block == next {
            return match self.early.take_if(|(first, _)| *first == block + 1) {
                Some((_, end)) => end,
                None => block + 1,
            };
        }
        match &mut self.early {
            None if block > next && block < last => self.early = Some((block, block + 1)),
            Some((_, end)) if block == *end && block < last => *end += 1,
            Some((first, end)) if block > *end && block < last => (*first, *end) = (block, block + 1),
            _ => {}
        }
        next
    }
}
