//! A scenario file under two policies:
//! `cargo run --release -p coscan-sim --example scenario -- experiments/scan04-homogeneous.toml`

use std::error::Error;
use std::path::Path;

use coscan_core::PolicyName;
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::Scenario;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: scenario FILE")?;
    let scenario = Scenario::load(Path::new(&file), &[])?;
    let policies: Vec<PolicyName> = vec!["normal".parse()?, "relevance".parse()?];
    let outcome = run_scenario(&scenario, &policies, &scenario.seeds, 1)?;
    for policy in &outcome.points[0].policies {
        let (time, loads) = (policy.summary(|run| run.stream_time_s), policy.summary(|run| run.loads));
        println!("{}: {:.2} s a stream, {} loads", policy.policy, time.median, loads.median);
    }
    Ok(())
}
