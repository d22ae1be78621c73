//! The active buffer manager: the interface of the core.
//!
//! [`Abm::handle`] takes an event, updates the facts, and does everything that has become possible. The
//! policy chooses, the mechanism (`mechanism/`) applies. There is no I/O, no clock, no thread and no
//! randomness.

use std::num::NonZeroU32;

use coscan_base::Instant;

use crate::action::{Action, FailReason};
use crate::config::AbmConfig;
use crate::error::ConfigError;
use crate::event::{Event, ScanSpec};
use crate::ids::{LoadId, StoreNo};
use crate::ledger::Usage;
use crate::mechanism::Mechanism;
use crate::mechanism::scans::minimum_buffer;
use crate::part::PartKey;
use crate::policy::Policy;
use crate::set::ColumnSet;
use crate::state::{Load, State, StoreLimits};

/// The active buffer manager: chooses reads, deliveries and evictions for any number of scans over any number
/// of tables, under one byte budget.
///
/// A host owns one manager and drives it in a loop. It reports each event, and carries out the actions that
/// come back.
///
/// ```
/// use std::collections::VecDeque;
///
/// use coscan_core::{
///     Abm, AbmConfig, Action, ChunkSet, ColumnSet, DeliveryOrder, Event, Instant, PolicyName, ScanId, ScanSpec,
///     TableId, TableLayout, WorkerNo,
/// };
///
/// # fn main() -> Result<(), coscan_core::ConfigError> {
/// let policy: PolicyName = "relevance".parse()?;
/// let mut abm = Abm::new(AbmConfig::new(4_000), policy)?;
/// let (table, scan, worker) = (TableId(0), ScanId(0), WorkerNo(0));
/// let spec = ScanSpec {
///     table,
///     columns: ColumnSet::first(1),
///     chunks: ChunkSet::range(0..8),
///     workers: 1,
///     order: DeliveryOrder::Any,
///     weight: 1,
///     workspace_bytes: 100,
///     matching: Vec::new(),
/// };
/// let mut happened = VecDeque::from([
///     Event::TableOpened { table, layout: TableLayout::rows([1_000; 8])? },
///     Event::ScanRegistered { scan, spec },
///     Event::ChunkRequested { scan, worker },
/// ]);
/// let (mut actions, mut chunks, mut now_ns) = (Vec::new(), 0, 0);
/// while let Some(event) = happened.pop_front() {
///     now_ns += 1_000;
///     abm.handle(Instant::from_nanos(now_ns), event, &mut actions);
///     for action in actions.drain(..) {
///         match action {
///             // A real host reads here, and reports when it is done.
///             Action::Load { load, parts, .. } => {
///                 let columns = parts.iter().map(|part| part.column).collect();
///                 happened.push_back(Event::LoadFinished { load, columns });
///             }
///             // A real host hands the chunk to the query, which processes it.
///             Action::Deliver { scan, worker, .. } => {
///                 chunks += 1;
///                 happened.push_back(Event::ChunkReleased { scan, worker });
///                 happened.push_back(Event::ChunkRequested { scan, worker });
///             }
///             Action::Wake { scan, .. } => happened.push_back(Event::ScanGone { scan }),
///             Action::Evict { .. } | Action::DropDecoded { .. } => {} // free the memory
///             other => panic!("nothing else can happen here: {other}"),
///         }
///     }
/// }
/// assert_eq!(chunks, 8);
/// # Ok(())
/// # }
/// ```
///
/// If no other event happens until [`Abm::next_deadline`], the host sends [`Event::TimePassed`].
#[derive(Clone, Debug)]
pub struct Abm {
    pub(crate) mechanism: Mechanism,
    policy: Policy,
}

impl Abm {
    /// Creates a manager with a policy from the registry or one of your own.
    ///
    /// # Errors
    /// If a setting is impossible.
    pub fn new(config: AbmConfig, policy: impl Into<Policy>) -> Result<Self, ConfigError> {
        config.check()?;
        let policy = policy.into();
        Ok(Abm { mechanism: Mechanism::new(config, policy.build()), policy })
    }

    /// The current policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Switches to another policy. Running scans continue under it.
    pub fn set_policy(&mut self, policy: impl Into<Policy>) {
        self.policy = policy.into();
        self.mechanism.set_policy(self.policy.build());
    }

    /// Changes how many loads each store may have in flight. Loads that are in flight continue.
    pub fn set_loads_in_flight_max(&mut self, most: NonZeroU32) {
        self.mechanism.state.config.loads_in_flight_max = most.get();
        self.mechanism.state.refresh_ahead();
    }

    /// The number of loads in flight from a store.
    pub fn loads_from(&self, store: StoreNo) -> u32 {
        self.state().stores.get(&store).map_or(0, |used| used.loads)
    }

    /// Gives a store limits of its own, which apply from the next event on. Loads that are in flight
    /// continue. Returns the number of loads that were allowed until then.
    pub fn set_store_limits(&mut self, store: StoreNo, limits: StoreLimits) -> u32 {
        let state = &mut self.mechanism.state;
        let limits = StoreLimits { loads: limits.loads.max(1), ..limits };
        let before = state.loads_max(store);
        let ahead = |limits: &StoreLimits| (limits.ahead_chunks, limits.ahead_bytes);
        let same =
            state.store_limits.insert(store, limits).is_some_and(|last| ahead(&last) == ahead(&limits));
        if !same {
            state.refresh_ahead();
        }
        before
    }

