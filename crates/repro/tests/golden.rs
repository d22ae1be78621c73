//! Golden traces of the 2004 report's runs (section 3.1, Fig. 3 and 4), under the policies of its figures,
//! with the report's statements about them.
//!
//! A line at the margin is an event, `time event`; the indented lines below it are the resulting actions. `t`
//! is a table, `q` a scan, `w` a worker, `c` a chunk, `l` a load. After an intended change run
//! `COSCAN_BLESS=1 cargo test --release -p coscan-repro --test golden` and read the difference.

use coscan_core::PolicyName;
use coscan_repro::{baseline, experiments, reproduce};
use coscan_sim::host::{Observe, RunRecord, run};

fn played(experiment: &str, policy: &str) -> RunRecord {
    let found = experiments::all().iter().find(|e| e.name == experiment).expect("it comes with coscan");
    let scenario = found.scenario().unwrap();
    let point = &scenario.points[0];
    let observe = Observe { text: true, check: true, ..Observe::default() };
    let policy: PolicyName = policy.parse().unwrap();
    run(&point.world, &point.recipe.draw(scenario.seeds[0]), policy, observe).unwrap()
}

fn compare(experiment: &str, policy: &str) {
    let path = format!("{}/tests/golden/{experiment}-{policy}.txt", env!("CARGO_MANIFEST_DIR"));
    let trace = played(experiment, policy).text.expect("it was asked for");
    if std::env::var_os("COSCAN_BLESS").is_some() {
        std::fs::write(&path, &trace).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let first = golden.lines().zip(trace.lines()).position(|(a, b)| a != b);
    assert!(golden == trace, "{path} differs from line {} on", first.unwrap_or_default() + 1);
}

/// The time of each query in seconds, in the order of their starts.
fn times(record: &RunRecord) -> Vec<f64> {
    record.queries.iter().map(|query| query.latency_s()).collect()
}

#[test]
fn scans_of_one_speed_share_under_attach_and_not_under_normal() {
    let [normal, attach] = ["normal", "attach"].map(|policy| played("scan04-homogeneous", policy));
    ["normal", "attach"].into_iter().for_each(|policy| compare("scan04-homogeneous", policy));
    // Once attached, scans stay together: the second and the third read only the chunks before the point at
    // which they attached.
    assert_eq!(attach.loads, 20 + 5 + 5);
    assert!(normal.loads > 50, "three conflicting scans read {} chunks", normal.loads);
    assert!(times(&normal).iter().zip(times(&attach)).all(|(n, a)| *n > 1.5 * a));
}

#[test]
fn scans_of_three_speeds_fall_apart_under_attach_and_relevance_frees_the_fast_one() {
    let policies = ["attach", "elevator", "relevance-2004"];
    policies.into_iter().for_each(|policy| compare("scan04-heterogeneous", policy));
    let [attach, elevator, relevance] = policies.map(|policy| played("scan04-heterogeneous", policy));
    assert!(elevator.loads < attach.loads * 3 / 4, "{} and {}", elevator.loads, attach.loads);
    let (elevator, relevance) = (times(&elevator), times(&relevance));
    assert!(relevance[1] < 0.75 * elevator[1], "5 c/b: {} s and {} s", relevance[1], elevator[1]);
    for slow in [0, 2] {
        let ratio = relevance[slow] / elevator[slow];
        assert!((0.9..1.1).contains(&ratio), "slow ones take as long as under elevator: {ratio}");
    }
}

/// The check of `coscan repro --check` for the quick experiments with queries.
#[test]
fn quick_experiments_are_as_they_were_committed() {
    for only in ["scan04-h", "scan07-example"] {
        let report = reproduce(Some(only), 1, |_| {}).unwrap();
        let departures = baseline::departures(&baseline::committed(), &report.scoreboard);
        assert!(departures.is_empty(), "{}", departures.iter().map(ToString::to_string).collect::<String>());
    }
}
