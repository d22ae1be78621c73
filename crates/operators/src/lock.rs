//! Locks of state that is changed only in single steps.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere, for example in a query's own function, does not corrupt such state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
