//! The queue in a world of its own, with stores that answer, fail, are slow or never answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_core::{Phases, Span, StoreNo};
use object_store::ObjectMeta;
use object_store::memory::InMemory;

use super::limit::TokenBucket;
use super::queue::{Action, Event, LOOK, Outcome, Queue, Request, Settings};
use super::shape::Shapes;
use super::{ReadError, Source};
use crate::clock;
use crate::config::{ReadLimit, RetryConfig};
use crate::io::identity::LocalFile;

const DEADLINE: Duration = Duration::from_secs(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn source(store: &str, local: bool) -> Arc<Source> {
    let meta = ObjectMeta {
        location: "data".into(),
        last_modified: Default::default(),
        size: 1 << 30,
        e_tag: None,
        version: None,
    };
    let local = local.then(|| LocalFile::look("/".into()).unwrap());
    let store_no =
        StoreNo(store.bytes().fold(0u32, |no, byte| no.wrapping_mul(31).wrapping_add(u32::from(byte))));
    Arc::new(Source {
        name: store.into(),
        store: Arc::new(InMemory::new()),
        store_no,
        meta,
        local,
        quirks: Arc::default(),
    })
}

/// The reaction of a store to an attempt.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// All parts after that time.
    After(Duration),
    /// A transient error at once.
    Error,
    /// It gets too many requests; the time is when to come back.
    Refusal(Option<Duration>),
    Never,
}

struct World {
    now: Instant,
    queue: Queue<u32>,
    bucket: Arc<TokenBucket>,
    stores: BTreeMap<String, Answer>,
    /// Attempts in progress, with the times at which they are answered, if they are.
    under_way: BTreeMap<u64, (Option<Instant>, Answer, Vec<u64>)>,
    aborted: usize,
    /// Parts that arrived, and requests that failed, with the time since the start.
    arrived: Vec<(u32, usize)>,
    failed: Vec<(u32, Duration, ReadError)>,
    started: Instant,
}

impl World {
    fn new(slots: usize, limit: Option<ReadLimit>) -> Self {
        World::with(Shapes::constant(slots), limit)
    }

    fn with(shapes: Shapes, limit: Option<ReadLimit>) -> Self {
        let started = clock::now();
        let bucket = Arc::new(TokenBucket::with_clock(limit, Box::new(move || started)));
        let retry = RetryConfig { attempts: 3, base_delay: ms(20), max_delay: ms(100) };
        let phases = Phases::new(Span::from_millis(20), 50).unwrap();
        let settings = Settings { deadline: DEADLINE, retry, phases, page_cache_bytes: 0 };
        World {
            now: started,
            queue: Queue::new(started, settings, shapes, bucket.clone(), 7),
            bucket,
            stores: BTreeMap::new(),
            under_way: BTreeMap::new(),
            aborted: 0,
            arrived: Vec::new(),
            failed: Vec::new(),
            started,
        }
    }

    fn submit(&mut self, store: &str, point: bool, contexts: std::ops::Range<u32>) {
        self.submit_to(&source(store, false), point, contexts);
    }

    /// Requests of two parts each.
    fn submit_to(&mut self, source: &Arc<Source>, point: bool, contexts: std::ops::Range<u32>) {
        let request =
            |context| Request { source: source.clone(), ranges: vec![0..10, 10..1000], point, context };
        self.tell(Event::Submitted(contexts.map(request).collect()));
    }

    fn tell(&mut self, event: Event<u32>) {
        let mut actions = Vec::new();
        self.queue.handle(self.now, event, &mut actions);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action<u32>>) {
        for action in actions {
            match action {
                Action::Start(attempt) => {
                    let answer = self.stores[&attempt.source.name];
                    let at = match answer {
                        Answer::After(time) => Some(self.now + time),
                        Answer::Error => Some(self.now),
                        Answer::Refusal(_) => Some(self.now + ms(5)),
                        Answer::Never => None,
                    };
                    let bytes = attempt.ranges.iter().map(|range| range.end - range.start).collect();
                    assert!(self.under_way.insert(attempt.no, (at, answer, bytes)).is_none());
                }
                Action::Abort(attempt) => {
                    self.aborted += 1;
                    // It ends with the next step.
                    self.under_way.get_mut(&attempt).unwrap().0 = Some(self.now);
                    self.under_way.get_mut(&attempt).unwrap().1 = Answer::Never;
                }
                Action::Report(context, Outcome::Arrived(part, _)) => self.arrived.push((*context, part)),
                Action::Report(context, Outcome::Failed(_, error)) => {
                    self.failed.push((*context, self.now - self.started, error));
                }
            }
        }
    }

