//! The places of one registered scan: who waits, what was delivered, what is held.
//!
//! The buffer manager knows workers by number; here a number is a *seat*. Seats and the callers' workers
//! are not tied to each other: a chunk that arrives for a caller who is gone is taken by the next one, so
//! dropping a waiting future at any point loses nothing. This module keeps the books; it sends no events.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::{ChunkNo, ColumnSet, Event, ScanId, TableId, WorkerNo};

use crate::error::EngineError;
use crate::request::FileRead;
use crate::segments::Wanted;
use crate::stats::ScanCounters;
use crate::store::PinnedParts;
use crate::sync::Mutex;

/// A scan as the buffer manager knows it.
#[derive(Debug)]
pub(crate) struct CScan {
    pub(crate) id: ScanId,
    pub(crate) table: TableId,
    pub(crate) columns: ColumnSet,
    /// How many parts had become resident when it registered.
    pub(crate) registered: u64,
    /// Its chunks, as the request wants them.
    pub(crate) wanted: HashMap<ChunkNo, Wanted>,
    pub(crate) reads: Arc<[FileRead]>,
    pub(crate) counters: Arc<ScanCounters>,
    stall_after: Duration,
    seats: Mutex<Seats>,
}

#[derive(Debug)]
struct Seats {
    seats: Vec<Seat>,
    /// Callers who wait for a chunk, by their number.
    waiting: Vec<Option<Waker>>,
    /// The buffer manager has no further chunk for this scan.
    drained: bool,
    ended: Option<EngineError>,
    /// Tells chunks apart that are held on one seat one after another.
    serial: u64,
}

#[derive(Debug)]
enum Seat {
    Idle,
    Requested,
    /// Delivered, and nobody has taken it yet.
    Ready {
        chunk: ChunkNo,
        parts: Arc<PinnedParts>,
        since: Instant,
    },
    /// Delivered, and given back before anybody took it.
    Away,
    /// Its holder was done with it while it was given back: to be released as soon as it returns.
    Discarded,
    Held(Held),
}

#[derive(Debug)]
struct Held {
    serial: u64,
    /// None while the chunk is given back because its consumer stood still.
    parts: Option<Arc<PinnedParts>>,
    /// Given back and asked for again.
    requested: bool,
    /// The consumer is decoding right now.
    busy: bool,
    polled: Instant,
    /// When the buffer manager was last told that the consumer reads.
    reported: Instant,
    waker: Option<Waker>,
}

/// A chunk that a caller took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) seat: WorkerNo,
    serial: u64,
    pub(crate) chunk: ChunkNo,
}

/// How a caller's wish for a chunk can go on.
pub(crate) enum Wish {
    Granted(Claim),
    /// Send a request for this seat and ask again.
    Request(WorkerNo),
    Wait,
    /// There will be no further chunk.
    Drained,
    Failed(EngineError),
}

/// How a holder's wish for its parts can go on.
pub(crate) enum Grip {
    Parts(Arc<PinnedParts>),
    /// Send a request for the seat and ask again.
    Request(WorkerNo),
    Wait,
    Failed(EngineError),
}

/// What a delivery was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    New,
    /// A chunk that had been given back.
    Again,
    /// As above, and its holder does not want it any more: to be released.
    Unwanted,
}

/// Parts to drop and wakers to wake once no lock is held.
#[derive(Default)]
pub(crate) struct Loose {
    pub(crate) parts: Vec<Arc<PinnedParts>>,
    pub(crate) wakers: Vec<Waker>,
}

