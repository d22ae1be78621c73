//! Available and suspended fragments of a scan.
//!
//! One list of subqueries is submitted at a time. Streams take pieces of ready fragments. A subquery is done when
//! the last piece of its fragment was read. When all subqueries of a batch are done, the next batch is awaited. If a
//! dynamic filter became narrower in the meantime, the fragments that it rules out are withdrawn.
//!
//! A stream that is not polled delays no other stream beyond the piece that it reads. When no stream reads, the list
//! is given back (`held.rs`), and its suspended fragments are submitted again when a stream continues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use futures::future::{Either, select};
use tokio::sync::Notify;

use crate::plan::bill::Bill;
use crate::plan::held::HeldList;
use crate::plan::resolve::Resolver;
use crate::plan::scan::{ScanFragment, TierScan};
use crate::reads::user_of;
use crate::tier::Tier;

/// A part of a fragment that one stream reads.
pub(crate) type Piece = PartitionedFile;

/// The fragments of one execution of a scan.
#[derive(Debug)]
pub(crate) struct Availability {
    tier: Tier,
    bill: Arc<Bill>,
    context: Weak<TaskContext>,
    resolver: Option<Resolver>,
    fragments: Vec<ScanFragment>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The place where resolving continues. `None` if the list is complete.
    unresolved: Option<usize>,
    /// Detects dynamic filters that became narrower.
    tracking: Option<DynamicFilterTracking>,
    /// Available pieces that are not read yet, each with its subquery. Pieces of a list that was given back have no
    /// subquery.
    available: VecDeque<(Option<u32>, Piece)>,
    /// For each subquery, the number of pieces that are not read to their end.
    open: BTreeMap<u32, usize>,
    /// Fragments that are or were available.
    taken: BTreeSet<usize>,
    /// The fragments of a list that was given back which were never available.
    suspended: Option<Vec<usize>>,
}

#[derive(Debug)]
enum Phase {
    /// No list is submitted.
    Idle,
    /// A list is being submitted.
    Submitting,
    /// A list is submitted. The numbers are the fragments of its subqueries.
    Submitted(Arc<HeldList>, Vec<usize>),
    /// The list could not be submitted.
    Failed(Arc<DataFusionError>),
}

enum Step {
    Read(Box<Lease>),
    Wait(Option<Arc<HeldList>>),
    End,
}

/// A piece that is being read. Dropping it marks the piece as read.
pub(crate) struct Lease {
    of: Arc<Availability>,
    /// The subquery of the piece, unless its list was given back.
    subquery: Option<(Arc<HeldList>, u32)>,
    piece: Piece,
}

impl Lease {
    pub(crate) fn piece(&self) -> &Piece {
        &self.piece
    }

