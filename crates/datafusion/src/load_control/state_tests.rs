//! The rules of admission, one by one.

use std::task::Waker;

use super::super::control::LoadControl;
use super::super::gauge::Gauge;
use super::super::run::{ENDING, ENDING_AGAIN, TRIAL, UNKNOWN};
use super::*;

fn about(plan: u64) -> Arc<About> {
    Arc::new(About { text: format!("plan {plan}"), plan, session: "s".into() })
}

fn control(limit: u64) -> LoadControl {
    LoadControl::new(limit, Gauge::new(1 << 50))
}

fn is_in_at(control: &LoadControl, id: RunId, now: Instant) -> bool {
    control.poll_in(id, Waker::noop(), None, now).is_ready()
}

fn is_in(control: &LoadControl, id: RunId) -> bool {
    is_in_at(control, id, Instant::now())
}

/// A query whose reader reads.
fn arrive(
    control: &LoadControl,
    plan: u64,
    first: Option<RunId>,
    attempt: u32,
    request: MemoryRequest,
) -> RunId {
    let turn = Turn::new(Instant::now());
    turn.of_query();
    control.arrive(Arrival { about: about(plan), first, attempt, request, turn }, Instant::now())
}

fn leave(control: &LoadControl, id: RunId, remember: bool) {
    control.leave(id, remember, Instant::now());
}

const MIB: u64 = 1 << 20;

fn asking(has: u64, more: u64, can_spill: bool) -> Asking {
    Asking { has, more, copies: 0, can_spill, who: Asker::Other }
}

#[test]
fn whoever_wants_all_waits_for_everybody_and_everybody_for_it() {
    let control = control(800 * MIB);
    let first = arrive(&control, 1, None, 1, MemoryRequest::Usual);
    assert!(is_in(&control, first));
    let all = arrive(&control, 2, None, 2, MemoryRequest::All);
    let behind = arrive(&control, 3, None, 1, MemoryRequest::Usual);
    assert!(!is_in(&control, all) && !is_in(&control, behind), "first come, first served");
    assert_eq!(control.view()[1].waits_for, [first]);
    leave(&control, first, true);
    assert!(is_in(&control, all) && !is_in(&control, behind));
    control.take(all, MIB);
    leave(&control, all, true);
    assert!(is_in(&control, behind), "what is left of the others fits beside it");
    control.give_back(all, MIB, Instant::now());
    assert_eq!(control.view().len(), 1);
}

#[test]
fn a_further_run_has_the_place_of_the_first() {
    let control = control(800 * MIB);
    let holder = arrive(&control, 1, None, 1, MemoryRequest::All);
    assert!(is_in(&control, holder));
    let early = arrive(&control, 2, None, 1, MemoryRequest::All);
    let late = arrive(&control, 3, None, 1, MemoryRequest::All);
    let again = arrive(&control, 1, Some(holder), 2, MemoryRequest::All);
    leave(&control, holder, false);
    assert!(is_in(&control, again) && !is_in(&control, early) && !is_in(&control, late));
}

#[test]
fn what_a_plan_took_is_what_it_is_promised_next() {
    let control = control(800 * MIB);
    let first = arrive(&control, 7, None, 1, MemoryRequest::Usual);
    assert!(is_in(&control, first));
    assert_eq!(control.view()[0].wants, 100 * MIB, "a stranger");
    control.take(first, 400 * MIB);
    control.give_back(first, 400 * MIB, Instant::now());
    leave(&control, first, true);
    let known = arrive(&control, 7, None, 1, MemoryRequest::Usual);
    let stranger = arrive(&control, 8, None, 1, MemoryRequest::Usual);
    assert!(is_in(&control, known) && is_in(&control, stranger));
    assert_eq!(control.view()[0].wants, 500 * MIB);
    let again = arrive(&control, 7, None, 1, MemoryRequest::Usual);
    assert!(!is_in(&control, again), "500 of 600 are promised to another");
}