impl CScan {
    #[expect(clippy::too_many_arguments, reason = "the one constructor of a plain record")]
    pub(crate) fn new(
        id: ScanId,
        table: TableId,
        columns: ColumnSet,
        registered: u64,
        wanted: HashMap<ChunkNo, Wanted>,
        reads: Arc<[FileRead]>,
        counters: Arc<ScanCounters>,
        stall_after: Duration,
        seats: usize,
    ) -> Self {
        let seats = (0..seats).map(|_| Seat::Idle).collect();
        let seats = Seats { seats, waiting: Vec::new(), drained: false, ended: None, serial: 0 };
        let seats = Mutex::new(seats);
        CScan { id, table, columns, registered, wanted, reads, counters, stall_after, seats }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a chunk of this scan is read.
    pub(crate) fn read(&self, chunk: ChunkNo) -> &FileRead {
        &self.reads[self.wanted[&chunk].read]
    }

    /// The caller wants a chunk, now or when its waker is woken.
    pub(crate) fn wish(&self, caller: usize, now: Instant, waker: &Waker) -> Wish {
        let mut seats = self.seats();
        let wish = seats.wish(caller, now, waker);
        if !matches!(wish, Wish::Wait | Wish::Request(_)) {
            seats.waiting[caller] = None;
        }
        wish
    }

    /// The caller does not wait any more.
    pub(crate) fn unwish(&self, caller: usize) {
        if let Some(waiting) = self.seats().waiting.get_mut(caller) {
            *waiting = None;
        }
    }

    /// The holder wants its parts; it is busy until [`CScan::rest`].
    pub(crate) fn grip(&self, claim: &Claim, now: Instant, waker: &Waker) -> Grip {
        let mut seats = self.seats();
        if let Some(error) = &seats.ended {
            return Grip::Failed(error.clone());
        }
        let Some(held) = seats.held(claim) else { return Grip::Failed(EngineError::Closed) };
        held.polled = now;
        if let Some(parts) = held.parts.clone() {
            held.busy = true;
            return Grip::Parts(parts);
        }
        held.waker = Some(waker.clone());
        if held.requested {
            return Grip::Wait;
        }
        held.requested = true;
        Grip::Request(claim.seat)
    }

    /// The holder has finished a step. Returns the event that is to be sent, if any: the buffer manager
    /// is told now and then that the chunk is being read.
    pub(crate) fn rest(&self, claim: &Claim, now: Instant) -> Option<Event> {
        let mut seats = self.seats();
        let held = seats.held(claim)?;
        held.busy = false;
        held.polled = now;
        let due = held.polled.saturating_duration_since(held.reported) >= self.stall_after / 4;
        due.then(|| {
            held.reported = held.polled;
            Event::WorkerActive { scan: self.id, worker: claim.seat }
        })
    }

    /// The holder is done with its chunk. Returns the event that is to be sent, if any.
    pub(crate) fn release(&self, claim: &Claim, loose: &mut Loose) -> Option<Event> {
        let mut seats = self.seats();
        let held = seats.held(claim)?;
        let (parts, requested) = (held.parts.take(), held.requested);
        let (scan, worker) = (self.id, claim.seat);
        let (seat, event) = match (&parts, requested) {
            (Some(_), _) => (Seat::Idle, Some(Event::ChunkReleased { scan, worker })),
            (None, true) => (Seat::Discarded, None),
            (None, false) => (Seat::Idle, Some(Event::ChunkReleased { scan, worker })),
        };
        seats.seats[claim.seat.index()] = seat;
        loose.parts.extend(parts);
        loose.wakers.append(&mut wake_all(&seats.waiting));
        event
    }

    /// The buffer manager delivered.
    pub(crate) fn deliver(
        &self,
        seat: WorkerNo,
        chunk: ChunkNo,
        parts: Arc<PinnedParts>,
        now: Instant,
        loose: &mut Loose,
    ) -> Delivery {
        let mut seats = self.seats();
        match &mut seats.seats[seat.index()] {
            Seat::Held(held) => {
                held.parts = Some(parts);
                held.requested = false;
                held.polled = now;
                held.reported = held.polled;
                loose.wakers.extend(held.waker.take());
                Delivery::Again
            }
            discarded @ Seat::Discarded => {
                *discarded = Seat::Idle;
                loose.parts.push(parts);
                loose.wakers.append(&mut wake_all(&seats.waiting));
                Delivery::Unwanted
            }
            seat => {
                *seat = Seat::Ready { chunk, parts, since: now };
                loose.wakers.append(&mut wake_all(&seats.waiting));
                Delivery::New
            }
        }
    }

    /// The buffer manager has nothing more for this seat.
    pub(crate) fn drain(&self, seat: WorkerNo, loose: &mut Loose) {
        let mut seats = self.seats();
        seats.drained = true;
        if matches!(seats.seats[seat.index()], Seat::Requested) {
            seats.seats[seat.index()] = Seat::Idle;
        }
        loose.wakers.append(&mut wake_all(&seats.waiting));
    }

    /// The buffer manager asks the chunk back; returns whether it is given.
    pub(crate) fn suspend(&self, seat: WorkerNo, now: Instant, loose: &mut Loose) -> bool {
        let mut seats = self.seats();
        let anybody_waits = seats.waiting.iter().any(Option::is_some);
        match &mut seats.seats[seat.index()] {
            Seat::Held(held)
                if !held.busy && now.saturating_duration_since(held.polled) >= self.stall_after =>
            {
                // Asked twice before the first answer was heard: it is given back only once.
                let parts = held.parts.take();
                let given = parts.is_some();
                loose.parts.extend(parts);
                given
            }
            ready @ Seat::Ready { .. } => {
                let Seat::Ready { parts, since, .. } = &*ready else { return false };
                if anybody_waits && now.saturating_duration_since(*since) < self.stall_after {
                    return false;
                }
                loose.parts.push(parts.clone());
                *ready = Seat::Away;
                true
            }
            _ => false,
        }
    }

    /// Ends the scan: everything goes, everybody is told why.
    pub(crate) fn end(&self, error: EngineError, loose: &mut Loose) {
        let mut seats = self.seats();
        seats.ended.get_or_insert(error);
        for seat in &mut seats.seats {
            match std::mem::replace(seat, Seat::Idle) {
                Seat::Ready { parts, .. } => loose.parts.push(parts),
                Seat::Held(held) => {
                    loose.parts.extend(held.parts);
                    loose.wakers.extend(held.waker);
                }
                Seat::Idle | Seat::Requested | Seat::Away | Seat::Discarded => {}
            }
        }
        loose.wakers.append(&mut wake_all(&seats.waiting));
    }

    /// Whether every chunk was handed out and is finished.
    pub(crate) fn is_finished(&self) -> bool {
        let seats = self.seats();
        seats.drained && seats.seats.iter().all(|seat| matches!(seat, Seat::Idle))
    }
}

fn wake_all(waiting: &[Option<Waker>]) -> Vec<Waker> {
    waiting.iter().flatten().cloned().collect()
}

impl Seats {
    fn held(&mut self, claim: &Claim) -> Option<&mut Held> {
        match &mut self.seats[claim.seat.index()] {
            Seat::Held(held) if held.serial == claim.serial => Some(held),
            _ => None,
        }
    }

