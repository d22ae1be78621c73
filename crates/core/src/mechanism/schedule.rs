//! Loads, and overriding the policy when nothing moves.

use coscan_base::Instant;

use super::{Forced, Mechanism};
use crate::action::{Action, FailReason};
use crate::eviction::Need;
use crate::ids::{ChunkNo, ScanId, WorkerNo};
use crate::part::Target;
use crate::policy::{Among, LoadChoice, is_awaited, position};
use crate::scan::WorkerState;
use crate::sharing::candidates::{first_unsupplied, least_wanted};

impl Mechanism {
    /// Issues loads while the policy wants any, slots are free and room can be made.
    pub(crate) fn schedule(&mut self, actions: &mut Vec<Action>) {
        self.deadline = None;
        if !self.room_denied {
            let mut among = Among::WithSlot;
            while self.state.any_has_slot() {
                let choice = self.resuming().or_else(|| self.policy.choose_load(&self.state, among));
                let choice = choice.filter(|choice| self.state.has_slot(self.state.scan(choice.scan)));
                let Some(choice) = choice else { break };
                if !self.load(&choice, actions) {
                    let waits = self.state.scan(choice.scan).waiting_since().is_some();
                    if waits || among == Among::Waiting {
                        break;
                    }
                    among = Among::Waiting;
                }
            }
        }
    }

    /// The load of a chunk that a worker had to give back and asks for again; the oldest first.
    fn resuming(&self) -> Option<LoadChoice> {
        let waiting = self.resuming.iter().filter_map(|(id, worker)| {
            let scan = self.state.scan(*id);
            match scan.active.get(worker)? {
                WorkerState::Waiting { since, resume: Some(chunk) } => Some((*since, *id, *chunk)),
                _ => None,
            }
        });
        let lacking = waiting.filter(|(_, id, chunk)| {
            let scan = self.state.scan(*id);
            self.state.has_slot(scan) && !self.state.is_supplied(scan, *chunk)
        });
        let (_, scan, chunk) = lacking.min()?;
        Some(LoadChoice::own(self.state.scan(scan), chunk))
    }

    /// Issues the load if room can be made for it. If the policy agrees, falls back to the scan's own
    /// columns.
    fn load(&mut self, choice: &LoadChoice, actions: &mut Vec<Action>) -> bool {
        if self.load_columns(choice, actions) {
            return true;
        }
        let own = LoadChoice::own(self.state.scan(choice.scan), choice.chunk);
        choice.or_own
            && self.target_of(&own) != self.target_of(choice)
            && !self.state.is_supplied(self.state.scan(choice.scan), choice.chunk)
            && self.load_columns(&own, actions)
    }

    /// The absent parts that a load of this choice reads.
    fn target_of(&self, choice: &LoadChoice) -> Target {
        let LoadChoice { chunk, columns, .. } = choice;
        let scan = self.state.scan(choice.scan);
        let scans = if choice.alone { vec![scan] } else { self.state.completed_by(scan, *chunk, columns) };
        self.state.target(scan.table, *chunk, columns.clone(), &scans)
    }

    fn load_columns(&mut self, choice: &LoadChoice, actions: &mut Vec<Action>) -> bool {
        let target = self.target_of(choice);
        let scan = self.state.scan(choice.scan);
        let (waits, workspace) = (scan.waiting_since().is_some(), scan.workspace_bytes);
        let absent = self.state.absent_bytes(&target);
        assert!(
            absent > 0,
            "the policy chose to load {} of {}, which lacks nothing",
            choice.chunk,
            scan.table
        );
        // With room for the chunk alone no worker could run: workspaces keep their share.
        let beside = self.workspace_reserve().max(if waits { workspace } else { 0 });
        let bytes = absent + beside.min(self.state.usage.budget.saturating_sub(absent));
        let mut targeted = target.clone();
        targeted.chunk.columns.union_with(&scan.columns);
        let need = Need {
            bytes,
            scan: Some(choice.scan),
            // A chunk whose worker only lacks its workspace must not be read again and again.
            urgent: self.lacking_room.is_empty() && is_awaited(&self.state, &*self.policy, choice),
            target: Some(targeted),
        };
        let room = self.make_room(need, actions);
        if room {
            self.issue(choice, &target, actions);
        }
        room
    }

    /// Issues a load for each chunk of the target that lacks something.
    fn issue(&mut self, choice: &LoadChoice, target: &Target, actions: &mut Vec<Action>) {
        for parts in target.chunks() {
            if self.state.table(parts.table).absent_bytes(parts.chunk, &parts.columns) > 0 {
                let load = self.state.begin_load(parts.table, parts.chunk, &parts.columns);
                actions.push(load);
            }
        }
        self.policy.on_load_issued(&self.state, choice);
    }

