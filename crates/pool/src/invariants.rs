//! Invariants between any two events, recomputed from scratch.

use std::collections::{BTreeMap, BTreeSet};

use crate::frames::Transfer;
use crate::ids::{FrameNo, QueryId, SetId};
use crate::pool::Pool;
use crate::queries::{Lacking, Phase};

impl Pool {
    /// Checks every invariant of the pool, and the policy's list of owned frames. Cost: linear in frames and
    /// queries; for tests and simulations.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn check_invariants(&self) {
        self.check_frames();
        self.check_queries();
        self.check_ownership();
        assert!(self.steps.is_empty(), "steps of the policy were not carried out");
    }

    fn check_frames(&self) {
        let frames = &self.state.frames;
        let table: BTreeMap<_, _> =
            frames.iter().filter(|(_, f)| !f.doomed).filter_map(|(at, f)| Some((f.page?, at))).collect();
        assert_eq!(table, frames.table, "the page table is not what is in the frames");
        let free: BTreeSet<_> =
            frames.iter().filter(|(_, f)| f.owner.is_none()).map(|(at, f)| (f.used, at)).collect();
        assert_eq!(free, frames.free, "the free list is not the frames without owner");
        let delayed: BTreeSet<_> =
            frames.iter().filter(|(_, f)| f.to_clean).map(|(at, f)| (f.used, at)).collect();
        assert_eq!(delayed, frames.delayed, "the list of delayed writes is not the frames marked for it");
        let mut pins: BTreeMap<FrameNo, u32> = BTreeMap::new();
        for q in self.state.queries.queries.values() {
            *pins.entry(q.pinned.unwrap_or(FrameNo(u32::MAX))).or_default() += 1;
        }
        for (at, f) in frames.iter() {
            assert_eq!(f.pins, pins.get(&at).copied().unwrap_or(0), "pins of {at}");
            let arriving = f.transfer == Transfer::Reading;
            assert!(!arriving || (f.pins == 0 && f.owner.is_none() && !f.dirty), "{at} is not there yet");
            assert!(arriving || f.waiters.is_empty(), "{at} is there and has waiters");
            assert!(f.page.is_some() || (f.is_clean() && f.used == 0 && !f.doomed), "{at} is empty");
            assert!(!f.doomed || f.pins > 0 || f.transfer != Transfer::Idle, "{at} should be empty");
            assert!(!f.to_clean || (f.dirty && !f.doomed), "{at} is to be written but not dirty");
            if let Some(query) = f.promised_to {
                assert!(f.transfer == Transfer::Writing, "{at} is promised but not being written");
                assert_eq!(self.lacking(query), Some(Lacking::Write(at)), "{at} is promised to {query}");
            }
        }
    }

    fn check_queries(&self) {
        let queries = &self.state.queries;
        let idle: BTreeSet<QueryId> =
            queries.queries.iter().filter(|(_, q)| q.phase != Phase::Active).map(|(id, _)| *id).collect();
        let queued: BTreeSet<QueryId> = self.queue.iter().copied().collect();
        assert_eq!(queued, idle, "the queue is not the queries that may not run");
        assert_eq!(queued.len(), self.queue.len(), "a query is in the queue twice");
        assert_eq!(queries.active_count() as usize, queries.active().count(), "active queries");
        assert!(queued.is_empty() || queries.active_count() > 0, "queries wait though nobody runs");
        let waiting_for_frame: Vec<QueryId> = self.waiting_for_frame.iter().copied().collect();
        let lacking: BTreeSet<QueryId> =
            queries.queries.keys().copied().filter(|q| self.lacking(*q) == Some(Lacking::Frame)).collect();
        assert_eq!(
            waiting_for_frame.iter().copied().collect::<BTreeSet<_>>(),
            lacking,
            "queries without a frame"
        );
        assert_eq!(waiting_for_frame.len(), lacking.len(), "a query waits for a frame twice");
        for (id, q) in &queries.queries {
            assert!(q.pinned.is_none() || q.request.is_none(), "{id} waits and uses a page");
            assert!(q.pinned.is_none() || q.phase == Phase::Active, "{id} does not run and uses a page");
            match self.lacking(*id) {
                Some(Lacking::Page(at)) => {
                    assert!(self.state.frames.get(at).waiters.contains(id), "{at} does not know of {id}");
                }
                Some(Lacking::Write(at)) => {
                    assert_eq!(self.state.frames.get(at).promised_to, Some(*id), "{at} forgot {id}");
                }
                Some(Lacking::Turn) => assert_eq!(q.phase, Phase::Suspended, "{id} has its turn"),
                Some(Lacking::Frame) | None => {}
            }
            for instance in &q.instances {
                assert_eq!(queries.instance(*instance).query, *id, "{instance} is another's");
            }
        }
        let open: usize = queries.queries.values().map(|q| q.instances.len()).sum();
        assert_eq!(open, queries.instances.len(), "instances that belong to nobody");
    }

    fn check_ownership(&self) {
        let mut members: Vec<(FrameNo, SetId)> = Vec::new();
        self.policy.members(&mut members);
        members.sort_unstable();
        let owned: Vec<(FrameNo, SetId)> =
            self.state.frames.iter().filter_map(|(at, f)| Some((at, f.owner?))).collect();
        assert_eq!(members, owned, "the policy's sets are not the frames' owners");
    }

    fn lacking(&self, query: QueryId) -> Option<Lacking> {
        self.state.queries.get(query).request.map(|(_, lacking)| lacking)
    }
}