#[test]
fn refusals_leave_room_for_those_who_cannot_spill_and_for_promises() {
    let control = control(800 * MIB);
    let (a, b) = (
        arrive(&control, 1, None, 1, MemoryRequest::Usual),
        arrive(&control, 2, None, 1, MemoryRequest::Usual),
    );
    assert!(is_in(&control, a) && is_in(&control, b));
    assert_eq!(control.try_take(a, asking(0, 700 * MIB, true)), Ok(()));
    assert_eq!(control.try_take(a, asking(700 * MIB, 2 * MIB, true)), Err(2 * MIB), "100 are promised to b");
    assert_eq!(control.try_take(a, asking(700 * MIB, 50 * MIB, false)), Ok(()), "an eighth beyond");
    assert_eq!(control.try_take(a, asking(0, MIB, true)), Ok(()), "so little is never refused");
    assert_eq!(control.try_take(a, asking(4 * MIB, MIB, true)), Err(2 * MIB + 50 * MIB));
    assert_eq!(control.try_take(b, asking(0, 100 * MIB, true)), Ok(()), "a promise is kept");
    assert_eq!(control.refused(a), Some(Refused { peak: 751 * MIB, more: 2 * MIB, by_session: false }));
    assert_eq!(control.refused(b), None);
    control.set_lent(200 * MIB);
    assert_eq!(control.try_take(b, asking(100 * MIB, 40 * MIB, true)), Ok(()), "the buffer lends");
    assert_eq!(control.return_unused(), 91 * MIB);
    assert_eq!(control.return_unused(), 91 * MIB);
}

/// A run that is over and still has 300 MiB. Its query's plan is the first.
fn ended(control: &LoadControl, attempt: u32, now: Instant) -> RunId {
    let ended = arrive(control, 1, None, attempt, MemoryRequest::Usual);
    assert!(is_in(control, ended));
    control.take(ended, 300 * MIB);
    control.leave(ended, false, now);
    ended
}

#[test]
fn what_an_ended_run_keeps_counts_but_is_not_waited_for() {
    let (control, now) = (control(800 * MIB), Instant::now());
    let over = ended(&control, 1, now);
    let all = arrive(&control, 1, Some(over), 2, MemoryRequest::All);
    assert!(!is_in_at(&control, all, now + ENDING / 2), "it may give that back in a moment");
    assert!(is_in_at(&control, all, now + ENDING), "a plan that somebody keeps has it for good");
    assert_eq!(control.view()[1].wants, 500 * MIB);
    assert_eq!(control.try_take(all, asking(0, 501 * MIB, true)), Err(MIB));
}

#[test]
fn what_a_further_run_has_is_waited_for() {
    let (control, now) = (control(800 * MIB), Instant::now());
    let over = ended(&control, 2, now);
    let all = arrive(&control, 1, Some(over), 3, MemoryRequest::All);
    assert!(!is_in_at(&control, all, now + 2 * ENDING));
    assert!(control.give_back(over, 300 * MIB, now + 2 * ENDING));
    assert!(is_in_at(&control, all, now + 2 * ENDING));
    control.leave(all, false, now);

    let over = ended(&control, 2, now);
    let all = arrive(&control, 1, Some(over), 3, MemoryRequest::All);
    assert!(is_in_at(&control, all, now + ENDING_AGAIN), "not for ever");
}

#[test]
fn whoever_is_not_read_keeps_what_it_has_and_is_not_waited_for() {
    let control = control(800 * MIB);
    let (turn, now) = (Turn::new(Instant::now()), Instant::now());
    let arrival =
        Arrival { about: about(1), first: None, attempt: 1, request: MemoryRequest::All, turn: turn.clone() };
    let unread = control.arrive(arrival, now);
    turn.of_query();
    assert!(is_in(&control, unread));
    control.take(unread, 300 * MIB);
    let behind = arrive(&control, 2, None, 1, MemoryRequest::All);
    assert!(!is_in_at(&control, behind, now + UNREAD * 100), "it goes on, however long that takes");
    turn.of_reader(now);
    assert!(!is_in_at(&control, behind, now + UNREAD / 2));
    assert!(is_in_at(&control, behind, now + UNREAD * 2));
    assert_eq!(control.try_take(behind, asking(0, 500 * MIB, true)), Ok(()));
    assert_eq!(
        control.try_take(unread, asking(300 * MIB, 2 * MIB, true)),
        Err(2 * MIB),
        "its promise is gone"
    );
}

