//! Plays one seed and prints the outcome.
//!
//! `cargo run --release -p coscan-engine-sim --example seed -- 7`

use coscan_engine_sim::run_seed;

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let outcome = run_seed(seed);
    println!("seed {seed}: {:#?}", outcome.counts);
    if let Some(violation) = outcome.violation {
        println!("failed: {violation}");
        std::process::exit(1);
    }
}
