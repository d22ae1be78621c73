//! The small worlds in all ways, under every policy, and the search against a core made to fail.

use coscan_check::fuzz::{Kind, World, play};
use coscan_check::model::{ModelConfig, bounded, check, check_all, check_with};
use coscan_core::policy::{Among, LoadChoice, SharingPolicy};
use coscan_core::scan::Scan;
use coscan_core::state::State;
use coscan_core::{Abm, ChunkNo, Policy, Victims, registry};

#[test]
fn small_worlds_keep_every_invariant_whatever_the_host_does() {
    let configs = bounded();
    for policy in registry::sharing() {
        assert!(configs.iter().any(|c| c.world.config.policy == policy.as_str()), "{policy} is checked");
    }
    for report in check_all(&configs, 2) {
        println!(
            "{:14} {:12} {:8} states {:9} transitions {:5} ends",
            report.policy, report.name, report.states, report.transitions, report.ends
        );
        if let Some((violation, world)) = report.violation {
            panic!("{} under {}: {violation}\n{}", report.name, report.policy, world.to_toml());
        }
        assert!(report.complete && report.ends > 0, "{} under {}", report.name, report.policy);
    }
}

fn config(name: &str) -> ModelConfig {
    bounded().into_iter().find(|c| c.name == name).unwrap()
}

#[test]
fn a_search_that_is_cut_short_says_so() {
    let report = check(&ModelConfig { states_max: 100, ..config("rows") });
    assert!(!report.complete && report.violation.is_none());
}

#[test]
fn deadlines_add_states_and_no_trouble() {
    let patient = check(&ModelConfig { stalls_max: 0, ..config("rows-budget") });
    let impatient = check(&config("rows-budget"));
    assert!(patient.violation.is_none() && impatient.violation.is_none());
    assert!(patient.states < impatient.states, "{} and {}", patient.states, impatient.states);
}

/// Reads the second scan's next chunk, even if it is resident.
#[derive(Clone, Debug)]
struct ReadsTwice;

impl SharingPolicy for ReadsTwice {
    fn choose_chunk(&mut self, _state: &State, _scan: &Scan) -> Option<ChunkNo> {
        None
    }

    fn urgency(&self, _state: &State, _scan: &Scan) -> i128 {
        0
    }

    fn position(&self, _scan: &Scan) -> ChunkNo {
        ChunkNo(0)
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn choose_load(&mut self, state: &State, _among: Among) -> Option<LoadChoice> {
        let scan = state.scans().nth(1)?;
        let columns = scan.columns.clone();
        Some(LoadChoice { scan: scan.id, chunk: scan.next_in_order()?, columns, or_own: false, alone: true })
    }

    fn choose_victims(&mut self, _state: &State, _victims: &mut Victims<'_>) {}
}

#[test]
fn a_broken_policy_is_found_with_a_shortest_way_to_it() {
    let build = |world: &World| Ok(Abm::new(world.abm_config(), Policy::new("reads-twice", || ReadsTwice))?);
    let report = check_with(&config("rows-faults"), &build);
    let (violation, world) = report.violation.unwrap();
    assert_eq!(violation.kind, Kind::Panic);
    assert!(violation.message.contains("which lacks nothing"), "{violation}");
    // Two scans must exist, and the first load must have finished.
    let steps: Vec<String> = world.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["register q0", "register q1", "finish l0 col0"]);
    assert_eq!(play(&world, &build).unwrap_err().signature(), violation.signature());
}
