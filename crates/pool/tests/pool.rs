//! The page-level pool: hand-made histories of every mechanism, and DBMIN's three cases step by step.
//!
//! Random workloads under every policy are in `pool_random.rs`.

mod pool_host;

use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_pool::{
    Access, Action, AllocationName, Event, FileId, FrameNo, Phase, Pool, PoolConfig, PoolConfigError, QueryId,
};
use pool_host::{Host, page};

const LRU: LocalReplacement = LocalReplacement::Lru;

fn dbmin(frames: u32) -> Host {
    Host::new(frames, AllocationName::Dbmin, LoadControlName::Predicted)
}

#[test]
fn dbmin_case_1_a_page_of_the_own_set_only_changes_the_order_of_use() {
    let mut host = dbmin(6);
    host.start(1, 1);
    let a = host.open(1, 0, 2, LRU);
    host.read(1, a, 0);
    host.read(1, a, 1);
    assert_eq!(host.owner_of(0, 0), Some(a.0));
    let reads = host.reads;
    host.read(1, a, 0);
    assert_eq!((host.reads, host.owner_of(0, 0), host.owner_of(0, 1)), (reads, Some(a.0), Some(a.0)));
    // Page 0 was used after page 1: page 1 is released when a third one comes.
    host.read(1, a, 2);
    assert_eq!([0, 1, 2].map(|number| host.owner_of(0, number)), [Some(a.0), None, Some(a.0)]);
}

#[test]
fn dbmin_case_2_a_page_of_another_set_is_used_and_stays_there() {
    let mut host = dbmin(6);
    host.start(1, 1);
    host.start(2, 1);
    let (a, b) = (host.open(1, 0, 1, LRU), host.open(2, 0, 1, LRU));
    host.read(1, a, 7);
    let reads = host.reads;
    host.read(2, b, 7);
    assert_eq!((host.reads, host.owner_of(0, 7)), (reads, Some(a.0)));
    assert_eq!(host.pins_of(0, 7), 2);
    // When its owner closes the file, the page has no owner, and the next user becomes its owner.
    host.close(1, a);
    assert_eq!(host.owner_of(0, 7), None);
    host.read(2, b, 7);
    assert_eq!((host.reads, host.owner_of(0, 7)), (reads, Some(b.0)));
}

#[test]
fn dbmin_case_2_a_page_without_owner_is_taken_and_one_released_if_that_is_too_many() {
    let mut host = dbmin(6);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    host.read(1, a, 0);
    host.read(1, a, 1);
    assert_eq!((host.owner_of(0, 0), host.owner_of(0, 1)), (None, Some(a.0)));
    let reads = host.reads;
    host.read(1, a, 0);
    assert_eq!((host.owner_of(0, 0), host.owner_of(0, 1)), (Some(a.0), None));
    assert_eq!(host.reads, reads, "pages on the free list are found again");
}

#[test]
fn dbmin_case_3_a_missing_page_goes_to_the_oldest_frame_of_the_free_list() {
    let mut host = dbmin(3);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    for number in 0..3 {
        host.read(1, a, number);
    }
    // Free list: page 0, then page 1; page 2 is the set.
    let actions = host.request(1, a, 3, Access::Read);
    let oldest = host.frame_of(0, 3).expect("the page is on its way in");
    assert_eq!(actions, [Action::Read { frame: oldest, page: page(0, 3), query: QueryId(1) }]);
    assert_eq!((host.frame_of(0, 0), host.frame_of(0, 1).is_some()), (None, true));
    assert_eq!(host.owner_of(0, 3), None, "a page is owned when it has come");
    host.finish();
    assert_eq!((host.owner_of(0, 3), host.owner_of(0, 2)), (Some(a.0), None));
}

