//! States of slices that queries which are under way at the same time have in common.
//!
//! Queries with the same aggregation, over whatever rows, find here what others have added up for whole slices. A state is
//! made by the first query that needs it while there is another. Nobody waits for it: who finds it in work adds the next batch
//! first, and computes for itself what is still in work then. When the last of these queries has ended the states rest for some
//! seconds: panels of a dashboard that come one after the other may miss each other by little.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::Count;

use super::Aggregation;
use super::slice_name::SliceName;
use super::slice_state::SliceState;
use crate::lock::lock;

/// Where the memory of states is booked.
pub trait Room: fmt::Debug + Send + Sync {
    /// States have so many bytes from now on; false if that is too much, and they have what they had.
    fn resize(&self, bytes: u64) -> bool;
}

/// The states of all queries that have one place for them, as those on an engine.
#[derive(Debug, Default)]
pub struct SharedStates {
    known: Mutex<Vec<Arc<States>>>,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    bytes: u64,
    /// What [`Room`] was told.
    booked: u64,
}

/// Memory is booked in multiples of this.
const BOOKED_BYTES: u64 = 16 << 10;

/// A state takes this much beside itself, with a slice for which none could be made.
const ENTRY_BYTES: usize = 192;

/// After so many slices of which no state could be made there are no more attempts, unless most succeed.
const FAILURES_MAX: usize = 16;

/// So long states rest, unless others need their room.
const RESTS_FOR: Duration = Duration::from_secs(5);

/// The states of one aggregation.
#[derive(Debug)]
struct States {
    of: Arc<Aggregation>,
    /// Queries under way. Changed under the lock of [`SharedStates::known`].
    members: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    slices: HashMap<SliceName, Slot>,
    bytes: u64,
    failures: usize,
    /// When the last query ended.
    rests_since: Option<Instant>,
}

#[derive(Debug)]
enum Slot {
    Made(Arc<SliceState>),
    InWork,
    /// It cannot be made.
    Failed,
}

/// A query's part in the states of its aggregation.
#[derive(Debug)]
pub(super) struct Member {
    shared: Arc<SharedStates>,
    states: Arc<States>,
    room: Arc<dyn Room>,
}

/// A partition's part.
pub(super) struct Part {
    pub(super) member: Arc<Member>,
    /// States that were taken from other queries.
    pub(super) taken: Count,
    /// States that were made for them.
    pub(super) made: Count,
}

/// What there is for a slice.
pub(super) enum Found<'a> {
    State(Arc<SliceState>),
    /// Others may want the state.
    Wanted(Claim<'a>),
    /// It is in work, cannot be made, or nobody else wants it.
    Nothing,
}

/// A state that nobody else makes meanwhile. Dropped, it is one that cannot be made.
pub(super) struct Claim<'a> {
    part: &'a Part,
    name: SliceName,
}

impl SharedStates {
    /// Takes part in the states of an aggregation.
    pub(super) fn join(self: &Arc<Self>, of: &Arc<Aggregation>, room: &Arc<dyn Room>) -> Arc<Member> {
        let mut known = self.without_resting(&**room, Instant::now().checked_sub(RESTS_FOR));
        let found = known.iter().find(|states| states.of.adds_as(of)).map(Arc::clone);
        let states = found.unwrap_or_else(|| {
            let states = States { of: Arc::clone(of), members: AtomicUsize::new(0), kept: Mutex::default() };
            let states = Arc::new(states);
            known.push(Arc::clone(&states));
            states
        });
        states.members.fetch_add(1, Ordering::Relaxed);
        Arc::new(Member { shared: Arc::clone(self), states, room: Arc::clone(room) })
    }

    fn leave(&self, states: &States, room: &dyn Room, now: Instant) {
        let known = lock(&self.known);
        if states.members.fetch_sub(1, Ordering::Relaxed) == 1 {
            lock(&states.kept).rests_since = Some(now);
        }
        drop(known);
        // Those without any state need no rest.
        drop(self.without_resting(room, None));
    }

