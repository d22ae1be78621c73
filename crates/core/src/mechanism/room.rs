//! Eviction. Either all the needed room is made, or nothing is evicted.
//!
//! Decoded arrays can be made again from the encoded bytes, so they go first: those that no scan wants, then
//! those above their share of the budget. Next are pages without a complete part, then the parts that the
//! policy chooses. The remaining decoded arrays come last.

use std::ops::Range;

use super::Mechanism;
use crate::action::Action;
use crate::eviction::{Need, Victim, Victims};
use crate::ids::{ColumnNo, TableId};
use crate::part::{PartKey, Target};
use crate::state::State;

/// An item to evict.
enum Leaving {
    Decoded(PartKey),
    Orphan((TableId, ColumnNo, u32)),
    /// A part, and the pages that are evicted with it.
    Part(PartKey, Vec<Range<u32>>),
}

/// The next item to evict when the policy is overridden.
enum ToForce {
    Decoded(PartKey),
    Orphan((TableId, ColumnNo, u32)),
    /// A part, and the pages that it shares.
    Part(PartKey),
}

/// The items to evict, in order, until they free the missing bytes.
struct EvictionList {
    missing: u64,
    bytes: u64,
    leaving: Vec<Leaving>,
}

impl EvictionList {
    fn enough(&self) -> bool {
        self.bytes >= self.missing
    }

    fn add(&mut self, what: Leaving, bytes: u64) {
        if !self.enough() {
            self.bytes += bytes;
            self.leaving.push(what);
        }
    }
}

impl Mechanism {
    /// Frees room until `need.bytes` are free, as far as the policy agrees.
    pub(crate) fn make_room(&mut self, need: Need, actions: &mut Vec<Action>) -> bool {
        let used = self.state.usage.total();
        let missing = (used + need.bytes).saturating_sub(self.state.usage.budget);
        if missing == 0 {
            return true;
        }
        let mut list = EvictionList { missing, bytes: 0, leaving: Vec::new() };
        plan_decoded(&self.state, &mut list, false);
        plan_orphans(&self.state, &mut list, &need, false);
        if !list.enough() {
            let mut victims = Victims::new(&self.state, Need { bytes: missing - list.bytes, ..need.clone() });
            self.policy.choose_victims(&self.state, &mut victims);
            for Victim { part, pages, bytes } in victims.parts {
                list.add(Leaving::Part(part, pages), bytes);
            }
        }
        plan_decoded(&self.state, &mut list, true);
        plan_orphans(&self.state, &mut list, &need, true);
        if list.enough() {
            self.carry_out(list, need.bytes, actions);
        }
        self.fits(need.bytes)
    }

    fn fits(&self, bytes: u64) -> bool {
        self.state.usage.total() + bytes <= self.state.usage.budget
    }

    /// Frees room until `need.bytes` are free, or until everything that is left is held. Evicts parts one by
    /// one, unlike under a policy, because only then every shared page is evicted with its last part.
    pub(crate) fn force_room(&mut self, need: Need, actions: &mut Vec<Action>) -> bool {
        while !self.fits(need.bytes) {
            match next_forced(&self.state, need.target.as_ref()) {
                Some(ToForce::Decoded(part)) => self.drop_decoded(part, actions),
                Some(ToForce::Orphan(page)) => self.state.evict_orphan(page, actions),
                Some(ToForce::Part(part)) => self.state.evict_shared(part, need.target.as_ref(), actions),
                None => break,
            }
        }
        self.fits(need.bytes)
    }

    fn carry_out(&mut self, list: EvictionList, bytes: u64, actions: &mut Vec<Action>) {
        for leaving in list.leaving {
            if self.fits(bytes) {
                break;
            }
            match leaving {
                Leaving::Decoded(part) => self.drop_decoded(part, actions),
                Leaving::Orphan(page) if self.state.orphans.contains(&page) => {
                    self.state.evict_orphan(page, actions);
                }
                Leaving::Orphan(_) => {}
                Leaving::Part(part, pages) => self.state.evict_pages(part, pages, actions),
            }
        }
    }

    pub(crate) fn drop_decoded(&mut self, part: PartKey, actions: &mut Vec<Action>) {
        if self.state.decoded.contains_key(&part) {
            let PartKey { table, chunk, column } = part;
            self.state.forget_decoded(part);
            actions.push(Action::DropDecoded { table, chunk, column });
        }
    }

    /// Drops decoded arrays beyond their share, and more of them if the budget is exceeded. They are dropped
    /// even if there is free room: reused memory is in the processor's caches, while the system has to clear
    /// fresh memory on first use.
    pub(crate) fn trim_decoded(&mut self, actions: &mut Vec<Action>) {
        let used = self.state.usage;
        let excess = (used.total().saturating_sub(used.budget))
            .max(used.decoded.saturating_sub(decoded_share(&self.state)));
        if excess > 0 {
            let mut list = EvictionList { missing: excess, bytes: 0, leaving: Vec::new() };
            plan_decoded(&self.state, &mut list, false);
            plan_decoded(&self.state, &mut list, true);
            for leaving in list.leaving {
                if let Leaving::Decoded(part) = leaving {
                    self.drop_decoded(part, actions);
                }
            }
        }
    }

