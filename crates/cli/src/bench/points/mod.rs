//! `coscan bench points`: streams of scans over lineitem, and point queries over orders and lineitem that arrive at
//! a fixed rate, whether or not earlier ones are answered.
//!
//! The same seeds run under several settings, one after the other in one process, each with a fresh engine: with
//! point reads (`points`), with point reads without phases (`no phases`), and without point reads, where a point
//! query is one more scan (`scans only`). Latency is measured from a query's arrival. Answers must be equal.

mod mix;
mod report;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::run::run_streams;
use super::workload::{Table, Workload};
use crate::failure::wrong_usage;
use crate::generate::{self, tpch};
use crate::progress;
use crate::rows::{Row, difference};
use crate::session::{Session, Threads};
use crate::settings::{EngineArgs, Settings};
use mix::{Arrivals, Domain};
use report::{Report, Run, Series};

/// Arguments of `coscan bench points`.
#[derive(Args, Debug)]
pub struct PointsArgs {
    /// Directory with lineitem.parquet and orders.parquet; generated there if missing [default: data/tpch-sfN]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Scale factor of the tables, if they are generated
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub scale_factor: f64,

    /// Concurrent streams of scans
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub streams: u64,

    /// Scans per stream, one after another
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub queries: u64,

    /// Point queries per second, until the last scan is done
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub rate: f64,

    /// Seed of the first run
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Runs with consecutive seeds; the report shows medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,

    /// Buffer as a percentage of both tables, instead of --buffer in bytes [default: 25]
    #[arg(long, value_name = "PERCENT", conflicts_with = "buffer", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub buffer_percent: Option<u64>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub engine: EngineArgs,
}

/// The settings to compare, the reference first.
const CONTENDERS: [(&str, &[(&str, &str)]); 3] = [
    ("scans only", &[("coscan.point_threshold", "0")]),
    ("no phases", &[("coscan.point_latency_ms", "0")]),
    ("points", &[]),
];

/// The default buffer.
const BUFFER_PERCENT: u64 = 25;

/// Without a limit, reads come from the page cache, and point reads have no advantage.
const READ_LIMIT_BYTES_PER_S: u64 = 100_000_000;

/// Runs the comparison and prints it.
pub fn run(args: &PointsArgs) -> anyhow::Result<()> {
    if !(args.rate > 0.0 && args.rate.is_finite()) {
        return Err(wrong_usage("--rate must be more than 0 point queries per second"));
    }
    let mut settings = args.engine.resolve()?;
    if !settings.is_given("share_results") {
        // The policies' reads are compared, so equal queries must run.
        settings.set("coscan.share_results", "false")?;
    }
    if !settings.is_given("read_limit") {
        settings.set("coscan.read_limit", &READ_LIMIT_BYTES_PER_S.to_string())?;
    }
    let (tables, bytes) = open(args, &settings)?;
    if args.buffer_percent.is_some() || !settings.is_given("buffer") {
        let buffer = bytes * args.buffer_percent.unwrap_or(BUFFER_PERCENT) / 100;
        settings.set("coscan.buffer", &buffer.to_string())?;
    }
    let bench = Bench { args, threads: Threads::start(settings.threads)?, settings, tables };
    let report = bench.run(bytes)?;
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&report.to_json())?)?,
        false => write!(out, "{}", report.to_text())?,
    }
    Ok(())
}

/// Finds the two tables, or generates those that are missing. Returns them with their bytes.
fn open(args: &PointsArgs, settings: &Settings) -> anyhow::Result<(BTreeMap<String, Table>, u64)> {
    let at = args.data.clone().unwrap_or_else(|| PathBuf::from(format!("data/tpch-sf{}", args.scale_factor)));
    let (mut tables, mut bytes) = (BTreeMap::new(), 0);
    for (name, table) in [("lineitem", tpch::Table::Lineitem), ("orders", tpch::Table::Orders)] {
        let path = at.join(format!("{name}.parquet"));
        if !path.exists() {
            // Row groups as large as those of common writers: a page is a small part of one.
            generate::one_table(table, args.scale_factor, &at, 1 << 20, settings.threads)?;
        }
        let found = path.metadata().with_context(|| format!("there is no {}", path.display()))?;
        bytes += found.len();
        let files = vec![path.canonicalize()?];
        tables.insert(name.to_owned(), Table { format: "parquet".to_owned(), files });
    }
    Ok((tables, bytes))
}

struct Bench<'a> {
    args: &'a PointsArgs,
    settings: Settings,
    threads: Threads,
    tables: BTreeMap<String, Table>,
}

/// Answers to point queries, in the order of their arrival.
type Answers = Vec<(String, Vec<Row>)>;

