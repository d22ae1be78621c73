//! Prints the scoreboard of some experiments as JSON, and the tables of experiments without rows:
//! `cargo run --release -p coscan-repro --example scoreboard -- scan07-fig2`

use std::error::Error;

use coscan_repro::reproduce;

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args()
        .nth(1)
        .ok_or("usage: scoreboard EXPERIMENT, as far as it is the beginning of its name")?;
    let report = reproduce(Some(&only), 1, |name| eprintln!("{name}"))?;
    print!("{}", report.unscored_tables());
    println!("{}", serde_json::to_string_pretty(&report.scoreboard)?);
    Ok(())
}
