//! `coscan bench paper`: the workload of "Cooperative Scans" (VLDB 2007, section 5) under several policies and on
//! the plain query engine, with the same limits and in the same process.
//!
//! `mix.rs` makes the queries, `stats.rs` computes the quantities, `report.rs` prints them. This file has the
//! arguments and the order of steps: open the table, measure every kind of query alone, then run every seed on every
//! contender, each with a fresh engine. The answers of all contenders must be equal, row by row.

mod contender;
mod mix;
mod report;
pub mod stats;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use coscan_figure::loads;
use coscan_figure::timeline::{ChunkSpan, Timeline};
use coscan_sim::statistics::Spread;
use indicatif::ProgressBar;
use serde_json::json;

use super::workload::{Outcome, Table, Workload};
use crate::failure::wrong_usage;
use crate::generate;
use crate::progress;
use crate::rows::difference;
use crate::session::{Load, Session, Threads};
use crate::settings::{EngineArgs, EngineConfig, Policy, Settings, registry};
use contender::{Contender, Run};
use mix::{Domain, Kind, Shape};
use report::Report;
use stats::{Base, Measurement, Series};

/// Arguments of `coscan bench paper`.
#[derive(Args, Debug)]
pub struct PaperArgs {
    /// Directory with the lineitem table; generated there if missing [default: data/tpch-sfN]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Scale factor of the table, if it is generated
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub scale_factor: f64,

    /// Row groups of the table, if it is generated
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub chunks: u64,

    /// Concurrent streams
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub streams: u64,

    /// Queries per stream, one after another
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub queries: u64,

    /// Seconds between the starts of two streams [default: as in the paper, 3/20.37 of a cold F-100]
    #[arg(long, value_name = "SECONDS")]
    pub delay: Option<f64>,

    /// Seed of the first run
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Runs with consecutive seeds; the report shows medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,

    /// Policies to compare, separated by commas [default: --policy if given, else all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policies: Vec<Policy>,

    /// Buffer as a percentage of the table, instead of --buffer in bytes [default: 25, as in the paper]
    #[arg(long, value_name = "PERCENT", conflicts_with = "buffer", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub buffer_percent: Option<u64>,

    /// Skip the comparison with the plain query engine
    #[arg(long)]
    pub no_datafusion: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Draw the loads of chunks over time, one panel per policy, from the first seed
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Seconds between streams, and seconds of a cold F-100, in the paper.
const PAPER_DELAY_S: f64 = 3.0;
const PAPER_F100_S: f64 = 20.37;
/// The buffer in the paper: 64 of 254 chunks.
const PAPER_BUFFER_PERCENT: u64 = 25;
/// Number of repetitions of short queries for their base time.
const BASE_REPETITIONS: u64 = 3;

/// Runs the comparison and prints it.
pub fn run(args: &PaperArgs) -> anyhow::Result<()> {
    if args.delay.is_some_and(|delay| !(delay >= 0.0 && delay.is_finite())) {
        return Err(wrong_usage("--delay must be 0 or more seconds"));
    }
    let mut settings = args.engine.resolve()?;
    if !settings.is_given("share_results") {
        // The policies' reads are compared, so equal queries must run.
        settings.set("coscan.share_results", "false")?;
    }
    let data = Data::open(args, &settings)?;
    if args.buffer_percent.is_some() || !settings.is_given("buffer") {
        let bytes = data.bytes * args.buffer_percent.unwrap_or(PAPER_BUFFER_PERCENT) / 100;
        settings.set("coscan.buffer", &bytes.to_string())?;
    }
    let config = settings.engine_config()?;
    let bench = Bench { args, threads: Threads::start(settings.threads)?, settings, config, data };
    let report = bench.run()?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report.to_json())?)?;
    } else {
        write!(out, "{}", report.to_text())?;
        if let Some(svg) = &args.svg {
            writeln!(out, "\nLoads over time: {}", svg.display())?;
        }
    }
    Ok(())
}

