//! The mechanism applies the choices of policies, and keeps the invariants that hold under every policy.
//!
//! An event changes the facts first: `tables`, `scans`, `loads`. Then [`Mechanism::settle`] does everything
//! that has become possible, in one loop over
//!
//! - `room`: frees bytes, decoded arrays before encoded ones;
//! - `serve`: hands chunks to waiting workers;
//! - `schedule`: issues loads, and overrides the policy when workers wait and nothing moves.
//!
//! **Progress.** A waiting worker needs room for its chunk's absent parts and for its workspace. The
//! mechanism overrides the policy if three conditions hold: the policy makes no room, no load is in flight,
//! and every holder has held its chunk for longer than `stall_after`. Then the scan that has waited longest
//! gets its next chunk. The mechanism first evicts anything that no worker holds. Then it asks chunks back
//! from workers that are not reading. So the smallest sufficient buffer is the largest single need,
//! [`Abm::minimum_buffer`](crate::Abm::minimum_buffer), whatever the number of scans.

mod loads;
mod room;
pub(crate) mod scans;
mod schedule;
mod serve;
mod tables;

use std::collections::BTreeSet;

use coscan_base::Instant;

use crate::action::Action;
use crate::config::AbmConfig;
use crate::ids::{ScanId, TableId, WorkerNo};
use crate::policy::SharingPolicy;
use crate::state::State;

/// The facts, the policy, and the notes of the mechanism.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) state: State,
    pub(crate) policy: Box<dyn SharingPolicy>,
    /// Scans whose waiting workers may be servable.
    dirty: BTreeSet<ScanId>,
    /// Scans with a worker whose chunk is available but whose workspace does not fit.
    lacking_room: BTreeSet<ScanId>,
    /// True if one of them lacks budget, not only a share of workspaces.
    room_denied: bool,
    /// Workers that asked for a chunk that they had to give back.
    resuming: BTreeSet<(ScanId, WorkerNo)>,
    pub(crate) deadline: Option<Instant>,
    /// The last time at which the room of point reads was asked back.
    points_asked: Option<Instant>,
    /// Tables that were dropped while loads were in flight.
    dropped: BTreeSet<TableId>,
}

/// The result of overriding the policy for a scan.
enum Forced {
    /// A load is in flight.
    Loading,
    /// A worker was handed a chunk.
    HandedOut,
    /// Nothing is left to evict.
    Nothing,
}

impl Mechanism {
    pub(crate) fn new(config: AbmConfig, policy: Box<dyn SharingPolicy>) -> Self {
        Mechanism {
            state: State::new(config),
            policy,
            dirty: BTreeSet::new(),
            lacking_room: BTreeSet::new(),
            room_denied: false,
            resuming: BTreeSet::new(),
            deadline: None,
            points_asked: None,
            dropped: BTreeSet::new(),
        }
    }

    /// Changes the policy while scans are running.
    pub(crate) fn set_policy(&mut self, policy: Box<dyn SharingPolicy>) {
        self.policy = policy;
        let running: Vec<ScanId> = self.state.scans().map(|s| s.id).collect();
        for scan in running {
            self.policy.on_registered(&self.state, scan);
        }
    }

    /// Does everything that has become possible.
    pub(crate) fn settle(&mut self, actions: &mut Vec<Action>) {
        self.reclaim(actions);
        self.serve(actions);
        self.schedule(actions);
        while let Some(scan) = self.stuck() {
            match self.force(scan, actions) {
                Forced::Loading => {}
                Forced::HandedOut => self.serve(actions),
                Forced::Nothing => return self.ask_for_room(scan, actions),
            }
        }
    }
}
