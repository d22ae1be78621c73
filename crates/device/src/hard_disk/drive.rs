//! The drive as a device: events of commands, buffer, mechanism and bus. The bus is in `bus.rs`.
//!
//! A command arrives and costs its overhead. It starts when the mechanism is free or only reads ahead. A read
//! moves its blocks over the bus as they become available; a write fills the buffer while the arm seeks. With
//! a queue, the next command's seek starts while the data of the previous one still moves.

mod bus;

use std::collections::VecDeque;

use coscan_base::{Instant, Span};

use self::bus::Move;
use super::cache::{Cache, Hit, State};
use super::job::Job;
use super::mechanism::{Mechanism, Step, picos};
use super::model::{HardDiskModel, ReadAhead};
use super::schedule::Candidate;
use super::{BLOCK_BYTES, Picos};
use crate::completed::Completed;
use crate::transfer::BusyTime;
use crate::{Completion, Device, Request, RequestId, Transfer};

/// A hard disk. A revolution costs as many steps as a track has sectors.
#[derive(Debug)]
pub(crate) struct HardDisk {
    model: HardDiskModel,
    mechanism: Mechanism,
    cache: Cache,
    /// Commands that wait at the host because the drive is full.
    host: VecDeque<Request>,
    /// Commands in the drive, by arrival.
    commands: Vec<Command>,
    job: Option<Job>,
    /// End of an interrupted step.
    settled: Picos,
    /// The last destination of the mechanism.
    head_block: u64,
    moving: Option<Move>,
    last_was_read: bool,
    done: Completed,
    busy: BusyTime,
}

#[derive(Debug)]
struct Command {
    id: RequestId,
    first: u64,
    end: u64,
    read: bool,
    /// Earliest start of the mechanism.
    ready: Picos,
    /// Earliest move of data.
    bus_from: Picos,
    /// True if it arrived at a drive without other commands.
    alone: bool,
    /// The next block to move over the bus.
    next: u64,
    /// The segment of its blocks, once it is started.
    segment: Option<usize>,
}

/// The delay of an access that begins at the end of the last one. However short it is, the next sector has
/// already begun by then.
const SET_UP: Picos = 1;

impl HardDisk {
    /// An idle disk with an empty buffer and the arm outermost.
    pub fn new(model: &HardDiskModel) -> Self {
        HardDisk {
            mechanism: Mechanism::new(model),
            cache: Cache::new(model.cache.segments, model.cache.segment_blocks),
            model: model.clone(),
            host: VecDeque::new(),
            commands: Vec::new(),
            job: None,
            settled: 0,
            head_block: 0,
            moving: None,
            last_was_read: true,
            done: Completed::default(),
            busy: BusyTime::default(),
        }
    }

    fn block_time(&self) -> Picos {
        picos(self.model.bus.block)
    }

    // Events.

    fn next_event(&self) -> Option<Picos> {
        let mechanism = self.job.as_ref().map(|job| job.pass.at);
        mechanism.into_iter().chain(self.next_on_bus()).min()
    }