    /// Runs the next event; false if there is none.
    fn step(&mut self) -> bool {
        let answer = self.under_way.iter().filter_map(|(no, (at, ..))| Some(((*at)?, *no))).min();
        let deadline = self.queue.next_deadline();
        match (answer, deadline) {
            (None, None) => false,
            (Some((at, attempt)), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                self.now = self.now.max(at);
                let (_, answer, bytes) = self.under_way.remove(&attempt).unwrap();
                if let Answer::After(_) = answer {
                    for (part, len) in bytes.into_iter().enumerate() {
                        let bytes = Bytes::from(vec![0; len as usize]).into();
                        self.tell(Event::Arrived { attempt, part, bytes });
                    }
                }
                let outcome = match answer {
                    Answer::After(_) => Ok(()),
                    Answer::Error => Err(std::io::Error::other("injected").into()),
                    Answer::Refusal(retry_after) => Err(ReadError::Refused {
                        status: 503,
                        retry_after,
                        source: object_store::Error::NotImplemented {
                            operation: "more requests".into(),
                            implementer: "this store".into(),
                        },
                    }),
                    Answer::Never => Err(ReadError::Cancelled),
                };
                self.tell(Event::Ended { attempt, outcome });
                true
            }
            (_, Some(deadline)) => {
                self.now = self.now.max(deadline);
                self.tell(Event::TimePassed);
                true
            }
            (Some(_), None) => unreachable!("covered above"),
        }
    }

    fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 100_000, "it comes to an end");
        }
        assert_eq!(self.queue.under_way(), (0, 0));
    }

    fn waited(&self) -> Duration {
        self.now - self.started
    }
}

#[test]
fn a_store_that_never_answers_costs_its_own_requests_only() {
    let mut world = World::new(2, None);
    world.stores.insert("dead".into(), Answer::Never);
    world.stores.insert("alive".into(), Answer::After(ms(10)));
    world.submit("dead", false, 0..20);
    world.submit("dead", true, 20..30);
    world.submit("alive", false, 100..120);
    while world.arrived.len() < 40 {
        assert!(world.step());
    }
    assert_eq!(world.waited(), ms(100), "twenty requests in two slots");
    world.run();
    assert_eq!(world.failed.len(), 30);
    let last = world.failed.iter().map(|(_, after, _)| *after).max().unwrap();
    assert!(world.failed.iter().all(|(_, _, error)| matches!(error, ReadError::TimedOut { .. })));
    assert!(last <= DEADLINE * 2, "those that waited behind the first have a tenth of the time: {last:?}");
    // The store becomes available again.
    world.stores.insert("dead".into(), Answer::After(ms(10)));
    world.submit("dead", false, 200..201);
    world.run();
    assert_eq!(world.failed.len(), 30);
}

#[test]
fn the_deadline_holds_for_all_attempts_together_and_not_for_the_limit() {
    let mut world = World::new(1, None);
    world.stores.insert("slow".into(), Answer::After(DEADLINE + ms(1)));
    world.submit("slow", false, 0..1);
    world.run();
    assert!(matches!(world.failed[..], [(0, after, _)] if after == DEADLINE), "{:?}", world.failed);
    assert_eq!(world.aborted, 1);
    // A kilobyte at ten bytes a second takes longer than the deadline.
    let limit = ReadLimit { bytes_per_s: 10, latency: Duration::ZERO };
    let mut limited = World::new(1, Some(limit));
    limited.stores.insert("alive".into(), Answer::After(ms(1)));
    limited.submit("alive", false, 0..2);
    limited.run();
    assert!(limited.failed.is_empty() && limited.waited() > DEADLINE * 3, "{:?}", limited.waited());
}

#[test]
fn what_is_tried_again_does_not_run_out_of_time_while_others_wait_for_the_limit() {
    let limit = ReadLimit { bytes_per_s: 10, latency: Duration::ZERO };
    let mut world = World::new(1, Some(limit));
    world.stores.insert("store".into(), Answer::Error);
    world.submit("store", false, 0..2);
    // The first has failed, and waits for the slot of the second, which waits for the limit.
    while world.queue.counters().retries == 0 {
        assert!(world.step());
    }
    world.stores.insert("store".into(), Answer::After(ms(1)));
    world.run();
    assert!(world.failed.is_empty() && world.waited() > DEADLINE * 3, "{:?}", world.failed);
}