#[test]
fn dbmin_replaces_inside_a_set_as_the_instance_says() {
    // Pages 0, 1, 2 fill the set, 0 is used again, then 3 comes. Each case names the released page.
    let cases = [
        (LocalReplacement::Fifo, 0),
        (LocalReplacement::Lru, 1),
        (LocalReplacement::Mru, 0),
        (LocalReplacement::Lifo, 2),
    ];
    for (replacement, released) in cases {
        let mut host = dbmin(8);
        host.start(1, 1);
        let a = host.open(1, 0, 3, replacement);
        for number in [0, 1, 2, 0, 3] {
            host.read(1, a, number);
        }
        let free: Vec<u32> = (0..4).filter(|number| host.owner_of(0, *number).is_none()).collect();
        assert_eq!(free, [released], "{replacement:?}");
    }
}

#[test]
fn mru_misses_a_loop_that_does_not_fit_less_often_than_lru() {
    let misses = |replacement| {
        // One frame more than the set: the released page is overwritten by the next miss but one.
        let mut host = dbmin(5);
        host.start(1, 1);
        let a = host.open(1, 0, 4, replacement);
        for _ in 0..10 {
            for number in 0..6 {
                host.read(1, a, number);
            }
        }
        host.reads
    };
    assert_eq!(misses(LRU), 60, "LRU misses every page of a loop that is longer than it");
    assert!(misses(LocalReplacement::Mru) < 30, "{}", misses(LocalReplacement::Mru));
}

#[test]
fn dbmin_runs_queries_while_their_sets_are_less_than_all_frames() {
    let mut host = dbmin(10);
    host.start(1, 1);
    host.open(1, 0, 5, LRU);
    host.start(2, 1);
    let b = host.open(2, 1, 4, LRU);
    assert_eq!(host.phase(2), Phase::Active, "5 + 4 < 10");
    host.read(2, b, 0);
    host.start(3, 1);
    assert_eq!(host.phase(3), Phase::Active, "it has not said yet what it wants");
    let actions = host.send(pool_host::opened(3, 30, 2, Pattern::LoopingSequential, 1, LRU));
    assert_eq!(actions, [Action::Deactivate { query: QueryId(3) }], "5 + 4 + 1 = 10");
    host.start(4, 1);
    assert_eq!(host.queue(), [3, 4], "a suspended query waits in front of a new one");
    let actions = host.send(Event::FileClosed { query: QueryId(2), instance: b });
    assert_eq!(
        actions,
        [Action::Reactivate { query: QueryId(3) }, Action::Admit { query: QueryId(4) }],
        "the set of a closed file is released"
    );
}

#[test]
fn a_suspended_query_gives_its_frames_back_and_goes_on_where_it_stopped() {
    let mut host = dbmin(10);
    host.start(1, 1);
    let a = host.open(1, 0, 6, LRU);
    host.start(2, 1);
    let b = host.open(2, 1, 2, LRU);
    host.read(2, b, 0);
    host.send(pool_host::opened(2, 99, 2, Pattern::LoopingSequential, 5, LRU));
    assert_eq!((host.phase(2), host.owner_of(1, 0)), (Phase::Suspended, None));
    let actions = host.send(Event::FileClosed { query: QueryId(1), instance: a });
    assert_eq!(actions, [Action::Reactivate { query: QueryId(2) }]);
    let reads = host.reads;
    host.read(2, b, 0);
    assert_eq!((host.reads, host.owner_of(1, 0)), (reads, Some(b.0)), "its page was still there");
}

#[test]
fn a_query_that_is_alone_runs_whatever_it_wants() {
    for name in AllocationName::ALL {
        let mut host = Host::new(3, name, LoadControlName::Predicted);
        host.start(1, 50);
        let a = host.open(1, 0, 40, LocalReplacement::Mru);
        for round in 0..2 {
            for number in 0..10 {
                host.read(1, a, number);
                assert!(host.frame_of(0, number).is_some(), "{name}, round {round}");
            }
        }
        host.end(1);
    }
}

#[test]
fn hot_sets_may_take_all_frames_and_the_next_query_waits() {
    let mut host = Host::new(10, AllocationName::HotSet, LoadControlName::Predicted);
    host.start(1, 6);
    host.start(2, 4);
    assert_eq!(host.phase(2), Phase::Active);
    host.start(3, 1);
    assert_eq!(host.phase(3), Phase::New);
    // Both lists are full. A fault takes the oldest page of the query's own list, not one of the other list.
    let (a, b) = (host.open(1, 0, 1, LRU), host.open(2, 1, 1, LRU));
    for number in 0..6 {
        host.read(1, a, number);
    }
    for number in 0..9 {
        host.read(2, b, number);
    }
    assert_eq!((0..6).filter(|number| host.owner_of(0, *number) == Some(1)).count(), 6);
    assert_eq!((0..9).filter(|number| host.owner_of(1, *number) == Some(2)).count(), 4);
    host.end(2);
    assert_eq!(host.phase(3), Phase::Active);
}

