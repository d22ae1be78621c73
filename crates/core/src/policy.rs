//! What a sharing policy is asked and told, and how a manager gets one.
//!
//! A policy answers the questions of the mechanism: which available chunk a scan gets, what to read next and for
//! which scan, and which parts may be evicted. It reads [`State`] and changes only its own notes. Budget, pins and
//! progress do not depend on its answers. The policies of this crate are in [`sharing`](crate::sharing) and
//! [`replacement`](crate::replacement), their names in [`registry`](crate::registry).

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use crate::eviction::{Need, Victims};
use crate::ids::{ChunkNo, ScanId, TableId};
use crate::part::PartKey;
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;

/// A policy for a manager, with the name under which it is shown: one of the registry
/// ([`PolicyName`](crate::PolicyName) converts into it), or one of your own.
#[derive(Clone)]
pub struct Policy {
    name: Arc<str>,
    build: Arc<dyn Fn() -> Box<dyn SharingPolicy> + Send + Sync>,
}

impl Policy {
    /// A policy of your own: its name, and a function that makes one without notes.
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

/// Policies are the same if they have the same name.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Policy {}

/// A read the policy wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadChoice {
    /// The scan on whose behalf.
    pub scan: ScanId,
    /// The chunk of that scan's table.
    pub chunk: ChunkNo,
    /// The columns to complete. Those of them that are resident stay.
    pub columns: ColumnSet,
    /// Whether to read only the scan's own columns if there is no room for all of them.
    pub or_own: bool,
    /// Whether matching chunks are read for this scan alone, not for the others that could use the chunk then.
    pub alone: bool,
}

impl LoadChoice {
    /// A read of what the scan itself uses.
    pub fn own(scan: &Scan, chunk: ChunkNo) -> Self {
        LoadChoice { scan: scan.id, chunk, columns: scan.columns.clone(), or_own: false, alone: true }
    }
}

/// The scans a load may be chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Any scan, whether or not its store has a free slot.
    All,
    /// Scans whose store has a slot free.
    WithSlot,
    /// Scans with a waiting worker: there is no room to read ahead.
    Waiting,
}

impl Among {
    /// Whether a scan is among them.
    pub fn admits(self, state: &State, scan: &Scan) -> bool {
        match self {
            Among::All => true,
            Among::WithSlot => state.has_slot(scan),
            Among::Waiting => state.has_slot(scan) && scan.waiting_since().is_some(),
        }
    }
}

/// A copy of a policy with its notes, so that a manager can be cloned. Implemented for every policy that is `Clone`.
pub trait ClonePolicy {
    /// The copy.
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
    /// A scan registered (or was there when the policy was switched in).
    fn on_registered(&mut self, _state: &State, _scan: ScanId) {}
    /// A scan finished, failed or was cancelled.
    fn on_gone(&mut self, _scan: ScanId) {}
    /// A worker was handed a chunk.
    fn on_delivered(&mut self, _state: &State, _scan: ScanId, _chunk: ChunkNo) {}
    /// A scan does not need a chunk any more: it was consumed or pruned.
    fn on_satisfied(&mut self, _table: TableId, _scan: ScanId, _chunk: ChunkNo) {}
    /// The chosen load was issued, with these columns.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}
    /// A table was dropped; it has no scans any more.
    fn on_dropped(&mut self, _table: TableId) {}

    /// Which available, unclaimed chunk does the scan get? With `None` the worker waits. A scan in table order may
    /// only get its next chunk.
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo>;

    /// How urgently does the scan want its next chunk? If there is not room for all workers that could be served, the
    /// most urgent scans are served.
    fn urgency(&self, state: &State, scan: &Scan) -> i128;

    /// Where does the scan continue if nothing moves and the mechanism has to serve it?
    fn position(&self, scan: &Scan) -> ChunkNo;

    /// What is read next, for one of these scans? `None` reads nothing. The chosen chunk must lack something that is
    /// neither resident nor being read.
    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice>;

    /// Which parts are evicted? Adds to `victims`, least valuable first, as far as the policy agrees. If that is not
    /// enough, nothing is evicted.
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>);
}

/// The part that a policy would evict first for a load, whatever its size; for comparing policies.
pub fn first_victim(state: &State, policy: &mut dyn SharingPolicy, choice: &LoadChoice) -> Option<PartKey> {
    let scan = state.scan(choice.scan);
    let target = state.target(scan.table, choice.chunk, scan.columns.clone(), &[scan]);
    let urgent = scan.waiting_since().is_some();
    let need = Need { bytes: 1, scan: Some(choice.scan), urgent, target: Some(target) };
    let mut victims = Victims::new(state, need);
    policy.choose_victims(state, &mut victims);
    victims.parts.first().map(|victim| victim.part)
}
