//! Which fragments of a scan are available, and which are suspended.
//!
//! One list of subqueries is submitted at a time. Streams take pieces of fragments that are ready; when the last piece of
//! a fragment was read, its subquery is done; when all of a batch are, the next one is waited for. When a dynamic filter
//! got narrower in the meantime, what it rules out is withdrawn. A stream that nobody polls holds up no other, beyond
//! the piece that it reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use futures::future::{Either, select};
use tokio::sync::Notify;

use crate::error::TierError;
use crate::list::SqList;
use crate::plan::resolve::Resolver;
use crate::plan::scan::{ScanFragment, TierScan};
use crate::tier::Tier;

/// A part of a fragment that one stream reads.
pub(crate) type Piece = PartitionedFile;

/// The fragments of one execution of a scan.
#[derive(Debug)]
pub(crate) struct Availability {
    tier: Tier,
    user: String,
    resolver: Option<Resolver>,
    fragments: Vec<ScanFragment>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Where resolving goes on; `None` if the list is complete.
    unresolved: Option<usize>,
    /// Tells when dynamic filters got narrower.
    tracking: Option<DynamicFilterTracking>,
    /// Pieces that are available and that nobody reads.
    available: VecDeque<(u32, Piece)>,
    /// Pieces of each subquery that are not read to their end.
    open: BTreeMap<u32, usize>,
    /// Fragments that are or were available.
    taken: BTreeSet<usize>,
}

#[derive(Debug)]
enum Phase {
    /// No list is submitted.
    Idle,
    /// One is about to be.
    Submitting,
    /// One is; which fragment each of its subqueries has.
    Submitted(Arc<SqList>, Vec<usize>),
    /// It could not be.
    Failed(TierError),
}

enum Step {
    Read(Box<Lease>),
    Wait(Option<Arc<SqList>>),
    End,
}

/// A piece that is being read; dropping it means that it was.
pub(crate) struct Lease {
    of: Arc<Availability>,
    list: Arc<SqList>,
    subquery: u32,
    piece: Piece,
}

impl Lease {
    pub(crate) fn piece(&self) -> &Piece {
        &self.piece
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.of.state();
        let Some(open) = state.open.get_mut(&self.subquery) else { return };
        *open -= 1;
        if *open == 0 {
            state.open.remove(&self.subquery);
            drop(state);
            self.list.done(vec![self.subquery]);
        }
    }
}

impl Availability {
    /// Of these partitions of a scan.
    pub(crate) fn new(
        scan: &TierScan,
        resolver: Option<Resolver>,
        partitions: &[usize],
        user: String,
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
        };
        Arc::new(Availability {
            tier: scan.tier.clone(),
            user,
            resolver,
            fragments: own.filter(|read| !read.pieces.is_empty()).collect(),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// Waits for a piece that can be read; `None` when all were given out.
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
        self.withdraw(&mut state)?;
        match &state.phase {
            Phase::Failed(error) => return Err(error.clone().into()),
            Phase::Submitting => return Ok(Step::Wait(None)),
            Phase::Submitted(list, _) => {
                let list = Arc::clone(list);
                return Ok(match state.available.pop_front() {
                    Some((subquery, piece)) => {
                        Step::Read(Box::new(Lease { of: Arc::clone(self), list, subquery, piece }))
                    }
                    None => Step::Wait(Some(list)),
                });
            }
            Phase::Idle => {}
        }
        // The list is resolved by parts; a part of which nothing is needed is passed over.
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

    /// Submits a list of these fragments, in a task: a stream may be dropped or left alone at any time.
    fn submit(self: &Arc<Self>, state: &mut State, places: Vec<usize>) {
        state.phase = Phase::Submitting;
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let subqueries =
                places.iter().map(|at| vec![vec![this.fragments[*at].fragment.clone()]]).collect();
            let submitted = this.tier.submit(&this.user, subqueries).await;
            this.state().phase = match submitted {
                Ok(list) => Phase::Submitted(Arc::new(list), places),
                Err(error) => Phase::Failed(error),
            };
            this.changed.notify_waiters();
        });
    }

    fn make_available(&self, list: &Arc<SqList>, ready: Vec<u32>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Phase::Submitted(current, places) = &state.phase else { return };
        if !Arc::ptr_eq(current, list) {
            return;
        }
        for subquery in ready {
            let at = places[subquery as usize];
            let pieces = &self.fragments[at].pieces;
            state.open.insert(subquery, pieces.len());
            state.available.extend(pieces.iter().map(|(_, piece)| (subquery, piece.clone())));
            state.taken.insert(at);
        }
        drop(guard);
        self.changed.notify_waiters();
    }

    fn finished(&self, list: &Arc<SqList>) {
        let mut state = self.state();
        if matches!(&state.phase, Phase::Submitted(current, _) if Arc::ptr_eq(current, list)) {
            state.phase = Phase::Idle;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// If a dynamic filter rules out fragments that are still suspended, submits what is left of the list anew.
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