    /// Records that some of the piece was read.
    pub(crate) fn read(&self) {
        if let Some((list, _)) = &self.subquery {
            list.read();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some((list, subquery)) = &self.subquery else { return };
        let mut state = self.of.state();
        // A list that was given back has no open pieces.
        if !state.is_submitted(list) {
            return;
        }
        let Some(open) = state.open.get_mut(subquery) else { return };
        *open -= 1;
        if *open == 0 {
            state.open.remove(subquery);
            let all = state.open.is_empty();
            drop(state);
            list.done(vec![*subquery], all);
        }
    }
}

impl State {
    fn is_submitted(&self, list: &Arc<HeldList>) -> bool {
        matches!(&self.phase, Phase::Submitted(current, _) if Arc::ptr_eq(current, list))
    }
}

impl Availability {
    /// The fragments of these partitions of a scan.
    pub(crate) fn new(
        scan: &TierScan,
        resolver: Option<Resolver>,
        partitions: &[usize],
        context: &Arc<TaskContext>,
    ) -> Arc<Self> {
        let own = scan.fragments.iter().map(|read| ScanFragment {
            fragment: read.fragment.clone(),
            pieces: read.pieces.iter().filter(|(of, _)| partitions.contains(of)).cloned().collect(),
        });
        let state = State {
            phase: Phase::Idle,
            unresolved: Some(0),
            tracking: None,
            available: VecDeque::new(),
            open: BTreeMap::new(),
            taken: BTreeSet::new(),
            suspended: None,
        };
        Arc::new(Availability {
            tier: scan.tier.clone(),
            bill: Arc::clone(&scan.bill),
            context: Arc::downgrade(context),
            resolver,
            fragments: own.filter(|read| !read.pieces.is_empty()).collect(),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// Waits for a piece that can be read. `None` when all were handed out.
    pub(crate) async fn next(self: &Arc<Self>) -> Result<Option<Lease>> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let list = match self.step()? {
                Step::Read(lease) => return Ok(Some(*lease)),
                Step::End => return Ok(None),
                Step::Wait(list) => list,
            };
            let Some(list) = list else {
                changed.await;
                continue;
            };
            match select(pin!(list.next()), changed).await {
                Either::Left((Ok(Some(ready)), _)) => self.make_available(&list, ready),
                Either::Left((Ok(None), _)) => self.finished(&list),
                Either::Left((Err(error), _)) => return Err(error.into()),
                Either::Right(_) => {}
            }
        }
    }

    fn step(self: &Arc<Self>) -> Result<Step> {
        let mut state = self.state();
        self.take_back(&mut state);
        self.withdraw(&mut state)?;
        if let Some((subquery, piece)) = state.available.pop_front() {
            let list = match &state.phase {
                Phase::Submitted(list, _) => Some(Arc::clone(list)),
                _ => None,
            };
            let subquery = list.zip(subquery);
            return Ok(Step::Read(Box::new(Lease { of: Arc::clone(self), subquery, piece })));
        }
        match &state.phase {
            Phase::Failed(error) => return Err(DataFusionError::Shared(Arc::clone(error))),
            Phase::Submitting => return Ok(Step::Wait(None)),
            Phase::Submitted(list, _) => return Ok(Step::Wait(Some(Arc::clone(list)))),
            Phase::Idle => {}
        }
        if let Some(suspended) = state.suspended.take() {
            self.submit(&mut state, suspended);
            return Ok(Step::Wait(None));
        }
        // The list is resolved in parts. A part of which nothing is needed is skipped.
        while let Some(from) = state.unresolved {
            let (needed, more) = match &self.resolver {
                Some(resolver) => {
                    state.tracking = Some(resolver.tracking());
                    resolver.partial(&self.fragments, from)?
                }
                None => ((from..self.fragments.len()).collect(), None),
            };
            state.unresolved = more;
            if !needed.is_empty() {
                self.submit(&mut state, needed);
                return Ok(Step::Wait(None));
            }
        }
        Ok(Step::End)
    }

    /// Submits a list of these fragments in a task, because a stream may be dropped or not polled at any time.
    fn submit(self: &Arc<Self>, state: &mut State, places: Vec<usize>) {
        state.phase = Phase::Submitting;
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let subqueries =
                places.iter().map(|at| vec![vec![this.fragments[*at].fragment.clone()]]).collect();
            // Without a context no stream waits any more.
            let Some(context) = this.context.upgrade() else { return };
            let user = user_of(&context);
            let submitted = match this.bill.check(&context).await {
                Ok(()) => this.tier.submit(&user, subqueries).await.map_err(DataFusionError::from),
                Err(refused) => Err(refused),
            };
            let patience = this.tier.config().patience;
            this.state().phase = match submitted {
                Ok(list) => Phase::Submitted(HeldList::new(list, patience), places),
                Err(error) => Phase::Failed(Arc::new(error)),
            };
            this.changed.notify_waiters();
        });
    }

    /// Handles a list that was given back after too long a pause. Handed-out pieces are read without the list, and
    /// the others wait for a new list.
    fn take_back(&self, state: &mut State) {
        let Phase::Submitted(list, places) = &state.phase else { return };
        if !list.is_given_back() {
            return;
        }
        let suspended: Vec<usize> = places.iter().copied().filter(|at| !state.taken.contains(at)).collect();
        state.suspended = Some(suspended).filter(|suspended| !suspended.is_empty());
        state.phase = Phase::Idle;
        state.open.clear();
        state.available.iter_mut().for_each(|(subquery, _)| *subquery = None);
    }

    fn make_available(&self, list: &Arc<HeldList>, ready: Vec<u32>) {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.is_submitted(list) {
            return;
        }
        let Phase::Submitted(_, places) = &state.phase else { return };
        for subquery in ready {
            let at = places[subquery as usize];
            let pieces = &self.fragments[at].pieces;
            state.open.insert(subquery, pieces.len());
            state.available.extend(pieces.iter().map(|(_, piece)| (Some(subquery), piece.clone())));
            state.taken.insert(at);
        }
        drop(guard);
        self.changed.notify_waiters();
    }

    /// Every subquery of the list is done, or the list was given back.
    fn finished(&self, list: &Arc<HeldList>) {
        let mut state = self.state();
        self.take_back(&mut state);
        if state.is_submitted(list) {
            state.phase = Phase::Idle;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// If a dynamic filter rules out suspended fragments, submits the rest of the list again without them.
    fn withdraw(self: &Arc<Self>, state: &mut State) -> Result<()> {
        let (Some(resolver), Some(tracking)) = (&self.resolver, &mut state.tracking) else { return Ok(()) };
        let Phase::Submitted(_, places) = &state.phase else { return Ok(()) };
        if !state.open.is_empty() || !tracking.watcher().is_some_and(|watcher| watcher.changed()) {
            return Ok(());
        }
        let suspended: Vec<usize> = places.iter().copied().filter(|at| !state.taken.contains(at)).collect();
        let mut needed = Vec::new();
        for at in &suspended {
            if resolver.needs(&self.fragments[*at])? {
                needed.push(*at);
            }
        }
        if needed.len() < suspended.len() {
            state.available.clear();
            state.phase = Phase::Idle;
            if !needed.is_empty() {
                self.submit(state, needed);
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
