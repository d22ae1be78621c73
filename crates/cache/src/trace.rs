//! A trace in memory: the page of each request.

use std::path::Path;
use std::sync::Arc;

use coscan_pool::{Future, PageSlot};

use crate::ids::Ids;
use crate::read::{self, read};
use crate::{CacheError, Format};

/// The requests of a trace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Trace {
    references: Arc<[PageSlot]>,
    distinct: usize,
}

impl Trace {
    /// The maximum number of requests of a trace.
    pub const REQUESTS_MAX: u64 = read::REQUESTS_MAX;

    /// Reads a trace file, or its first `most` requests. Memory: 4 bytes for each request, and while reading
    /// about 30 for each distinct id.
    ///
    /// # Errors
    /// The file cannot be read, is not in its format, or has no requests or too many.
    pub fn read(path: &Path, format: Option<&Format>, most: Option<u64>) -> Result<Self, CacheError> {
        let (mut ids, mut references) = (Ids::default(), Vec::new());
        read(path, format, most, &mut |request| references.push(PageSlot(ids.slot(request.id))))?;
        Ok(Trace { references: references.into(), distinct: ids.len() })
    }

    /// A trace of these pages. The pages should be numbered from zero without gaps, to save memory.
    pub fn of_pages(references: impl IntoIterator<Item = u32>) -> Self {
        let references: Arc<[PageSlot]> = references.into_iter().map(PageSlot).collect();
        let slots = references.iter().max().map_or(0, |page| page.0 as usize + 1);
        let mut seen = vec![false; slots];
        references.iter().for_each(|page| seen[page.0 as usize] = true);
        Trace { distinct: seen.into_iter().filter(|seen| *seen).count(), references }
    }

    /// The pages, in the order of requests.
    pub fn references(&self) -> &[PageSlot] {
        &self.references
    }

    /// The number of distinct pages.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// The future references of the trace: the next request for each page.
    ///
    /// # Errors
    /// If the trace is too long; a trace from [`read`](Self::read) is not.
    pub fn future(&self) -> Result<Future, CacheError> {
        Ok(Future::new(Arc::clone(&self.references))?)
    }
}
