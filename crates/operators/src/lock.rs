//! Locks of state that is changed in single steps only.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic of somebody else, in a query's own function for example, does not spoil such state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
