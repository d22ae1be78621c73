//! Runs a scenario file and prints its figures per policy: `scenario [--json] FILE [key=value ..]`.

use std::path::Path;
use std::time::Instant;

use coscan_sim::outcome::QUANTITIES;
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::{Scenario, Setting};

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let json = args.next_if(|arg| arg == "--json").is_some();
    let file = args.next().expect("a scenario file");
    let settings: Vec<Setting> = args.map(|arg| Setting::parse(&arg).unwrap()).collect();
    let scenario = Scenario::load(Path::new(&file), &settings).unwrap_or_else(|e| panic!("{e}"));
    let started = Instant::now();
    let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds, 2).unwrap();
    if json {
        return println!("{:#}", outcome.to_json());
    }
    println!("{} seeds, {:.2} s", scenario.seeds.len(), started.elapsed().as_secs_f64());
    for point in &outcome.points {
        println!("{:?}", point.at);
        for policy in &point.policies {
            println!("  {}", policy.policy);
            let base = &point.policies[0];
            for quantity in QUANTITIES {
                let (value, ratio) = (policy.summary(quantity.of), policy.ratio(base, quantity.of));
                let (low, high) = value.quartiles;
                println!(
                    "    {:24} {:10.3} [{low:.3}, {high:.3}] ratio {:.3}",
                    quantity.title, value.median, ratio.median
                );
            }
            let kinds: std::collections::BTreeSet<_> =
                policy.runs.iter().flat_map(|r| r.latencies_s.keys()).collect();
            for kind in kinds {
                let (mean, alone) = (policy.mean_latency_s(kind), policy.mean_alone_s(kind));
                println!("    {kind:24} {:10.3} alone {:.3}", mean.unwrap(), alone.unwrap());
            }
        }
    }
}
