//! `coscan cache run`: the misses of policies, as a table, as JSON, as a figure.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use coscan_cache::{Point, RunOptions, Size, figure, table};
use coscan_pool::PagePolicyName;
use coscan_pool::registry::Trait;

use super::{TraceArgs, blame, same_file};
use crate::failure::wrong_usage;
use crate::progress;
use crate::sim::ThreadsArg;

/// Arguments of `coscan cache run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    trace: TraceArgs,

    /// Policies to compare, separated by commas; `coscan policies` describes them [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = page_policy())]
    policy: Vec<PagePolicyName>,

    /// Sizes of the pool, separated by commas: entries, as in 1000, or a share of the distinct objects, as in 5%
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1%,5%,10%")]
    size: Vec<Size>,

    /// Seed of policies that use random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    threads: ThreadsArg,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Draw the miss-ratio curves, as SVG; up to eight policies have distinct styles
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Width of the table in characters, with room for all policies.
const WIDTH: u16 = 120;

/// Parser for the names of page replacement policies only.
fn page_policy() -> impl TypedValueParser<Value = PagePolicyName> {
    let names = PagePolicyName::ALL.into_iter().map(PagePolicyName::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<PagePolicyName>())
}

/// Runs the trace under the policies and prints the results.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let options = RunOptions {
        trace: args.trace.path.clone(),
        format: Some(args.trace.format()?),
        requests_max: args.trace.requests,
        policies: policies(&args.policy),
        sizes: args.size.clone(),
        seed: args.seed,
        threads: NonZeroUsize::new(args.threads.count()),
    };
    if args.svg.as_deref().is_some_and(|svg| same_file(svg, &args.trace.path)) {
        return Err(wrong_usage("--svg names the trace: give the figure a file of its own"));
    }
    let bar = progress::spinner();
    bar.set_message(format!("{} policies on {}", options.policies.len(), options.trace.display()));
    let points = coscan_cache::run(&options);
    bar.finish_and_clear();
    let points = points.map_err(blame)?;
    if let Some(svg) = &args.svg {
        draw(&points, &args.trace.path, svg)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&points)?)?;
    } else {
        write!(out, "{}", table::table(&points, WIDTH))?;
    }
    Ok(())
}

/// The named policies, each once. By default all policies, with those that know the future last.
fn policies(named: &[PagePolicyName]) -> Vec<PagePolicyName> {
    if named.is_empty() {
        let knows_future = |policy: &PagePolicyName| policy.info().traits.contains(&Trait::Offline);
        let (last, first): (Vec<_>, Vec<_>) = PagePolicyName::ALL.into_iter().partition(knows_future);
        return [first, last].concat();
    }
    let mut once = Vec::new();
    for policy in named {
        if !once.contains(policy) {
            once.push(*policy);
        }
    }
    once
}

fn draw(points: &[Point], trace: &Path, svg: &Path) -> anyhow::Result<()> {
    let title = trace.file_name().unwrap_or_default().to_string_lossy();
    let picture = figure::miss_ratio_curves(points, &title).map_err(blame)?;
    fs::write(svg, picture).with_context(|| format!("cannot write the figure {}", svg.display()))
}
