//! Runs: points in order and in their JSON form, LRU from one pass equal to simulations, bad requests.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;

use coscan_cache::stack::StackDistances;
use coscan_cache::{CacheError, Point, RunOptions, Size, Trace, run, simulate};
use coscan_pool::{PagePolicyName, PageSetup, PageSetupError};

fn policy(name: &str) -> PagePolicyName {
    name.parse().unwrap()
}

fn random_trace(seed: u64, pages: u32, requests: usize) -> Trace {
    let mut rng = fastrand::Rng::with_seed(seed);
    Trace::of_pages((0..requests).map(|_| (f64::from(pages) * rng.f64() * rng.f64()) as u32))
}

#[test]
fn lru_from_one_pass_misses_as_in_simulations_of_every_size() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let trace = random_trace(seed, rng.u32(1..80), 1500);
        let distances = StackDistances::of(&trace);
        let curve = distances.curve();
        assert_eq!(curve.len(), trace.distinct());
        for frames in 1..=trace.distinct() {
            let mut lru = policy("lru").build(&PageSetup::new(frames)).unwrap();
            let misses = lru.replay(trace.references(), frames);
            assert_eq!((curve[frames - 1], distances.misses(frames)), (misses, misses), "seed {seed}");
        }
        assert_eq!(distances.misses(trace.distinct() + 9), trace.distinct() as u64);
    }
}

#[test]
fn points_come_by_policy_and_size_and_are_the_same_on_any_number_of_threads() {
    let trace = random_trace(1, 500, 5000);
    let policies: Vec<PagePolicyName> = PagePolicyName::ALL.into_iter().collect();
    let sizes = Size::list("10%,1%,50,5%,50").unwrap();
    let on = |threads| simulate(&trace, &policies, &sizes, 3, NonZeroUsize::new(threads)).unwrap();
    let strip = |points: Vec<Point>| -> Vec<(String, usize, u64)> {
        points.into_iter().map(|point| (point.policy, point.size, point.misses)).collect()
    };
    let one = strip(on(1));
    assert_eq!(one, strip(on(5)));
    let distinct = trace.distinct();
    let frames: BTreeSet<usize> = [distinct / 10, distinct / 100, 50, distinct / 20].into();
    let expected = policies.iter().flat_map(|policy| frames.iter().map(|size| (policy.to_string(), *size)));
    assert!(one.iter().map(|(policy, size, _)| (policy.clone(), *size)).eq(expected));
}

#[test]
fn many_sizes_of_lru_are_told_from_one_pass_with_the_same_misses() {
    let trace = random_trace(2, 300, 4000);
    let few = |size| simulate(&trace, &[policy("lru")], &[Size::Pages(size)], 0, None).unwrap()[0].misses;
    let sizes: Vec<Size> = (1..=400).map(Size::Pages).collect();
    let points = simulate(&trace, &[policy("lru")], &sizes, 0, None).unwrap();
    assert_eq!(points.len(), 400);
    for point in points.iter().step_by(37).chain(points.last()) {
        assert_eq!(point.misses, few(point.size), "{} pages", point.size);
    }
}

#[test]
fn points_have_the_form_that_others_read() {
    let points: Vec<Point> = serde_json::from_str(
        r#"[{"policy": "lru", "size": 1000, "requests": 9, "misses": 3, "seconds": 0}]"#,
    )
    .unwrap();
    assert_eq!(points[0].miss_ratio(), 1.0 / 3.0);
    assert_eq!(
        serde_json::to_string(&points).unwrap(),
        r#"[{"policy":"lru","size":1000,"requests":9,"misses":3,"seconds":0.0}]"#
    );
}

#[test]
fn a_file_is_run_and_bad_requests_are_refused() {
    let dir = tempfile::TempDir::new().unwrap();
    let trace = dir.path().join("loop.txt");
    fs::write(&trace, "1\n2\n3\n".repeat(10)).unwrap();
    let mut options = RunOptions {
        trace,
        format: None,
        requests_max: Some(27),
        policies: vec![policy("mru"), policy("lru"), policy("opt")],
        sizes: vec![Size::Pages(2), Size::Percent(100.0)],
        seed: 0,
        threads: None,
    };
    let points = run(&options).unwrap();
    let misses: Vec<(usize, u64)> = points.iter().map(|point| (point.size, point.misses)).collect();
    // MRU and OPT keep one of three and miss every other time.
    assert_eq!(misses, [(2, 15), (3, 3), (2, 27), (3, 3), (2, 15), (3, 3)]);
    assert!(points.iter().all(|point| point.requests == 27 && point.seconds >= 0.0));

    options.sizes = vec![Size::Pages(1), Size::Pages(1 << 40)];
    assert!(matches!(
        run(&options),
        Err(CacheError::Policy(PageSetupError::TooManyFrames { frames })) if frames == 1 << 40
    ));
    options.sizes.clear();
    assert_eq!(run(&options).unwrap_err().to_string(), "no size given: name at least one");
    options.sizes.push(Size::Pages(1));
    options.policies.clear();
    assert_eq!(run(&options).unwrap_err().to_string(), "no policy given: name at least one");
}