#[test]
fn a_working_set_is_what_was_used_within_the_window_recomputed_at_faults() {
    // The window of the test host is 10 ms.
    let mut host = Host::new(10, AllocationName::WorkingSet, LoadControlName::Predicted);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    for (number, cpu_ms) in [(0, 0), (1, 4), (0, 8), (1, 9), (1, 19)] {
        host.read_at(1, a, number, cpu_ms);
        assert_eq!(host.owner_of(0, 0), Some(1), "no fault, nothing is recomputed, at {cpu_ms} ms");
    }
    host.read_at(1, a, 2, 20);
    assert_eq!([0, 1, 2].map(|number| host.owner_of(0, number)), [None, Some(1), Some(1)]);
    host.slice_ended(1, 40);
    assert_eq!([0, 1, 2].map(|number| host.owner_of(0, number)), [None, None, None]);
}

#[test]
fn a_query_that_faults_when_working_sets_fill_the_pool_is_suspended() {
    let mut host = Host::new(4, AllocationName::WorkingSet, LoadControlName::Predicted);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    for number in 0..3 {
        host.read_at(1, a, number, 1);
    }
    host.start(2, 1);
    assert_eq!((host.phase(2), host.queue()), (Phase::New, vec![2]), "3 + 3 (as the others) > 4");
    host.slice_ended(1, 100);
    assert_eq!(host.phase(2), Phase::Active, "the working set is empty, it counts as 1");
    let b = host.open(2, 1, 1, LRU);
    for number in 0..3 {
        host.read_at(2, b, number, 1);
    }
    let actions = host.request_at(1, a, 5, Access::Read, 101);
    assert_eq!(host.phase(1), Phase::Active, "1 + 3 frames fit");
    assert_eq!(actions.len(), 1);
    host.finish();
    let actions = host.request_at(1, a, 6, Access::Read, 102);
    assert_eq!(actions, [Action::Deactivate { query: QueryId(1) }]);
    host.end(2);
    host.finish();
    assert_eq!((host.phase(1), host.pins_of(0, 6)), (Phase::Active, 1), "its request is answered now");
}

#[test]
fn a_suspended_query_loses_its_frames_and_not_its_working_set() {
    let mut host = Host::new(6, AllocationName::WorkingSet, LoadControlName::Predicted);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    host.read_at(1, a, 9, 0);
    host.start(2, 1);
    let b = host.open(2, 1, 1, LRU);
    (0..4).for_each(|number| host.read_at(2, b, number, 1));
    host.slice_ended(1, 100);
    host.read_at(1, a, 0, 101);
    host.read_at(1, a, 1, 102);
    host.request_at(1, a, 2, Access::Read, 103);
    assert_eq!(host.phase(1), Phase::Suspended, "3 + 4 > 6");
    assert_eq!([0, 1].map(|number| host.owner_of(0, number)), [None, None]);
    host.slice_ended(2, 100);
    host.finish();
    assert_eq!(host.phase(1), Phase::Active, "the other's working set is empty");
    // Pages 0 and 1 were used 2 ms ago by its own time. With them it wants 4 frames, although it has lost
    // them.
    host.read_at(1, a, 3, 104);
    host.start(3, 1);
    assert_eq!(host.phase(3), Phase::New, "4 + 1 + 2 (the mean) > 6");
    host.read_at(1, a, 0, 105);
    assert_eq!(host.owner_of(0, 0), Some(1), "page 0 is its own again");
}