    /// Sets the room of point reads. More room is granted only if nothing that is held has to be evicted.
    /// Eviction follows the policy's choice first, then force, because the share of point reads is small and
    /// bounded.
    pub(crate) fn point_room(&mut self, bytes: u64, actions: &mut Vec<Action>) {
        let more = bytes.saturating_sub(self.state.usage.points);
        let need = Need { bytes: more, scan: None, urgent: false, target: None };
        // A request that can never be granted evicts nothing.
        let possible = bytes <= self.state.usage.budget;
        let made = |mechanism: &mut Self, actions: &mut Vec<Action>| {
            mechanism.make_room(need.clone(), actions) || mechanism.force_room(need.clone(), actions)
        };
        if more == 0 || (possible && made(self, actions)) {
            self.state.usage.points = bytes;
        }
    }

    /// Asks point reads for their room, at most once in `stall_after`. Returns whether it asked.
    pub(crate) fn ask_points_back(&mut self, actions: &mut Vec<Action>) -> bool {
        let again = |asked| self.state.now.since(asked) >= self.state.config.stall_after;
        let asks = self.state.usage.points > 0 && self.points_asked.is_none_or(again);
        if asks {
            self.points_asked = Some(self.state.now);
            actions.push(Action::ReturnPointRoom);
        }
        asks
    }

    /// Evicts items that no worker holds, until the buffer fits a budget that shrank.
    pub(crate) fn reclaim(&mut self, actions: &mut Vec<Action>) {
        if !self.fits(0) {
            let need = Need { bytes: 0, scan: None, urgent: true, target: None };
            if !self.force_room(need, actions) {
                self.ask_points_back(actions);
            }
        }
    }
}

/// The next item to evict when the policy is overridden.
fn next_forced(state: &State, target: Option<&Target>) -> Option<ToForce> {
    if let Some(part) = state.decoded_recency.oldest().next() {
        return Some(ToForce::Decoded(part));
    }
    if let Some(page) = state.orphans.iter().find(|o| orphan_may_leave(state, **o, target)) {
        return Some(ToForce::Orphan(*page));
    }
    let mut parts = state.recency.oldest_unwanted().chain(state.recency.oldest());
    parts.find(|part| !state.shared_pages_to_leave(*part, target).is_empty()).map(ToForce::Part)
}

/// The maximum bytes of decoded arrays.
fn decoded_share(state: &State) -> u64 {
    let share = state.usage.budget / 100 * u64::from(state.config.decoded_share_percent);
    share.min(state.config.decoded_bytes_max)
}

/// Adds decoded arrays: unwanted ones and those above their share, or, as the last resort, all others. Visits
/// only as many as are needed, because this runs for every decoded slice, and there may be very many small
/// parts.
fn plan_decoded(state: &State, list: &mut EvictionList, last_resort: bool) {
    let share = decoded_share(state);
    let mut wanted = state.usage.decoded - state.decoded_unwanted;
    if !last_resort {
        for part in state.decoded_recency.oldest_unwanted() {
            if list.enough() {
                return;
            }
            list.add(Leaving::Decoded(part), state.decoded[&part]);
        }
    }
    for part in state.decoded_recency.oldest() {
        if list.enough() || (!last_resort && wanted <= share) {
            return;
        }
        if state.decoded_recency.is_wanted(part) != Some(true) {
            continue;
        }
        let above_share = wanted > share;
        wanted -= state.decoded[&part];
        if above_share != last_resort {
            list.add(Leaving::Decoded(part), state.decoded[&part]);
        }
    }
}

/// Adds pages without a complete part: those that no scan wants, or, as the last resort, the others.
fn plan_orphans(state: &State, list: &mut EvictionList, need: &Need, last_resort: bool) {
    for orphan in &state.orphans {
        let (id, column, page) = *orphan;
        let table = state.table(id);
        let wanted = table.chunks_with_page(column, page).any(|c| table.class_of(c).wanted.contains(column));
        if wanted == last_resort && orphan_may_leave(state, *orphan, need.target.as_ref()) {
            list.add(Leaving::Orphan(*orphan), table.bytes_of(column, page..page + 1));
        }
    }
}

/// Returns whether no chunk on the page is being completed or is the target of the room.
fn orphan_may_leave(
    state: &State,
    (id, column, page): (TableId, ColumnNo, u32),
    target: Option<&Target>,
) -> bool {
    let table = state.table(id);
    let mut chunks = table.chunks_with_page(column, page);
    chunks.all(|chunk| {
        let targeted = target.is_some_and(|t| t.contains(PartKey { table: id, chunk, column }));
        !targeted && !table.class_of(chunk).key.arriving.contains(column)
    })
}
