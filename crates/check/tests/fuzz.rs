//! A bounded number of seeds, the worlds that once failed, and the fuzzer itself against policies that are
//! broken on purpose.

use std::path::Path;

use coscan_check::fuzz::{self, Failure, FuzzReport, Kind, World, WorldError};
use coscan_core::policy::{Among, LoadChoice, SharingPolicy};
use coscan_core::state::State;
use coscan_core::{Abm, ChunkNo, Policy, ScanId, Victims};

fn print(failure: &Failure) {
    eprintln!("seed {}: {}\n{}", failure.seed, failure.violation, failure.world.to_toml());
}

#[test]
fn a_bounded_number_of_seeds_keeps_every_invariant() {
    let mut events = 0;
    // Shrinking takes long, and a frequent failure is known after a few seeds.
    for seeds in [0..100, 100..1_000, 1_000..10_000] {
        let report = fuzz::run(seeds.clone(), 2, &print);
        assert_eq!((report.seeds, report.failures.len()), (seeds.end - seeds.start, 0));
        events += report.events;
    }
    assert!(events > 300_000, "the worlds are not empty: {events} events");
}

#[test]
fn the_report_does_not_depend_on_threads() {
    let runs = [1, 3].map(|threads| fuzz::run(50..250, threads, &print));
    let key = |r: &FuzzReport| (r.seeds, r.events, r.hash);
    assert_eq!(key(&runs[0]), key(&runs[1]));
    assert_ne!(runs[0].hash, fuzz::run(51..251, 1, &print).hash);
}

#[test]
fn worlds_that_once_failed_do_not_fail_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let result = fuzz::replay(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if let Err(violation) = result {
            panic!("{}: {violation}", file.display());
        }
    }
}

/// A policy that is correct except for one answer.
#[derive(Clone, Debug)]
struct Broken {
    how: Break,
    loads: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Break {
    /// Every third load is for a resident part.
    LoadsWhatIsThere,
    /// Scans in table order get the last resident chunk.
    HandsOutOfOrder,
    /// Wants no load, makes no room and delivers nothing: only the mechanism makes progress.
    DoesNothing,
}

impl SharingPolicy for Broken {
    fn on_load_issued(&mut self, _state: &State, _choice: &LoadChoice) {
        self.loads += 1;
    }

    fn choose_chunk(&mut self, state: &State, scan: &coscan_core::scan::Scan) -> Option<ChunkNo> {
        let there: Vec<ChunkNo> =
            scan.unclaimed().iter().filter(|chunk| state.is_available(scan, *chunk)).collect();
        let next = scan.next_in_order();
        match self.how {
            Break::DoesNothing => None,
            Break::HandsOutOfOrder => there.last().copied(),
            Break::LoadsWhatIsThere if scan.in_order() => next.filter(|chunk| there.contains(chunk)),
            Break::LoadsWhatIsThere => there.first().copied(),
        }
    }

    fn urgency(&self, _state: &State, _scan: &coscan_core::scan::Scan) -> i128 {
        0
    }

    fn position(&self, _scan: &coscan_core::scan::Scan) -> ChunkNo {
        ChunkNo(0)
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        if self.how == Break::DoesNothing {
            return None;
        }
        let blind = self.how == Break::LoadsWhatIsThere && self.loads % 3 == 2;
        let scans = state.scans().filter(|scan| among.admits(state, scan));
        let mut wishes = scans.flat_map(|scan| scan.unclaimed().iter().map(move |chunk| (scan, chunk)));
        let (scan, chunk) = wishes.find(|(scan, chunk)| blind || !state.is_supplied(scan, *chunk))?;
        Some(LoadChoice { scan: scan.id, chunk, columns: scan.columns.clone(), or_own: false, alone: true })
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        if self.how != Break::DoesNothing {
            victims.add_all(state.recency().oldest());
        }
    }

    fn on_gone(&mut self, _scan: ScanId) {}
}

fn broken(how: Break, seeds: std::ops::Range<u64>) -> FuzzReport {
    let build = move |world: &World| -> Result<Abm, WorldError> {
        Ok(Abm::new(world.abm_config(), Policy::new("broken", move || Broken { how, loads: 0 }))?)
    };
    fuzz::run_with(seeds, 2, &build, &|_| {})
}

/// The failures of a broken policy. Each must be small, and must fail again from a file, under the same
/// policy only.
fn assert_small(how: Break, kind: Kind, text: &str, scans_max: usize, steps_max: usize) {
    let report = broken(how, 0..60);
    let of_kind: Vec<&Failure> = report.failures.iter().filter(|f| f.violation.kind == kind).collect();
    assert!(!of_kind.is_empty(), "{how:?} is not found: {report:?}");
    for failure in of_kind {
        let (world, violation) = (&failure.world, &failure.violation);
        assert!(violation.message.contains(text), "{violation}");
        assert!(world.scans.len() <= scans_max && world.steps.len() <= steps_max, "{}", world.to_toml());
        let read = World::parse(&world.to_toml()).unwrap();
        assert_eq!(read, *world, "what is written is what is read");
        let build = move |world: &World| -> Result<Abm, WorldError> {
            Ok(Abm::new(world.abm_config(), Policy::new("broken", move || Broken { how, loads: 0 }))?)
        };
        let again = fuzz::play(&read, &build).unwrap_err();
        assert_eq!(again.signature(), violation.signature());
        assert_eq!(fuzz::play(&read, &fuzz::Player::manager).err(), None, "{}", world.to_toml());
    }
}

#[test]
fn a_policy_that_loads_what_is_there_is_found_and_its_world_shrunk() {
    assert_small(Break::LoadsWhatIsThere, Kind::Panic, "which lacks nothing", 2, 4);
}

#[test]
fn a_policy_that_breaks_the_order_is_found_and_its_world_shrunk() {
    assert_small(Break::HandsOutOfOrder, Kind::Delivery, "is out of order", 2, 6);
}

#[test]
fn the_mechanism_alone_keeps_every_invariant() {
    let report = broken(Break::DoesNothing, 0..2_000);
    report.failures.iter().for_each(print);
    assert_eq!(report.failures.len(), 0);
}

#[test]
fn files_that_are_no_world_say_why() {
    let error = |text: &str| World::parse(text).unwrap_err().to_string();
    assert!(error("steps = [\"jump q0\"]").contains("'jump q0' is not a step"));
    let (_, file) = (0, include_str!("regressions/dropped-table-leaves-shared-page.toml"));
    assert!(error(&file.replace("\"normal\"", "\"best\"")).contains("there is no sharing policy 'best'"));
    assert!(error(&file.replace("table = 0", "table = 3")).contains("scan 0 names table 3"));
    assert!(error(&file.replace("workers = 1", "workers = 0")).contains("scan 0 has no workers"));
    assert!(error(&file.replace("tick_ns = 0", "tick_ms = 0")).contains("unknown field `tick_ms`"));
}
