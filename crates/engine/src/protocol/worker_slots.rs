//! The worker slots of one registered scan: slots that are requested, delivered, held or suspended, and
//! waiting callers.
//!
//! The buffer manager knows workers by number; here a number is a *slot*. A slot does not belong to a caller:
//! if the caller is gone when its chunk arrives, the next caller takes the chunk. So dropping a waiting
//! future at any point loses nothing. This module sends no events, wakes no task and frees nothing: work that
//! must be done without a lock is returned as [`Deferred`].
//!
//! `C` names a chunk, `P` is its parts in memory, `E` is the reason why a scan ended.

use std::sync::PoisonError;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard};

/// The worker slots of one scan.
#[derive(Debug)]
pub(crate) struct WorkerSlots<C, P, E> {
    /// The time without reading after which a consumer counts as stopped.
    stall_after: Duration,
    books: Mutex<Books<C, P, E>>,
}

#[derive(Debug)]
struct Books<C, P, E> {
    slots: Vec<Slot<C, P>>,
    /// Callers that wait for a chunk, by their number.
    waiting: Vec<Option<Waker>>,
    /// True if the buffer manager has no further chunk for this scan.
    drained: bool,
    ended: Option<E>,
    /// Distinguishes chunks that are held in one slot one after another.
    serial: u64,
}

#[derive(Debug)]
enum Slot<C, P> {
    Idle,
    Requested,
    /// Delivered, and not yet taken.
    Ready {
        chunk: C,
        parts: P,
        since: Instant,
    },
    /// Delivered, and given back before it was taken.
    Suspended,
    /// Its holder finished with it while it was suspended. It is released as soon as it returns.
    Discarded,
    Held(Held<P>),
}

#[derive(Debug)]
struct Held<P> {
    serial: u64,
    /// `None` while the chunk is suspended because its consumer stopped.
    parts: Option<P>,
    /// True if it is suspended and requested again.
    requested: bool,
    /// True if the consumer is decoding.
    busy: bool,
    polled: Instant,
    /// The time at which the buffer manager was last told that the consumer is reading.
    reported: Instant,
    waker: Option<Waker>,
}

/// A chunk that a caller has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<C> {
    pub(crate) slot: usize,
    serial: u64,
    pub(crate) chunk: C,
}

/// The state of a caller's wait for a chunk.
#[derive(Debug)]
pub(crate) enum ChunkPoll<C, E> {
    Ready(Claim<C>),
    /// Send a request for this slot and poll again.
    Request(usize),
    Pending,
    /// No chunk is left.
    Drained,
    Failed(E),
}

/// The state of a holder's wait for the parts of its chunk.
#[derive(Debug)]
pub(crate) enum PartsPoll<P, E> {
    Ready(P),
    /// Send a request for this slot and poll again.
    Request(usize),
    Pending,
    /// The chunk was released.
    Released,
    Failed(E),
}

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    New,
    /// A chunk that had been suspended.
    Resumed,
    /// A chunk that had been suspended and that its holder gave up: it has to be released.
    Unwanted,
}

/// Parts to drop and wakers to wake once no lock is held.
#[derive(Debug)]
pub(crate) struct Deferred<P> {
    pub(crate) parts: Vec<P>,
    pub(crate) wakers: Vec<Waker>,
}

impl<P> Default for Deferred<P> {
    fn default() -> Self {
        Deferred { parts: Vec::new(), wakers: Vec::new() }
    }
}

impl<C: Copy, P: Clone, E: Clone> WorkerSlots<C, P, E> {
    /// Creates this many slots, all idle.
    pub(crate) fn new(slots: usize, stall_after: Duration) -> Self {
        let slots = (0..slots).map(|_| Slot::Idle).collect();
        let books = Books { slots, waiting: Vec::new(), drained: false, ended: None, serial: 0 };
        WorkerSlots { stall_after, books: Mutex::new(books) }
    }

