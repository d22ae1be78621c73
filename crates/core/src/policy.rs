//! Sharing policies: the questions and notifications that they receive, and the type that passes one to a
//! manager.
//!
//! A policy answers the questions of the mechanism: which available chunk a scan gets, what to read next and
//! for which scan, and which parts may be evicted. It reads [`State`] and changes only its own notes. Budget,
//! pins and progress do not depend on its answers. The policies of this crate are in
//! [`sharing`](crate::sharing) and [`replacement`](crate::replacement), their names in
//! [`registry`](crate::registry).

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use crate::eviction::{Need, Victims};
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::part::PartKey;
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;

/// A policy for a manager, with its displayed name. It is one from the registry
/// ([`PolicyName`](crate::PolicyName) converts into it), or one of your own.
#[derive(Clone)]
pub struct Policy {
    name: Arc<str>,
    build: Arc<dyn Fn() -> Box<dyn SharingPolicy> + Send + Sync>,
}

impl Policy {
    /// A policy of your own: its name, and a function that returns one without notes.
    pub fn new<P: SharingPolicy + 'static>(
        name: &str,
        build: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        Policy { name: name.into(), build: Arc::new(move || Box::new(build())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    pub(crate) fn from_builder(name: &str, build: fn() -> Box<dyn SharingPolicy>) -> Self {
        Policy { name: name.into(), build: Arc::new(build) }
    }

    pub(crate) fn build(&self) -> Box<dyn SharingPolicy> {
        (self.build)()
    }
}

impl Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Two policies are equal if they have the same name.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Policy {}

/// A read that the policy wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadChoice {
    /// The scan that the read is for.
    pub scan: ScanId,
    /// The chunk, of that scan's table.
    pub chunk: ChunkNo,
    /// The columns to complete. Columns that are resident are not read again.
    pub columns: ColumnSet,
    /// True if the mechanism may read only the scan's own columns when there is no room for all of them.
    pub or_own: bool,
    /// True if matching chunks are read only for this scan, not for the other scans that could then use the
    /// chunk.
    pub alone: bool,
}

impl LoadChoice {
    /// A read of the columns that the scan uses itself.
    pub fn own(scan: &Scan, chunk: ChunkNo) -> Self {
        LoadChoice { scan: scan.id, chunk, columns: scan.columns.clone(), or_own: false, alone: true }
    }
}

/// The scans for which a load may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Any scan, even if its store has no free slot.
    All,
    /// Scans whose store has a free slot.
    WithSlot,
    /// Scans with a waiting worker, because there is no room to read ahead.
    Waiting,
}

impl Among {
    /// Returns whether a scan is among them.
    pub fn admits(self, state: &State, scan: &Scan) -> bool {
        match self {
            Among::All => true,
            Among::WithSlot => state.has_slot(scan),
            Among::Waiting => state.has_slot(scan) && scan.waiting_since().is_some(),
        }
    }
}

/// A copy of a policy with its notes, so that a manager can be cloned. Implemented for every policy that is
/// `Clone`.
pub trait ClonePolicy {
    /// Returns the copy.
    fn boxed_clone(&self) -> Box<dyn SharingPolicy>;
}

impl<P: SharingPolicy + Clone + 'static> ClonePolicy for P {
    fn boxed_clone(&self) -> Box<dyn SharingPolicy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn SharingPolicy> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

/// A policy for sharing scans. Questions have no defaults; notifications may be ignored.
pub trait SharingPolicy: ClonePolicy + Debug + Send {
    /// A scan registered, or was there when the policy was switched in.
    fn on_registered(&mut self, _state: &State, _scan: ScanId) {}
    /// A scan finished, failed or was cancelled.
    fn on_gone(&mut self, _scan: ScanId) {}
    /// A worker was handed a chunk.
    fn on_delivered(&mut self, _state: &State, _scan: ScanId, _chunk: ChunkNo) {}
    /// A scan stopped needing a chunk: it consumed or pruned it.
    fn on_satisfied(&mut self, _table: TableId, _scan: ScanId, _chunk: ChunkNo) {}
    /// The chosen load was issued, with these columns.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}
    /// A table was dropped; it has no scans.
    fn on_dropped(&mut self, _table: TableId) {}

    /// Returns the available, unclaimed chunk that the scan gets. With `None` the worker waits. A scan in
    /// table order may only get its next chunk.
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo>;

    /// Returns how urgently the scan wants its next chunk. If there is not room for all workers that could be
    /// served, the most urgent scans are served.
    fn urgency(&self, state: &State, scan: &Scan) -> i128;

    /// Returns the chunk at which the scan continues if nothing moves and the mechanism has to serve it.
    fn position(&self, scan: &Scan) -> ChunkNo;

    /// Returns whether scans get their chunks only in sequence from their position on. Otherwise any
    /// available chunk may be next, except for scans in table order.
    fn serves_in_sequence(&self) -> bool;

    /// Returns the next read, for one of these scans. `None` reads nothing. The chosen chunk must lack
    /// something that is neither resident nor being read.
    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice>;

    /// Adds parts to evict to `victims`, least valuable first, as far as the policy agrees. If they do not
    /// suffice, nothing is evicted.
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>);
}

/// Returns whether a worker waits that can be handed the chunk of this choice as soon as it is complete. In a
/// sequence, that is the next chunk only.
pub(crate) fn is_awaited(state: &State, policy: &dyn SharingPolicy, choice: &LoadChoice) -> bool {
    let (scan, chunk) = (state.scan(choice.scan), choice.chunk);
    if !scan.in_order() && !policy.serves_in_sequence() {
        return scan.waiting_since().is_some();
    }
    let next = || scan.upcoming(position(policy, scan), 1).next() == Some(chunk);
    scan.resumes(chunk) || scan.waits_for_any() && next()
}

/// Returns the chunk from which the scan continues. In table order, that is the first one that it needs.
pub(crate) fn position(policy: &dyn SharingPolicy, scan: &Scan) -> ChunkNo {
    if scan.in_order() { ChunkNo(0) } else { policy.position(scan) }
}

/// The part that a policy would evict first for a load, whatever its size. For comparisons of policies.
pub fn first_victim(state: &State, policy: &mut dyn SharingPolicy, choice: &LoadChoice) -> Option<PartKey> {
    let scan = state.scan(choice.scan);
    let target = state.target(scan.table, choice.chunk, scan.columns.clone(), &[scan]);
    let urgent = is_awaited(state, policy, choice);
    let need = Need { bytes: 1, scan: Some(choice.scan), urgent, target: Some(target) };
    let mut victims = Victims::new(state, need);
    policy.choose_victims(state, &mut victims);
    victims.parts.first().map(|victim| victim.part)
}
