//! Group LRU: a fixed ranking of page types.
//!
//! Pages are grouped by type, and the groups have a fixed order. A victim is taken by LRU from the lowest
//! group that has one. Groups have no size: a high group can grow until the lower ones are empty.
//!
//! Source: group LRU (Hawthorn, in Nyberg 1984), as described in Chou & DeWitt 1985, section 2.1.
//! **Choice:** from low to high: pages that are passed once, pages accessed at random, pages read again,
//! indexes.
//! **Cost:** logarithmic in the group; linear in the pages in use or being read at the head of its list.

use super::ordered::Ordered;
use super::page_type::PageType;
use super::{AllocationPolicy, Step};
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::state::PoolState;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct GroupLru {
    groups: [Ordered; PageType::ALL.len()],
}

impl AllocationPolicy for GroupLru {
    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let group = PageType::of(reference.instance.pattern) as usize;
        if let Some(before) = state.frames.get(frame).owner() {
            self.groups[before.0 as usize].remove(frame);
        }
        self.groups[group].put_last(frame);
        steps.push(Step::Take { frame, set: SetId(group as u64) });
    }

    fn on_evict(&mut self, frame: FrameNo, _page: PageId, owner: Option<SetId>) {
        if let Some(set) = owner {
            self.groups[set.0 as usize].remove(frame);
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        _reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let oldest = |group: &Ordered| group.iter().find(|frame| state.frames.get(*frame).may_leave());
        state.frames.oldest_free().or_else(|| self.groups.iter().find_map(oldest))
    }

    fn demand(&self, _query: QueryId) -> u32 {
        0
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        for (at, group) in self.groups.iter().enumerate() {
            out.extend(group.iter().map(|frame| (frame, SetId(at as u64))));
        }
    }
}
