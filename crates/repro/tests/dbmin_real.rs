//! The orders that Chou & DeWitt 1985 state in section 4.3, on trace strings of access methods. The grid is
//! small and has few batches, so only differences much wider than its intervals are asserted.
//!
//! `coscan repro --only dbmin` measures the distances between policies.

use std::sync::LazyLock;

use coscan_access::{Database, Query, Settings};
use coscan_core::Span;
use coscan_pool::AllocationName::{self, Clock, Dbmin, Fifo, HotSet, Random, WorkingSet};
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_repro::dbmin::batches::Precision;
use coscan_repro::dbmin::workload::{Mix, QueryKind, Sharing, Temporaries};
use coscan_repro::dbmin::{Grid, Policy, compare, programs, windows};
use coscan_trace::pages::QueryTrace;

const SIMPLE: [AllocationName; 3] = [Random, Fifo, Clock];
const LOCAL: [AllocationName; 3] = [WorkingSet, HotSet, Dbmin];

/// A grid of one mix and one degree of sharing, on runs of 2000 s.
fn grid(mix: Mix, sharing: Sharing, concurrent: &[u32]) -> Grid {
    Grid {
        mixes: vec![mix],
        sharings: vec![sharing],
        concurrent: concurrent.to_vec(),
        precision: Precision { batch: Span::from_millis(100_000), relative_half_width: 0.1, stretch_max: 1 },
        ..Grid::paper()
    }
}

/// The trace string of each kind, made once for all tests.
static TRACES: LazyLock<[QueryTrace; 6]> = LazyLock::new(|| {
    let database = Database::generate(1).expect("it is generated");
    Query::ALL.map(|query| query.run(&database, &Settings::default()).expect("it runs").trace)
});

/// The grids have one trace string per kind, so that the seed has no meaning.
fn trace(kind: QueryKind, _seed: u64) -> QueryTrace {
    TRACES[kind as usize].clone()
}

/// Throughputs by policy and number of queries.
fn throughputs(grid: &Grid) -> impl Fn(AllocationName, u32) -> f64 + use<> {
    let points = compare(grid, trace, 2).expect("the grid is possible");
    move |policy, concurrent| {
        let point = points.iter().find(|p| p.policy == policy && p.concurrent == concurrent);
        point.unwrap_or_else(|| panic!("{policy} at {concurrent} was not measured")).throughput_per_s
    }
}

fn assert_order(name: &str, policies: &[AllocationName], of: impl Fn(AllocationName) -> f64) {
    let measured: Vec<(AllocationName, f64)> = policies.iter().map(|policy| (*policy, of(*policy))).collect();
    assert!(measured.is_sorted_by(|a, b| a.1 > b.1), "{name}: {measured:?}");
}

#[test]
fn without_sharing_policies_that_know_queries_are_ahead_and_the_others_thrash() {
    for mix in [Mix::M1, Mix::M3] {
        let of = throughputs(&grid(mix, Sharing::None, &[2, 8, 16]));
        for simple in SIMPLE {
            assert_order(&format!("{mix} at 8"), &[Dbmin, HotSet, WorkingSet, simple], |p| of(p, 8));
            let left = of(simple, 16) / of(simple, 2);
            assert!(left < 0.4, "{simple} under {mix} keeps {left:.2} of its throughput at 16 queries");
        }
        for few in [Random, Fifo] {
            assert!(of(Clock, 2) > of(few, 2), "{few} is better than clock before it thrashes, {mix}");
        }
        for limited in [HotSet, Dbmin] {
            let left = of(limited, 16) / of(limited, 2);
            assert!(left > 0.9, "{limited} under {mix} keeps {left:.2} of its throughput at 16 queries");
        }
    }
}

#[test]
fn feedback_takes_simple_policies_out_of_thrashing_and_above_the_working_set() {
    let policies = [Random, Fifo, Clock, WorkingSet].map(Policy::of_the_paper).to_vec();
    let free = throughputs(&Grid { policies, ..grid(Mix::M1, Sharing::None, &[16]) });
    let load_control = LoadControlName::FEEDBACK;
    let policies = SIMPLE.map(|allocation| Policy { allocation, load_control }).to_vec();
    let controlled = throughputs(&Grid { policies, ..grid(Mix::M1, Sharing::None, &[16, 32]) });
    for simple in SIMPLE {
        assert!(controlled(simple, 16) > 2.0 * free(simple, 16), "{simple} is not helped");
        assert!(controlled(simple, 16) > free(WorkingSet, 16), "{simple} is below the working set");
        assert!(controlled(simple, 32) > 0.8 * controlled(simple, 16), "{simple} thrashes at 32 queries");
    }
}

#[test]
fn full_sharing_brings_policies_together_for_the_large_queries_only() {
    let closest = |mix| {
        let of = throughputs(&grid(mix, Sharing::Full, &[16]));
        let measured = [Clock, WorkingSet, HotSet, Dbmin].map(|policy| of(policy, 16));
        measured.iter().fold(f64::INFINITY, |low, v| v.min(low))
            / measured.iter().fold(0.0, |high, v| v.max(high))
    };
    let [m1, m3] = [Mix::M1, Mix::M3].map(closest);
    assert!(m1 > 0.9 && m3 < 0.75, "M1 {m1:.2}, M3 {m3:.2}");
}

/// Joins with separate hash files gain nothing from sharing the data with others.
#[test]
fn temporary_files_decide_whether_full_sharing_helps() {
    let policies = vec![Policy::of_the_paper(Clock)];
    let shared = Grid { policies, ..grid(Mix::M1, Sharing::Full, &[32]) };
    let own = Grid { temporaries: Temporaries::OfExecution, ..shared.clone() };
    let [shared, own] = [shared, own].map(|grid| throughputs(&grid)(Clock, 32));
    assert!(shared > 2.0 * own, "{shared} with the files of the copy, {own} with files of each execution");
}

#[test]
fn sharing_lets_every_policy_do_more() {
    for policy in SIMPLE.into_iter().chain(LOCAL) {
        let policies = vec![Policy::of_the_paper(policy)];
        let at = |sharing| {
            let grid = Grid { policies: policies.clone(), ..grid(Mix::M1, sharing, &[8]) };
            throughputs(&grid)(policy, 8)
        };
        assert!(at(Sharing::Full) > at(Sharing::None), "{policy}");
    }
}

/// The best windows for these traces are longer than the paper's: the hash file of query VI needs that.
#[test]
fn windows_chosen_for_these_traces_let_the_working_set_keep_its_loops() {
    let programs = programs(trace, 1, windows::OF_THE_PAPER, 1).expect("they are sound");
    let windows = windows::best_two(&programs.values().flatten().collect::<Vec<_>>());
    assert!(windows[1] > windows::OF_THE_PAPER[1], "{windows:?}");
    let policies = vec![Policy::of_the_paper(WorkingSet)];
    let short = Grid { policies, ..grid(Mix::M1, Sharing::None, &[16]) };
    let long = Grid { windows, ..short.clone() };
    assert!(throughputs(&long)(WorkingSet, 16) > 1.5 * throughputs(&short)(WorkingSet, 16));
}
