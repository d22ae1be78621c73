//! Which chunk next, and for whom?
//!
//! A sharing policy answers three questions of the mechanism: which of its available chunks a scan gets,
//! what to read next and on whose behalf, and which parts may leave to make room. It reads [`State`] and
//! changes nothing but its own notes. The mechanism (`mechanism/`) asks, applies the answers, and sees to
//! it that budget, pins and progress hold whatever the policy says.
//!
//! One policy, one file: [`normal`], [`attach`], [`elevator`], [`relevance`], [`relevance_2004`], [`pbm`].
//! What normal, attach and pbm share, a position per scan and a queue, is in `sequential`; what leaves
//! under them is decided in `replacement/`.

pub mod attach;
pub mod elevator;
pub mod normal;
pub mod pbm;
pub mod relevance;
pub mod relevance_2004;
mod sequential;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Range;

use crate::ids::{ChunkNo, ColumnNo, ScanId, TableId};
use crate::interest::{Class, Classes, ScanSlot};
use crate::recency::PartKey;
use crate::scan::Scan;
use crate::set::ColumnSet;
use crate::state::State;
use crate::table::{Interest, runs_of};

/// A read the policy wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadChoice {
    /// The scan on whose behalf.
    pub scan: ScanId,
    /// The chunk of that scan's table.
    pub chunk: ChunkNo,
    /// The columns to complete, those of them that are resident already included: they stay.
    pub columns: ColumnSet,
    /// Whether the scan's own columns are to be read if there is no room for all of them.
    pub or_own: bool,
}

impl LoadChoice {
    /// A read of what the scan itself uses.
    pub(crate) fn own(scan: &Scan, chunk: ChunkNo) -> Self {
        LoadChoice { scan: scan.id, chunk, columns: scan.columns.clone(), or_own: false }
    }
}

/// The scans a load may be chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Any scan, whether its store has a slot free for a load or not.
    All,
    /// Scans whose store has a slot free.
    WithSlot,
    /// Those of which a worker waits: there is no room to read ahead.
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

/// Room that is wanted in the buffer.
#[derive(Clone, Debug)]
pub struct Need {
    /// The bytes to free.
    pub bytes: u64,
    /// The scan that will profit; `None` if the budget shrank.
    pub scan: Option<ScanId>,
    /// Whether a worker waits for it. Reading ahead may not take what was read ahead before and nobody
    /// has used yet: two scans could take the same room from each other for ever.
    pub urgent: bool,
    /// What must not leave to make room for itself.
    pub target: Option<Target>,
}

/// The parts that room is being made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The table.
    pub table: TableId,
    /// The chunk.
    pub chunk: ChunkNo,
    /// The columns; other columns of the chunk may leave.
    pub columns: ColumnSet,
}

impl Target {
    /// Whether a part is among them.
    pub fn contains(&self, part: PartKey) -> bool {
        (self.table, self.chunk) == (part.table, part.chunk) && self.columns.contains(part.column)
    }
}

/// A part to evict.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub part: PartKey,
    /// The pages that leave with it.
    pub pages: Vec<Range<u32>>,
    /// Their bytes.
    pub bytes: u64,
}

/// Parts to evict, gathered until they free what is needed.
#[derive(Debug)]
pub struct Victims<'a> {
    state: &'a State,
    need: Need,
    /// The parts, in the order in which they go, with the pages that each takes with it.
    pub(crate) parts: Vec<Victim>,
    seen: BTreeSet<PartKey>,
    /// Pages that several parts lie on and that one of them takes with it.
    shared_pages: BTreeSet<(TableId, ColumnNo, u32)>,
    pub(crate) bytes: u64,
}