#[test]
fn patience_ends_with_a_wake_up() {
    let control = control(800 * MIB);
    let now = Instant::now();
    let holder = arrive(&control, 1, None, 1, MemoryRequest::All);
    assert!(is_in(&control, holder));
    let late = arrive(&control, 2, None, 1, MemoryRequest::All);
    let woken = std::sync::Arc::new(Woken::default());
    let until = Some(now + Duration::from_secs(9));
    let waker = futures::task::waker(woken.clone());
    assert!(control.poll_in(late, &waker, until, now).is_pending());
    control.open(now + Duration::from_secs(8));
    assert!(!woken.0.load(std::sync::atomic::Ordering::Relaxed));
    control.open(now + Duration::from_secs(9));
    assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
    let told = control.poll_in(late, &waker, until, now + Duration::from_secs(9));
    assert!(matches!(told, std::task::Poll::Ready(Err(_))));
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl futures::task::ArcWake for Woken {
    fn wake_by_ref(woken: &Arc<Self>) {
        woken.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn the_promise_of_a_stranger_follows_what_it_turns_out_to_need() {
    let (control, now) = (control(800 * MIB), Instant::now());
    let stranger = arrive(&control, 1, None, 1, MemoryRequest::Usual);
    assert!(is_in_at(&control, stranger, now));
    // A query must wait, or no check takes place.
    let waits = arrive(&control, 2, None, 1, MemoryRequest::All);
    let promised = |after: Duration| {
        assert!(!is_in_at(&control, waits, now + after));
        control.view()[0].wants / MIB
    };
    assert_eq!(promised(TRIAL), 100, "nobody knows");
    control.take(stranger, 10 * MIB);
    assert_eq!(promised(TRIAL * 2), 40, "it grows");
    control.take(stranger, 10 * MIB);
    assert_eq!(promised(TRIAL * 3), 80, "and grows");
    assert_eq!(promised(TRIAL * 4), 40, "it has what it needs");
    control.take(stranger, 60 * MIB);
    assert_eq!(promised(TRIAL * 5), 100, "no more than was guessed");
    let idle = arrive(&control, 3, Some(0), 1, MemoryRequest::Usual);
    assert!(is_in_at(&control, idle, now + TRIAL * 5));
    control.open(now + TRIAL * 5 + UNKNOWN);
    assert_eq!(control.view()[2].wants, PROMISE_MIN, "who asks for nothing needs little");
}

#[test]
fn at_the_end_of_its_memory_the_process_has_whoever_came_late_give_up() {
    const MEMORY: u64 = 1000 * MIB;
    let control = LoadControl::new(800 * MIB, Gauge::new(MEMORY));
    control.say(1);
    let (first, late) = (
        arrive(&control, 1, None, 1, MemoryRequest::Usual),
        arrive(&control, 2, None, 1, MemoryRequest::Usual),
    );
    assert!(is_in(&control, first) && is_in(&control, late));
    let behind = arrive(&control, 3, None, 1, MemoryRequest::Usual);
    control.say(MEMORY / 100 * 85);
    assert!(!is_in(&control, behind), "nobody comes in");
    assert!(control.try_take(late, asking(20 * MIB, 10 * MIB, true)).is_err(), "what is large spills");
    assert_eq!(control.try_take(late, asking(20 * MIB, 10 * MIB, false)), Ok(()));
    control.say(MEMORY / 100 * 95);
    assert!(control.try_take(late, asking(0, MIB, false)).is_err());
    assert_eq!(control.try_take(late, asking(0, MIB / 8, true)), Ok(()));
    assert_eq!(control.try_take(first, asking(0, 10 * MIB, false)), Ok(()), "it was there before");
    leave(&control, late, false);
    assert!(control.try_take(first, asking(0, 10 * MIB, false)).is_err(), "nobody else could give up");
}

#[test]
fn whoever_has_output_rows_has_room_that_others_hold() {
    let control = control(800 * MIB);
    let (shown, other) = (
        arrive(&control, 1, None, 1, MemoryRequest::Usual),
        arrive(&control, 2, None, 1, MemoryRequest::Usual),
    );
    assert!(is_in(&control, shown) && is_in(&control, other));
    assert_eq!(control.try_take(other, asking(0, 700 * MIB, true)), Ok(()));
    assert!(control.try_take(shown, asking(0, 300 * MIB, false)).is_err(), "it can run again");
    control.note_shown(shown);
    assert!(control.try_take(shown, asking(0, 300 * MIB, true)).is_err(), "it can spill");
    assert_eq!(control.try_take(shown, asking(0, 300 * MIB, false)), Ok(()));
    assert!(control.try_take(other, asking(700 * MIB, 2 * MIB, false)).is_err(), "it can run again");
    assert_eq!(control.try_take(shown, asking(300 * MIB, 900 * MIB, false)), Ok(()), "half beyond the limit");
    assert!(control.try_take(shown, asking(1200 * MIB, 2 * MIB, false)).is_err(), "and no more");
}

#[test]
fn what_is_copied_counts_and_a_merge_asks_again() {
    let now = Instant::now();
    let mut state = State::new(100 * MIB, now);
    let (request, turn) = (MemoryRequest::All, Turn::new(now));
    let id = state.arrive(Arrival { about: about(1), first: None, attempt: 1, request, turn }, now);
    state.admit(false, now);
    state.take(id, 60 * MIB);
    let join = Asking { copies: 60 * MIB, ..asking(60 * MIB, 10 * MIB, false) };
    assert!(state.try_take(id, join, Pressure::None).is_err());
    assert!(state.try_take(id, Asking { copies: 0, ..join }, Pressure::Beyond).is_err());
    assert!(state.try_take(id, Asking { copies: 0, ..join }, Pressure::None).is_ok());
    let merge = |more| Asking { who: Asker::Merge, ..asking(60 * MIB, more, false) };
    assert!(state.try_take(id, merge(90 * MIB), Pressure::None).is_err());
    assert!(state.try_take(id, merge(70 * MIB), Pressure::End).is_err());
    assert!(state.try_take(id, merge(70 * MIB), Pressure::None).is_ok());
    assert_eq!(state.used(id), 140 * MIB);
}

#[test]
fn a_sort_of_a_run_that_is_alone_has_room_for_a_batch_whatever_its_merges_have() {
    let now = Instant::now();
    let mut state = State::new(100 * MIB, now);
    let arrival = |plan| {
        let (request, turn) = (MemoryRequest::Usual, Turn::new(now));
        turn.of_query();
        Arrival { about: about(plan), first: None, attempt: 1, request, turn }
    };
    let id = state.arrive(arrival(1), now);
    state.admit(false, now);
    let merge = Asking { who: Asker::Merge, ..asking(0, 150 * MIB, false) };
    assert!(state.try_take(id, merge, Pressure::None).is_ok());
    assert!(state.try_take(id, asking(0, 5 * MIB, true), Pressure::Short).is_err(), "that is not a batch");
    for has in [0, 2 * MIB] {
        assert!(state.try_take(id, asking(has, 2 * MIB, true), Pressure::Short).is_ok());
    }
    assert!(
        state.try_take(id, asking(4 * MIB, 2 * MIB, true), Pressure::Short).is_err(),
        "it can write to disk"
    );
    state.take(id, 27 * MIB);
    assert!(state.try_take(id, asking(0, 2 * MIB, true), Pressure::Short).is_err(), "there is an end");
    state.give_back(id, 27 * MIB);
    let other = state.arrive(arrival(2), now);
    state.give_back(id, 100 * MIB);
    state.admit(false, now);
    assert!(state.try_take(other, asking(0, MIB, true), Pressure::None).is_ok(), "it is in");
    state.take(id, 90 * MIB);
    assert!(state.try_take(id, asking(0, 2 * MIB, true), Pressure::Short).is_err(), "others can give way");
}