    fn catch_up(&mut self, now: Picos) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            if self.job.as_ref().is_some_and(|job| job.pass.at == at) {
                self.step(at);
            } else if self.moving.is_some_and(|moving| moving.until == at) {
                self.moved(at);
            }
            self.dispatch(at);
        }
    }

    /// Starts everything that can start.
    fn dispatch(&mut self, now: Picos) {
        self.admit(now);
        while self.start_next(now) {}
        self.move_next(now);
    }

    fn admit(&mut self, now: Picos) {
        while self.commands.len() < self.model.queue_depth as usize
            && let Some(request) = self.host.pop_front()
        {
            let overheads = &self.model.overheads;
            let read = request.kind == Transfer::Read;
            let overhead = match (read, self.last_was_read) {
                (true, _) => overheads.read_miss,
                (false, true) => overheads.write_after_read,
                (false, false) => overheads.write_after_write,
            };
            let first = request.offset / BLOCK_BYTES;
            let ready = now + picos(overhead);
            self.commands.push(Command {
                id: request.id,
                first,
                end: request.end().div_ceil(BLOCK_BYTES),
                read,
                ready,
                bus_from: ready,
                alone: self.commands.is_empty() && self.job.as_ref().is_none_or(|job| !job.foreground),
                next: first,
                segment: None,
            });
        }
    }

    // Commands.

    fn find(&self, read: &Command) -> Hit {
        self.cache.find(read.first, read.end, self.model.cache.stream_hits)
    }

    /// Starts a waiting command, if one can start.
    fn start_next(&mut self, now: Picos) -> bool {
        let waits = |command: &Command| command.segment.is_none();
        if self.model.cache.sneaky_hits {
            let hit = |c: &Command| c.read && matches!(self.find(c), Hit::Whole(_));
            if let Some(at) = self.commands.iter().position(|command| waits(command) && hit(command))
                && let Hit::Whole(segment) = self.find(&self.commands[at])
            {
                self.attach(at, segment, now);
                return true;
            }
        }
        // While the mechanism reads for a command, all other commands wait. This check saves time, because it
        // runs for every sector.
        if self.job.as_ref().is_some_and(|job| job.foreground && !job.pass.write) {
            return false;
        }
        let candidate = |(nth, c): (usize, &Command)| {
            let track = self.mechanism.geometry.track_of(c.first);
            Candidate {
                nth,
                first: c.first,
                cylinders: self.mechanism.cylinder.abs_diff(track.cylinder),
                positioning: self.mechanism.positioning(now.max(self.settled), c.first, c.end, !c.read),
                waited: now.saturating_sub(c.ready),
            }
        };
        let waiting = self.commands.iter().enumerate().filter(|(_, command)| waits(command));
        let Some(at) = self.model.schedule.choose(self.head_block, waiting.map(candidate)) else {
            return false;
        };
        if self.commands[at].read { self.start_read(at, now) } else { self.start_write(at, now) }
    }

    fn start_read(&mut self, at: usize, now: Picos) -> bool {
        if self.job.as_ref().is_some_and(|job| job.foreground) {
            return false;
        }
        let (first, end) = (self.commands[at].first, self.commands[at].end);
        let (segment, read_from) = match self.find(&self.commands[at]) {
            Hit::Whole(segment) => (segment, None),
            Hit::Partial(segment) => (segment, Some(self.cache.segments[segment].end)),
            Hit::None => {
                self.stop_reading_ahead();
                let Some(segment) = self.cache.victim(None) else { return false };
                self.cache.segments[segment].restart(State::Reading, first);
                self.begin(at, segment, first, now);
                self.attach(at, segment, now);
                self.extend(segment, end);
                return true;
            }
        };
        if self.job.as_ref().is_none_or(|job| job.segment != segment) {
            self.stop_reading_ahead();
        }
        match (&mut self.job, read_from) {
            (Some(job), Some(_)) => (job.foreground, job.goal) = (true, end),
            (None, Some(from)) => {
                self.cache.segments[segment].state = State::Reading;
                self.begin(at, segment, from, now);
            }
            (_, None) => {}
        }
        if self.commands[at].alone {
            self.commands[at].bus_from =
                self.commands[at].bus_from.max(now + picos(self.model.overheads.read_hit));
        }
        self.attach(at, segment, now);
        self.extend(segment, end);
        true
    }

    fn start_write(&mut self, at: usize, now: Picos) -> bool {
        let (first, end) = (self.commands[at].first, self.commands[at].end);
        if let Some(segment) = self.cache.dirty() {
            let dirty = &self.cache.segments[segment];
            let joins = first == dirty.end && first - dirty.unwritten < self.cache.size && dirty.users == 0;
            if joins && let Some(job) = self.job.as_mut().filter(|job| !job.combined) {
                (job.combined, job.then) = (true, Some(end));
                self.attach(at, segment, now);
                return true;
            }
            return false;
        }
        if self.job.as_ref().is_some_and(|job| job.foreground) {
            return false;
        }
        // Runs before the read-ahead ends: other blocks that it has read stay, even if they adjoin the write.
        let segment = self.cache.victim(Some((first, end)));
        self.cache.forget(first, end, segment);
        self.stop_reading_ahead();
        let Some(segment) = segment.or_else(|| self.cache.victim(None)) else { return false };
        self.cache.segments[segment].restart(State::Dirty, first);
        self.begin(at, segment, first, now);
        self.attach(at, segment, now);
        true
    }

    /// Assigns the segment to the command: its blocks are in the segment, or will be.
    fn attach(&mut self, at: usize, segment: usize, now: Picos) {
        self.cache.take(segment);
        let command = &mut self.commands[at];
        command.segment = Some(segment);
        command.bus_from = command.bus_from.max(now);
    }

    /// Sends the mechanism to a block.
    fn begin(&mut self, at: usize, segment: usize, block: u64, now: Picos) {
        let command = &self.commands[at];
        self.head_block = block;
        let from = now.max(command.ready).max(self.settled);
        let pass = self.mechanism.seek(from, block, !command.read);
        self.job = Some(Job::new(segment, pass, command.end));
    }

    /// The end of the blocks read after a read that ends before `end`.
    fn extend(&mut self, segment: usize, end: u64) {
        let until = match self.model.cache.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Blocks(blocks) => end + u64::from(blocks),
            ReadAhead::Tracks if end >= self.mechanism.geometry.blocks() => end,
            ReadAhead::Tracks => {
                let track = self.mechanism.geometry.track_of(end);
                let another = self.cache.segments[segment].start < track.first;
                track.end + if another { u64::from(track.sectors) } else { 0 }
            }
        };
        let segment = &mut self.cache.segments[segment];
        segment.read_until = segment.read_until.max(until.min(self.mechanism.geometry.blocks()));
    }

    /// Stops reading ahead; the arm finishes its step.
    fn stop_reading_ahead(&mut self) {
        if let Some(Job { segment, mut pass, .. }) = self.job.take() {
            self.settled = pass.at;
            if let Step::Seek(block) = pass.step {
                self.mechanism.arrive(&mut pass, block);
            }
            self.cache.segments[segment].state = State::Clean;
        }
    }

    // The mechanism.

    fn step(&mut self, now: Picos) {
        let Some(mut job) = self.job.take() else { return };
        match job.pass.step {
            Step::Seek(block) => self.mechanism.arrive(&mut job.pass, block),
            Step::Wait(sector) => self.enter(&mut job, sector, now),
            Step::Sector(sector, usable) => {
                if !self.passed(&mut job, sector, usable, now) {
                    return;
                }
            }
        }
        self.job = Some(job);
    }

    /// Handles the start of a sector's pass.
    fn enter(&self, job: &mut Job, sector: u32, now: Picos) {
        let Some(track) = &job.pass.track else { return };
        let usable = track.block_at(sector).is_some_and(|block| self.usable(job, block, now));
        job.pass.at = now + self.mechanism.width(track, sector);
        job.pass.step = Step::Sector(sector, usable);
    }

    /// True if a block that begins to pass can be read into the segment, or written from it.
    fn usable(&self, job: &Job, block: u64, now: Picos) -> bool {
        let segment = &self.cache.segments[job.segment];
        if job.pass.write {
            return block >= segment.unwritten && block < self.filled(job.segment, now);
        }
        let empty = segment.start == segment.end;
        let before = block < segment.start && !(self.model.cache.free_reads && empty);
        let held = (segment.start..segment.end).contains(&block);
        let users = self.commands.iter().filter(|command| command.segment == Some(job.segment));
        let room = users.map(|command| command.next + self.cache.size).min().is_none_or(|end| block < end);
        !before && !held && room
    }

    /// The block behind the last one in a segment, including moves in progress.
    fn filled(&self, segment: usize, now: Picos) -> u64 {
        let moved = |moving: &Move| match self.block_time() {
            0 => moving.blocks,
            time => ((now - moving.from) / time).min(moving.blocks),
        };
        let moving = self.moving.as_ref().filter(|moving| moving.segment == segment);
        self.cache.segments[segment].end + moving.map_or(0, moved)
    }

    /// Handles the end of a sector's pass. Returns true if there is more to do.
    fn passed(&mut self, job: &mut Job, sector: u32, usable: bool, now: Picos) -> bool {
        let Some(track) = job.pass.track.clone() else { return false };
        let filled = self.filled(job.segment, now);
        let size = self.cache.size;
        let segment = &mut self.cache.segments[job.segment];
        let block = track.block_at(sector).filter(|_| usable);
        let write = job.pass.write;
        let next = match (block, write) {
            (Some(block), true) => job.block_written(segment, block, filled.min(job.goal)),
            (Some(block), false) => job.block_read(segment, block, size),
            (None, true) => segment.unwritten,
            (None, false) => segment.end,
        };
        if write && next >= job.goal {
            let then = job.then.take();
            if then.is_none() {
                segment.state = State::Clean;
                self.settled = now;
            }
            self.write_through(job.segment, next, now);
            if let Some(goal) = then {
                // It is a separate access. It is set up after the end of the previous one, and misses the
                // sector that follows.
                job.goal = goal;
                job.leave_track();
                self.mechanism.go_on(&mut job.pass, now + SET_UP, next);
            }
            return then.is_some();
        }
        job.foreground = write || (job.foreground && next < job.goal);
        if !write && !job.foreground && next >= segment.read_until {
            segment.state = State::Clean;
            self.settled = now;
            return false;
        }
        if next >= track.end {
            job.leave_track();
            job.pass = self.mechanism.seek(now, next, write);
        } else {
            self.enter(job, (sector + 1) % track.sectors, now);
        }
        true
    }

    fn complete(&mut self, id: RequestId, now: Picos) {
        let Some(at) = self.commands.iter().position(|command| command.id == id) else { return };
        let command = self.commands.remove(at);
        if let Some(segment) = command.segment {
            self.cache.segments[segment].users -= 1;
        }
        self.last_was_read = command.read;
        self.done.push(instant(now), Completion { id, ok: true });
        self.busy.set(instant(now), !self.commands.is_empty() || !self.host.is_empty());
    }
}

/// The first nanosecond that is not before `at`.
fn instant(at: Picos) -> Instant {
    Instant::from_nanos(at.div_ceil(1000))
}

impl Device for HardDisk {
    /// # Panics
    /// If the request exceeds the end of the disk.
    fn submit(&mut self, now: Instant, request: Request) {
        let picos = now.as_nanos() * 1000;
        self.catch_up(picos);
        if request.bytes == 0 {
            self.done.push(now, Completion { id: request.id, ok: true });
            return;
        }
        let end = request.end().div_ceil(BLOCK_BYTES);
        assert!(end <= self.mechanism.geometry.blocks(), "a request beyond the end of the disk");
        self.busy.set(now, true);
        self.host.push_back(request);
        self.dispatch(picos);
    }

    fn next_completion(&self) -> Option<Instant> {
        let waiting = !self.commands.is_empty() || !self.host.is_empty();
        self.done.first().or_else(|| self.next_event().filter(|_| waiting).map(instant))
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now.as_nanos() * 1000);
        self.busy.set(now, !self.commands.is_empty() || !self.host.is_empty());
        self.done.drain_into(done);
    }

    fn busy(&self) -> Span {
        self.busy.total()
    }
}
