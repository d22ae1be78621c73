//! Random worlds: drives, media, users, cancellations and faults under every policy, compared with the model
//! in `support`. `COSCAN_SEEDS=A..B` chooses seeds; a failure prints its own.

mod support;

use coscan_media::PolicyName;
use support::{Faults, Report, World};

#[expect(clippy::disallowed_methods, reason = "a test's seeds are chosen from outside")]
fn seeds(standard: u64) -> std::ops::Range<u64> {
    let text = std::env::var("COSCAN_SEEDS").unwrap_or_default();
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.unwrap_or(0..standard)
}

fn play(faults: Faults, standard: u64) -> Vec<Report> {
    seeds(standard)
        .flat_map(|seed| PolicyName::all().map(move |policy| World::new(seed, policy, faults).run()))
        .collect()
}

#[test]
fn without_faults_everything_becomes_ready() {
    let reports = play(Faults::NONE, 80);
    let of = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    assert!(of(|r| r.ready) > 2_000 && of(|r| r.batches_of_several) > 200, "the worlds do something");
    assert!(reports.iter().any(|r| r.overrides > 0));
}

#[test]
fn with_faults_everything_becomes_ready_or_says_why() {
    let reports = play(Faults::SOME, 150);
    let of = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    assert!(of(|r| r.faults) > 500 && of(|r| r.cancelled) > 10 && of(|r| r.unready) > 50);
}

#[test]
fn the_same_seed_gives_the_same_actions() {
    for seed in 0..20 {
        for policy in PolicyName::all() {
            let hash = || World::new(seed, policy, Faults::SOME).run().hash;
            assert_eq!(hash(), hash(), "seed {seed} {policy}");
        }
    }
}
