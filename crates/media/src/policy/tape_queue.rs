//! *Tape queue*: requests wait in the queue of their medium until a mount pays. They are then served in the
//! order of the medium.
//!
//! Large archives run their libraries in this way (CERN's CTA, HPSS). A mount is due when enough bytes or
//! requests are queued, or the oldest request is old enough. A mounted medium is served in batches, each
//! ordered for the drive, until its queue is empty. The policy ignores which fragments are wanted together or
//! cached. **Choices**: of the media that are due, the one with the oldest request is first; a batch is one
//! sweep in the order of positions. **Cost:** O(media + log n) per decision.

use std::collections::BTreeMap;

use coscan_base::Span;

use super::MediaPolicy;
use super::view::View;
use crate::choice::{Choice, Demand, Why};
use crate::ids::{DriveId, FragmentId, MediumId};

/// Conditions for a mount, and the length of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapeQueueConfig {
    /// This many bytes in a queue make its medium due.
    pub due_bytes: u64,
    /// This many requests make it due.
    pub due_requests: usize,
    /// A request of this age makes it due.
    pub due_age: Span,
    /// A batch ends at this many bytes.
    pub batch_bytes: u64,
    /// Or at this many requests.
    pub batch_requests: usize,
}

impl Default for TapeQueueConfig {
    /// The numbers of CTA, with an age of ten minutes.
    fn default() -> Self {
        TapeQueueConfig {
            due_bytes: 500_000_000_000,
            due_requests: 10_000,
            due_age: Span::from_millis(600_000),
            batch_bytes: 80_000_000_000,
            batch_requests: 4_000,
        }
    }
}

/// The policy with custom parameters.
#[derive(Clone, Debug, Default)]
pub struct TapeQueue {
    config: TapeQueueConfig,
    /// The rest of each drive's batch, with its medium; the next request is last.
    batches: BTreeMap<DriveId, (MediumId, Vec<FragmentId>)>,
}

impl From<TapeQueueConfig> for Box<dyn MediaPolicy> {
    fn from(config: TapeQueueConfig) -> Self {
        Box::new(TapeQueue { config, batches: BTreeMap::new() })
    }
}

impl TapeQueue {
    /// The next request of the batch, or of a new batch; `None` if the queue is empty.
    fn next_of(&mut self, view: &View<'_>, drive: DriveId, medium: MediumId) -> Option<FragmentId> {
        let batch = self.batches.entry(drive).or_insert((medium, Vec::new()));
        if batch.0 != medium {
            *batch = (medium, Vec::new());
        }
        while let Some(next) = batch.1.last() {
            if view.is_pending(*next) {
                return Some(*next);
            }
            batch.1.pop();
        }
        let mut bytes = 0;
        for wanted in view.pending_by_age(medium).take(self.config.batch_requests) {
            batch.1.push(wanted.id);
            bytes += wanted.bytes;
            if bytes >= self.config.batch_bytes {
                break;
            }
        }
        batch.1.sort_by_key(|id| std::cmp::Reverse((view.position(*id), *id)));
        batch.1.last().copied()
    }
}

impl MediaPolicy for TapeQueue {
    fn demand(&self) -> Demand {
        Demand::All
    }

    fn keeps_wanted(&self) -> bool {
        false
    }

    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice {
        if let Some(mounted) = view.mounted(drive)
            && let Some(next) = self.next_of(view, drive, mounted)
        {
            let why = Why::Mounted { lists: view.lists_wanting(next) };
            return if view.has_room(next) { Choice::Fetch(next, why) } else { Choice::Wait(None) };
        }
        let mut deadline = None;
        let mut due: Option<(coscan_base::Instant, MediumId, Why)> = None;
        for wanted in view.media().filter(|wanted| view.free_for(wanted.medium, drive)) {
            let waited = view.now().since(wanted.oldest);
            let why = if wanted.bytes >= self.config.due_bytes || wanted.fragments >= self.config.due_requests
            {
                Why::QueueFull { bytes: wanted.bytes, fragments: wanted.fragments }
            } else if waited >= self.config.due_age {
                Why::QueueOld { waited }
            } else {
                let at = wanted.oldest + self.config.due_age;
                deadline = Some(deadline.map_or(at, |known: coscan_base::Instant| known.min(at)));
                continue;
            };
            if due.is_none_or(|(oldest, medium, _)| (wanted.oldest, wanted.medium) < (oldest, medium)) {
                due = Some((wanted.oldest, wanted.medium, why));
            }
        }
        let Some((_, medium, why)) = due else { return Choice::Wait(deadline) };
        match self.next_of(view, drive, medium) {
            Some(next) if view.has_room(next) => Choice::Fetch(next, why),
            _ => Choice::Wait(deadline),
        }
    }

    fn boxed_clone(&self) -> Box<dyn MediaPolicy> {
        Box::new(self.clone())
    }
}