    fn books(&self) -> MutexGuard<'_, Books<C, P, E>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a chunk for the caller. If none is available, its waker is woken later.
    pub(crate) fn poll_chunk(&self, caller: usize, waker: &Waker, now: Instant) -> ChunkPoll<C, E> {
        let mut books = self.books();
        let outcome = books.poll_chunk(caller, waker, now);
        if !matches!(outcome, ChunkPoll::Pending | ChunkPoll::Request(_)) {
            books.waiting[caller] = None;
        }
        outcome
    }

    /// Ends the caller's wait.
    pub(crate) fn withdraw(&self, caller: usize) {
        if let Some(waiting) = self.books().waiting.get_mut(caller) {
            *waiting = None;
        }
    }

    /// Asks for the holder's parts. The holder is busy until [`Self::pause`].
    pub(crate) fn poll_parts(&self, claim: &Claim<C>, waker: &Waker, now: Instant) -> PartsPoll<P, E> {
        let mut books = self.books();
        if let Some(error) = &books.ended {
            return PartsPoll::Failed(error.clone());
        }
        let Some(held) = books.held(claim) else { return PartsPoll::Released };
        held.polled = now;
        if let Some(parts) = held.parts.clone() {
            held.busy = true;
            return PartsPoll::Ready(parts);
        }
        held.waker = Some(waker.clone());
        if held.requested {
            return PartsPoll::Pending;
        }
        held.requested = true;
        PartsPoll::Request(claim.slot)
    }

    /// Notes that the holder has finished a step. Returns whether to tell the buffer manager that the chunk
    /// is being read; that is due from time to time.
    pub(crate) fn pause(&self, claim: &Claim<C>, now: Instant) -> bool {
        let mut books = self.books();
        let Some(held) = books.held(claim) else { return false };
        held.busy = false;
        held.polled = now;
        let due = now.saturating_duration_since(held.reported) >= self.stall_after / 4;
        if due {
            held.reported = now;
        }
        due
    }

    /// Notes that the holder has finished its chunk. Returns whether to tell the buffer manager.
    pub(crate) fn release(&self, claim: &Claim<C>, deferred: &mut Deferred<P>) -> bool {
        let mut books = self.books();
        let Some(held) = books.held(claim) else { return false };
        let (parts, requested) = (held.parts.take(), held.requested);
        let coming = parts.is_none() && requested;
        books.slots[claim.slot] = if coming { Slot::Discarded } else { Slot::Idle };
        deferred.parts.extend(parts);
        books.wake_all(deferred);
        !coming
    }

    /// Gives back the holder's chunk, which it will get again. Returns its parts, if it had them.
    pub(crate) fn give_back(&self, claim: &Claim<C>) -> Option<P> {
        self.books().held(claim)?.parts.take()
    }

    /// Enters a delivery of the buffer manager.
    pub(crate) fn deliver(
        &self,
        slot: usize,
        chunk: C,
        parts: P,
        now: Instant,
        deferred: &mut Deferred<P>,
    ) -> Delivery {
        let mut books = self.books();
        match &mut books.slots[slot] {
            Slot::Held(held) => {
                held.parts = Some(parts);
                held.requested = false;
                held.polled = now;
                held.reported = now;
                deferred.wakers.extend(held.waker.take());
                Delivery::Resumed
            }
            discarded @ Slot::Discarded => {
                *discarded = Slot::Idle;
                deferred.parts.push(parts);
                books.wake_all(deferred);
                Delivery::Unwanted
            }
            slot => {
                *slot = Slot::Ready { chunk, parts, since: now };
                books.wake_all(deferred);
                Delivery::New
            }
        }
    }

    /// Notes that the buffer manager has no chunk left for this slot.
    pub(crate) fn drain(&self, slot: usize, deferred: &mut Deferred<P>) {
        let mut books = self.books();
        books.drained = true;
        if matches!(books.slots[slot], Slot::Requested) {
            books.slots[slot] = Slot::Idle;
        }
        books.wake_all(deferred);
    }

