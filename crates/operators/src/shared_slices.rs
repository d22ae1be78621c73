//! Results for slices, computed once for all running queries that compute the same.
//!
//! The result may be that of an aggregation: the state of a slice is the totals of its rows. It may be that
//! of a conjunct of a filter: the state of a slice is the rows for which the conjunct is true. The first
//! query that needs a state makes it, if there is another query. No query waits for a state: a query that
//! finds it in progress computes something else first, or computes it for itself. When the last of these
//! queries has ended, the states are retained for some seconds: panels of a dashboard come one after the
//! other and may miss each other by little.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::Count;

use crate::lock::lock;
use crate::slice_name::SliceName;

/// A computation on slices.
pub trait PerSlice: fmt::Debug + Send + Sync {
    /// The result for all rows of a slice.
    type State: fmt::Debug + Send + Sync;

    /// Returns whether `other` has the same states, regardless of names.
    fn is_as(&self, other: &Self) -> bool;

    /// Bytes of a state in memory.
    fn bytes(state: &Self::State) -> usize;
}

/// The account of the states' memory.
pub trait Room: fmt::Debug + Send + Sync {
    /// Sets the bytes of the states. Returns false, and changes nothing, if that is too much.
    fn resize(&self, bytes: u64) -> bool;
}

/// The states of all queries that share one place for them, for example those of one engine.
#[derive(Debug)]
pub struct SharedSlices<K: PerSlice> {
    known: Mutex<Vec<Arc<States<K>>>>,
    books: Mutex<Books>,
}

