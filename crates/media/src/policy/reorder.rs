//! *Reorder*: one scheduler for all users fetches the fragment that helps most of them.
//!
//! Source: 1996, sections 2 and 3. Finish the mounted platter before switching, prefer fragments that many
//! lists want, use cached fragments first, keep wanted fragments in the cache. The paper leaves the algorithm
//! to its reference 29. **Choices**:
//!
//! - On the mounted medium, fetch in one sweep from the head onwards. Fragments that complete a subquery with
//!   the cached and arriving ones go first; among those ahead of the head, the ones of most lists. Then any
//!   wanted fragment goes, as long as it evicts no wanted fragment and leaves room for one more of its size.
//! - If the mounted medium has nothing to fetch, mount the medium whose oldest request has waited longest, so
//!   that no request waits forever. Of several that have waited equally long, take the one with the highest
//!   worth. The worth is the number of lists served, times the bytes that complete subqueries or fit into the
//!   free room, divided by the time of switch, seeks and transfer. That worth alone, or weighed against
//!   waiting, delays rare requests (`docs/slow-media.md`).
//! - A fragment that needs more room than is free may evict the least wanted fragments only if it completes a
//!   subquery.
//!
//! The scheduler overrides the policy for lists that have waited too long. **Cost:** a decision on the
//! mounted medium is linear in its wanted fragments, a switch linear in all wanted fragments.

use coscan_base::Span;

use super::MediaPolicy;
use super::view::View;
use crate::choice::{Choice, Demand, Why};
use crate::fragment::Fragment;
use crate::ids::{DriveId, FragmentId, MediumId};

#[derive(Clone, Debug)]
pub(super) struct Reorder;

/// The value of a fetch; greater is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// This many subqueries can run, of at most this many lists.
    Completes { subqueries: usize, lists: usize },
    /// There is spare room for it.
    Fits,
}

/// The value of fetching a fragment, if it may be fetched.
fn worth(view: &View<'_>, fragment: &Fragment, free_bytes: u64) -> Option<Worth> {
    let subqueries = view.completes(fragment.id);
    if subqueries > 0 && view.has_room(fragment.id) {
        return Some(Worth::Completes { subqueries, lists: view.lists_wanting(fragment.id) });
    }
    (fragment.bytes.saturating_mul(2) <= free_bytes).then_some(Worth::Fits)
}

/// The next fragment of the mounted medium.
fn on_mounted(view: &View<'_>, drive: DriveId, medium: MediumId) -> Option<(FragmentId, Why)> {
    let free_bytes = view.free_bytes();
    let mut fits = None;
    for fragment in view.pending_by_position(medium, view.head(drive)) {
        match worth(view, fragment, free_bytes) {
            Some(Worth::Completes { subqueries, lists }) => {
                return Some((fragment.id, Why::Completes { subqueries, lists }));
            }
            Some(Worth::Fits) if fits.is_none() => fits = Some(fragment.id),
            _ => {}
        }
    }
    fits.map(|id| (id, Why::Mounted { lists: view.lists_wanting(id) }))
}

/// A medium that could be mounted.
struct Mount {
    /// Waiting time of the oldest request that would be served.
    waited: Span,
    /// Lists times bytes per second.
    worth: f64,
    /// The fragment to fetch first.
    first: FragmentId,
}

fn mount_of(view: &View<'_>, drive: DriveId, medium: MediumId) -> Option<Mount> {
    let mut free_bytes = view.free_bytes();
    let (mut served, mut head, mut seconds, mut waited) = (0.0, None, 0.0, Span::ZERO);
    let mut first = None;
    for fragment in view.pending_by_position(medium, 0) {
        let Some(worth) = worth(view, fragment, free_bytes) else { continue };
        if worth == Worth::Fits {
            free_bytes -= fragment.bytes;
        }
        first.get_or_insert(fragment.id);
        let seek = match head {
            None => view.reach(drive, medium, fragment.position),
            Some(head) => view.locate(head, fragment.position),
        };
        head = Some(fragment.position + fragment.bytes);
        seconds += (seek.as_nanos() + view.transfer(fragment.bytes).as_nanos()) as f64 / 1e9;
        served += view.lists_wanting(fragment.id) as f64 * fragment.bytes as f64;
        waited = waited.max(view.waited(fragment.id));
    }
    first.map(|first| Mount { waited, worth: served / f64::max(seconds, 1e-9), first })
}

impl MediaPolicy for Reorder {
    fn demand(&self) -> Demand {
        Demand::All
    }

    fn keeps_wanted(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>, drive: DriveId) -> Choice {
        if let Some(mounted) = view.mounted(drive)
            && let Some((fragment, why)) = on_mounted(view, drive, mounted)
        {
            return Choice::Fetch(fragment, why);
        }
        let mut best: Option<(Mount, Why)> = None;
        for wanted in view.media().filter(|wanted| view.free_for(wanted.medium, drive)) {
            let Some(mount) = mount_of(view, drive, wanted.medium) else { continue };
            let better = |known: &Mount| (mount.waited, mount.worth) > (known.waited, known.worth);
            if best.as_ref().is_none_or(|(known, _)| better(known)) {
                let why = Why::OldestMedium { lists: view.lists_wanting(mount.first), bytes: wanted.bytes };
                best = Some((mount, why));
            }
        }
        match best {
            Some((mount, why)) => Choice::Fetch(mount.first, why),
            None => Choice::Wait(None),
        }
    }

    fn boxed_clone(&self) -> Box<dyn MediaPolicy> {
        Box::new(self.clone())
    }
}