    /// Handles the buffer manager's request to give the chunk back. Returns whether it is given back.
    pub(crate) fn suspend(&self, slot: usize, now: Instant, deferred: &mut Deferred<P>) -> bool {
        let mut books = self.books();
        let anybody_waits = books.waiting.iter().any(Option::is_some);
        let stalled = |since: Instant| now.saturating_duration_since(since) >= self.stall_after;
        match &mut books.slots[slot] {
            Slot::Held(held) if !held.busy && stalled(held.polled) => {
                // The buffer manager asked twice before the first answer arrived. The chunk is given back
                // only once.
                let parts = held.parts.take();
                let given = parts.is_some();
                deferred.parts.extend(parts);
                given
            }
            ready @ Slot::Ready { .. } => {
                let Slot::Ready { parts, since, .. } = &*ready else { return false };
                if anybody_waits && !stalled(*since) {
                    return false;
                }
                deferred.parts.push(parts.clone());
                *ready = Slot::Suspended;
                true
            }
            _ => false,
        }
    }

    /// Ends the scan: releases everything, and gives all callers the error. The first reason counts.
    pub(crate) fn end(&self, error: E, deferred: &mut Deferred<P>) {
        let mut books = self.books();
        books.ended.get_or_insert(error);
        for slot in &mut books.slots {
            match std::mem::replace(slot, Slot::Idle) {
                Slot::Ready { parts, .. } => deferred.parts.push(parts),
                Slot::Held(held) => {
                    deferred.parts.extend(held.parts);
                    deferred.wakers.extend(held.waker);
                }
                Slot::Idle | Slot::Requested | Slot::Suspended | Slot::Discarded => {}
            }
        }
        books.wake_all(deferred);
    }

    /// Returns whether every chunk was handed out and is finished.
    pub(crate) fn is_finished(&self) -> bool {
        let books = self.books();
        books.drained && books.slots.iter().all(|slot| matches!(slot, Slot::Idle))
    }
}

impl<C: Copy, P: Clone, E: Clone> Books<C, P, E> {
    fn wake_all(&self, deferred: &mut Deferred<P>) {
        deferred.wakers.extend(self.waiting.iter().flatten().cloned());
    }

    fn held(&mut self, claim: &Claim<C>) -> Option<&mut Held<P>> {
        match &mut self.slots[claim.slot] {
            Slot::Held(held) if held.serial == claim.serial => Some(held),
            _ => None,
        }
    }

    fn poll_chunk(&mut self, caller: usize, waker: &Waker, now: Instant) -> ChunkPoll<C, E> {
        if self.waiting.len() <= caller {
            self.waiting.resize(caller + 1, None);
        }
        if let Some(error) = &self.ended {
            return ChunkPoll::Failed(error.clone());
        }
        for at in 0..self.slots.len() {
            if let Slot::Ready { chunk, .. } = self.slots[at] {
                return ChunkPoll::Ready(self.take(at, chunk, now));
            }
        }
        self.waiting[caller] = Some(waker.clone());
        let waiting = self.waiting.iter().flatten().count();
        let coming = self.slots.iter().filter(|slot| matches!(slot, Slot::Requested)).count();
        let suspended = self.position(|slot| matches!(slot, Slot::Suspended));
        if coming < waiting {
            let idle = || self.position(|slot| matches!(slot, Slot::Idle)).filter(|_| !self.drained);
            if let Some(at) = suspended.or_else(idle) {
                self.slots[at] = Slot::Requested;
                return ChunkPoll::Request(at);
            }
        }
        if self.drained && coming == 0 && suspended.is_none() {
            ChunkPoll::Drained
        } else {
            ChunkPoll::Pending
        }
    }

    fn position(&self, of: impl Fn(&Slot<C, P>) -> bool) -> Option<usize> {
        self.slots.iter().position(of)
    }

    /// Takes the ready chunk of a slot.
    fn take(&mut self, slot: usize, chunk: C, now: Instant) -> Claim<C> {
        self.serial += 1;
        let serial = self.serial;
        let parts = match std::mem::replace(&mut self.slots[slot], Slot::Idle) {
            Slot::Ready { parts, .. } => Some(parts),
            _ => None,
        };
        let held =
            Held { serial, parts, requested: false, busy: false, polled: now, reported: now, waker: None };
        self.slots[slot] = Slot::Held(held);
        Claim { slot, serial, chunk }
    }
}
