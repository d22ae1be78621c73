//! Kaplan's policy: resident sets of relations in an order of priority.
//!
//! Every relation in use has a resident set. The sets are in an order of priority, with the free list first.
//! A victim is taken from the first set that has one. It is the most recently used page except the very last
//! one, which is the relation's active page.
//!
//! Source: the "new" algorithm of Kaplan 1980, as described in Chou & DeWitt 1985, section 2.2. Heuristics
//! decide the place of a relation: it is near the front if its pages are unlikely to be used again.
//! **Choice:** the most demanding of a relation's open instances decides its place, by type of page (see
//! `page_type`). Of equal relations, the one that has been in use longest is first. Queries that share a
//! relation share its set and its active page. If only active pages are left, the relation gives its own. The
//! set is released when all queries have closed the relation.
//! **Cost:** a victim is linear in the relations in use and in the pages in use in their sets.

use std::collections::BTreeMap;

use super::ordered::Ordered;
use super::page_type::PageType;
use super::{AllocationPolicy, Step};
use crate::ids::{FileId, FrameNo, PageId, QueryId, SetId};
use crate::queries::{Instance, Reference};
use crate::state::PoolState;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Kaplan {
    relations: BTreeMap<FileId, Relation>,
    opened: u64,
}

#[derive(Debug, Default)]
struct Relation {
    /// Time at which it came into use.
    since: u64,
    /// Number of open instances of each type.
    open: BTreeMap<PageType, u32>,
    /// Pages in order of use.
    resident: Ordered,
}

impl Relation {
    fn rank(&self) -> Option<PageType> {
        self.open.keys().next_back().copied()
    }

    fn victim(&self, state: &PoolState) -> Option<FrameNo> {
        self.resident.iter().rev().skip(1).find(|frame| state.frames.get(*frame).may_leave())
    }
}

impl AllocationPolicy for Kaplan {
    fn on_file_opened(&mut self, instance: &Instance) {
        self.opened += 1;
        let since = self.opened;
        let relation = self.relations.entry(instance.file);
        let relation = relation.or_insert_with(|| Relation { since, ..Relation::default() });
        *relation.open.entry(PageType::of(instance.pattern)).or_default() += 1;
    }

    fn on_file_closed(&mut self, instance: &Instance, steps: &mut Vec<Step>) {
        let Some(relation) = self.relations.get_mut(&instance.file) else { return };
        let kind = PageType::of(instance.pattern);
        let left = relation.open.get(&kind).map_or(0, |count| count - 1);
        if left > 0 {
            relation.open.insert(kind, left);
        } else {
            relation.open.remove(&kind);
        }
        if relation.open.is_empty() {
            steps.extend(relation.resident.iter().map(|frame| Step::Release { frame }));
            self.relations.remove(&instance.file);
        }
    }

    fn on_reference(
        &mut self,
        _state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let file = reference.page.file;
        if let Some(relation) = self.relations.get_mut(&file) {
            relation.resident.put_last(frame);
            steps.push(Step::Take { frame, set: SetId(u64::from(file.0)) });
        }
    }

    fn on_evict(&mut self, frame: FrameNo, page: PageId, _owner: Option<SetId>) {
        if let Some(relation) = self.relations.get_mut(&page.file) {
            relation.resident.remove(frame);
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let free = state.frames.oldest_free();
        if free.is_some() {
            return free;
        }
        let mut ranked: Vec<&Relation> = self.relations.values().collect();
        ranked.sort_by_key(|relation| (relation.rank(), relation.since));
        let own = || {
            let mut resident = self.relations.get(&reference.page.file)?.resident.iter();
            resident.find(|frame| state.frames.get(*frame).may_leave())
        };
        ranked.into_iter().find_map(|relation| relation.victim(state)).or_else(own)
    }

    fn demand(&self, _query: QueryId) -> u32 {
        0
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        for (file, relation) in &self.relations {
            out.extend(relation.resident.iter().map(|frame| (frame, SetId(u64::from(file.0)))));
        }
    }
}
