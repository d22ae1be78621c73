//! The engine's mutex: the standard one, with a hook for a host that decides the interleaving.
//!
//! A simulation runs every task on a thread of its own and lets one run at a time. The hook is called for
//! every lock that is taken, and in place of blocking. So the simulation can switch threads wherever the
//! engine's threads could meet. For other hosts a lock costs one more read of a thread-local variable.
#![expect(clippy::disallowed_types, reason = "it is wrapped here")]

use std::cell::Cell;
pub(crate) use std::sync::MutexGuard;
use std::sync::{LockResult, TryLockError, TryLockResult};

/// A point at which a thread lets other threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before it takes a lock.
    Locking,
    /// After it took a lock.
    Locked,
    /// Another thread has the lock. The lock is tried again after the call.
    Contended,
}

thread_local! {
    static HOOK: Cell<Option<fn(Point)>> = const { Cell::new(None) };
}

/// Calls `hook` on this thread at every [`Point`] from this call on. The hook may let other threads run
/// meanwhile.
pub fn interleave(hook: Option<fn(Point)>) {
    HOOK.set(hook);
}

fn hook() -> Option<fn(Point)> {
    // It is also `None` while the thread ends.
    HOOK.try_with(Cell::get).ok().flatten()
}

/// As [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As [`std::sync::Mutex::lock`].
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let Some(hook) = hook() else { return self.0.lock() };
        hook(Point::Locking);
        loop {
            match self.0.try_lock() {
                Ok(guard) => {
                    hook(Point::Locked);
                    return Ok(guard);
                }
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => hook(Point::Contended),
            }
        }
    }

    /// As [`std::sync::Mutex::try_lock`].
    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let hook = hook();
        if let Some(hook) = hook {
            hook(Point::Locking);
        }
        let outcome = self.0.try_lock();
        if let (Ok(_), Some(hook)) = (&outcome, hook) {
            hook(Point::Locked);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static REACHED: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn a_host_is_told_of_every_lock_on_its_threads() {
        let mutex = Mutex::new(1);
        *mutex.lock().unwrap() += 1;
        interleave(Some(|_| {
            REACHED.fetch_add(1, Ordering::Relaxed);
        }));
        *mutex.lock().unwrap() += 1;
        let held = mutex.try_lock().unwrap();
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        interleave(None);
        assert_eq!((*held, REACHED.load(Ordering::Relaxed)), (3, 5));
    }
}
