//! Runs a few seeds and reports the comparisons.
//!
//! `cargo run --release -p coscan-sqlfuzz --example campaign -- 20`

use coscan_sqlfuzz::{Campaign, run};

fn main() -> std::io::Result<()> {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    let report = run(&Campaign::new(0..seeds), &|failure| {
        println!("seed {}: {}\n{}", failure.seed, failure.difference, failure.script);
    })?;
    println!("{} seeds, {} queries, {} failures", report.seeds, report.tally.queries, report.failures.len());
    std::process::exit(i32::from(!report.failures.is_empty()));
}
