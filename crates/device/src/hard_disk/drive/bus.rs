//! The bus: the choice of the command whose blocks move next, and the effects of the move.

use super::{Command, HardDisk};
use crate::RequestId;
use crate::hard_disk::Picos;

/// Blocks on the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) command: RequestId,
    pub(super) segment: usize,
    pub(super) blocks: u64,
    pub(super) from: Picos,
    pub(super) until: Picos,
}

impl HardDisk {
    pub(super) fn next_on_bus(&self) -> Option<Picos> {
        match self.moving {
            Some(moving) => Some(moving.until),
            None => self.movable().map(|(at, _, _)| self.commands[at].bus_from).min(),
        }
    }

    /// Commands whose blocks can move, each with the segment and the number of blocks.
    fn movable(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let movable = |(at, command): (usize, &Command)| {
            let segment = command.segment?;
            let held = &self.cache.segments[segment];
            let blocks = if command.read {
                let ready = (held.start..held.end).contains(&command.next);
                if ready { held.end.min(command.end) - command.next } else { 0 }
            } else {
                let room = (held.unwritten + self.cache.size).saturating_sub(command.next);
                room.min(command.end - command.next)
            };
            (blocks > 0).then_some((at, segment, blocks))
        };
        self.commands.iter().enumerate().filter_map(movable)
    }

    pub(super) fn move_next(&mut self, now: Picos) {
        if self.moving.is_some() {
            return;
        }
        let begun = |c: &Command| c.next > c.first && c.next < c.end;
        let holder = self.commands.iter().position(|c| self.model.bus.hold && begun(c));
        let may = |(at, _, _): &(usize, usize, u64)| {
            self.commands[*at].bus_from <= now && holder.is_none_or(|holder| holder == *at)
        };
        // A command that has begun continues; otherwise the first to arrive is next.
        let next = self.movable().filter(may).min_by_key(|(at, _, _)| (!begun(&self.commands[*at]), *at));
        if let Some((at, segment, blocks)) = next {
            let until = now + blocks * self.block_time();
            self.moving = Some(Move { command: self.commands[at].id, segment, blocks, from: now, until });
        }
    }

    pub(super) fn moved(&mut self, now: Picos) {
        let Some(Move { command: id, segment, blocks, .. }) = self.moving.take() else { return };
        let Some(command) = self.commands.iter_mut().find(|command| command.id == id) else { return };
        command.next += blocks;
        let (read, next, end) = (command.read, command.next, command.end);
        if !read {
            let size = self.cache.size;
            let segment = &mut self.cache.segments[segment];
            segment.end = segment.end.max(next);
            segment.wrap(segment.end, size);
        }
        if next == end && (read || self.model.cache.write_back) {
            self.complete(id, now);
        }
    }

    /// Completes writes without write-back: such a write is complete when it is on the disk, which is written
    /// up to `end`.
    pub(super) fn write_through(&mut self, segment: usize, end: u64, now: Picos) {
        if self.model.cache.write_back {
            return;
        }
        let written = |c: &&Command| !c.read && c.segment == Some(segment) && c.next == c.end && c.end <= end;
        let written: Vec<RequestId> = self.commands.iter().filter(written).map(|c| c.id).collect();
        for id in written {
            self.complete(id, now);
        }
    }
}
