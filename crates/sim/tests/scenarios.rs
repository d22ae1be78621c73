//! The scenarios as a whole: same seed, same run; errors that say where; the core's invariants in runs.

use coscan_core::registry;
use coscan_sim::host::{Ending, Observe, run};
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::{Scenario, Setting};

const TABLE2: &str = include_str!("../../../experiments/scan07-table2.toml");

fn scenario(settings: &[&str]) -> Scenario {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    Scenario::parse("scan07-table2.toml", TABLE2, &settings).unwrap()
}

fn error(text: &str, settings: &[&str]) -> String {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    Scenario::parse("test.toml", text, &settings).expect_err("a mistake is refused").to_string()
}

#[test]
fn the_outcome_does_not_depend_on_threads() {
    let scenario = scenario(&["random.streams=6", "seeds=3"]);
    let outcome =
        |threads| run_scenario(&scenario, &scenario.policies, &scenario.seeds, threads).unwrap().to_json();
    assert_eq!(outcome(1), outcome(3));
}

#[test]
fn every_policy_keeps_the_invariants_and_finishes_every_query() {
    let scenario = scenario(&["random.streams=8", "system.buffer=12 chunks"]);
    let point = &scenario.points[0];
    let workload = point.recipe.draw(11);
    for policy in registry::sharing() {
        let observe = Observe { check: true, deliveries: true, ..Observe::default() };
        let record = run(&point.world, &workload, policy, observe).unwrap();
        assert!(record.queries.iter().all(|q| q.ending == Ending::Finished), "{policy}");
        let wanted: u32 = workload.queries().map(|(_, q)| q.chunks.len()).sum();
        assert_eq!(record.deliveries.unwrap().len(), wanted as usize, "{policy}");
        assert!(record.bytes >= record.loads * (16 << 20), "{policy}");
    }
}

/// What no eviction can go below is below what was read, and every part has to be read once.
#[test]
fn bounds_are_bounds() {
    let scenario = scenario(&["random.streams=6", "seeds=2"]);
    let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds, 2).unwrap();
    for policy in &outcome.points[0].policies {
        for run in &policy.runs {
            assert!(
                run.once_bytes <= run.opt_bytes && run.opt_bytes <= run.bytes,
                "{}: {run:?}",
                policy.policy
            );
        }
    }
    let normal = outcome.points[0].policy("normal").unwrap();
    assert!(normal.runs.iter().all(|run| run.opt_bytes < run.bytes), "LRU over many scans is not OPT");
}

#[test]
fn a_read_costs_processor_time() {
    let cpu = |io_cost: &str| {
        let scenario = scenario(&["random.streams=2", "seeds=1", io_cost]);
        let point = &scenario.points[0];
        run(&point.world, &point.recipe.draw(1), "normal".parse().unwrap(), Observe::default()).unwrap()
    };
    let (free, paid) = (cpu("system.io_cost=0ms"), cpu("system.io_cost=3ms"));
    let more = paid.cpu_busy.as_nanos() - free.cpu_busy.as_nanos();
    // Rounded per job to less than a nanosecond; both runs read alike.
    assert_eq!(paid.requests, free.requests);
    assert!(more.abs_diff(paid.requests * 3_000_000) < 1_000, "{more} for {} reads", paid.requests);
}

#[test]
fn mistakes_are_reported_with_file_line_and_key() {
    let line_of = |needle: &str| TABLE2.lines().position(|line| line.starts_with(needle)).unwrap() + 1;
    let wrong = |from: &str, to: &str| error(&TABLE2.replace(from, to), &[]);
    let at = |needle: &str, rest: &str| format!("test.toml:{}: {rest}", line_of(needle));
    assert_eq!(
        wrong("\"64 chunks\"", "\"64 chnks\""),
        at("buffer", "system.buffer: '64 chnks' is not a buffer such as \"1GB\", \"64 chunks\" or \"12.5%\"")
    );
    assert_eq!(
        wrong("[\"F\", \"S\"]", "[\"F\", \"X\"]"),
        at("classes", "random.classes.1: there is no class 'X'; there are F, S")
    );
    assert!(wrong("stagger", "staggger").starts_with(&at("stagger", "random.staggger: unknown field")));
    assert_eq!(
        wrong("seek = \"28ms\"", ""),
        at("[device]", "device: a device of kind 'disk' needs seek").replace("[", "")
    );
}

#[test]
fn a_setting_that_does_not_fit_is_reported_with_its_key() {
    let message = error(TABLE2, &["system.buffer=3 parsecs"]);
    assert!(message.contains("system.buffer: '3 parsecs' is not"), "{message}");
    let message = error(TABLE2, &["system.bufer=3"]);
    assert!(message.contains("system.bufer: unknown field"), "{message}");
    let message = error(TABLE2, &["system.scheduler=fair"]);
    assert!(message.contains("system.scheduler") && message.contains("sleepers-first"), "{message}");
    let message = error(TABLE2, &["system.scheduler=processor-sharing", "system.sleep_credit=2s"]);
    assert!(message.contains("system.sleep_credit: even shares know no credit"), "{message}");
    let message = error(TABLE2, &["random.queries=0"]);
    assert!(message.contains("random.queries"), "{message}");
}

/// The example of `docs/scenarios.md` is a scenario, every key of it, and runs.
#[test]
fn the_documented_example_runs() {
    let docs = include_str!("../../../docs/scenarios.md");
    let (_, rest) = docs.split_once("```toml\n").expect("the example begins");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let scenario = Scenario::parse("docs/scenarios.md", example, &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds[..1], 2).expect("it runs");
    assert_eq!(outcome.points.len(), 2);
    for point in &outcome.points {
        for policy in &point.policies {
            assert!(policy.runs[0].loads > 0.0 && policy.runs[0].total_time_s > 0.0);
        }
    }
}
