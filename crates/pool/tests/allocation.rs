//! Properties of every allocation policy of the registry: pages in use stay, the pool holds at most its
//! frames, suspended queries come back. The registry lists all of them.
//!
//! The three cases of DBMIN, step by step, are in `pool.rs`; random events under every policy in
//! `pool_random.rs`.

mod pool_host;

use std::collections::BTreeSet;

use coscan_pool::allocation::load_control::LoadControlName;
use coscan_pool::locality::LocalReplacement;
use coscan_pool::registry::PolicyKind;
use coscan_pool::{Access, Action, AllocationName, Event, InstanceId, Phase, QueryId};
use pool_host::{Host, page};

const CONTROLS: [LoadControlName; 3] =
    [LoadControlName::Unlimited, LoadControlName::Predicted, LoadControlName::FEEDBACK];

/// Queries 0 to `queries` with one file each, `set_pages` as hot set and as locality set. Queries that may
/// not run yet have no file.
fn started(host: &mut Host, queries: u64, set_pages: u32) -> Vec<(u64, Option<InstanceId>)> {
    let start = |query| {
        host.start(query, set_pages);
        let runs = phase(host, query) == Phase::Active;
        (query, runs.then(|| host.open(query, query as u32, set_pages, LocalReplacement::Lru)))
    };
    (0..queries).map(start).collect()
}

fn phase(host: &Host, query: u64) -> Phase {
    host.pool.state().queries.get(QueryId(query)).phase()
}

#[test]
fn the_registry_lists_every_policy_once_with_its_paper_and_what_it_does() {
    for name in AllocationName::ALL {
        let info = name.info();
        assert_eq!((info.name, info.kind), (name.as_str(), PolicyKind::Allocation));
        assert!(info.summary.len() > 20 && !info.summary.ends_with('.'), "{name}: {}", info.summary);
        let year = info.paper.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() == 4);
        assert!(year, "{name} is from no year: {}", info.paper);
        assert_eq!(info.name.parse(), Ok(name));
    }
}

#[test]
fn pages_in_use_stay_and_the_pool_holds_no_more_than_its_frames() {
    for name in AllocationName::ALL {
        for control in CONTROLS {
            let mut host = Host::new(6, name, control);
            // Query 0 keeps using its page while query 1 passes through many more pages than there are
            // frames.
            host.start(0, 2);
            host.start(1, 2);
            let [pinning, passing] =
                [0, 1].map(|file| host.open(u64::from(file), file, 2, LocalReplacement::Lru));
            host.read(0, pinning, 3);
            let frame = host.pool.state().frames.find(page(0, 3));
            for number in 0..40 {
                // Far apart in processor time, so that working sets stay small.
                host.read_at(1, passing, number, u64::from(number) * 100);
                let frames = &host.pool.state().frames;
                assert_eq!(frames.find(page(0, 3)), frame, "{name}, {control}: the page in use has moved");
                assert_eq!(frames.count(), 6);
                let resident: Vec<_> = frames.iter().filter_map(|(_, f)| f.page()).collect();
                assert_eq!(
                    resident.iter().collect::<BTreeSet<_>>().len(),
                    resident.len(),
                    "{name}: a page twice"
                );
            }
            assert!(host.reads >= 41, "{name}: 41 different pages were read by {} reads", host.reads);
        }
    }
}

#[test]
fn when_every_frame_is_in_use_the_next_request_waits_and_is_served_afterwards() {
    for name in AllocationName::ALL {
        let mut host = Host::new(3, name, LoadControlName::Unlimited);
        let queries = started(&mut host, 4, 1);
        let instance = |at: usize| queries[at].1.expect("everybody runs");
        (0..3).for_each(|at| host.read(at as u64, instance(at), 0));
        let actions = host.request(3, instance(3), 0, Access::Read);
        assert!(actions.is_empty(), "{name} finds a frame although all are in use: {actions:?}");
        host.end(1);
        host.finish();
        let frame = host.pool.state().frames.find(page(3, 0)).expect("it was read");
        assert_eq!(host.pool.state().frames.get(frame).pins(), 1, "{name}");
    }
}

#[test]
fn queries_that_wait_or_are_suspended_run_once_the_others_are_over() {
    for name in AllocationName::ALL {
        for control in CONTROLS {
            let mut host = Host::new(6, name, control);
            let queries = started(&mut host, 4, 4);
            // A busy device, for the control that uses it.
            (0..4).for_each(|_| drop(host.send(Event::UtilisationSampled { permille: 1000 })));
            for round in 0..4 {
                for (query, instance) in &queries {
                    let waits = host.pool.queue().any(|waiting| waiting == QueryId(*query));
                    if let Some(instance) = instance.filter(|_| !waits) {
                        host.request_at(*query, instance, round, Access::Read, u64::from(round));
                        host.finish();
                    }
                }
            }
            let waiting: Vec<QueryId> = host.pool.queue().collect();
            let limited = control != LoadControlName::Unlimited;
            let knows = matches!(name, AllocationName::HotSet | AllocationName::Dbmin);
            if limited && (knows || control != LoadControlName::Predicted) {
                assert!(!waiting.is_empty(), "{name} under {control} lets four queries run");
            }
            // Running queries end one after the other; waiting queries take their places.
            for _ in 0..4 {
                let Some(running) = host.pool.state().queries.active().next() else { break };
                host.end(running.0);
                host.finish();
            }
            let left = host.pool.queue().count();
            assert_eq!(left, 0, "{name} under {control} leaves {left} queries waiting for ever");
            assert_eq!(host.pool.state().queries.active_count(), 0, "{name} under {control}");
        }
    }
}

#[test]
fn a_request_of_a_suspended_query_is_answered_after_it_is_reactivated() {
    for name in AllocationName::ALL {
        let mut host = Host::new(6, name, LoadControlName::FEEDBACK);
        let queries = started(&mut host, 2, 2);
        let [first, second] =
            [0, 1].map(|at: usize| queries[at].1.expect("nothing is known of the device yet"));
        host.read(0, first, 0);
        (0..4).for_each(|_| drop(host.send(Event::UtilisationSampled { permille: 1000 })));
        let stopped = host.request(1, second, 5, Access::Read);
        assert_eq!(stopped, [Action::Deactivate { query: QueryId(1) }], "{name}");
        host.end(0);
        host.finish();
        assert_eq!(phase(&host, 1), Phase::Active, "{name}");
        let frame = host.pool.state().frames.find(page(1, 5)).expect("the request was not forgotten");
        assert_eq!(host.pool.state().frames.get(frame).pins(), 1, "{name}");
    }
}