#[test]
fn errors_are_tried_again_and_the_slot_is_free_meanwhile() {
    let mut world = World::new(1, None);
    world.stores.insert("failing".into(), Answer::Error);
    world.submit("failing", false, 0..3);
    let attempts = world.queue.counters().requests;
    assert_eq!(attempts, 1);
    world.run();
    assert_eq!((world.failed.len(), world.queue.counters().requests), (3, 9));
    assert!(
        world.waited() < ms(70),
        "the pauses of several requests pass at the same time: {:?}",
        world.waited()
    );
}

#[test]
fn lifting_the_limit_helps_those_who_wait() {
    let limit = ReadLimit { bytes_per_s: 1, latency: Duration::ZERO };
    let mut world = World::new(4, Some(limit));
    world.stores.insert("alive".into(), Answer::After(ms(1)));
    world.submit("alive", false, 0..6);
    assert!(world.queue.next_deadline().unwrap() > world.now + Duration::from_secs(900));
    world.bucket.set_limit(None);
    world.tell(Event::TimePassed);
    world.run();
    assert_eq!((world.arrived.len(), world.waited()), (12, ms(2)));
}

#[test]
fn what_nobody_wants_leaves_at_once_and_frees_its_slot_when_it_has_ended() {
    let mut world = World::new(1, None);
    world.stores.insert("dead".into(), Answer::Never);
    world.submit("dead", false, 0..3);
    let mut actions = Vec::new();
    world.queue.cancel(world.now, |context| *context < 2, &mut actions);
    world.carry_out(actions);
    assert!(world.failed.iter().all(|(_, _, error)| matches!(error, ReadError::Cancelled)));
    assert_eq!((world.failed.len(), world.queue.under_way()), (2, (1, 1)), "one waits for the slot");
    world.stores.insert("dead".into(), Answer::After(ms(5)));
    world.run();
    assert_eq!((world.arrived.len(), world.waited()), (2, ms(5)));
    // A local read that has begun is over soon, and its bytes are kept.
    let local = source("dead", true);
    world.submit_to(&local, false, 7..9);
    let mut actions = Vec::new();
    world.queue.cancel(world.now, |_| true, &mut actions);
    world.carry_out(actions);
    world.run();
    assert_eq!((world.arrived.len(), world.failed.len()), (4, 3));
}

#[test]
fn time_in_which_the_process_does_not_run_is_not_the_stores() {
    let mut world = World::new(1, None);
    world.stores.insert("slow".into(), Answer::After(DEADLINE * 3));
    world.submit("slow", false, 0..2);
    while world.waited() < ms(5000) {
        assert!(world.step());
    }
    // Neither the request that is read nor the one behind it has waited longer than 6 s of the process.
    world.now += DEADLINE * 2;
    world.tell(Event::TimePassed);
    assert!(world.failed.is_empty(), "{:?}", world.failed);
    while world.failed.is_empty() {
        assert!(world.step());
    }
    let (_, after, error) = &world.failed[0];
    assert!(matches!(error, ReadError::TimedOut { .. }), "{error}");
    assert_eq!(*after, DEADLINE * 3 - LOOK, "a minute of its own time");
}

#[test]
fn a_store_that_refuses_is_left_alone_for_as_long_as_it_says() {
    let mut world = World::new(4, None);
    world.stores.insert("busy".into(), Answer::Refusal(Some(ms(700))));
    world.submit("busy", false, 0..1);
    assert!(world.step());
    world.stores.insert("busy".into(), Answer::After(ms(10)));
    world.submit("busy", false, 1..10);
    world.submit("busy", true, 10..12);
    assert!(world.under_way.is_empty(), "others wait, too");
    world.run();
    assert_eq!((world.arrived.len(), world.failed.len()), (24, 0));
    assert_eq!(
        world.waited(),
        ms(745),
        "after the refusal and the pause point reads, and ten requests in three rounds"
    );
}

#[test]
fn refusals_are_no_failures_while_the_store_answers_others() {
    let mut world = World::new(2, None);
    let refused =
        |world: &World| world.under_way.values().any(|(_, answer, _)| *answer == Answer::Refusal(None));
    world.stores.insert("busy".into(), Answer::Refusal(None));
    world.submit("busy", false, 0..1);
    for round in 0..20 {
        while !refused(&world) {
            assert!(world.step(), "it is tried again");
        }
        world.stores.insert("busy".into(), Answer::After(ms(1)));
        world.submit("busy", true, 100 + round..101 + round);
        world.stores.insert("busy".into(), Answer::Refusal(None));
        while refused(&world) {
            assert!(world.step());
        }
    }
    assert!(world.failed.is_empty() && world.arrived.len() == 40, "{:?}", world.failed);
    // No other request is answered.
    world.run();
    assert_eq!(world.failed.len(), 1);
}

