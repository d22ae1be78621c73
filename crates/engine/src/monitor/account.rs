//! The counters of all scans of one query.
//!
//! A query engine makes several scans for a query, one after another or at the same time. To follow a query,
//! open an account, pass it to [`Engine::scan_for`](crate::Engine::scan_for) and read it at any time, during
//! the query and after. Decisions do not depend on it, except for the query's weight, which the manager gets.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::monitor::stats::{ScanCounters, ScanMetrics};
use crate::sync::Mutex;

/// The account of one query.
#[derive(Debug)]
pub struct QueryAccount {
    id: u64,
    weight: u32,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    ended: QueryProgress,
    running: Vec<Arc<ScanCounters>>,
}

/// The progress of a query: the sum over the scans that it has begun. Scans that it begins later are not
/// known yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryProgress {
    /// The number of scans begun.
    pub scans: u64,
    /// The number of running scans.
    pub running: u64,
    /// Chunks that the scans announced, except those that turned out to be unneeded.
    pub chunks_wanted: u64,
    /// Encoded bytes that the scans announced.
    pub bytes_wanted: u64,
    /// The work done.
    pub done: ScanMetrics,
}

impl QueryAccount {
    /// An account of a query that is called `id` in [`ScanView::query`](crate::ScanView::query). `weight` is
    /// the weight of its scans compared to others, from 1 (normal) upwards.
    pub fn new(id: u64, weight: u32) -> Self {
        QueryAccount { id, weight: weight.max(1), books: Mutex::default() }
    }

    /// The query's name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The weight of its scans.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Its progress.
    pub fn progress(&self) -> QueryProgress {
        let books = self.books();
        let mut progress = books.ended.clone();
        books.running.iter().for_each(|scan| progress.add(scan));
        progress.running = books.running.len() as u64;
        progress
    }

    pub(crate) fn begin(&self, scan: &Arc<ScanCounters>) {
        self.books().running.push(scan.clone());
    }

    pub(crate) fn end(&self, scan: &Arc<ScanCounters>) {
        let mut books = self.books();
        let before = books.running.len();
        books.running.retain(|running| !Arc::ptr_eq(running, scan));
        if books.running.len() < before {
            books.ended.add(scan);
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueryProgress {
    fn add(&mut self, scan: &ScanCounters) {
        self.scans += 1;
        self.chunks_wanted += scan.chunks_wanted.saturating_sub(scan.chunks_unneeded.get());
        self.bytes_wanted += scan.bytes_wanted;
        self.done.add(&scan.metrics());
    }
}