/// The lineitem table.
struct Data {
    table: Table,
    bytes: u64,
}

impl Data {
    /// Finds the table, or generates it if it is missing.
    fn open(args: &PaperArgs, settings: &Settings) -> anyhow::Result<Self> {
        let at =
            args.data.clone().unwrap_or_else(|| PathBuf::from(format!("data/tpch-sf{}", args.scale_factor)));
        let mut files = parquet_files(&at)?;
        if files.is_empty() {
            let table = generate::tpch::Table::Lineitem;
            let row_group_rows = table.rows(args.scale_factor).div_ceil(args.chunks).max(1);
            generate::one_table(table, args.scale_factor, &at, row_group_rows, settings.threads)?;
            files = parquet_files(&at)?;
        }
        if files.is_empty() {
            bail!("there is no lineitem table in {}; give --data DIR", at.display());
        }
        let bytes = files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<io::Result<u64>>()?;
        Ok(Data { table: Table { format: "parquet".to_owned(), files }, bytes })
    }
}

/// The files of lineitem in `at`, in the order of their numbers. They are `lineitem.parquet`, or the files in the
/// folder `lineitem`. `at` may also be that folder or file itself.
fn parquet_files(at: &std::path::Path) -> anyhow::Result<Vec<PathBuf>> {
    for place in [at.join("lineitem.parquet"), at.join("lineitem"), at.to_owned()] {
        if place.is_file() {
            return Ok(vec![fs::canonicalize(place)?]);
        }
        let mut files = Vec::new();
        if place.is_dir() {
            for entry in fs::read_dir(&place).with_context(|| format!("cannot list {}", place.display()))? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with("lineitem") && name.ends_with(".parquet") {
                    files.push(fs::canonicalize(path)?);
                }
            }
        }
        if !files.is_empty() {
            files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
            return Ok(files);
        }
    }
    Ok(Vec::new())
}

struct Bench<'a> {
    args: &'a PaperArgs,
    settings: Settings,
    config: EngineConfig,
    threads: Threads,
    data: Data,
}

