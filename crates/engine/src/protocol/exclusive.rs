//! A value that one task at a time works on. There is no queue: a task that finds it taken is woken when it
//! is free, and asks again. So a task that is never polled again cannot block the others.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{Mutex, MutexGuard};

/// A value with the tasks that wait for it.
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    /// `None` while a task works on it.
    value: Option<T>,
    /// True if it was cleared while a task worked on it.
    cleared: bool,
    /// The tasks that found it taken.
    waiting: Vec<Waker>,
}

/// The value while a task works on it; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a, T: Default> {
    of: &'a Exclusive<T>,
    value: T,
}

impl<T: Default> Exclusive<T> {
    /// A value that no task works on.
    pub(crate) fn new(value: T) -> Self {
        Exclusive { inner: Mutex::new(Inner { value: Some(value), cleared: false, waiting: Vec::new() }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the value. If it is taken, wakes `waker` when it is free.
    pub(crate) fn try_take(&self, waker: &Waker) -> Option<Taken<'_, T>> {
        let mut inner = self.inner();
        match inner.value.take() {
            Some(value) => Some(Taken { of: self, value }),
            None => {
                if !inner.waiting.iter().any(|known| known.will_wake(waker)) {
                    inner.waiting.push(waker.clone());
                }
                None
            }
        }
    }

    /// Replaces the value by the default: at once, or as soon as the task that works on it is done.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner();
        let before = match &mut inner.value {
            Some(value) => Some(std::mem::take(value)),
            None => {
                inner.cleared = true;
                None
            }
        };
        drop(inner);
        drop(before);
    }
}

impl<T: Default> Deref for Taken<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut value = std::mem::take(&mut self.value);
        let mut inner = self.of.inner();
        let stale = std::mem::take(&mut inner.cleared).then(|| std::mem::take(&mut value));
        inner.value = Some(value);
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        drop(stale);
        waiting.into_iter().for_each(Waker::wake);
    }
}
