//! The six queries against Table 2 of Chou & DeWitt 1985, where they are meant to agree. The header of
//! `queries.rs` explains the differences.

use std::collections::BTreeMap;

use coscan_access::{Database, NestedLoops, Query, Settings, Totals, totals};
use coscan_trace::pages::{PageOp, QueryTrace};

/// CPU seconds, disk operations, hot set size. Then the maximum deviations of our disk operations from the
/// paper's, with every read page kept, and with the locality sets alone.
const TABLE_2: [(Query, f64, f64, u32, f64, f64); 6] = [
    (Query::I, 0.53, 17.0, 3, 0.10, 0.10),
    (Query::II, 0.67, 99.0, 3, 0.03, 0.13),
    (Query::III, 2.95, 53.0, 5, 0.10, 0.10),
    (Query::IV, 3.09, 120.0, 5, 0.05, 0.36),
    (Query::V, 3.47, 55.0, 17, 0.18, 0.18),
    (Query::VI, 3.50, 138.0, 24, 0.08, 0.08),
];

/// The totals of a query for 31 seeds.
fn many(query: Query) -> Vec<Totals> {
    let database = Database::generate(1).unwrap();
    let run = |seed| query.run(&database, &Settings { seed, ..Settings::default() }).unwrap();
    (0..31).map(|seed| totals(&run(seed).trace)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn assert_near(what: &str, found: f64, paper: f64, tolerance: f64) {
    let off = found / paper - 1.0;
    assert!(off.abs() <= tolerance, "{what}: {found} is {:.1}% off the paper's {paper}", off * 100.0);
}

#[test]
fn totals_are_near_the_paper() {
    for (query, cpu_s, disk, hot_set, at_least, with_sets) in TABLE_2 {
        let all = many(query);
        let of = |what: fn(&Totals) -> f64| median(all.iter().map(what).collect());
        assert_near(&format!("CPU of {query}"), of(|t| t.cpu_s), cpu_s, 0.02);
        let found = of(|t| t.disk_operations_at_least as f64);
        assert_near(&format!("disk operations of {query}, everything kept"), found, disk, at_least);
        let found = of(|t| t.disk_operations as f64);
        assert_near(&format!("disk operations of {query}, locality sets only"), found, disk, with_sets);
        assert!(all.iter().all(|t| t.hot_set_pages == hot_set), "{query}");
    }
}

#[test]
fn nested_loops_by_page_differ_in_time_only() {
    let database = Database::generate(1).unwrap();
    let run = |nested_loops| {
        let execution = Query::V.run(&database, &Settings { nested_loops, ..Settings::default() }).unwrap();
        let mut rows = execution.rows;
        rows.sort();
        (rows, totals(&execution.trace))
    };
    let (rows_by_tuple, by_tuple) = run(NestedLoops::ByTuple);
    let (rows_by_page, by_page) = run(NestedLoops::ByPage);
    assert!(rows_by_tuple == rows_by_page);
    // 300 loops over 14 pages, or one for each of the 14 or 15 pages of 300 tuples.
    assert!(by_tuple.cpu_s - by_page.cpu_s > 0.45);
    assert_eq!(by_tuple, Totals { cpu_s: by_tuple.cpu_s, ..by_page });
}

#[test]
fn the_range_of_keys_hardly_matters() {
    for query in Query::ALL {
        let all = many(query);
        let cpu = median(all.iter().map(|t| t.cpu_s).collect());
        let disk = median(all.iter().map(|t| t.disk_operations_at_least as f64).collect());
        for found in &all {
            assert_near(&format!("CPU of {query}"), found.cpu_s, cpu, 0.10);
            assert_near(&format!("disk of {query}"), found.disk_operations_at_least as f64, disk, 0.10);
        }
    }
}

#[test]
fn classes_of_table_1() {
    // CPU, disk and memory are low or high as in the paper, with the same bounds for all queries.
    for (query, high_cpu, high_disk, high_memory) in [
        (Query::I, false, false, false),
        (Query::II, false, true, false),
        (Query::III, true, false, false),
        (Query::IV, true, true, false),
        (Query::V, true, false, true),
        (Query::VI, true, true, true),
    ] {
        let found = many(query)[0];
        assert_eq!(found.cpu_s > 1.0, high_cpu, "{query}");
        assert_eq!(found.disk_operations_at_least > 80, high_disk, "{query}");
        assert_eq!(found.hot_set_pages > 10, high_memory, "{query}");
    }
}

#[test]
fn hot_sets_are_hot_under_lru() {
    // With its hot set size in one LRU list a query reads at most three times as much as with every page
    // kept. Each new page of a stream may evict pages that are used again. The loop over many pages reads
    // much more with two frames less.
    let database = Database::generate(1).unwrap();
    for query in Query::ALL {
        let trace = query.run(&database, &Settings::default()).unwrap().trace;
        let hot = trace.hot_set_pages as usize;
        let [below, at, all] = [hot - 2, hot, usize::MAX].map(|frames| lru_misses(&trace, frames));
        assert!(at <= 3 * all, "{query}: {at} misses, {all} with everything kept");
        assert!(below > at, "{query}: {below} misses below the hot set, {at} with it");
        if query == Query::V {
            assert!(below > 10 * at, "{query}: {below} misses below the hot set, {at} with it");
        }
    }
}

/// Misses of one LRU list of `frames` frames.
fn lru_misses(trace: &QueryTrace, frames: usize) -> u64 {
    let (mut list, mut misses) = (Vec::new(), 0);
    let mut files = BTreeMap::new();
    for record in &trace.records {
        let (PageOp::Read { instance, page } | PageOp::Write { instance, page }) = record.op else {
            if let PageOp::Open { instance, file, .. } = record.op {
                files.insert(instance, file);
            }
            continue;
        };
        let page = (files[&instance], page);
        match list.iter().position(|&kept| kept == page) {
            Some(at) => list[at..].rotate_left(1),
            None => {
                misses += 1;
                if list.len() == frames {
                    list.remove(0);
                }
                list.push(page);
            }
        }
    }
    misses
}
