//! A thousand random worlds with faults: `cargo run --release -p coscan-check --example worlds`

use coscan_check::fuzz;

fn main() {
    let report = fuzz::run(0..1000, 1, &|failure| println!("seed {}: {}", failure.seed, failure.violation));
    println!("{} worlds, {} events, {} failures", report.seeds, report.events, report.failures.len());
}
