//! The counters of all scans of one query.
//!
//! A query engine makes several scans for a query, one after another or at the same time. To follow a query, open an
//! account, pass it to [`Engine::scan_for`](crate::Engine::scan_for) and read it at any time, during the query and
//! after. No decision depends on it, except for the query's weight, which goes to the manager.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::stats::{ScanCounters, ScanMetrics};
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

/// The progress of a query: that of the scans it has begun. Scans that it begins later are not known yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryProgress {
    /// Scans begun.
    pub scans: u64,
    /// Those of them that are running.
    pub running: u64,
    /// Chunks that the scans announced, without those that turned out not to be needed.
    pub chunks_wanted: u64,
    /// Encoded bytes that the scans announced.
    pub bytes_wanted: u64,
    /// What they have done.
    pub done: ScanMetrics,
}

impl QueryAccount {
    /// An account of a query that is called `id` in [`ScanView::query`](crate::ScanView::query), with the weight of
    /// its scans against others', from 1 (normal) upwards.
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