#[test]
fn feedback_stops_queries_that_fault_on_a_busy_device() {
    let mut host = Host::new(20, AllocationName::Lru, LoadControlName::FEEDBACK);
    for query in 1..=3 {
        host.start(query, 1);
    }
    let files = [1, 2, 3].map(|query| host.open(query, query as u32, 1, LRU));
    for _ in 0..4 {
        host.send(Event::UtilisationSampled { permille: 1000 });
    }
    let actions = host.request(2, files[1], 0, Access::Read);
    assert_eq!(actions, [Action::Deactivate { query: QueryId(2) }]);
    let actions = host.request(1, files[0], 0, Access::Read);
    assert_eq!(actions.len(), 1, "two may run: the read is issued, {actions:?}");
    let actions = host.send(Event::UtilisationSampled { permille: 100 });
    assert_eq!(actions[0], Action::Reactivate { query: QueryId(2) });
    assert!(matches!(actions[1], Action::Read { .. }), "and its request is served");
}

#[test]
fn a_page_in_use_never_leaves() {
    for name in AllocationName::ALL {
        let mut host = Host::new(2, name, LoadControlName::Unlimited);
        host.start(1, 1);
        host.start(2, 1);
        let (a, b) = (host.open(1, 0, 1, LRU), host.open(2, 1, 1, LRU));
        host.read(1, a, 0);
        for number in 0..20 {
            host.read(2, b, number);
            assert_eq!(host.pins_of(0, 0), 1, "{name}: page 0 is in use");
        }
        // Both frames are in use: the third query waits until one of the others requests its next page.
        host.start(3, 1);
        let c = host.open(3, 2, 1, LRU);
        assert_eq!(host.request(3, c, 0, Access::Read), [], "{name}");
        host.request(1, a, 0, Access::Read);
        host.finish();
        host.end(1);
        host.finish();
        assert_eq!(host.pins_of(2, 0), 1, "{name}: the frame of the query that ended is given on");
    }
}

#[test]
fn a_dirty_victim_is_written_before_its_frame_is_used() {
    let mut host = Host::new(1, AllocationName::Fifo, LoadControlName::Unlimited);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    host.access(1, a, 0, Access::Write);
    let frame = FrameNo(0);
    let actions = host.request(1, a, 1, Access::Read);
    assert_eq!(actions, [Action::Write { frame, page: page(0, 0) }]);
    let actions = host.send(Event::WriteFailed { frame });
    assert_eq!(actions, [Action::Write { frame, page: page(0, 0) }], "it is tried again");
    let actions = host.send(Event::WriteDone { frame });
    assert_eq!(actions, [Action::Read { frame, page: page(0, 1), query: QueryId(1) }]);
}

#[test]
fn a_released_dirty_page_is_written_when_the_device_is_idle_or_its_frame_is_wanted() {
    let mut host = dbmin(2);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    host.request(1, a, 0, Access::Create);
    assert_eq!(host.reads, 0, "a new page is not read");
    assert!(!host.pool.wants_to_write(), "page 0 is owned");
    host.request(1, a, 1, Access::Create);
    assert!(host.pool.wants_to_write(), "page 0 is released");
    host.request(1, a, 0, Access::Write);
    let frame = host.frame_of(0, 1).expect("it is resident");
    let write = Action::Write { frame, page: page(0, 1) };
    assert_eq!(host.send(Event::DeviceIdle), [write], "page 0 was taken back, page 1 released for it");
    assert_eq!(host.send(Event::DeviceIdle), []);
    assert_eq!(host.request(1, a, 2, Access::Read), [], "the only frame is being written");
    let actions = host.send(Event::WriteDone { frame });
    assert_eq!(actions, [Action::Read { frame, page: page(0, 2), query: QueryId(1) }]);
}

#[test]
fn a_frame_whose_write_is_put_off_is_written_when_a_younger_one_is_reused_before_it() {
    let mut host = dbmin(4);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    for (number, access) in [(0, Access::Create), (1, Access::Read), (2, Access::Read), (3, Access::Read)] {
        host.request(1, a, number, access);
        if let Some(frame) = host.reading.first().copied() {
            host.send(Event::ReadDone { frame });
        }
    }
    // The free list is 0 (dirty), 1, 2; page 3 is the set.
    let frames = [0, 1].map(|number| host.frame_of(0, number).expect("it is resident"));
    let actions = host.request(1, a, 9, Access::Read);
    let write = Action::Write { frame: frames[0], page: page(0, 0) };
    let read = Action::Read { frame: frames[1], page: page(0, 9), query: QueryId(1) };
    assert_eq!(actions, [write, read]);
}

