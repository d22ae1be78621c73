//! The stated bound on waiting, measured. One list wants a fragment far from those that a stream of other
//! lists wants on the mounted medium.

use std::collections::BTreeMap;

use coscan_media::{
    Action, Event, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Scheduler,
    SchedulerConfig, Span, Subquery, UserId,
};

const MB: u64 = 1 << 20;
const PATIENCE_S: u64 = 1_800;

fn seconds(seconds: u64) -> Span {
    Span::from_millis(seconds * 1000)
}

type Agenda = BTreeMap<(Instant, u64), Event>;

/// Plays the agenda to its end. Drives take their time. `done` returns the time at which an executor is done
/// with a batch of that many subqueries of a list, if ever.
fn play(
    scheduler: &mut Scheduler,
    mut agenda: Agenda,
    mut done: impl FnMut(Instant, ListId, usize) -> Option<Instant>,
) {
    let mut next = 10_000;
    while let Some(((now, _), event)) = agenda.pop_first() {
        let mut actions = Vec::new();
        scheduler.handle(now, event, &mut actions);
        for action in actions {
            next += 1;
            let (at, event) = match action {
                Action::Switch { drive, .. } => {
                    (now + scheduler.switch_time(drive), Event::Switched { drive })
                }
                Action::Fetch { drive, fragment, .. } => {
                    (now + scheduler.fetch_time(drive, fragment), Event::Fetched { drive })
                }
                Action::Ready { list, subqueries } => match done(now, list, subqueries.len()) {
                    Some(at) => (at, Event::Done { list, subqueries }),
                    None => continue,
                },
                _ => continue,
            };
            agenda.insert((at, next), event);
        }
    }
}

/// The waiting time of the lone list, in seconds, while other lists arrive every `every_s` seconds.
/// Subqueries take no time.
fn wait_of_the_lone_list(policy: PolicyName, patience: Span, every_s: u64) -> Option<f64> {
    let library = Library::tape_stacker_1996();
    let config = SchedulerConfig { patience, ..SchedulerConfig::new(512 * MB) };
    let mut scheduler = Scheduler::new(config, library.clone(), policy).unwrap();
    for id in 0..2_000u64 {
        let (medium, position) = if id == 0 { (1, 0) } else { (0, (id % 100) * 85 * MB) };
        let medium = MediumId(medium);
        scheduler.add_fragment(Fragment { id: FragmentId(id), medium, position, bytes: 85 * MB }).unwrap();
    }
    let mut agenda: Agenda = BTreeMap::new();
    for other in 1..2_000u64 {
        let list = ListId(other);
        let subqueries = vec![Subquery::of([FragmentId(other)])];
        let at = Instant::ZERO + seconds(other * every_s);
        agenda.insert((at, other), Event::Submit { list, user: UserId(other % 7), subqueries });
    }
    // It arrives while the first medium is mounted and busy.
    let lone = (Instant::ZERO + seconds(300), 2_500);
    let subqueries = vec![Subquery::of([FragmentId(0)])];
    agenda.insert(lone, Event::Submit { list: ListId(5_000), user: UserId(9), subqueries });
    let mut waited = None;
    play(&mut scheduler, agenda, |now, list, _| {
        if list == ListId(5_000) {
            waited = Some(now.since(lone.0).as_nanos() as f64 / 1e9);
        }
        Some(now)
    });
    waited
}

#[test]
fn nobody_waits_longer_than_the_bound() {
    // A fetch takes at most 42.5 s, the longest seek 2 + 42 s, and a switch 30 s. Others arrive every 40 s,
    // slower than they are served, so that no other list is overdue before it.
    let bound = PATIENCE_S as f64 + (44.0 + 42.5) + (30.0 + 44.0 + 42.5);
    for policy in PolicyName::all() {
        let waited = wait_of_the_lone_list(policy, seconds(PATIENCE_S), 50).expect("it is served");
        assert!(waited <= bound, "{policy}: {waited} s, bound {bound} s");
    }
}

/// Without patience the mounted medium is never finished as long as others arrive. Only the bound serves the
/// lone list.
#[test]
fn without_patience_reorder_puts_it_off() {
    let never = wait_of_the_lone_list(PolicyName::REORDER, Span::MAX, 40).unwrap_or(f64::INFINITY);
    let patient = wait_of_the_lone_list(PolicyName::REORDER, seconds(PATIENCE_S), 40).expect("it is served");
    assert!(never > 2.0 * patient, "{never} s and {patient} s");
}

/// An executor takes its second batch when the cache is full of fragments that its list wants, and pauses
/// forever. The other list is served nevertheless.
#[test]
fn an_executor_that_pauses_leaves_half_of_the_cache() {
    let library = Library::tape_stacker_1996();
    let config = SchedulerConfig { patience: seconds(PATIENCE_S), ..SchedulerConfig::new(512 * MB) };
    let mut scheduler = Scheduler::new(config, library, PolicyName::REORDER).unwrap();
    for id in 0..20u64 {
        let (id, medium, position) = (FragmentId(id), MediumId((id / 10) as u32), (id % 10) * 64 * MB);
        scheduler.add_fragment(Fragment { id, medium, position, bytes: 64 * MB }).unwrap();
    }
    let (pausing, other) = (ListId(1), ListId(2));
    let list = |ids: std::ops::Range<u64>| ids.map(|id| Subquery::of([FragmentId(id)])).collect();
    let mut agenda: Agenda = BTreeMap::new();
    let submit = Event::Submit { list: pausing, user: UserId(1), subqueries: list(0..10) };
    agenda.insert((Instant::ZERO, 0), submit);
    // The first batch is done when the cache is full.
    let full = Instant::ZERO + seconds(1_000);
    let came = Instant::ZERO + seconds(990);
    agenda.insert((came, 1), Event::Submit { list: other, user: UserId(2), subqueries: list(10..20) });
    agenda.insert((came + seconds(PATIENCE_S), 2), Event::Tick);
    let (mut batches, mut others) = (Vec::new(), 0);
    play(&mut scheduler, agenda, |now, list, subqueries| {
        if list == pausing {
            batches.push(subqueries);
            return (batches.len() == 1).then_some(full);
        }
        others += subqueries;
        Some(now)
    });
    assert_eq!(batches, [1, 4], "half of the cache holds four");
    assert_eq!(others, 10, "the other list was served");
}