    /// Changes the share of the budget that decoded arrays may take, in percent, from the next event on.
    /// Values above 100 count as 100.
    pub fn set_decoded_share(&mut self, percent: u8) {
        self.mechanism.state.config.decoded_share_percent = percent.min(100);
    }

    /// The facts on which decisions are based.
    pub fn state(&self) -> &State {
        &self.mechanism.state
    }

    /// The ledger in bytes.
    pub fn usage(&self) -> Usage {
        self.state().usage
    }

    /// The number of reads in flight.
    pub fn loads_in_flight(&self) -> usize {
        self.state().loads.len()
    }

    /// The loads in flight whose result nothing waits for: no scan needs the chunk in the columns that have
    /// not arrived, and no point read waits for it. Cost: linear in the loads in flight and the scans that
    /// want their chunks.
    pub fn unwanted_loads(&self) -> Vec<LoadId> {
        let state = self.state();
        let wanted = |load: &Load| {
            let table = state.table(load.table);
            let uses = |columns: &ColumnSet| load.pending.keys().any(|column| columns.contains(*column));
            let mut slots = table.class_of(load.chunk).key.interested.iter();
            let points = state.points_waiting.get(&(load.table, load.chunk));
            slots.any(|slot| uses(&table.interest(slot).columns))
                || points.is_some_and(|points| uses(&points.columns))
        };
        state.loads().filter(|(_, load)| !wanted(load)).map(|(id, _)| id).collect()
    }

    /// The time at which [`Event::TimePassed`] is due, unless another event happens first.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.mechanism.deadline
    }

    /// The smallest budget under which this scan makes progress, however many other scans there are. It holds
    /// the scan's largest chunk in its columns, the matching chunks of other tables, and one worker's
    /// workspace. Cost: linear in the scan's parts.
    ///
    /// # Panics
    /// If the scan names a table that is not open, or chunks that the table does not have.
    pub fn minimum_buffer(&self, spec: &ScanSpec) -> u64 {
        minimum_buffer(self.state(), spec)
    }

    /// Checks that the budget suffices for a scan.
    ///
    /// # Errors
    /// [`ConfigError::BufferTooSmall`], which names the budget that would suffice.
    pub fn check(&self, spec: &ScanSpec) -> Result<(), ConfigError> {
        let (needed, budget) = (self.minimum_buffer(spec), self.usage().budget);
        if needed > budget { Err(ConfigError::BufferTooSmall { needed, budget }) } else { Ok(()) }
    }

    /// Handles an event that happened at `now`, and appends the host's next actions to `actions`. If `now` is
    /// earlier than the time of a previous event, that event's time is used.
    ///
    /// # Panics
    /// If the host breaks the protocol: identifiers that are unknown or used twice, a release without a
    /// delivery, an answer to a load that is not in flight.
    pub fn handle(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        let mechanism = &mut self.mechanism;
        mechanism.state.now = mechanism.state.now.max(now);
        match event {
            Event::TableOpened { table, layout } => mechanism.open_table(table, layout),
            Event::TableGrown { table, layout } => mechanism.state.table_mut(table).append(layout),
            Event::ChunksInvalidated { table, chunks } => {
                mechanism.invalidate(table, &chunks, FailReason::ChunkInvalidated, actions);
            }
            Event::TableDropped { table } => mechanism.drop_table(table, actions),
            Event::ScanRegistered { scan, spec } => mechanism.register(scan, spec, actions),
            Event::ChunksUnneeded { scan, chunks } => mechanism.unneed(scan, &chunks),
            Event::MatchingUnneeded { scan, at, chunks } => {
                mechanism.unneed_matching(scan, at, &chunks);
            }
            Event::ChunkRequested { scan, worker } => mechanism.request(scan, worker),
            Event::ChunkReleased { scan, worker } => mechanism.release(scan, worker),
            Event::WorkerActive { scan, worker } => mechanism.note_active(scan, worker),
            Event::ChunkSuspended { scan, worker } => mechanism.suspend(scan, worker),
            Event::WorkspaceGrown { scan, bytes } => mechanism.grow_workspace(scan, bytes, actions),
            Event::LoadFinished { load, columns } => mechanism.load_finished(load, &columns, actions),
            Event::LoadFailed { load, columns } => mechanism.load_failed(load, &columns, actions),
            Event::Decoded { table, chunk, column, bytes } => {
                let gained = mechanism.decoded(PartKey { table, chunk, column }, bytes, actions);
                if !gained {
                    // These events are frequent and require no decision.
                    return;
                }
            }
            Event::ScanGone { scan } => mechanism.scan_gone(scan),
            Event::PointRoom { bytes } => mechanism.point_room(bytes, actions),
            Event::PointsWaiting { table, chunk, columns, reads } => {
                mechanism.state.set_points_waiting(table, chunk, columns, reads);
            }
            Event::BudgetChanged { bytes } => mechanism.change_budget(bytes, actions),
            Event::TimePassed => {}
        }
        mechanism.settle(actions);
    }
}
