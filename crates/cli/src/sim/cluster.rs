//! `coscan sim cluster`: bytes, requests, money and time of a cluster over an object store.

use std::io::{self, Write};

use bytesize::ByteSize;
use clap::Args;
use coscan_sim::cluster::{Model, Outcome, Way, run};

use super::shown;
use crate::failure::wrong_usage;
use crate::tables;

/// Arguments of `coscan sim cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// Workers; several numbers are compared
    #[arg(long, value_delimiter = ',', default_value = "3")]
    workers: Vec<usize>,

    /// Size of the queried columns of the table
    #[arg(long, value_name = "BYTES", default_value = "16GB")]
    table: ByteSize,

    /// Size of the queried columns of a row group
    #[arg(long, value_name = "BYTES", default_value = "16MB")]
    piece: ByteSize,

    /// Statements at the same time
    #[arg(long, default_value_t = 64)]
    streams: usize,

    /// Statements of each stream, one after the other
    #[arg(long, default_value_t = 4)]
    queries: usize,

    /// Parts of the table that statements scan, in percent
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,100")]
    percents: Vec<f64>,

    /// Exponent of the popularity of places in the table: 0 for none
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,

    /// Latency of the store in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30.0)]
    latency: f64,

    /// Bandwidth of a request per second
    #[arg(long, value_name = "BYTES", default_value = "90MB")]
    request_bandwidth: ByteSize,

    /// Bandwidth of a worker per second
    #[arg(long, value_name = "BYTES", default_value = "1.5GB")]
    worker_bandwidth: ByteSize,

    /// Bandwidth of the store per second [default: no limit]
    #[arg(long, value_name = "BYTES")]
    store_bandwidth: Option<ByteSize>,

    /// Requests per second of the store
    #[arg(long, default_value_t = 5500.0)]
    store_requests: f64,

    /// Requests of a worker in flight
    #[arg(long, default_value_t = 64)]
    in_flight: usize,

    /// Buffer of a worker
    #[arg(long, value_name = "BYTES", default_value = "24GB")]
    buffer: ByteSize,

    /// Processors of a worker
    #[arg(long, default_value_t = 16.0)]
    cores: f64,

    /// Bytes per second that a processor decodes
    #[arg(long, value_name = "BYTES", default_value = "300MB")]
    decode: ByteSize,

    /// Bytes per second that a processor computes after decoding
    #[arg(long, value_name = "BYTES", default_value = "900MB")]
    compute: ByteSize,

    /// Time from a statement to its first request, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    start: f64,

    /// Dollars of a million requests
    #[arg(long, default_value_t = 0.4)]
    request_price: f64,

    /// Dollars of a gigabyte
    #[arg(long, default_value_t = 0.0)]
    byte_price: f64,

    /// Dollars of a worker for an hour
    #[arg(long, default_value_t = 0.81)]
    worker_price: f64,

    /// Seed of the statements
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Lines of JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl ClusterArgs {
    fn model(&self, workers: usize) -> anyhow::Result<Model> {
        let pieces = self.table.as_u64().div_ceil(self.piece.as_u64().max(1));
        let has_all = workers > 0 && self.streams > 0 && self.cores > 0.0 && self.in_flight > 0;
        if !has_all || self.percents.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
            return Err(wrong_usage(
                "workers, streams, cores and requests must be positive, and percents at most 100",
            ));
        }
        let bytes = |of: ByteSize| of.as_u64() as f64;
        Ok(Model {
            workers,
            pieces: usize::try_from(pieces.max(1))?,
            piece_bytes: bytes(self.piece),
            streams: self.streams,
            queries: self.queries,
            percents: self.percents.clone(),
            zipf: self.zipf,
            latency_s: self.latency / 1000.0,
            request_bandwidth: bytes(self.request_bandwidth),
            worker_bandwidth: bytes(self.worker_bandwidth),
            store_bandwidth: self.store_bandwidth.map_or(f64::INFINITY, bytes),
            store_requests: self.store_requests,
            in_flight: self.in_flight,
            buffer_bytes: bytes(self.buffer),
            cores: self.cores,
            decode: bytes(self.decode),
            compute: bytes(self.compute),
            start_s: self.start / 1000.0,
            request_price: self.request_price / 1e6,
            byte_price: self.byte_price,
            worker_price: self.worker_price,
        })
    }
}

/// Runs the model in all ways.
pub fn cluster(args: &ClusterArgs) -> anyhow::Result<()> {
    let header = [
        "workers",
        "way",
        "s",
        "mean s",
        "p95 s",
        "TB",
        "by union",
        "requests",
        "store $",
        "workers $",
        "busiest",
    ];
    let mut table = tables::plain(&header);
    let mut out = io::stdout().lock();
    for &workers in &args.workers {
        let model = args.model(workers)?;
        for way in Way::ALL {
            let outcome = run(&model, way, args.seed);
            if args.json {
                writeln!(out, "{}", json(workers, way, &outcome))?;
            } else {
                table.add_row(row(workers, way, &outcome));
            }
        }
    }
    if !args.json {
        writeln!(out, "{table}")?;
    }
    Ok(())
}

fn row(workers: usize, way: Way, outcome: &Outcome) -> Vec<String> {
    vec![
        workers.to_string(),
        way.name().to_owned(),
        shown(outcome.seconds),
        shown(outcome.mean_s),
        shown(outcome.p95_s),
        shown(outcome.bytes / 1e12),
        format!("{:.2}", outcome.bytes / outcome.union_bytes),
        outcome.requests.to_string(),
        format!("{:.2}", outcome.store_dollars),
        format!("{:.2}", outcome.worker_dollars),
        format!("{:.2}", outcome.busiest),
    ]
}

fn json(workers: usize, way: Way, outcome: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "workers": workers,
        "way": way.name(),
        "seconds": outcome.seconds,
        "mean_s": outcome.mean_s,
        "median_s": outcome.median_s,
        "p95_s": outcome.p95_s,
        "bytes": outcome.bytes,
        "union_bytes": outcome.union_bytes,
        "requests": outcome.requests,
        "store_dollars": outcome.store_dollars,
        "worker_dollars": outcome.worker_dollars,
        "busiest": outcome.busiest,
    })
}
