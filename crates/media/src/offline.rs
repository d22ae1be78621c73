//! A schedule with everything known before the first fetch, and a lower bound for all schedules.
//!
//! The schedule mounts every medium once and sweeps it once, in the order of positions. Media are assigned to
//! drives longest first, each to the drive that is free first (LPT). This is at most a third longer than the
//! best such assignment. The schedule assumes that the cache holds all fetched fragments and that processing
//! takes no time.

use std::collections::BTreeMap;

use coscan_base::Span;

use crate::fragment::Fragment;
use crate::ids::{DriveId, FragmentId, MediumId};
use crate::model::Library;

/// The work of each drive, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// For each drive the media it mounts, each with the fragments in the order of fetching.
    pub drives: BTreeMap<DriveId, Vec<(MediumId, Vec<FragmentId>)>>,
    /// The time at which the last drive is done.
    pub makespan: Span,
}

/// A schedule that fetches each fragment once.
pub fn schedule(library: &Library, fragments: &[Fragment]) -> Schedule {
    let mut sweeps: Vec<(Span, MediumId, Vec<FragmentId>)> = sweeps(library, fragments);
    sweeps.sort_by_key(|(time, medium, _)| (std::cmp::Reverse(*time), *medium));
    let mut free: Vec<Span> = vec![Span::ZERO; library.drives() as usize];
    let mut schedule = Schedule::default();
    for (time, medium, fragments) in sweeps {
        let (at, _) = free.iter().enumerate().min_by_key(|(at, busy)| (**busy, *at)).expect("a drive");
        free[at] = Span::from_nanos(free[at].as_nanos().saturating_add(time.as_nanos()));
        schedule.drives.entry(DriveId(at as u32)).or_default().push((medium, fragments));
    }
    schedule.makespan = free.into_iter().max().unwrap_or_default();
    schedule
}

/// A lower bound on the time to fetch these fragments, from empty drives and an empty cache. It assumes that
/// all drives share the work without a gap, each medium is loaded at least once, and seeks take no time.
pub fn lower_bound(library: &Library, fragments: &[Fragment]) -> Span {
    let mut media: BTreeMap<MediumId, u64> = BTreeMap::new();
    let mut longest = 0;
    for fragment in fragments {
        let transfer = library.transfer(fragment.bytes).as_nanos();
        longest = longest.max(transfer);
        let of = media.entry(fragment.medium).or_insert(0);
        *of = of.saturating_add(transfer);
    }
    let load = if library.mounts() { library.switch(None).total().as_nanos() } else { 0 };
    let all = media.values().fold(0u64, |sum, time| sum.saturating_add(*time).saturating_add(load));
    Span::from_nanos((all / u64::from(library.drives())).max(longest))
}

/// Every medium with the time of its sweep. If nothing is mounted, every fragment is its own sweep.
fn sweeps(library: &Library, fragments: &[Fragment]) -> Vec<(Span, MediumId, Vec<FragmentId>)> {
    if !library.mounts() {
        return fragments.iter().map(|f| (library.transfer(f.bytes), f.medium, vec![f.id])).collect();
    }
    let mut by_medium: BTreeMap<MediumId, Vec<&Fragment>> = BTreeMap::new();
    for fragment in fragments {
        by_medium.entry(fragment.medium).or_default().push(fragment);
    }
    let sweep = |(medium, mut of): (MediumId, Vec<&Fragment>)| {
        of.sort_by_key(|fragment| (fragment.position, fragment.id));
        let (mut head, mut nanos) = (0, library.switch(Some(0)).total().as_nanos());
        for fragment in &of {
            let took = [library.locate(head, fragment.position), library.transfer(fragment.bytes)];
            nanos = took.iter().fold(nanos, |sum: u64, span| sum.saturating_add(span.as_nanos()));
            head = fragment.position.saturating_add(fragment.bytes);
        }
        (Span::from_nanos(nanos), medium, of.into_iter().map(|fragment| fragment.id).collect())
    };
    by_medium.into_iter().map(sweep).collect()
}