/// Any mix of stores, requests, cancellations and changes of the limit: every part is answered once, no store
/// exceeds its reads in progress, and the run ends.
#[test]
fn random_worlds() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let slots = random.usize(1..4);
        let limit = |random: &mut fastrand::Rng| {
            let latency = ms(random.u64(0..20));
            random.bool().then(|| ReadLimit { bytes_per_s: random.u64(0..50_000), latency })
        };
        let mut world = World::new(slots, limit(&mut random));
        let names = ["a", "b", "c"];
        let mut asked = 0;
        for _ in 0..random.usize(1..30) {
            for name in names {
                let answers = [
                    Answer::After(ms(random.u64(0..80_000))),
                    Answer::After(ms(3)),
                    Answer::Error,
                    Answer::Never,
                    Answer::Refusal(random.bool().then(|| ms(random.u64(0..3000)))),
                ];
                world.stores.insert(name.into(), answers[random.usize(..answers.len())]);
            }
            let more = random.u32(0..6);
            let store = source(names[random.usize(..3)], random.u8(0..4) == 0);
            world.submit_to(&store, random.bool(), asked..asked + more);
            asked += more;
            match random.u8(0..5) {
                0 => {
                    let mut actions = Vec::new();
                    let which = random.u32(1..4);
                    world.queue.cancel(world.now, |context| context % which == 0, &mut actions);
                    world.carry_out(actions);
                }
                1 => {
                    world.bucket.set_limit(limit(&mut random));
                    world.tell(Event::TimePassed);
                }
                _ => {}
            }
            for _ in 0..random.usize(0..10) {
                world.step();
                assert!(world.under_way.len() <= names.len() * 2 * slots, "seed {seed}");
            }
        }
        world.run();
        let mut parts: BTreeMap<u32, usize> = BTreeMap::new();
        for (context, part) in &world.arrived {
            let known = parts.entry(*context).or_default();
            assert_eq!(*known & (1 << part), 0, "seed {seed}: part {part} of {context} came twice");
            *known |= 1 << part;
        }
        for context in 0..asked {
            let failures = world.failed.iter().filter(|(failed, ..)| *failed == context).count();
            let whole = parts.get(&context) == Some(&3);
            assert_eq!(failures, usize::from(!whole), "seed {seed}: request {context} is answered once");
        }
    }
}

/// A store whose number of requests is found, and which has answered a hundred requests after 30 ms.
fn known_store(limit: Option<ReadLimit>) -> World {
    let mut world = World::with(Shapes::found(), limit);
    world.stores.insert("store".into(), Answer::After(ms(30)));
    world.submit("store", false, 0..100);
    world.run();
    assert_eq!(world.queue.counters().hedged, 0);
    world
}

#[test]
fn a_slow_request_is_made_again_and_the_first_answer_counts() {
    for (first, second, waited) in [
        (Answer::Never, Answer::After(ms(30)), 69),
        (Answer::After(ms(500)), Answer::After(ms(30)), 69),
        (Answer::After(ms(60)), Answer::After(ms(500)), 60),
        (Answer::After(ms(60)), Answer::Error, 60),
    ] {
        let mut world = known_store(None);
        let begun = world.now;
        world.stores.insert("store".into(), first);
        world.submit("store", false, 100..101);
        world.stores.insert("store".into(), second);
        while world.arrived.len() < 202 {
            assert!(world.step());
        }
        assert_eq!(world.now - begun, ms(waited));
        world.run();
        assert_eq!((world.queue.counters().hedged, world.failed.len()), (1, 0));
        assert_eq!(world.aborted, usize::from(second != Answer::Error), "the other one is not needed");
        assert_eq!(world.arrived.len(), 202, "each part arrives once");
    }
}

#[test]
fn second_requests_are_few_and_none_under_a_limit() {
    let mut world = known_store(None);
    world.stores.insert("store".into(), Answer::After(ms(900)));
    world.submit("store", false, 100..300);
    world.run();
    let hedged = world.queue.counters().hedged;
    assert!((1..=14).contains(&hedged), "a twentieth of three hundred requests at most: {hedged}");
    let limit = ReadLimit { bytes_per_s: 1 << 40, latency: Duration::ZERO };
    let mut limited = known_store(Some(limit));
    limited.stores.insert("store".into(), Answer::After(ms(900)));
    limited.submit("store", false, 100..300);
    limited.run();
    assert_eq!(limited.queue.counters().hedged, 0);
}