impl<'a> Victims<'a> {
    pub(crate) fn new(state: &'a State, need: Need) -> Self {
        Victims {
            state,
            need,
            parts: Vec::new(),
            seen: BTreeSet::new(),
            shared_pages: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Whether enough is gathered.
    pub fn enough(&self) -> bool {
        self.bytes >= self.need.bytes
    }

    /// What is needed.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Adds a part if the mechanism allows it to leave. Returns whether enough is gathered.
    pub fn add(&mut self, part: PartKey) -> bool {
        let fresh = !self.need.urgent && self.state.recency().is_fresh(part);
        let may_leave = self.state.may_leave(part, self.need.target.as_ref());
        if !self.enough() && !fresh && may_leave && self.seen.insert(part) {
            let pages = self.pages_leaving_with(part);
            let bytes =
                pages.iter().map(|run| self.state.table(part.table).bytes_of(part.column, run.clone()));
            let bytes: u64 = bytes.sum();
            if bytes > 0 {
                self.bytes += bytes;
                self.parts.push(Victim { part, pages, bytes });
            }
        }
        self.enough()
    }

    /// The pages that leave with the part: a page that several complete parts lie on leaves with the last of
    /// them that is evicted, unless nobody wants the others.
    fn pages_leaving_with(&mut self, part: PartKey) -> Vec<Range<u32>> {
        let PartKey { table, chunk, column } = part;
        let t = self.state.table(table);
        let mut leaving: Vec<u32> = Vec::new();
        for page in t.layout().span(chunk, column) {
            let neighbours = || t.chunks_with_page(column, page).filter(|c| *c != chunk);
            let stays = |c: ChunkNo| {
                let class = t.class_of(c);
                let wanted = class.key.resident.contains(column) && class.wanted.contains(column);
                let neighbour = PartKey { table, chunk: c, column };
                let targeted = self.need.target.as_ref().is_some_and(|t| t.contains(neighbour));
                let leaves_too = || self.seen.contains(&neighbour);
                targeted || class.key.arriving.contains(column) || (wanted && !leaves_too())
            };
            let key = (table, column, page);
            if !t.is_resident(column, page) || self.shared_pages.contains(&key) || neighbours().any(stays) {
                continue;
            }
            if neighbours().next().is_some() {
                self.shared_pages.insert(key);
            }
            leaving.push(page);
        }
        runs_of(leaving)
    }

    /// Adds parts in the given order until there are enough.
    pub fn add_all(&mut self, parts: impl IntoIterator<Item = PartKey>) -> bool {
        self.enough() || parts.into_iter().any(|part| self.add(part))
    }
}

/// A copy of a policy with its notes, so that a manager can be copied as a whole. Every policy that is
/// `Clone` has it.
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
    /// A scan does not need a chunk any more: it consumed it, or it was pruned.
    fn on_satisfied(&mut self, _table: TableId, _scan: ScanId, _chunk: ChunkNo) {}
    /// The chosen load was issued, with these columns.
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {}

    /// Which available, unclaimed chunk does the scan get? `None` lets the worker wait. A scan in table
    /// order may only be given its next chunk.
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo>;

    /// How urgently does the scan want its next chunk? If there is not room for all workers that could be
    /// served, those of the most urgent scans are.
    fn urgency(&self, state: &State, scan: &Scan) -> i128;

    /// Where does the scan go on if nothing moves and it has to be served by itself?
    fn position(&self, scan: &Scan) -> ChunkNo;

    /// What is to be read next, for one of these scans? `None` if nothing should be. The choice must lack
    /// something that is neither resident nor being read.
    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice>;

    /// Which parts go to make room? Adds to `victims`, least valuable first, as far as the policy agrees;
    /// if that is not enough the room is not made.
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>);
}

/// The part that a policy would have leave first to make any room for a load; for comparing policies.
pub fn first_victim(state: &State, policy: &mut dyn SharingPolicy, choice: &LoadChoice) -> Option<PartKey> {
    let scan = state.scan(choice.scan);
    let target = Target { table: scan.table, chunk: choice.chunk, columns: scan.columns.clone() };
    let urgent = scan.waiting_since().is_some();
    let need = Need { bytes: 1, scan: Some(choice.scan), urgent, target: Some(target) };
    let mut victims = Victims::new(state, need);
    policy.choose_victims(state, &mut victims);
    victims.parts.first().map(|victim| victim.part)
}

/// First come, first served: the time that the scan has waited, in nanoseconds.
pub(crate) fn time_waited(state: &State, scan: &Scan) -> i128 {
    i128::from(scan.waiting_time(state.now()).as_nanos())
}