impl Bench<'_> {
    fn run(&self, table_bytes: u64) -> anyhow::Result<Report> {
        let domain = self.domain()?;
        let seeds: Vec<u64> = (0..self.args.seeds).map(|at| self.args.seed.wrapping_add(at)).collect();
        let mut series: Vec<Series> =
            CONTENDERS.iter().map(|(name, _)| Series { name, runs: Vec::new() }).collect();
        let runs = self.args.seeds * CONTENDERS.len() as u64;
        let bar = progress::counter(runs * self.args.streams * self.args.queries, "scans");
        for &seed in &seeds {
            let args = self.args;
            let scans = mix::scans(self.tables.clone(), domain, args.streams, args.queries, seed);
            let mut expected: Option<Answers> = None;
            // The order alternates, so that other work on the machine does not always favour the same setting.
            for turn in 0..CONTENDERS.len() {
                let at = (turn + seed as usize) % CONTENDERS.len();
                let (name, set) = &CONTENDERS[at];
                bar.set_message(format!("{name}, seed {seed}"));
                let arrivals = Arrivals::new(domain, args.rate, seed);
                let (run, answers) = self.threads.block_on(self.measure(set, &scans, arrivals, &bar))?;
                match &expected {
                    None => expected = Some(answers),
                    Some(expected) => compare(name, &answers, expected)?,
                }
                series[at].runs.push(run);
            }
        }
        bar.finish_and_clear();
        let config = self.settings.engine_config()?;
        let limit = config.read_limit.map_or(0, |limit| limit.bytes_per_s);
        let buffer = config.buffer_bytes;
        let (streams, queries, rate) = (self.args.streams, self.args.queries, self.args.rate);
        Ok(Report {
            setting: vec![
                format!(
                    "{streams} streams of {queries} scans, {rate} point queries per second; seeds {seeds:?}: \
                     medians, and the range"
                ),
                format!(
                    "lineitem and orders {:.0} MB, buffer {:.0} MB, read limit {:.0} MB/s, {} threads",
                    table_bytes as f64 / 1e6,
                    buffer as f64 / 1e6,
                    limit as f64 / 1e6,
                    self.settings.threads
                ),
            ],
            setting_json: json!({
                "streams": streams,
                "queries": queries,
                "points_per_s": rate,
                "table_bytes": table_bytes,
                "buffer_bytes": buffer,
                "read_limit_bytes_per_s": limit,
                "threads": self.settings.threads,
            }),
            seeds,
            series,
        })
    }

    /// The range of keys, from the statistics of the files.
    fn domain(&self) -> anyhow::Result<Domain> {
        let session = Session::plain(&self.settings)?;
        let rows = self.threads.block_on(async {
            session.register_files("orders", &self.tables["orders"].files).await?;
            session.rows("SELECT min(o_orderkey), max(o_orderkey) FROM orders").await
        })?;
        let key = |at: usize| rows.first()?.get(at)?.as_i64();
        match (key(0), key(1)) {
            (Some(min), Some(max)) => Ok(Domain { min, max }),
            _ => bail!("orders has no rows, or no numbers in o_orderkey; give another --data"),
        }
    }

    /// One run on a fresh engine. A failed query makes the benchmark fail.
    async fn measure(
        &self,
        set: &[(&str, &str)],
        scans: &Workload,
        arrivals: Arrivals,
        bar: &ProgressBar,
    ) -> anyhow::Result<(Run, Answers)> {
        let mut settings = self.settings.clone();
        for (key, value) in set {
            settings.set(key, value)?;
        }
        let session = Session::cooperative(&settings)?;
        for (name, table) in &self.tables {
            session.register_files(name, &table.files).await?;
        }
        let session = Arc::new(session);
        let t0 = Instant::now();
        let scanning = run_streams(&session, scans, t0, bar);
        tokio::pin!(scanning);
        let mut arrivals = arrivals;
        let mut points = Vec::new();
        let outcomes = loop {
            let Some((at, sql)) = arrivals.next() else { break scanning.await };
            tokio::select! {
                outcomes = &mut scanning => break outcomes,
                () = tokio::time::sleep_until((t0 + at).into()) => {
                    points.push(tokio::spawn(point(session.clone(), t0 + at, sql)));
                }
            }
        };
        if let Some((outcome, error)) = outcomes.iter().find_map(|o| Some((o, o.error.as_ref()?))) {
            bail!("scan {} of seed {} failed: {error}", outcome.id, scans.seed);
        }
        let mut run = Run {
            total_s: outcomes.iter().map(|outcome| outcome.end_s).fold(0.0, f64::max),
            stream_s: stream_seconds(scans, &outcomes),
            ..Run::default()
        };
        let mut answers = Answers::new();
        for point in points {
            let (sql, took, rows) = point.await.context("a point query panicked")?;
            run.latencies_s.push(took.as_secs_f64());
            answers.push((sql.clone(), rows.with_context(|| format!("point query {sql}"))?));
        }
        run.bytes_read = session.counters().bytes_read;
        Ok((run, answers))
    }
}

async fn point(
    session: Arc<Session>,
    arrived: Instant,
    sql: String,
) -> (String, Duration, anyhow::Result<Vec<Row>>) {
    let rows = session.rows(&sql).await;
    (sql, arrived.elapsed(), rows)
}

/// The mean over the streams of their end times.
fn stream_seconds(scans: &Workload, outcomes: &[super::workload::Outcome]) -> f64 {
    let mut left = outcomes.iter();
    let ends = scans.streams.iter().map(|stream| {
        left.by_ref().take(stream.queries.len()).map(|outcome| outcome.end_s).fold(0.0, f64::max)
    });
    ends.sum::<f64>() / scans.streams.len().max(1) as f64
}

/// Checks that point queries common to two runs have the same answers.
fn compare(name: &str, answers: &Answers, expected: &Answers) -> anyhow::Result<()> {
    for ((sql, rows), (_, wanted)) in answers.iter().zip(expected) {
        if let Some(difference) = difference(rows, wanted) {
            bail!("{sql} has another result under '{name}': {difference}; this is a bug, please report it");
        }
    }
    Ok(())
}