    fn wish(&mut self, caller: usize, now: Instant, waker: &Waker) -> Wish {
        if self.waiting.len() <= caller {
            self.waiting.resize(caller + 1, None);
        }
        if let Some(error) = &self.ended {
            return Wish::Failed(error.clone());
        }
        if let Some(at) = self.position(|seat| matches!(seat, Seat::Ready { .. })) {
            return Wish::Granted(self.take(at, now));
        }
        self.waiting[caller] = Some(waker.clone());
        let waiting = self.waiting.iter().flatten().count();
        let coming = self.seats.iter().filter(|seat| matches!(seat, Seat::Requested)).count();
        let away = self.position(|seat| matches!(seat, Seat::Away));
        if coming < waiting {
            let idle = || self.position(|seat| matches!(seat, Seat::Idle)).filter(|_| !self.drained);
            if let Some(at) = away.or_else(idle) {
                self.seats[at] = Seat::Requested;
                return Wish::Request(WorkerNo(at as u32));
            }
        }
        if self.drained && coming == 0 && away.is_none() { Wish::Drained } else { Wish::Wait }
    }

    fn position(&self, of: impl Fn(&Seat) -> bool) -> Option<usize> {
        self.seats.iter().position(of)
    }

    fn take(&mut self, at: usize, now: Instant) -> Claim {
        self.serial += 1;
        let serial = self.serial;
        let taken = std::mem::replace(&mut self.seats[at], Seat::Idle);
        let Seat::Ready { chunk, parts, .. } = taken else { unreachable!("seat {at} was ready a line ago") };
        let (parts, polled) = (Some(parts), now);
        let held =
            Held { serial, parts, requested: false, busy: false, polled, reported: polled, waker: None };
        self.seats[at] = Seat::Held(held);
        Claim { seat: WorkerNo(at as u32), serial, chunk }
    }
}
