//! The bytes that running statements read at each worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

/// Counts of a coordinator.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<HashMap<Url, u64>>);

impl Busy {
    /// The bytes of these workers.
    pub(crate) fn loads(&self, workers: &[Url]) -> Vec<u64> {
        let busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().map(|worker| busy.get(worker).copied().unwrap_or(0)).collect()
    }

    /// Counts a statement until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>, bytes: HashMap<Url, u64>) -> Running {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (worker, bytes) in &bytes {
            *busy.entry(worker.clone()).or_default() += bytes;
        }
        Running { busy: Arc::clone(self), bytes }
    }
}

/// A statement that runs.
#[derive(Debug)]
pub(crate) struct Running {
    busy: Arc<Busy>,
    bytes: HashMap<Url, u64>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut busy = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (worker, bytes) in &self.bytes {
            if let Some(of_worker) = busy.get_mut(worker) {
                *of_worker = of_worker.saturating_sub(*bytes);
            }
        }
        busy.retain(|_, bytes| *bytes > 0);
    }
}
