//! Sensitivity of the scoreboard of 2007 to what the paper leaves open about its machine.
//!
//! Scenario files of 2007 share one machine. Each alternative changes one parameter of it, runs the scenario
//! again with a few seeds, and compares with the same seeds on the shared machine. A row that moves is marked
//! with the change, and with the verdict that it would have.

use coscan_sim::run::run_scenario;
use coscan_sim::scenario::{Scenario, Setting};

use crate::error::ReproError;
use crate::experiments::Experiment;
use crate::judge;
use crate::report::{Block, Row, Taint};

/// Alternatives: a name and the setting of the scenario file.
const ALTERNATIVES: [(&str, &str); 6] = [
    ("seek 0 ms", "device.seek=0ms"),
    ("seek 28 ms", "device.seek=28ms"),
    ("seek 44 ms", "device.seek=44ms"),
    ("stripes over 4 disks", RAID),
    ("15 ms of processor per read", "system.io_cost=15ms"),
    ("sleepers first", "system.scheduler=sleepers-first"),
];

/// The paper's "4-way RAID system delivering slightly over 200 MB/s", as four disks with a seek each.
const RAID: &str = "device = { kind = \"raid\", level = 0, disks = 4, stripe_unit = \"4MiB\", \
     member = { kind = \"disk\", bandwidth = \"52.3MB/s\", seek = \"12.7ms\" } }";

/// FAST at ten times its cost; Table 4 has no such queries.
fn dear_fast(experiment: &str) -> Option<&'static str> {
    match experiment {
        "scan07-table3" => Some("class.F.cost=0.15 s/Mrow"),
        "scan07-table4" => None,
        _ => Some("class.F.cost=20 ms/chunk"),
    }
}

/// Seeds per alternative, for a single point and for each point of a sweep.
const SEEDS: (usize, usize) = (3, 1);
/// A smaller relative change of a figure is none.
const MOVES: f64 = 0.02;

/// Marks the rows that an alternative moves. Returns the section's table, or nothing for an experiment that
/// is not of 2007.
pub(crate) fn mark(
    experiment: &Experiment,
    scenario: &Scenario,
    rows: &mut [Row],
    threads: usize,
) -> Result<Option<Block>, ReproError> {
    if !experiment.is_on_the_machine_of_2007() {
        return Ok(None);
    }
    let few = if scenario.points.len() == 1 { SEEDS.0 } else { SEEDS.1 };
    let seeds = &scenario.seeds[..few.min(scenario.seeds.len())];
    let run = |scenario: &Scenario| -> Result<Vec<Row>, ReproError> {
        let outcome = run_scenario(scenario, &scenario.policies, seeds, threads)?;
        Ok(judge::rows(experiment.name, scenario, &outcome))
    };
    let base = run(scenario)?;
    let mut lines = vec![line("as in the scenario file", rows)];
    let dear = dear_fast(experiment.name).map(|setting| ("FAST ten times as dear", setting));
    for (parameter, setting) in ALTERNATIVES.into_iter().chain(dear) {
        let setting = Setting::parse(setting).expect("a key and a value");
        let other = run(&experiment.scenario_with(&[setting])?)?;
        let moved: Vec<Row> = rows.iter().map(|row| moved(row, &base, &other)).collect();
        lines.push(line(parameter, &moved));
        for (row, moved) in rows.iter_mut().zip(moved) {
            let change = moved.measured / row.measured - 1.0;
            if change.is_finite() && change.abs() > MOVES {
                row.tainted.push(Taint { parameter: parameter.to_owned(), change, within: moved.within });
            }
        }
    }
    Ok(Some(Block::Table {
        caption: format!(
            "Rows within their tolerance, of those that count, by what the paper leaves open about its machine; changes over {few} seeds"
        ),
        header: ["machine", "within", "rows"].map(str::to_owned).to_vec(),
        rows: lines,
    }))
}

fn line(machine: &str, rows: &[Row]) -> Vec<String> {
    let judged = || rows.iter().filter(|row| row.judged);
    let within = judged().filter(|row| row.within).count();
    vec![machine.to_owned(), within.to_string(), judged().count().to_string()]
}

/// The row as the alternative moves it.
fn moved(row: &Row, base: &[Row], other: &[Row]) -> Row {
    let of = |rows: &[Row]| rows.iter().find(|other| other.quantity == row.quantity).map(|row| row.measured);
    let factor = of(base).zip(of(other)).map(|(base, other)| other / base);
    match factor.filter(|factor| factor.is_finite()) {
        Some(factor) => Row { measured: row.measured * factor, ..row.clone() }.judged(),
        None => row.clone(),
    }
}
