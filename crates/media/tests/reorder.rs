//! The behaviour of reorder in the paper, as sequences that a person can follow (1996, sections 1.2, 3.1 and
//! 4.1.1).

use coscan_media::{
    Action, DriveId, Event, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Scheduler,
    SchedulerConfig, Subquery, UserId,
};

const MB: u64 = 1 << 20;

/// Plays to the end with the library's times; returns the actions in order.
fn play(scheduler: &mut Scheduler, lists: &[(u64, Vec<Subquery>)]) -> Vec<Action> {
    let (mut all, mut now, mut pending) = (Vec::new(), Instant::ZERO, Vec::new());
    for (user, subqueries) in lists {
        let (list, user) = (ListId(*user), UserId(*user));
        scheduler.handle(now, Event::Submit { list, user, subqueries: subqueries.clone() }, &mut pending);
    }
    while !pending.is_empty() {
        let mut next = Vec::new();
        for action in std::mem::take(&mut pending) {
            let event = match &action {
                Action::Switch { drive, .. } => {
                    now = now + scheduler.switch_time(*drive);
                    Some(Event::Switched { drive: *drive })
                }
                Action::Fetch { drive, fragment, .. } => {
                    now = now + scheduler.fetch_time(*drive, *fragment);
                    Some(Event::Fetched { drive: *drive })
                }
                Action::Ready { list, subqueries } => {
                    Some(Event::Done { list: *list, subqueries: subqueries.clone() })
                }
                _ => None,
            };
            all.push(action);
            if let Some(event) = event {
                scheduler.handle(now, event, &mut next);
            }
        }
        pending = next;
    }
    all
}

fn scheduler(policy: PolicyName, cache_mb: u64, fragments: &[(u64, u32, u64)]) -> Scheduler {
    let config = SchedulerConfig::new(cache_mb * MB);
    let mut scheduler = Scheduler::new(config, Library::tape_stacker_1996(), policy).unwrap();
    for (id, medium, position) in fragments {
        let (id, medium) = (FragmentId(*id), MediumId(*medium));
        let fragment = Fragment { id, medium, position: position * MB, bytes: 100 * MB };
        scheduler.add_fragment(fragment).unwrap();
    }
    scheduler
}

fn scan(ids: impl IntoIterator<Item = u64>) -> Vec<Subquery> {
    ids.into_iter().map(|id| Subquery::of([FragmentId(id)])).collect()
}

fn switches(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Switch { .. })).count()
}

fn fetched(actions: &[Action]) -> Vec<u64> {
    let fetches = actions.iter().filter_map(|action| match action {
        Action::Fetch { fragment, .. } => Some(fragment.0),
        _ => None,
    });
    fetches.collect()
}

/// Two users on tapes 1 to 5 and 2 to 6: six switches, as the paper counts them, and each fragment once.
#[test]
fn two_users_on_overlapping_tapes_take_six_switches() {
    let of = |tapes: std::ops::RangeInclusive<u32>, first: u64, position: u64| -> Vec<(u64, u32, u64)> {
        let units = tapes.flat_map(|tape| (0..4).map(move |unit| (tape, unit)));
        units.zip(first..).map(|((tape, unit), id)| (id, tape, position + unit * 100)).collect()
    };
    let all = [of(1..=5, 0, 0), of(2..=6, 100, 5000)].concat();
    let mut reorder = scheduler(PolicyName::REORDER, 512, &all);
    let actions = play(&mut reorder, &[(1, scan(0..20)), (2, scan(100..120))]);
    assert_eq!((switches(&actions), fetched(&actions).len()), (6, 40));
    let mut prefetch = scheduler("prefetch".parse().unwrap(), 512, &all);
    let actions = play(&mut prefetch, &[(1, scan(0..20)), (2, scan(100..120))]);
    assert!(switches(&actions) > 12, "{} switches", switches(&actions));
}

/// Cached fragments are used before anything is fetched, whatever their place in the list.
#[test]
fn a_second_scan_begins_with_what_is_cached() {
    let mut scheduler = scheduler(PolicyName::REORDER, 250, &[(1, 2, 0), (2, 3, 0), (3, 2, 500)]);
    let first = play(&mut scheduler, &[(1, scan([1, 2, 3]))]);
    assert_eq!(fetched(&first), [1, 3, 2], "the mounted tape first");
    let second = play(&mut scheduler, &[(2, scan([1, 2, 3]))]);
    assert!(matches!(&second[0], Action::Ready { subqueries, .. } if *subqueries == [1, 2]), "{second:?}");
    assert_eq!(fetched(&second), [1]);
}

/// Section 3.1: with S1, S2 and R3 present, (R3, S1) and (R3, S2) run in one pass. Section 3.2.2: nothing is
/// repeated.
#[test]
fn a_join_runs_several_subqueries_together_and_none_twice() {
    let fragments = [(1, 1, 0), (2, 1, 200), (3, 1, 400), (11, 1, 600), (12, 1, 800)];
    let mut scheduler = scheduler(PolicyName::REORDER, 512, &fragments);
    let pairs = [1, 2, 3].into_iter().flat_map(|r| [11, 12].map(|s| [FragmentId(r), FragmentId(s)]));
    let actions = play(&mut scheduler, &[(1, pairs.map(Subquery::of).collect())]);
    let batches = actions.iter().filter_map(|action| match action {
        Action::Ready { subqueries, .. } => Some(subqueries.clone()),
        _ => None,
    });
    let batches: Vec<Vec<u32>> = batches.collect();
    let mut run = batches.concat();
    run.sort_unstable();
    assert_eq!(run, [0, 1, 2, 3, 4, 5]);
    assert!(batches.iter().any(|batch| batch.len() > 1), "{batches:?}");
}

#[test]
fn a_dry_run_says_what_a_list_takes() {
    let mut scheduler = scheduler(PolicyName::REORDER, 250, &[(1, 1, 0), (2, 1, 100), (3, 2, 0)]);
    let before = scheduler.status();
    let estimate = scheduler.estimate(Instant::ZERO, UserId(1), &scan([1, 2, 3]));
    assert_eq!((estimate.fragments, estimate.cached, estimate.switches), (3, 0, 2));
    assert_eq!(estimate.bytes, 300 * MB);
    let expected = estimate.expected.expect("it would be finished").as_nanos() as f64 / 1e9;
    assert_eq!(expected, 30.0 + 50.0 + 50.0 + 30.0 + 50.0, "two switches, three transfers, no seek");
    assert_eq!(scheduler.status(), before, "nothing is changed by it");
    let actions = play(&mut scheduler, &[(1, scan([1, 2, 3]))]);
    assert_eq!(switches(&actions), 2);
    assert!(matches!(actions[0], Action::Switch { drive: DriveId(0), from: None, .. }));
}
