//! The mechanism's current work: reading into a segment, or writing from it, block after block.

use super::cache::Segment;
use super::mechanism::Pass;

/// A run of blocks that the mechanism transfers.
#[derive(Debug)]
pub(super) struct Job {
    pub segment: usize,
    pub pass: Pass,
    /// The block behind the last that a command needs.
    pub goal: u64,
    /// The end of a write that was combined with this one in the buffer and is next: the block behind its
    /// last.
    pub then: Option<u64>,
    /// True if a write was combined with the first one; there is at most one, as in DiskSim 4.0.
    pub combined: bool,
    /// True if a command waits for the job. Otherwise it reads ahead, and any other command may end it.
    pub foreground: bool,
    /// Blocks of this track that passed early.
    early: Option<(u64, u64)>,
}

impl Job {
    pub fn new(segment: usize, pass: Pass, goal: u64) -> Self {
        Job { segment, pass, goal, then: None, combined: false, foreground: true, early: None }
    }

    /// Forgets early blocks: they belong to one track.
    pub fn leave_track(&mut self) {
        self.early = None;
    }

    /// The end of transfers on the track under the head: its end or the end of the wanted blocks.
    fn last(&self, wanted: u64) -> u64 {
        self.pass.track.as_ref().map_or(wanted, |track| wanted.min(track.end))
    }

    /// A block that may be read has passed. Returns the end of the segment's content.
    pub fn block_read(&mut self, segment: &mut Segment, block: u64, size: u64) -> u64 {
        let last = self.last(if self.foreground { self.goal } else { segment.read_until });
        if block < segment.start && segment.start == segment.end {
            // Passed before the first requested block: kept, because it is free.
            (segment.start, segment.end) = (block, block + 1);
        } else {
            segment.end = self.take(segment.end, block, last);
        }
        let held = self.early.map_or(segment.end, |(_, end)| end).max(segment.end);
        segment.wrap(held, size);
        segment.end
    }

    /// Notes that a block that may be written has passed, of those up to `end`. Returns the first block that
    /// is not on the disk.
    pub fn block_written(&mut self, segment: &mut Segment, block: u64, end: u64) -> u64 {
        let last = self.last(end);
        segment.unwritten = self.take(segment.unwritten, block, last);
        segment.unwritten
    }

    /// The end of the blocks without a gap after one more block, if it was `next` before.
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
