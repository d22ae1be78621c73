//! A value that is gathered on one side and taken out on the other: the cell of a point read.

use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::sync::Mutex;
use loom::thread;

use crate::protocol::handoff::{Gathering, Handoff, Outcome};
use crate::{Once, check, run};

/// The number of gathered pieces, of two.
#[derive(Debug, PartialEq)]
struct Pieces(u32);

impl Gathering for Pieces {
    fn is_complete(&self) -> bool {
        self.0 == 2
    }
}

/// The driver's side: one step at a time, and the tasks to wake after it.
struct Driver {
    lock: Mutex<()>,
    cell: Handoff<Pieces, &'static str>,
}

impl Driver {
    fn new() -> Arc<Self> {
        Arc::new(Driver { lock: Mutex::new(()), cell: Handoff::new(Pieces(0)) })
    }

    fn step(&self, step: impl FnOnce(&Handoff<Pieces, &'static str>)) {
        let locked = self.lock.lock().unwrap();
        step(&self.cell);
        let waker = if self.cell.is_settled() { self.cell.take_waker() } else { None };
        drop(locked);
        waker.into_iter().for_each(Waker::wake);
    }

    fn put(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let driver = self.clone();
        thread::spawn(move || {
            driver.step(|cell| {
                cell.with(|pieces| pieces.0 += 1);
            });
        })
    }

    fn read(&self) -> Outcome<Pieces, &'static str> {
        run(|cx| self.cell.poll(cx))
    }
}

#[test]
fn what_is_complete_is_taken_out_once() {
    check(3, || {
        let driver = Driver::new();
        let threads = [driver.put(), driver.put()];
        assert!(matches!(driver.read(), Outcome::Complete(Pieces(2))));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(matches!(driver.read(), Outcome::Taken));
    });
}

#[test]
fn revoked_or_failed_it_ends_all_the_same() {
    check(3, || {
        let driver = Driver::new();
        let put = driver.put();
        let revoking = driver.clone();
        let revoke = thread::spawn(move || {
            let mut gone = false;
            revoking.step(|cell| gone = cell.revoke());
            assert!(gone, "one piece is missing: the reader cannot have it");
        });
        assert!(matches!(driver.read(), Outcome::Revoked));
        put.join().unwrap();
        revoke.join().unwrap();
    });
    check(3, || {
        let driver = Driver::new();
        let failing = driver.clone();
        let fail = thread::spawn(move || failing.step(|cell| cell.fail("unreadable")));
        let put = driver.put();
        assert!(matches!(driver.read(), Outcome::Failed("unreadable")));
        fail.join().unwrap();
        put.join().unwrap();
    });
}

#[test]
fn revoking_tells_whether_the_reader_was_faster() {
    check(3, || {
        let driver = Driver::new();
        driver.cell.with(|pieces| pieces.0 = 2);
        let reading = driver.clone();
        let reader = thread::spawn(move || matches!(reading.read(), Outcome::Complete(_)));
        let mut gone = false;
        driver.step(|cell| gone = cell.revoke());
        let complete = reader.join().unwrap();
        assert_eq!(complete, !gone, "either the reader has it or nobody");
    });
}

/// A wrong cell: its reader looks first and then leaves its waker, without looking again.
#[derive(Default)]
struct LooksOnce {
    complete: Mutex<bool>,
    waker: Mutex<Option<Waker>>,
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_wake_up_between_look_and_waker_is_found() {
    check(3, || {
        let cell = Arc::new(LooksOnce::default());
        let writing = cell.clone();
        let writer = thread::spawn(move || {
            *writing.complete.lock().unwrap() = true;
            let waker = writing.waker.lock().unwrap().take();
            waker.into_iter().for_each(Waker::wake);
        });
        let task = Once::poll(|cx| {
            if *cell.complete.lock().unwrap() {
                return Poll::Ready(());
            }
            *cell.waker.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        });
        writer.join().unwrap();
        task.goes_on();
    });
}