#[test]
fn clock_passes_over_dirty_pages_once_and_has_them_written() {
    let mut host = Host::new(3, AllocationName::Clock, LoadControlName::Unlimited);
    host.start(1, 1);
    let a = host.open(1, 0, 1, LRU);
    host.access(1, a, 0, Access::Write);
    host.read(1, a, 1);
    host.read(1, a, 2);
    let actions = host.request(1, a, 3, Access::Read);
    let frame = |number| host.frame_of(0, number);
    let write = Action::Write { frame: frame(0).unwrap(), page: page(0, 0) };
    let read = Action::Read { frame: frame(3).unwrap(), page: page(0, 3), query: QueryId(1) };
    assert_eq!(actions, [write, read], "page 0 is older, page 1 is clean");
    assert_eq!((frame(1), frame(2).is_some()), (None, true));
}

#[test]
fn two_queries_that_want_the_same_page_wait_for_one_read() {
    let mut host = Host::new(4, AllocationName::Lru, LoadControlName::Unlimited);
    host.start(1, 1);
    host.start(2, 1);
    let (a, b) = (host.open(1, 0, 1, LRU), host.open(2, 0, 1, LRU));
    host.request(1, a, 0, Access::Read);
    assert_eq!(host.request(2, b, 0, Access::Read), []);
    let frame = host.frame_of(0, 0).expect("it is on its way in");
    let grant = |query| Action::Grant { query: QueryId(query), page: page(0, 0), frame };
    assert_eq!(host.send(Event::ReadDone { frame }), [grant(1), grant(2)]);
}

#[test]
fn a_read_that_fails_is_told_to_all_who_wait_and_the_frame_is_free() {
    let mut host = Host::new(1, AllocationName::Lru, LoadControlName::Unlimited);
    host.start(1, 1);
    host.start(2, 1);
    let (a, b) = (host.open(1, 0, 1, LRU), host.open(2, 0, 1, LRU));
    host.request(1, a, 0, Access::Read);
    host.request(2, b, 0, Access::Read);
    let fail = |query| Action::Fail { query: QueryId(query), page: page(0, 0) };
    assert_eq!(host.send(Event::ReadFailed { frame: FrameNo(0) }), [fail(1), fail(2)]);
    assert_eq!(host.frame_of(0, 0), None);
    host.read(1, a, 1);
}

#[test]
fn pages_of_a_dropped_file_are_void_and_not_written() {
    for name in AllocationName::ALL {
        let mut host = Host::new(4, name, LoadControlName::Unlimited);
        host.start(1, 2);
        let a = host.open(1, 0, 2, LRU);
        for number in 0..2 {
            host.access(1, a, number, Access::Create);
        }
        host.close(1, a);
        host.send(Event::FileDropped { file: FileId(0) });
        assert_eq!((host.frame_of(0, 0), host.frame_of(0, 1)), (None, None), "{name}");
        host.finish();
        host.end(1);
        assert!(host.pool.state().frames.iter().all(|(_, f)| f.page().is_none()), "{name}");
    }
}

#[test]
fn impossible_settings_are_refused() {
    let config = PoolConfig {
        frames: 0,
        allocation: AllocationName::Dbmin,
        load_control: LoadControlName::Predicted,
        seed: 0,
    };
    assert_eq!(Pool::new(config).err(), Some(PoolConfigError::NoFrames));
    let load_control = LoadControlName::Feedback { threshold_permille: 2000 };
    let error = Pool::new(PoolConfig { frames: 1, load_control, ..config }).unwrap_err();
    assert_eq!(error.to_string(), "the threshold of feedback is in thousandths, 2000 is above 1000");
    let error = "hotset".parse::<AllocationName>().unwrap_err().to_string();
    assert!(error.contains("'hotset'") && error.contains("hot-set"), "{error}");
    for name in AllocationName::ALL {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
}