impl<K: PerSlice> Default for SharedSlices<K> {
    fn default() -> Self {
        SharedSlices { known: Mutex::default(), books: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct Books {
    bytes: u64,
    /// The bytes booked with [`Room`].
    booked: u64,
}

/// The unit in which memory is booked.
const BOOKED_BYTES: u64 = 16 << 10;

/// The bytes of an entry in addition to its state. A slice for which none could be made has an entry too.
const ENTRY_BYTES: usize = 192;

/// The number of slices without a possible state after which no more attempts are made, unless most succeed.
const FAILURES_MAX: usize = 16;

/// The time for which unused states are retained, unless other states need their room.
const RESTS_FOR: Duration = Duration::from_secs(5);

/// All states of one computation.
#[derive(Debug)]
struct States<K: PerSlice> {
    of: Arc<K>,
    /// The number of running queries. Changed under the lock of [`SharedSlices::known`].
    members: AtomicUsize,
    kept: Mutex<Kept<K>>,
}

#[derive(Debug)]
struct Kept<K: PerSlice> {
    slices: HashMap<SliceName, Slot<K::State>>,
    bytes: u64,
    failures: usize,
    /// The time at which the last query ended.
    rests_since: Option<Instant>,
}

impl<K: PerSlice> Default for Kept<K> {
    fn default() -> Self {
        Kept { slices: HashMap::new(), bytes: 0, failures: 0, rests_since: None }
    }
}

#[derive(Debug)]
enum Slot<S> {
    Made(Arc<S>),
    InWork,
    /// The state cannot be made.
    Failed,
}

/// A query's membership in the states of its computation.
#[derive(Debug)]
pub struct Member<K: PerSlice> {
    shared: Arc<SharedSlices<K>>,
    states: Arc<States<K>>,
    room: Arc<dyn Room>,
}

/// A partition's part in the states.
#[derive(Clone, Debug)]
pub struct Part<K: PerSlice> {
    /// The query's membership.
    pub member: Arc<Member<K>>,
    /// The number of states taken from other queries.
    pub taken: Count,
    /// The number of states made for other queries.
    pub made: Count,
}

/// The result of a search for a slice's state.
pub enum Found<'a, K: PerSlice> {
    /// Its state.
    State(Arc<K::State>),
    /// Other queries may want the state; the caller may make it.
    Wanted(Claim<'a, K>),
    /// It is in progress, cannot be made, or no other query wants it.
    Nothing,
}

/// The exclusive right to make a state. If it is dropped, the state counts as impossible.
pub struct Claim<'a, K: PerSlice> {
    part: &'a Part<K>,
    name: SliceName,
}

impl<K: PerSlice> SharedSlices<K> {
    /// Joins the states of `of`, shared with other queries that compute the same.
    pub fn join(self: &Arc<Self>, of: &Arc<K>, room: &Arc<dyn Room>) -> Arc<Member<K>> {
        let mut known = self.without_resting(&**room, Instant::now().checked_sub(RESTS_FOR));
        let found = known.iter().find(|states| states.of.is_as(of)).map(Arc::clone);
        let states = found.unwrap_or_else(|| {
            let states = States { of: Arc::clone(of), members: AtomicUsize::new(0), kept: Mutex::default() };
            let states = Arc::new(states);
            known.push(Arc::clone(&states));
            states
        });
        states.members.fetch_add(1, Ordering::Relaxed);
        Arc::new(Member { shared: Arc::clone(self), states, room: Arc::clone(room) })
    }

    fn leave(&self, states: &States<K>, room: &dyn Room, now: Instant) {
        let known = lock(&self.known);
        if states.members.fetch_sub(1, Ordering::Relaxed) == 1 {
            lock(&states.kept).rests_since = Some(now);
        }
        drop(known);
        // Computations without any state need not be retained.
        drop(self.without_resting(room, None));
    }

    /// The known computations, without those whose states have been unused since `before` or longer, and
    /// without unused ones that have no states.
    fn without_resting(
        &self,
        room: &dyn Room,
        before: Option<Instant>,
    ) -> MutexGuard<'_, Vec<Arc<States<K>>>> {
        let mut known = lock(&self.known);
        known.retain(|states| {
            if states.members.load(Ordering::Relaxed) > 0 {
                return true;
            }
            let mut kept = lock(&states.kept);
            let old = kept.rests_since.is_none_or(|since| before.is_some_and(|before| since <= before));
            if old {
                self.clear(&mut kept, room);
            }
            kept.bytes > 0
        });
        known
    }

    fn clear(&self, kept: &mut Kept<K>, room: &dyn Room) {
        let Kept { bytes, .. } = std::mem::take(kept);
        let mut books = lock(&self.books);
        books.bytes -= bytes;
        let booked = books.bytes.next_multiple_of(BOOKED_BYTES);
        if booked < books.booked && room.resize(booked) {
            books.booked = booked;
        }
    }

    /// Books this many more bytes. Returns false if there is no room for them.
    fn take(&self, room: &dyn Room, bytes: u64) -> bool {
        let mut books = lock(&self.books);
        let booked = (books.bytes + bytes).next_multiple_of(BOOKED_BYTES);
        if booked != books.booked && !room.resize(booked) {
            return false;
        }
        *books = Books { bytes: books.bytes + bytes, booked };
        true
    }
}

impl<K: PerSlice> Member<K> {
    fn keep(&self, name: SliceName, state: &Arc<K::State>) {
        let (shared, room) = (&self.shared, &*self.room);
        let bytes = (K::bytes(state) + ENTRY_BYTES) as u64;
        let mut has_room = shared.take(room, bytes);
        if !has_room {
            drop(shared.without_resting(room, Some(Instant::now())));
            has_room = shared.take(room, bytes);
        }
        let mut kept = lock(&self.states.kept);
        if !has_room {
            // Some may belong to files that were replaced.
            shared.clear(&mut kept, room);
            has_room = shared.take(room, bytes);
        }
        if !has_room {
            kept.slices.remove(&name);
            return;
        }
        kept.bytes += bytes;
        kept.slices.insert(name, Slot::Made(Arc::clone(state)));
    }
}

impl<K: PerSlice> Drop for Member<K> {
    fn drop(&mut self) {
        self.shared.leave(&self.states, &*self.room, Instant::now());
    }
}

impl<K: PerSlice> Part<K> {
    /// Returns whether another query is making the state of a slice.
    pub fn is_in_work(&self, name: SliceName) -> bool {
        matches!(lock(&self.member.states.kept).slices.get(&name), Some(Slot::InWork))
    }

    /// The state of a slice, or the right to make it, if it `may` be made.
    pub fn find(&self, name: SliceName, may: bool) -> Found<'_, K> {
        let states = &self.member.states;
        let mut kept = lock(&states.kept);
        match kept.slices.get(&name) {
            Some(Slot::Made(state)) => {
                self.taken.add(1);
                return Found::State(Arc::clone(state));
            }
            Some(Slot::InWork | Slot::Failed) => return Found::Nothing,
            None => {}
        }
        let fails = kept.failures >= FAILURES_MAX && kept.failures * 2 > kept.slices.len();
        if !may || fails || states.members.load(Ordering::Relaxed) < 2 {
            return Found::Nothing;
        }
        kept.slices.insert(name, Slot::InWork);
        Found::Wanted(Claim { part: self, name })
    }
}

impl<K: PerSlice> Claim<'_, K> {
    /// Enters the state that was made.
    pub fn made(self, state: K::State) -> Arc<K::State> {
        let state = Arc::new(state);
        self.part.made.add(1);
        self.part.member.keep(self.name, &state);
        state
    }
}