/// The next chunk of a scan in table order, if it is available. Every policy serves such scans alike.
pub(crate) fn next_in_order(state: &State, scan: &Scan) -> Option<ChunkNo> {
    scan.next_in_order().filter(|c| state.is_available(scan, *c))
}

/// The available, unclaimed chunk of which most is decoded in the scan's columns: what others have just had decoded
/// costs this scan no decoding, and as long as it is kept. Cost: linear in the parts kept decoded, which are few.
pub(crate) fn freshly_decoded(state: &State, scan: &Scan) -> Option<ChunkNo> {
    let mut bytes: BTreeMap<ChunkNo, u64> = BTreeMap::new();
    let first = PartKey { table: scan.table, chunk: ChunkNo(0), column: ColumnNo(0) };
    let of_table = state.decoded.range(first..).take_while(|(part, _)| part.table == scan.table);
    for (part, decoded) in of_table.filter(|(part, _)| scan.columns.contains(part.column)) {
        *bytes.entry(part.chunk).or_default() += decoded;
    }
    let usable = |chunk: &ChunkNo| scan.unclaimed().contains(*chunk) && state.is_available(scan, *chunk);
    let best =
        bytes.into_iter().filter(|(chunk, _)| usable(chunk)).max_by_key(|(chunk, b)| (*b, Reverse(*chunk)));
    best.map(|(chunk, _)| chunk)
}

/// The next chunk of a scan in table order, else the available, unclaimed one that fewest others want; the
/// lowest of equals.
pub(crate) fn least_wanted(state: &State, scan: &Scan) -> Option<ChunkNo> {
    if scan.in_order() {
        return next_in_order(state, scan);
    }
    let table = state.table(scan.table);
    let (slot, interest) = (scan.slot?, state.interest(scan));
    let classes = table.classes();
    let deliverable = classes.iter().filter(|class| deliverable(class, slot, interest));
    deliverable
        .map(|class| (relevance::competition(table, class, interest), classes.first_chunk(class)))
        .min()
        .map(|(_, chunk)| chunk)
}

/// Whether this class's chunks can be handed to the scan.
pub(crate) fn deliverable(class: &Class, slot: ScanSlot, interest: &Interest) -> bool {
    class.key.interested.contains(slot)
        && !class.key.claimed.contains(slot)
        && class.key.resident.is_superset(&interest.columns)
}

/// Whether a scan still needs this class's chunks and they will not be complete for it without a load.
pub(crate) fn lacks(class: &Class, slot: ScanSlot, interest: &Interest) -> bool {
    class.key.interested.contains(slot) && !class.key.supplies(&interest.columns)
}

/// The first of a scan's upcoming chunks from `position` on that is not on its way, looking as far ahead
/// as the scan may be supplied: `starved_below` chunks per worker, those in hand included.
pub(crate) fn first_unsupplied(state: &State, scan: &Scan, position: ChunkNo) -> Option<ChunkNo> {
    let in_hand = scan.claimed_count();
    let ahead = (state.config.starved_below * scan.workers).saturating_sub(in_hand);
    scan.upcoming(position, ahead).find(|c| !state.is_supplied(scan, *c))
}

/// The parts of a class's chunks, for eviction: columns that nobody wants are gone by then.
pub(crate) fn parts_of<'a>(
    table: TableId,
    classes: &'a Classes,
    class: &'a Class,
) -> impl Iterator<Item = PartKey> + 'a {
    classes
        .chunks_of(class)
        .flat_map(move |chunk| class.key.resident.iter().map(move |column| PartKey { table, chunk, column }))
}

/// The next chunks of scans in table order, which are of no use to them if they leave.
pub(crate) fn in_order_windows(state: &State) -> BTreeSet<(TableId, ChunkNo)> {
    let mut windows = BTreeSet::new();
    for (id, table) in state.tables() {
        for slot in table.in_order().iter() {
            let scan = state.scan(table.interest(slot).scan);
            windows.extend(state.in_order_window(scan).map(|chunk| (id, chunk)));
        }
    }
    windows
}