    /// What is known, without states that rest since `before` or longer, and without those that rest and are none.
    fn without_resting(&self, room: &dyn Room, before: Option<Instant>) -> MutexGuard<'_, Vec<Arc<States>>> {
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

    fn clear(&self, kept: &mut Kept, room: &dyn Room) {
        let Kept { bytes, .. } = std::mem::take(kept);
        let mut books = lock(&self.books);
        books.bytes -= bytes;
        let booked = books.bytes.next_multiple_of(BOOKED_BYTES);
        if booked < books.booked && room.resize(booked) {
            books.booked = booked;
        }
    }

    /// Books so many bytes more; false if there is no room for them.
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

impl Member {
    fn keep(&self, name: SliceName, state: &Arc<SliceState>) {
        let (shared, room) = (&self.shared, &*self.room);
        let bytes = (state.bytes() + ENTRY_BYTES) as u64;
        let mut has_room = shared.take(room, bytes);
        if !has_room {
            drop(shared.without_resting(room, Some(Instant::now())));
            has_room = shared.take(room, bytes);
        }
        let mut kept = lock(&self.states.kept);
        if !has_room {
            // Some may be of files that were replaced.
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

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.leave(&self.states, &*self.room, Instant::now());
    }
}

impl Part {
    /// Whether another query is making the state of a slice.
    pub(super) fn is_in_work(&self, name: SliceName) -> bool {
        matches!(lock(&self.member.states.kept).slices.get(&name), Some(Slot::InWork))
    }

    /// The state of a slice, or the task to make it, if it `may` be.
    pub(super) fn find(&self, name: SliceName, may: bool) -> Found<'_> {
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

impl Claim<'_> {
    /// The state was made.
    pub(super) fn made(self, state: SliceState) -> Arc<SliceState> {
        let state = Arc::new(state);
        self.part.made.add(1);
        self.part.member.keep(self.name, &state);
        state
    }
}

impl Drop for Claim<'_> {
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

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::col;

    use super::*;
    use crate::Function;

    /// Room for so many bytes.
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

    struct World {
        shared: Arc<SharedStates>,
        limited: Arc<Limited>,
    }

    impl World {
        fn new(most: u64) -> Self {
            World { shared: Arc::default(), limited: Arc::new(Limited { most, has: AtomicU64::new(0) }) }
        }

        /// A query that sums up this column.
        fn query(&self, column: &str) -> Part {
            let schema = Schema::new(["a", "b"].map(|name| Field::new(name, DataType::Int64, true)).to_vec());
            let sums = Arc::new(Schema::new(vec![Field::new("sum", DataType::Int64, true)]));
            let functions = [(Function::Sum, col(column, &schema).unwrap())];
            let aggregation = Aggregation::new(Vec::new(), &functions, &schema, sums).unwrap();
            let room: Arc<dyn Room> = Arc::clone(&self.limited) as _;
            let member = self.shared.join(&Arc::new(aggregation.unwrap()), &room);
            Part { member, taken: Count::new(), made: Count::new() }
        }

        fn booked(&self) -> u64 {
            self.limited.has.load(Ordering::Relaxed)
        }
    }

    fn name(slice: u64) -> SliceName {
        SliceName([1, 2, 3, slice])
    }

    fn state(sum: i128) -> SliceState {
        SliceState {
            examples: vec![0],
            rows: vec![1],
            with_null: vec![0],
            sums: vec![sum],
            growth: vec![sum],
        }
    }

    fn make(part: &Part, slice: u64) -> bool {
        match part.find(name(slice), true) {
            Found::Wanted(claim) => claim.made(state(i128::from(slice))).sums[0] == i128::from(slice),
            _ => false,
        }
    }

    fn sum(part: &Part, slice: u64) -> Option<i128> {
        match part.find(name(slice), false) {
            Found::State(state) => Some(state.sums[0]),
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