impl<K: PerSlice> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        let mut kept = lock(&self.part.member.states.kept);
        if let Some(slot @ Slot::InWork) = kept.slices.get_mut(&self.name) {
            *slot = Slot::Failed;
            kept.failures += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Room for this many bytes.
    #[derive(Debug)]
    struct Limited {
        most: u64,
        has: AtomicU64,
    }

    impl Room for Limited {
        fn resize(&self, bytes: u64) -> bool {
            let allowed = bytes <= self.most.max(self.has.load(Ordering::Relaxed));
            if allowed {
                self.has.store(bytes, Ordering::Relaxed);
            }
            allowed
        }
    }

    /// The sum of this column.
    #[derive(Debug)]
    struct Sum(String);

    impl PerSlice for Sum {
        type State = u64;

        fn is_as(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        fn bytes(_: &u64) -> usize {
            size_of::<u64>()
        }
    }

    struct World {
        shared: Arc<SharedSlices<Sum>>,
        limited: Arc<Limited>,
    }

    impl World {
        fn new(most: u64) -> Self {
            World { shared: Arc::default(), limited: Arc::new(Limited { most, has: AtomicU64::new(0) }) }
        }

        /// A query that sums up this column.
        fn query(&self, column: &str) -> Part<Sum> {
            let room: Arc<dyn Room> = Arc::clone(&self.limited) as _;
            let member = self.shared.join(&Arc::new(Sum(column.to_owned())), &room);
            Part { member, taken: Count::new(), made: Count::new() }
        }

        fn booked(&self) -> u64 {
            self.limited.has.load(Ordering::Relaxed)
        }
    }

    fn name(slice: u64) -> SliceName {
        SliceName([1, 2, 3, slice])
    }

    fn make(part: &Part<Sum>, slice: u64) -> bool {
        match part.find(name(slice), true) {
            Found::Wanted(claim) => *claim.made(slice) == slice,
            _ => false,
        }
    }

    fn sum(part: &Part<Sum>, slice: u64) -> Option<u64> {
        match part.find(name(slice), false) {
            Found::State(state) => Some(*state),
            _ => None,
        }
    }

    #[test]
    fn what_one_makes_another_with_the_same_sums_takes() {
        let world = World::new(1 << 20);
        let first = world.query("a");
        assert!(!make(&first, 5), "nobody else wants it");
        let (second, other) = (world.query("a"), world.query("b"));
        assert!(make(&first, 5));
        assert_eq!((sum(&second, 5), sum(&second, 6), sum(&other, 5)), (Some(5), None, None));
        assert!(!make(&other, 5), "nobody else wants this sum");
        assert_eq!((first.made.value(), second.taken.value()), (1, 1));
    }

    #[test]
    fn a_state_in_work_or_given_up_is_everybodys_own_business() {
        let world = World::new(1 << 20);
        let (first, second) = (world.query("a"), world.query("a"));
        let Found::Wanted(claim) = first.find(name(5), true) else { panic!("it is wanted") };
        assert!(matches!(second.find(name(5), true), Found::Nothing));
        drop(claim);
        assert!(matches!(second.find(name(5), true), Found::Nothing));
        assert!(make(&second, 6));
        for slice in 100..200 {
            drop(second.find(name(slice), true));
        }
        assert!(!make(&second, 7), "nearly all fail");
        assert_eq!(sum(&first, 6), Some(6));
    }

    #[test]
    fn states_rest_until_others_need_the_room() {
        let world = World::new(BOOKED_BYTES);
        let (first, second) = (world.query("a"), world.query("a"));
        assert!(make(&first, 5));
        assert_eq!(world.booked(), BOOKED_BYTES);
        drop((first, second));
        assert_eq!(sum(&world.query("a"), 5), Some(5), "it rests");
        let others = (world.query("b"), world.query("b"));
        for slice in 0..1000 {
            assert!(make(&others.0, slice));
            assert!(world.booked() <= BOOKED_BYTES);
        }
        assert_eq!(sum(&world.query("a"), 5), None);
        assert_eq!(sum(&others.1, 999), Some(999));
        drop(others);
        drop(world.shared.without_resting(&*world.limited, Some(Instant::now())));
        assert_eq!(world.booked(), 0);
        assert!(lock(&world.shared.known).is_empty());
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let world = World::new(0);
        let (first, second) = (world.query("a"), world.query("a"));
        assert!(make(&first, 5));
        assert_eq!((sum(&second, 5), world.booked()), (None, 0));
        drop((first, second));
        assert!(lock(&world.shared.known).is_empty());
    }
}
