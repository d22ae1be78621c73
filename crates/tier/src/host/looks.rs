//! The host's status, forecasts of lists, and removal of cached copies on request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coscan_media::{Event, FragmentId, UserId};

use super::{Shared, State};
use crate::fragment::Fragment;
use crate::list::Subqueries;
use crate::status::{self, TierStatus};

impl Shared {
    /// Simulates lists and returns the number of changes of medium and the duration. The steps run one after the
    /// other, the lists of a step together, and without other lists.
    pub(crate) fn rehearse(&self, steps: Vec<Vec<Subqueries>>) -> (u64, Duration) {
        let mut state = self.state();
        let mut named = Vec::new();
        for lists in steps {
            named.push(lists.into_iter().map(|list| self.named(&mut state, list)).collect());
        }
        let rehearsal = state.scheduler.rehearse(self.now(), UserId(u64::MAX), &named);
        (rehearsal.switches, Duration::from_nanos(rehearsal.time.as_nanos()))
    }

    /// Drops copies from the cache, unless a query wants them. Returns the dropped fragments and those that stayed.
    pub(crate) fn drop_copies(
        self: &Arc<Self>,
        is_meant: impl Fn(&Fragment) -> bool,
    ) -> (Vec<Fragment>, Vec<Fragment>) {
        self.drop_cached(&mut self.state(), is_meant)
    }

    /// Drops the copies and the kept footers of these files, unless a query wants one of the copies. Returns the copies that
    /// queries want.
    pub(crate) fn forget(self: &Arc<Self>, files: &[Fragment]) -> Vec<Fragment> {
        let mut state = self.state();
        let mut files: BTreeSet<&Fragment> = files.iter().collect();
        let (_, wanted) = self.drop_cached(&mut state, |fragment| files.contains(fragment));
        files.retain(|file| !wanted.contains(file));
        files.into_iter().for_each(|file| self.fetcher.cache.forget(file));
        wanted
    }

    fn drop_cached(
        self: &Arc<Self>,
        state: &mut State,
        is_meant: impl Fn(&Fragment) -> bool,
    ) -> (Vec<Fragment>, Vec<Fragment>) {
        let cached = state.scheduler.status().cached.into_iter();
        let known = |id: FragmentId| state.fragments[id.0 as usize].fragment.clone();
        let meant: Vec<_> = cached.map(|(id, _, wanted)| (id, known(id), wanted > 0)).collect();
        let (mut dropped, mut wanted) = (Vec::new(), Vec::new());
        for (id, fragment, is_wanted) in meant.into_iter().filter(|(_, fragment, _)| is_meant(fragment)) {
            if is_wanted || state.scheduler.is_in_use(id) {
                wanted.push(fragment);
                continue;
            }
            self.handle(state, Event::Lost { fragment: id });
            self.fetcher.cache.drop_copy(&fragment);
            dropped.push(fragment);
        }
        (dropped, wanted)
    }

    /// The current status of the tier.
    pub(crate) fn report(&self) -> TierStatus {
        let state = self.state();
        let fragment = |id: FragmentId| status::WantedFile {
            file: self.fetcher.config.shown(&state.fragments[id.0 as usize].fragment),
            bytes: state.fragments[id.0 as usize].fragment.bytes,
            whom: self.whom(&state, id),
        };
        let user = |user: UserId| state.users.get(&user).cloned().unwrap_or_default();
        let names = status::Names {
            fragment: &fragment,
            user: &user,
            medium: &|medium| self.placement.name(medium).map(str::to_owned),
        };
        let (now, scheduled) = (self.now(), state.scheduler.status());
        let last = state.scheduler.outlook(now).finished.into_values().max();
        status::of(&self.fetcher, &scheduled, &names, now, last)
    }
}
