//! Parallel map over items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maps over threads; each takes the next item when it has finished one. Results are in the order of the
/// items.
pub(super) fn map<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut own = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            own.push((at, work(item)));
        }
        own
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(take)).collect();
        let joined = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(joined).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}