    /// Returns the scan for which the policy is overridden: its workers wait, and nothing is pending that
    /// could serve them. Loads from other stores count as pending only for a limited time, because a store
    /// may not answer. While such loads are in flight, or a worker is assumed to be reading its chunk, sets a
    /// deadline instead.
    pub(super) fn stuck(&mut self) -> Option<ScanId> {
        let scan = self.longest_waiting()?;
        let youngest = self.state.loads.values().map(|load| load.issued).max();
        if let Some(old_at) = youngest.map(|issued| issued + self.state.config.stall_after)
            && old_at > self.state.now
        {
            self.deadline = Some(old_at);
            return None;
        }
        if let Some(wait_until) = self.active_holder_until() {
            self.deadline = Some(wait_until);
            return None;
        }
        Some(scan)
    }

    /// Asks for room that is held, for a scan that nothing else can help. Fails the scan if the whole budget
    /// would not suffice.
    pub(super) fn ask_for_room(&mut self, id: ScanId, actions: &mut Vec<Action>) {
        // Room of point reads that was asked for a short time ago may still come.
        let asked = self.ask_points_back(actions) || self.ask_back(actions) || self.state.usage.points > 0;
        if asked {
            self.deadline = Some(self.state.now + self.state.config.stall_after);
            return;
        }
        let needed = self.needed_by(id);
        if needed > self.state.usage.budget {
            self.fail_scan(id, None, FailReason::BudgetTooSmall { needed }, actions);
        }
    }

    /// The scan that has waited longest, among those from whose stores no load is in flight.
    fn longest_waiting(&self) -> Option<ScanId> {
        let waiting = self.state.scans().filter_map(|scan| Some((scan.waiting_since()?, scan)));
        let idle = waiting.filter(|(_, scan)| self.state.loads_for(scan) == 0);
        idle.map(|(since, scan)| (since, scan.id)).min().map(|(_, id)| id)
    }

    /// The time at which the last active holder of a chunk counts as stalled, if one is active.
    fn active_holder_until(&self) -> Option<Instant> {
        let holding = self.state.scans().flat_map(|s| s.active.values()).filter_map(|w| match w {
            WorkerState::Holding { since, .. } => Some(*since + self.state.config.stall_after),
            _ => None,
        });
        holding.max().filter(|until| *until > self.state.now)
    }

    /// Gives the scan its next chunk, after evicting anything that no worker holds.
    pub(super) fn force(&mut self, id: ScanId, actions: &mut Vec<Action>) -> Forced {
        let Some((worker, chunk)) = self.next_for(id) else { return Forced::Nothing };
        let scan = self.state.scan(id);
        let target = self.state.target(scan.table, chunk, scan.columns.clone(), &[scan]);
        let (absent, workspace) = (self.state.absent_bytes(&target), scan.workspace_bytes);
        let need =
            Need { bytes: absent + workspace, scan: Some(id), urgent: true, target: Some(target.clone()) };
        if !self.force_room(need, actions) {
            return Forced::Nothing;
        }
        if absent > 0 {
            self.issue(&LoadChoice::own(self.state.scan(id), chunk), &target, actions);
            return Forced::Loading;
        }
        self.hand_out(id, worker, chunk, actions);
        Forced::HandedOut
    }

    /// The scan's worker that has waited longest, and the chunk that it gets when the policy is overridden.
    fn next_for(&mut self, id: ScanId) -> Option<(WorkerNo, ChunkNo)> {
        let scan = self.state.scan(id);
        let waiting = scan.workers_active().filter_map(|(worker, state)| match state {
            WorkerState::Waiting { since, resume } => Some((since, worker, resume)),
            _ => None,
        });
        let (_, worker, resume) = waiting.min()?;
        let position = position(&*self.policy, scan);
        let chunk = resume
            .or_else(|| self.policy.choose_chunk(&self.state, scan))
            .or_else(|| least_wanted(&self.state, scan))
            .or_else(|| first_unsupplied(&self.state, scan, position))
            .or_else(|| scan.next_in_order())?;
        Some((worker, chunk))
    }

    /// Asks every worker that holds a chunk to give it back.
    fn ask_back(&mut self, actions: &mut Vec<Action>) -> bool {
        let before = actions.len();
        for scan in self.state.scans() {
            for (worker, state) in &scan.active {
                if matches!(state, WorkerState::Holding { .. }) {
                    actions.push(Action::Suspend { scan: scan.id, worker: *worker });
                }
            }
        }
        actions.len() > before
    }
}
