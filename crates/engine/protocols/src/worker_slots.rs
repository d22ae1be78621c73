//! Workers of a scan, the buffer manager and its loads, over the worker slots.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use loom::sync::Mutex;
use loom::thread;

use crate::protocol::worker_slots::{ChunkPoll, Claim, Deferred, Delivery, PartsPoll, WorkerSlots};
use crate::{check, run};

const STALL: Duration = Duration::from_secs(1);

/// The same time in every run: loom needs deterministic programs.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// A time at which a consumer that polled at the start counts as stopped.
fn late() -> Instant {
    start() + 2 * STALL
}

type Slots = WorkerSlots<u32, Arc<u32>, &'static str>;

/// The records of the buffer manager.
struct Books {
    /// Chunks that no worker has, in the order in which they become resident.
    ahead: VecDeque<u32>,
    /// The number of resident ones.
    resident: usize,
    /// Slots whose requests are unanswered.
    asking: VecDeque<usize>,
    /// The chunk that each slot holds or has had to give back.
    held: Vec<Option<u32>>,
    suspended: BTreeSet<usize>,
    released: BTreeSet<u32>,
}

/// A buffer manager that answers requests in their order, under a lock like the driver's.
struct Manager {
    slots: Slots,
    books: Mutex<Books>,
}

impl Manager {
    fn new(slots: usize, chunks: u32, resident: usize) -> Arc<Self> {
        let books = Books {
            ahead: (0..chunks).collect(),
            resident,
            asking: VecDeque::new(),
            held: vec![None; slots],
            suspended: BTreeSet::new(),
            released: BTreeSet::new(),
        };
        Arc::new(Manager { slots: WorkerSlots::new(slots, STALL), books: Mutex::new(books) })
    }

    /// Runs `work` under the lock; wakes and frees after it.
    fn turn(&self, work: impl FnOnce(&mut Books, &mut Deferred<Arc<u32>>)) {
        let mut deferred = Deferred::default();
        let mut books = self.books.lock().unwrap();
        work(&mut books, &mut deferred);
        self.answer(&mut books, &mut deferred);
        drop(books);
        deferred.wakers.into_iter().for_each(Waker::wake);
    }

    fn answer(&self, books: &mut Books, deferred: &mut Deferred<Arc<u32>>) {
        for slot in std::mem::take(&mut books.asking) {
            if books.suspended.remove(&slot) {
                let chunk = books.held[slot].expect("it was suspended");
                let unwanted = self.slots.deliver(slot, chunk, Arc::new(chunk), start(), deferred);
                if unwanted == Delivery::Unwanted {
                    books.held[slot] = None;
                    books.released.insert(chunk);
                }
            } else if books.resident > 0 {
                books.resident -= 1;
                let chunk = books.ahead.pop_front().expect("it is resident");
                assert_eq!(books.held[slot].replace(chunk), None, "slot {slot} asks while it holds");
                self.slots.deliver(slot, chunk, Arc::new(chunk), start(), deferred);
            } else if books.ahead.is_empty() {
                self.slots.drain(slot, deferred);
            } else {
                books.asking.push_back(slot);
            }
        }
    }

    fn loaded(&self) {
        self.turn(|books, _| books.resident += 1);
    }

    /// Asks a slot for its chunk, as if its consumer had stopped.
    fn suspend(&self, slot: usize) {
        self.turn(|books, deferred| {
            if self.slots.suspend(slot, late(), deferred) {
                assert!(books.held[slot].is_some() && books.suspended.insert(slot));
            }
        });
    }

    fn next(&self, caller: usize) -> Option<Claim<u32>> {
        run(|cx| {
            loop {
                match self.slots.poll_chunk(caller, cx.waker(), start()) {
                    ChunkPoll::Ready(claim) => return Poll::Ready(Some(claim)),
                    ChunkPoll::Request(slot) => self.turn(|books, _| books.asking.push_back(slot)),
                    ChunkPoll::Pending => return Poll::Pending,
                    ChunkPoll::Drained | ChunkPoll::Failed(_) => return Poll::Ready(None),
                }
            }
        })
    }

    /// Reads a chunk in one step.
    fn read(&self, claim: &Claim<u32>) {
        run(|cx| {
            loop {
                match self.slots.poll_parts(claim, cx.waker(), start()) {
                    PartsPoll::Ready(parts) => {
                        assert_eq!(*parts, claim.chunk);
                        self.slots.pause(claim, start());
                        return Poll::Ready(());
                    }
                    PartsPoll::Request(slot) => self.turn(|books, _| books.asking.push_back(slot)),
                    PartsPoll::Pending => return Poll::Pending,
                    PartsPoll::Released | PartsPoll::Failed(_) => return Poll::Ready(()),
                }
            }
        });
    }

    fn release(&self, claim: &Claim<u32>) {
        self.turn(|books, deferred| {
            if self.slots.release(claim, deferred) {
                books.suspended.remove(&claim.slot);
                let chunk = books.held[claim.slot].take().expect("it was held");
                books.released.insert(chunk);
            }
        });
    }

    fn worker(self: &Arc<Self>, caller: usize, reads: bool) -> thread::JoinHandle<()> {
        let manager = self.clone();
        thread::spawn(move || {
            while let Some(claim) = manager.next(caller) {
                if reads {
                    manager.read(&claim);
                }
                manager.release(&claim);
            }
        })
    }

    fn all_done(&self, chunks: u32) {
        assert!(self.slots.is_finished());
        let books = self.books.lock().unwrap();
        assert_eq!(books.released, (0..chunks).collect());
        assert!(books.held.iter().all(Option::is_none) && books.suspended.is_empty());
    }
}

#[test]
fn every_chunk_comes_once_and_every_worker_ends() {
    for slots in [1, 2] {
        check(2, move || {
            let manager = Manager::new(slots, 2, 1);
            let workers = [manager.worker(0, false), manager.worker(1, false)];
            manager.loaded();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            manager.all_done(2);
        });
    }
}

#[test]
fn a_chunk_that_is_asked_back_comes_again_to_whoever_waits() {
    for reads in [false, true] {
        check(3, move || {
            let manager = Manager::new(1, 1, 1);
            let worker = manager.worker(0, reads);
            manager.suspend(0);
            worker.join().unwrap();
            manager.all_done(1);
        });
    }
}

#[test]
fn what_comes_for_one_who_left_goes_to_another() {
    check(2, || {
        let manager = Manager::new(1, 1, 0);
        // The first caller asks, waits and leaves.
        let waker = Waker::noop();
        if let ChunkPoll::Request(slot) = manager.slots.poll_chunk(0, waker, start()) {
            manager.turn(|books, _| books.asking.push_back(slot));
        }
        let other = manager.worker(1, false);
        let leaving = manager.clone();
        let leaving = thread::spawn(move || leaving.slots.withdraw(0));
        manager.loaded();
        other.join().unwrap();
        leaving.join().unwrap();
        manager.all_done(1);
    });
}

#[test]
fn whoever_waits_when_the_scan_ends_is_told() {
    check(2, || {
        let manager = Manager::new(1, 1, 0);
        let workers = [manager.worker(0, true), manager.worker(1, true)];
        manager.turn(|books, deferred| {
            books.asking.clear();
            books.ahead.clear();
            manager.slots.end("the store is gone", deferred);
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