impl Bench<'_> {
    fn run(&self) -> anyhow::Result<Report> {
        let contenders = self.contenders();
        let seeds: Vec<u64> = (0..self.args.seeds).map(|at| self.args.seed.wrapping_add(at)).collect();
        self.records_are_free(&contenders, &seeds)?;
        let domain = self.domain()?;
        let policies = contenders.iter().filter(|c| matches!(c, Contender::Policy(_))).count();
        let bases = if policies < contenders.len() { 2 } else { 1 };
        let base_queries = bases * Kind::ALL.iter().map(|&kind| repetitions(kind)).sum::<u64>();
        let queries = self.args.seeds * self.args.streams * self.args.queries * contenders.len() as u64;
        let bar = progress::counter(base_queries + queries, "queries");

        let base = self.base(contenders[0], domain, &bar)?;
        let delay_s = self.args.delay.unwrap_or_else(|| {
            let f100 = Kind::ALL[3].to_string();
            base.get(&f100).map_or(1.0, |seconds| seconds * PAPER_DELAY_S / PAPER_F100_S)
        });
        let shape = Shape { streams: self.args.streams, queries: self.args.queries, delay_s };
        let mut series: Vec<Series> =
            contenders.iter().map(|c| Series { name: c.to_string(), runs: Vec::new() }).collect();
        let mut first_runs = Vec::new();
        for &seed in &seeds {
            let workload = mix::mix(&self.data.table, domain, shape, seed);
            let mut reference: Option<(Contender, Vec<Outcome>)> = None;
            for (&contender, series) in contenders.iter().zip(&mut series) {
                bar.set_message(format!("{contender}, seed {seed}"));
                let run = self.measure(contender, &self.settings, &workload, &bar)?;
                match &reference {
                    None => reference = Some((contender, run.outcomes.clone())),
                    Some((other, expected)) => {
                        compare(&workload, contender, &run.outcomes, *other, expected)?
                    }
                }
                series.runs.push(Measurement::of(&workload, &run.outcomes, run.cost, &base));
                if seed == seeds[0] {
                    first_runs.push(run);
                }
            }
        }
        let datafusion = if policies < contenders.len() {
            let own_base = self.base(Contender::DataFusion, domain, &bar)?;
            series.pop().map(|series| (series, own_base))
        } else {
            None
        };
        bar.finish_and_clear();
        self.draw(&series, &first_runs)?;
        Ok(Report {
            setting: self.setting(delay_s),
            setting_json: self.setting_json(delay_s),
            seeds,
            base,
            trace_hashes: first_runs.iter().take(series.len()).map(Run::trace_hash).collect(),
            policies: series,
            datafusion,
        })
    }

    /// Fails before the first query if a recording would overwrite a file.
    fn records_are_free(&self, contenders: &[Contender], seeds: &[u64]) -> anyhow::Result<()> {
        let runs = contenders.iter().flat_map(|contender| seeds.iter().map(move |seed| (contender, *seed)));
        let mut traces = runs.filter_map(|(contender, seed)| contender.record_of(&self.settings, seed));
        match traces.find(|path| path.exists()) {
            Some(path) => bail!("{} exists: remove it, or give --record another name", path.display()),
            None => Ok(()),
        }
    }

    /// The policies in the requested order, then the plain engine.
    fn contenders(&self) -> Vec<Contender> {
        let mut policies: Vec<_> = self.args.policies.iter().map(|policy| policy.0).collect();
        if policies.is_empty() {
            let named = self.settings.engine.get("policy").and_then(|name| name.to_lowercase().parse().ok());
            policies = named.map_or_else(|| registry::sharing().collect(), |policy| vec![policy]);
        }
        let datafusion = (!self.args.no_datafusion).then_some(Contender::DataFusion);
        policies.into_iter().map(Contender::Policy).chain(datafusion).collect()
    }

    /// The range of keys, from the statistics of the files.
    fn domain(&self) -> anyhow::Result<Domain> {
        let session = Session::plain(&self.settings)?;
        let rows = self.threads.block_on(async {
            session.register_files("lineitem", &self.data.table.files).await?;
            session.rows("SELECT min(l_orderkey), max(l_orderkey) FROM lineitem").await
        })?;
        let key = |at: usize| rows.first()?.get(at)?.as_i64();
        match (key(0), key(1)) {
            (Some(min), Some(max)) => Ok(Domain { min, max }),
            _ => bail!("the table has no rows, or no numbers in l_orderkey; give another --data"),
        }
    }

    /// Each kind of query alone on a fresh engine: the median of its repetitions. These runs are not recorded.
    fn base(&self, contender: Contender, domain: Domain, bar: &ProgressBar) -> anyhow::Result<Base> {
        let settings = Settings { record: None, ..self.settings.clone() };
        let mut base = Base::new();
        for kind in Kind::ALL {
            bar.set_message(format!("{contender}, {kind} alone"));
            let mut seconds = Vec::new();
            for repetition in 0..repetitions(kind) {
                let workload = mix::alone(&self.data.table, domain, kind, repetition);
                let run = self.measure(contender, &settings, &workload, bar)?;
                seconds.extend(run.outcomes.iter().map(Outcome::latency_s));
            }
            base.extend(Spread::of(seconds).map(|seconds| (kind.to_string(), seconds.median)));
        }
        Ok(base)
    }

    /// One run on a fresh engine. A failed query makes the benchmark fail.
    fn measure(
        &self,
        contender: Contender,
        settings: &Settings,
        workload: &Workload,
        bar: &ProgressBar,
    ) -> anyhow::Result<Run> {
        let run = self.threads.block_on(contender.run(settings, workload, bar))?;
        match run.outcomes.iter().find_map(|outcome| Some((outcome, outcome.error.as_ref()?))) {
            Some((outcome, error)) => {
                bail!("{contender}: query {} of seed {} failed: {error}", outcome.id, workload.seed)
            }
            None => Ok(run),
        }
    }

    fn draw(&self, series: &[Series], runs: &[Run]) -> anyhow::Result<()> {
        let Some(path) = &self.args.svg else { return Ok(()) };
        let timelines = series.iter().zip(runs).filter_map(|(series, run)| {
            let end_s = series.runs.first()?.total_time_s;
            Some(timeline(&series.name, &run.loads, end_s))
        });
        let timelines: Vec<Timeline> = timelines.collect();
        let heading = format!(
            "Chunks loaded over time: {} streams of {} queries, seed {}",
            self.args.streams, self.args.queries, self.args.seed
        );
        let description = "A dot per load of a chunk over time, a cross where it had been loaded before.";
        let svg = loads::svg(&heading, description, &timelines)?;
        fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Bytes per second, if they are limited.
    fn read_limit(&self) -> Option<u64> {
        self.config.read_limit.map(|limit| limit.bytes_per_s).filter(|&bytes| bytes > 0)
    }

    fn setting(&self, delay_s: f64) -> Vec<String> {
        let size = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let limit =
            self.read_limit().map_or("no read limit".to_owned(), |bytes| format!("{}/s", size(bytes)));
        let (first, count) = (self.args.seed, self.args.seeds);
        let seeds = match count {
            1 => format!("seed {first}"),
            _ => format!("{count} seeds from {first}: medians, and the range below"),
        };
        vec![
            format!(
                "{} streams of {} queries, {delay_s:.2} s apart; {seeds}",
                self.args.streams, self.args.queries
            ),
            format!(
                "lineitem {}, buffer {}, {limit}, {} threads",
                size(self.data.bytes),
                size(self.config.buffer_bytes),
                self.settings.threads
            ),
            "latencies are normalised by the query alone and cold on coscan".to_owned(),
        ]
    }

    fn setting_json(&self, delay_s: f64) -> serde_json::Map<String, serde_json::Value> {
        let pairs: BTreeMap<&str, serde_json::Value> = BTreeMap::from([
            ("streams", json!(self.args.streams)),
            ("queries", json!(self.args.queries)),
            ("delay_s", json!(delay_s)),
            ("table_bytes", json!(self.data.bytes)),
            ("buffer_bytes", json!(self.config.buffer_bytes)),
            ("read_limit_bytes_per_s", json!(self.read_limit())),
            ("threads", json!(self.settings.threads)),
        ]);
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn repetitions(kind: Kind) -> u64 {
    if kind.percent <= 10 { BASE_REPETITIONS } else { 1 }
}

/// Checks that all answers are equal. The first difference is an error.
fn compare(
    workload: &Workload,
    contender: Contender,
    outcomes: &[Outcome],
    other: Contender,
    expected: &[Outcome],
) -> anyhow::Result<()> {
    for (outcome, expected) in outcomes.iter().zip(expected) {
        let (Some(rows), Some(expected_rows)) = (&outcome.rows, &expected.rows) else { continue };
        if let Some(difference) = difference(rows, expected_rows) {
            bail!(
                "query {} of seed {} has another result under {contender} than under {other}: {difference}; \
                 this is a bug, please report it",
                outcome.id,
                workload.seed
            );
        }
    }
    Ok(())
}

/// The data of a run for the figure of loads.
fn timeline(policy: &str, loads: &[Load], end_s: f64) -> Timeline {
    let read = |load: &Load| ChunkSpan { chunk: load.chunk, start_s: load.at_s, end_s: load.at_s };
    Timeline {
        policy: policy.to_owned(),
        chunks: loads.iter().map(|load| load.chunk + 1).max().unwrap_or(0),
        end_s,
        reads: loads.iter().map(read).collect(),
        ..Timeline::default()
    }
}
