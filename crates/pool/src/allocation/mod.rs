//! Allocation policies of the page-level pool: ownership of frames, and the frame for each request.
//!
//! A policy may divide frames into sets (of a query, a file instance, a domain, a relation). It is told of
//! every reference and answers with [`Step`]s: a frame joins a set, or is released to the free list. It is
//! asked for a victim when a request needs a frame. The mechanism in `pool` applies its answers and keeps the
//! frames without owner in order of use. It writes dirty frames after their release, and admits and suspends
//! queries as [`load_control`] decides.
//!
//! | name | frames are kept apart by | replacement |
//! |---|---|---|
//! | `random`, `fifo`, `clock`, `lru` | nothing | global |
//! | `domain-separation` | type of page, fixed shares | LRU inside |
//! | `group-lru` | type of page, ranked | LRU inside the lowest rank |
//! | `kaplan` | relation, ranked | MRU inside, one page exempt |
//! | `working-set` | query | pages not used within a window |
//! | `hot-set` | query, fixed size | LRU inside |
//! | `dbmin` | file instance, fixed size | by pattern |

pub mod dbmin;
pub mod domain_separation;
pub mod global;
pub mod group_lru;
pub mod hot_set;
pub mod kaplan;
pub mod load_control;
mod ordered;
mod page_type;
mod sets;
pub mod working_set;

use std::fmt::Debug;

use coscan_base::Span;

use crate::event::Demand;
use crate::ids::{FrameNo, PageId, QueryId, SetId};
use crate::queries::{Instance, Reference};
use crate::state::PoolState;

/// An instruction of a policy to the mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame joins a set.
    Take {
        /// The frame.
        frame: FrameNo,
        /// The set.
        set: SetId,
    },
    /// The frame loses its owner; its page can still be found. A dirty page is written when the device is
    /// idle.
    Release {
        /// The frame.
        frame: FrameNo,
    },
    /// The frame is likely to be evicted soon. A dirty page is written when the device is idle.
    Clean {
        /// The frame.
        frame: FrameNo,
    },
}

/// Decides the owner of each frame and the page to evict.
pub trait AllocationPolicy: Debug + Send {
    /// A query has started; it may have to wait before it runs.
    fn on_query_started(&mut self, _query: QueryId, _demand: Demand) {}

    /// A query has ended; its files are closed already.
    fn on_query_ended(&mut self, _query: QueryId, _steps: &mut Vec<Step>) {}

    /// A query was suspended: its sets must be released.
    fn on_suspended(&mut self, _state: &PoolState, _query: QueryId, _steps: &mut Vec<Step>) {}

    /// A file was opened.
    fn on_file_opened(&mut self, _instance: &Instance) {}

    /// A file was closed.
    fn on_file_closed(&mut self, _instance: &Instance, _steps: &mut Vec<Step>) {}

    /// A query has used up its time slice.
    fn on_slice_ended(&mut self, _query: QueryId, _cpu: Span, _steps: &mut Vec<Step>) {}

    /// A request found its page missing. Called once per request, before a victim is looked for.
    fn on_fault(&mut self, _reference: &Reference, _steps: &mut Vec<Step>) {}

    /// A reference is being granted: the page is in this frame, because it was found there or has just
    /// arrived.
    fn on_reference(
        &mut self,
        state: &PoolState,
        frame: FrameNo,
        reference: &Reference,
        steps: &mut Vec<Step>,
    );

    /// A page leaves its frame; `owner` is the set that it belonged to, if any.
    fn on_evict(&mut self, frame: FrameNo, page: PageId, owner: Option<SetId>);

    /// The frame for a missing page, among those for which [`may_leave`](crate::Frame::may_leave) holds. With
    /// `None` the request waits until something changes.
    fn choose_victim(
        &mut self,
        state: &PoolState,
        reference: &Reference,
        steps: &mut Vec<Step>,
    ) -> Option<FrameNo>;

    /// The frames that a query wants for itself, as far as the policy knows. Load control uses it.
    fn demand(&self, query: QueryId) -> u32;

    /// Frames that must remain when all demands are met, so that the policy can make progress.
    fn spare_frames(&self) -> u32;

    /// Appends every frame that the policy takes to be owned, with its set. Checks use it.
    fn members(&self, out: &mut Vec<(FrameNo, SetId)>);
}
