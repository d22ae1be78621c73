//! A hard disk as plain numbers, and their checks.

use coscan_base::Span;

use super::geometry::{Geometry, TrackOrder, Zone};
use super::schedule::Schedule;
use super::seek::SeekCurve;

/// A hard disk, accurate to the sector. Blocks are of 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardDiskModel {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Surfaces, each with a head.
    pub heads: u32,
    /// The order of tracks.
    pub order: TrackOrder,
    /// Zones from the outermost to the innermost.
    pub zones: Vec<Zone>,
    /// The arm.
    pub seeks: SeekCurve,
    /// Time until another head reads on the same cylinder; a longer seek includes it.
    pub head_switch: Span,
    /// Additional time of a write per seek and head switch.
    pub write_settle: Span,
    /// True if the blocks of a track are transferred in the order in which they pass the head.
    pub zero_latency: bool,
    /// The buffer.
    pub cache: DiskCache,
    /// The wire to the host.
    pub bus: DiskBus,
    /// Costs of a command before any movement.
    pub overheads: DiskOverheads,
    /// Commands that the drive holds at once; further ones wait at the host. With one, commands do not
    /// overlap.
    pub queue_depth: u32,
    /// Choice of the next command.
    pub schedule: Schedule,
}

/// A drive's buffer: equal segments, each a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// Number of segments.
    pub segments: u32,
    /// Blocks in each segment.
    pub segment_blocks: u32,
    /// Extent of reading after the requested blocks.
    pub read_ahead: ReadAhead,
    /// True if blocks that pass the head before the first requested one are kept.
    pub free_reads: bool,
    /// True if a write is complete when its blocks are in the buffer rather than on the disk.
    pub write_back: bool,
    /// True if a read that begins with the next block of the read-ahead lets the mechanism continue;
    /// otherwise the mechanism starts again.
    pub stream_hits: bool,
    /// True if a read that is wholly in the buffer may overtake commands that wait for the mechanism.
    pub sneaky_hits: bool,
}

/// The extent of a drive's read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// No read-ahead.
    None,
    /// To the end of the next block's track. If the data in the segment begins on an earlier track, to the
    /// end of the track after it.
    Tracks,
    /// This many blocks.
    Blocks(u32),
}

/// The wire between drive and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskBus {
    /// Time to move one block.
    pub block: Span,
    /// True if a command that has begun to move its data keeps the bus until all data is moved.
    pub hold: bool,
}

/// Costs of a command before any movement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskOverheads {
    /// A read whose first block is in the buffer when it arrives at an idle drive.
    pub read_hit: Span,
    /// Any other read.
    pub read_miss: Span,
    /// A write after a read.
    pub write_after_read: Span,
    /// A write after a write.
    pub write_after_write: Span,
}

/// The longest plausible seek curve point, overhead or switch.
const COST_MAX: Span = Span::from_millis(10_000);
/// Limit that keeps every product of the geometry within 64 bits.
const CYLINDERS_MAX: u32 = 1 << 24;

impl HardDiskModel {
    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        Geometry::new(self.heads, self.order, &self.zones).blocks()
    }

    /// The first blocks of the tracks from one block up to another: the boundaries that requests should not
    /// cross.
    ///
    /// # Panics
    /// If `to` is behind the end of the disk.
    pub fn track_starts(&self, from: u64, to: u64) -> Vec<u64> {
        let geometry = Geometry::new(self.heads, self.order, &self.zones);
        let (mut starts, mut block) = (Vec::new(), from);
        while block < to {
            let track = geometry.track_of(block);
            if track.first >= from {
                starts.push(track.first);
            }
            block = track.end;
        }
        starts
    }

    /// Returns the first implausible number, if any.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let wanted = |holds: bool, message: &'static str| if holds { Ok(()) } else { Err(message) };
        wanted((60..=1_000_000).contains(&self.rpm), "a disk turns 60 to 1000000 times a minute")?;
        wanted((1..=256).contains(&self.heads), "a disk has 1 to 256 heads")?;
        wanted(!self.zones.is_empty(), "a disk has at least one zone")?;
        let last: Vec<u32> = self.zones.iter().map(|zone| zone.last_cylinder).collect();
        wanted(last.is_sorted_by(|a, b| a < b), "zones end at ascending cylinders")?;
        wanted(last.last().is_some_and(|last| *last < CYLINDERS_MAX), "a disk has at most 2^24 cylinders")?;
        wanted(self.order != TrackOrder::Serpentine { tracks: 0 }, "a snake is at least one track long")?;
        let mut first = 0;
        for zone in &self.zones {
            let tracks = u64::from(zone.last_cylinder + 1 - first) * u64::from(self.heads);
            let sectors = tracks * u64::from(zone.sectors);
            wanted((2..=1 << 16).contains(&zone.sectors), "a track has 2 to 65536 sectors")?;
            wanted(u64::from(zone.spares) < sectors, "a zone has more sectors than spares")?;
            wanted(zone.slips.is_sorted_by(|a, b| a < b), "slipped sectors ascend")?;
            wanted(zone.slips.len() <= zone.spares as usize, "a zone has a spare for every slipped sector")?;
            first = zone.last_cylinder + 1;
        }
        let cache = &self.cache;
        wanted(cache.segments >= 2, "a disk's buffer has at least 2 segments")?;
        wanted(cache.segment_blocks >= 1, "a segment holds at least 1 block")?;
        wanted(self.queue_depth >= 1, "a disk holds at least 1 command")?;
        let DiskOverheads { read_hit, read_miss, write_after_read, write_after_write } = self.overheads;
        let costs = [read_hit, read_miss, write_after_read, write_after_write, self.head_switch];
        let longest = costs.into_iter().chain([self.write_settle, self.bus.block]).max();
        wanted(longest.is_some_and(|longest| longest <= COST_MAX), "a disk's overheads are below 10 s")
    }
}
