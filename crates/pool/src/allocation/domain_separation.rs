//! Domain separation: a fixed share of the frames for each type of page.
//!
//! Every type of page has its own domain of frames with a fixed size and LRU replacement. A domain without a
//! free frame borrows one from another domain.
//!
//! Source: Reiter 1976, as described in Chou & DeWitt 1985, section 2.1. The weaknesses that they name are
//! kept on purpose: domains are static, and one user is not protected from another.
//! **Choice:** there are two domains, because pages do not tell their level in an index. Pages of indexes get
//! a quarter of the frames (at least one), all other pages the rest. A borrower is above its size, so the
//! frame that it borrowed is its first victim.
//! **Cost:** logarithmic in the domain.

use super::ordered::Ordered;
use super::page_type::PageType;
use super::{AllocationPolicy, Step};
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::Reference;
use crate::state::PoolState;

/// The domain of indexes gets one frame in this many.
const INDEX_DIVISOR: u32 = 4;

/// See the module documentation.
#[derive(Debug)]
pub struct DomainSeparation {
    domains: [Domain; 2],
}

#[derive(Debug, Default)]
struct Domain {
    frames_max: u32,
    lru: Ordered,
}

impl DomainSeparation {
    /// The policy for a pool of `frames` frames.
    pub fn new(frames: u32) -> Self {
        let index = (frames / INDEX_DIVISOR).clamp(1, frames.max(1));
        let domain = |frames_max| Domain { frames_max, ..Domain::default() };
        DomainSeparation { domains: [domain(frames - index), domain(index)] }
    }

    fn domain_of(reference: &Reference) -> usize {
        usize::from(PageType::of(reference.instance.pattern) == PageType::Index)
    }
}

impl AllocationPolicy for DomainSeparation {
    fn on_reference(
        &mut self,
        _state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) {
        let domain = Self::domain_of(reference);
        self.domains[1 - domain].lru.remove(frame);
        self.domains[domain].lru.put_last(frame);
        steps.push(Step::Take { frame, set: SetId(domain as u64) });
    }

    fn on_evict(&mut self, frame: FrameNo, _page: PageId, owner: Option<SetId>) {
        if let Some(set) = owner {
            self.domains[set.0 as usize].lru.remove(frame);
        }
    }

    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        _steps: &mut Vec<Step>,
    ) -> Option<FrameNo> {
        let domain = Self::domain_of(reference);
        let oldest = |at: usize| {
            let lru = &self.domains[at].lru;
            lru.iter().find(|frame| state.frames.get(*frame).may_leave())
        };
        let own = &self.domains[domain];
        let room = if own.lru.len() < own.frames_max { state.frames.oldest_free() } else { None };
        room.or_else(|| oldest(domain)).or_else(|| state.frames.oldest_free()).or_else(|| oldest(1 - domain))
    }

    fn demand(&self, _query: QueryId) -> u32 {
        0
    }

    fn spare_frames(&self) -> u32 {
        0
    }

    fn members(&self, out: &mut Vec<(FrameNo, SetId)>) {
        for (at, domain) in self.domains.iter().enumerate() {
            out.extend(domain.lru.iter().map(|frame| (frame, SetId(at as u64))));
        }
    }
}
