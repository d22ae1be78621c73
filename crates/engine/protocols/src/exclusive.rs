//! One value, tasks that work on it, and a task that clears it: the state of a part's decoder.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;
use loom::thread;

use crate::protocol::exclusive::Exclusive;
use crate::{Once, check, run};

#[test]
fn everybody_gets_his_turn_whatever_is_cleared_meanwhile() {
    check(3, || {
        let value = Arc::new(Exclusive::new(vec![7]));
        let worker = || {
            let value = value.clone();
            thread::spawn(move || {
                run(|cx| match value.try_take(cx.waker()) {
                    Some(mut taken) => {
                        taken.push(1);
                        Poll::Ready(())
                    }
                    None => Poll::Pending,
                });
            })
        };
        let threads = [worker(), worker()];
        value.clear();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let left = value.try_take(Waker::noop()).expect("nobody works on it");
        assert!(!left.contains(&7), "what was there before is cleared");
        assert!(left.len() <= 2);
    });
}

/// A wrong protocol: a lock that is tried, and wakers that a worker wakes when it is done. Clearing takes the
/// lock, too, but wakes no task.
#[derive(Default)]
struct TriedLock {
    value: Mutex<Vec<u32>>,
    waiting: Mutex<Vec<Waker>>,
}

impl TriedLock {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waiting.lock().unwrap().push(cx.waker().clone());
        match self.value.try_lock() {
            Ok(mut value) => value.push(1),
            Err(_) => return Poll::Pending,
        }
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        waiting.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }

    fn clear(&self) {
        if let Ok(mut value) = self.value.try_lock() {
            // Freeing takes some time.
            thread::yield_now();
            value.clear();
        }
    }
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_wake_up_lost_to_clearing_is_found() {
    check(3, || {
        let value = Arc::new(TriedLock::default());
        let clearing = value.clone();
        let clearing = thread::spawn(move || clearing.clear());
        let task = Once::poll(|cx| value.poll(cx));
        clearing.join().unwrap();
        task.goes_on();
    });
}

#[test]
fn clearing_loses_no_wake_up() {
    check(3, || {
        let value = Arc::new(Exclusive::new(vec![7]));
        let clearing = value.clone();
        let clearing = thread::spawn(move || clearing.clear());
        let task = Once::poll(|cx| value.try_take(cx.waker()).map_or(Poll::Pending, |_| Poll::Ready(())));
        clearing.join().unwrap();
        task.goes_on();
    });
}
