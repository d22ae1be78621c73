//! `coscan sim run`: a scenario file, or an experiment by name.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use coscan_figure::loads;
use coscan_figure::timeline::Timeline;
use coscan_repro::{experiments, timeline};
use coscan_sim::host::Observe;
use coscan_sim::outcome::{Outcome, PointOutcome, PolicyOutcome};
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::{MediaScenario, Scenario, Setting};

use super::{ThreadsArg, figures_table, media, policies_or, shown};
use crate::failure::wrong_usage;
use crate::settings::{Policy, PolicyName, registry};

/// Arguments of `coscan sim run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A scenario file, or the name of an experiment that `coscan sim list` shows
    #[arg(value_name = "FILE")]
    scenario: String,

    /// Policies to compare, separated by commas; policies of slow media for a scenario of slow media [default: those
    /// of the scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = any_policy())]
    policy: Vec<String>,

    /// Number of runs per policy, with seeds 1, 2, .. [default: as in the scenario]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Change a key of the scenario, as in system.buffer=1GB; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Draw the first seed's run under every policy into this directory, as SVG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,

    /// Write every event and action of the first seed's run under every policy as text
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadsArg,
}

/// Parser for policies of scans and of slow media. The scenario decides which kind is allowed.
fn any_policy() -> PossibleValuesParser {
    let scans = registry::sharing().map(PolicyName::as_str);
    PossibleValuesParser::new(scans.chain(coscan_media::PolicyName::all().map(|name| name.as_str())))
}

/// Runs the scenario and prints the results.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    if let Some(scenario) = open_media(&args.scenario, &args.set)? {
        return run_media(args, &scenario);
    }
    let scenario = open(&args.scenario, &args.set)?;
    let named = args.policy.iter().map(|name| name.parse::<Policy>().map_err(wrong_usage));
    let policies = policies_or(&named.collect::<anyhow::Result<Vec<_>>>()?, || scenario.policies.clone());
    let seeds = seeds(args, &scenario.seeds)?;
    let outcome = run_scenario(&scenario, &policies, &seeds, args.threads.count())?;
    if args.plot.is_some() || args.trace.is_some() {
        observe(args, &scenario, &policies, seeds[0])?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", outcome.to_json())?;
    } else {
        write!(out, "{}", text(&scenario, &outcome, seeds.len()))?;
    }
    Ok(())
}

fn seeds(args: &RunArgs, of_scenario: &[u64]) -> anyhow::Result<Vec<u64>> {
    match args.seeds {
        Some(0) => Err(wrong_usage("--seeds must be at least 1")),
        Some(count) => Ok((1..=count).collect()),
        None => Ok(of_scenario.to_vec()),
    }
}

/// A scenario of slow media.
fn run_media(args: &RunArgs, scenario: &MediaScenario) -> anyhow::Result<()> {
    if args.plot.is_some() || args.trace.is_some() {
        return Err(wrong_usage("a scenario of slow media has neither --plot nor --trace"));
    }
    let seeds = seeds(args, &scenario.seeds)?;
    media::run(scenario, &args.policy, &seeds, args.json)
}

/// The file of that name, or the experiment if there is no file. `None` unless it is a scenario of slow media.
fn open_media(scenario: &str, settings: &[Setting]) -> anyhow::Result<Option<MediaScenario>> {
    let (path, media) = (Path::new(scenario), experiments::media());
    if !path.exists() && scenario == media.name {
        return Ok(Some(media.scenario_with(settings)?));
    }
    let is_one = MediaScenario::is_one(path);
    Ok(is_one.then(|| MediaScenario::load(path, settings)).transpose()?)
}

/// The file of that name if it exists, otherwise the experiment.
fn open(scenario: &str, settings: &[Setting]) -> anyhow::Result<Scenario> {
    let path = Path::new(scenario);
    if !path.exists()
        && let Some(experiment) = experiments::find(scenario)
    {
        return Ok(experiment.scenario_with(settings)?);
    }
    Ok(Scenario::load(path, settings)?)
}

/// Runs the first seed again with all details, and writes the requested files.
fn observe(args: &RunArgs, scenario: &Scenario, policies: &[PolicyName], seed: u64) -> anyhow::Result<()> {
    let point = &scenario.points[0];
    let workload = point.recipe.draw(seed);
    let noted = Observe { text: args.trace.is_some(), ..Observe::default() };
    let mut traces = String::new();
    for policy in policies {
        let (record, run) = timeline::run(&point.world, &workload, *policy, noted)?;
        if let Some(trace) = &record.text {
            traces += &format!("# {} under {policy}, seed {seed}\n{trace}\n", scenario.name);
        }
        if let Some(directory) = &args.plot {
            draw(directory, &scenario.name, *policy, &run)?;
        }
    }
    if let Some(path) = &args.trace {
        fs::write(path, traces).with_context(|| format!("cannot write the trace to {}", path.display()))?;
    }
    Ok(())
}

/// Up to this number of chunks, each has a lane of its own in the figure.
const LANES_MAX: u32 = 64;

fn draw(directory: &Path, scenario: &str, policy: PolicyName, run: &Timeline) -> anyhow::Result<()> {
    let svg = match run.chunks {
        ..=LANES_MAX => run.svg()?,
        _ => loads::svg(&run.title, "Chunks loaded over time", std::slice::from_ref(run))?,
    };
    let path = directory.join(format!("{scenario}-{policy}.svg"));
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    fs::write(&path, svg).with_context(|| format!("cannot write the figure {}", path.display()))
}

fn text(scenario: &Scenario, outcome: &Outcome, seeds: usize) -> String {
    let mut text = format!("{}\n{}\n", scenario.title, scenario.source);
    if seeds > 1 {
        text += &format!("medians over {seeds} seeds, with the middle half of them\n");
    }
    for point in &outcome.points {
        let at: Vec<String> = point.at.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        text += &format!("\n{}{}\n", at.join(", "), if at.is_empty() { "" } else { "\n" });
        text += &figures(point);
        text += "\n";
    }
    text
}

fn figures(point: &PointOutcome) -> String {
    let names: Vec<PolicyName> = point.policies.iter().map(|policy| policy.policy).collect();
    let of = |name: &PolicyName| point.policy(name.as_str()).expect("every policy has run");
    let table = figures_table(&names, |name, quantity| {
        let policy: &PolicyOutcome = of(name);
        let summary = policy.summary(quantity.of);
        let (low, high) = summary.quartiles;
        match policy.runs.len() {
            1 => shown(summary.median),
            _ => format!("{}\n{} - {}", shown(summary.median), shown(low), shown(high)),
        }
    });
    format!("{table}\n")
}
