//! Arm, heads and rotation: the times at which sectors pass a head.
//!
//! The mechanism moves in steps: a seek, the wait for a sector, then sector after sector. The drive decides
//! what to do with a sector that passes.

use coscan_base::Span;

use super::Picos;
use super::geometry::{Geometry, Track};
use super::model::HardDiskModel;
use super::seek::SeekCurve;

const PICOS_PER_MINUTE: u64 = 60_000_000_000_000;

pub(super) fn picos(span: Span) -> Picos {
    span.as_nanos() * 1000
}

/// The step of the mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Arrive on the track of this block.
    Seek(u64),
    /// Wait until this sector begins.
    Wait(u32),
    /// Let this sector pass. The flag, known at its start, says whether its block can be transferred.
    Sector(u32, bool),
}

/// A step and its end.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub at: Picos,
    pub step: Step,
    pub write: bool,
    /// The track under the head; `None` until the first seek has ended.
    pub track: Option<Track>,
}

/// The moving parts. The disk turns as if it passed its index mark at time zero.
#[derive(Debug)]
pub(super) struct Mechanism {
    pub geometry: Geometry,
    seeks: SeekCurve,
    period: Picos,
    head_switch: Picos,
    write_settle: Picos,
    zero_latency: bool,
    free_reads: bool,
    pub cylinder: u32,
    head: u32,
}

impl Mechanism {
    pub fn new(model: &HardDiskModel) -> Self {
        Mechanism {
            geometry: Geometry::new(model.heads, model.order, &model.zones),
            seeks: model.seeks.clone(),
            period: PICOS_PER_MINUTE / u64::from(model.rpm),
            head_switch: picos(model.head_switch),
            write_settle: picos(model.write_settle),
            zero_latency: model.zero_latency,
            free_reads: model.cache.free_reads,
            cylinder: 0,
            head: 0,
        }
    }

    fn seek_time(&self, cylinder: u32, head: u32, write: bool) -> Picos {
        let switch = if head == self.head { 0 } else { self.head_switch };
        let time = self.seeks.time(self.cylinder.abs_diff(cylinder)).max(switch);
        if write && time > 0 { time + self.write_settle } else { time }
    }

    /// Starts a seek to a block.
    pub fn seek(&self, from: Picos, block: u64, write: bool) -> Pass {
        let track = self.geometry.track_of(block);
        let at = from + self.seek_time(track.cylinder, track.head, write);
        Pass { at, step: Step::Seek(block), write, track: None }
    }

    /// Seek and rotation before a run of blocks, if the access started at `now`. This is the part of the
    /// access on their first track that moves none of them.
    pub fn positioning(&self, now: Picos, first: u64, end: u64, write: bool) -> Picos {
        let track = self.geometry.track_of(first);
        let seek = self.seek_time(track.cylinder, track.head, write);
        let there = now + seek;
        let (from, last) = (track.sector_of(first), track.sector_of(end.min(track.end) - 1));
        let until_first = self.until(&track, from, there);
        if !self.zero_latency || self.until(&track, last, there) >= until_first {
            return seek + until_first;
        }
        // The head lands among them: all have passed after one revolution.
        let behind = track.offset((last + 1) % track.sectors, self.period);
        let length = (behind + self.period - track.offset(from, self.period)) % self.period;
        seek + if length == 0 { 0 } else { self.period - length }
    }

    /// Ends a seek.
    pub fn arrive(&mut self, pass: &mut Pass, block: u64) {
        let track = self.geometry.track_of(block);
        (self.cylinder, self.head) = (track.cylinder, track.head);
        let sector = self.landing(&track, block, pass.at, pass.write);
        pass.at += self.until(&track, sector, pass.at);
        pass.step = Step::Wait(sector);
        pass.track = Some(track);
    }

    /// Continues with a block from the present position: waits for it on this track, or seeks.
    pub fn go_on(&self, pass: &mut Pass, from: Picos, block: u64) {
        match &pass.track {
            Some(track) if block < track.end => {
                let sector = track.sector_of(block);
                pass.at = from + self.until(track, sector, from);
                pass.step = Step::Wait(sector);
            }
            _ => *pass = self.seek(from, block, pass.write),
        }
    }

    /// The time a sector takes to pass.
    pub fn width(&self, track: &Track, sector: u32) -> Picos {
        let next = track.offset((sector + 1) % track.sectors, self.period);
        (next + self.period - track.offset(sector, self.period)) % self.period
    }

    fn until(&self, track: &Track, sector: u32, now: Picos) -> Picos {
        (track.offset(sector, self.period) + self.period - now % self.period) % self.period
    }

    /// The first sector of a transfer: that of the block. If sectors may come in any order and the head lands
    /// between that sector and the end of the track, it is the next one to pass.
    fn landing(&self, track: &Track, block: u64, now: Picos, write: bool) -> u32 {
        let wanted = track.sector_of(block);
        let any_order = self.zero_latency || (self.free_reads && !write && block != track.first);
        let phase = now % self.period;
        let start = track.offset(wanted, self.period);
        let behind = (phase + self.period - start) % self.period;
        let last = track.offset(track.sectors - 1, self.period);
        let length = (last + self.period - start) % self.period;
        if any_order && behind > 0 && behind < length {
            track.sector_from(phase, self.period)
        } else {
            wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::atlas10k;
    use super::*;

    /// Prevents an order by positioning time that lets reads of whole tracks wait for single blocks.
    #[test]
    fn a_whole_track_is_in_position_wherever_the_head_lands() {
        let mechanism = Mechanism::new(&atlas10k());
        let track = mechanism.geometry.track_of(0);
        let revolution = mechanism.period;
        let at = |nth: u64| nth * revolution / 97;
        let whole = (0..97).map(|nth| mechanism.positioning(at(nth), track.first, track.end, false));
        assert!(whole.max() < Some(revolution / 300), "a sector is one of 334");
        let single = (0..97).map(|nth| mechanism.positioning(at(nth), track.first, track.first + 1, false));
        assert!(single.max() > Some(revolution * 9 / 10));
    }
}
