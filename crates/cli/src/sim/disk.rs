//! `coscan sim disk`: runs the requests of a trace on a model of a disk, and prints their response times.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use coscan_base::statistics::quantile;
use coscan_device::hard_disk::{DRIVES, Drive};
use coscan_device::replay::{TraceError, line_of_request, read_disksim_trace, replay};
use coscan_device::{DeviceModel, DeviceSpec};
use serde_json::json;

use crate::failure::wrong_usage;
use crate::tables;

/// Arguments of `coscan sim disk`.
#[derive(Args, Debug)]
pub struct DiskArgs {
    /// The disk: atlas10k, atlas10k2, atlas10k3, c2247, atlas3, ultrastar18lzx or cheetahx15
    #[arg(long, value_name = "NAME")]
    model: String,

    /// A trace in DiskSim's ASCII format: arrival in ms, device, block, blocks of 512 bytes, flags in hexadecimal
    /// (bit 0: read); all requests go to the one modelled disk
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Print JSON, with the response time of every request
    #[arg(long)]
    json: bool,

    /// Print the response time of every request, in the order of the trace, before their distribution
    #[arg(long)]
    requests: bool,
}

/// Replays the trace and prints the response times.
pub fn run(args: &DiskArgs) -> anyhow::Result<()> {
    let drive = named(&args.model)?;
    let path = args.trace.display();
    let text = fs::read_to_string(&args.trace).with_context(|| format!("cannot read {path}"))?;
    let arrivals = read_disksim_trace(&text).with_context(|| path.to_string())?;
    let model = (drive.model)();
    let blocks = model.blocks();
    let mut device = DeviceSpec::new(DeviceModel::HardDisk(Box::new(model)))?.build();
    let took = replay(&mut *device, blocks, &arrivals).map_err(|error| {
        let line = match &error {
            TraceError::BeyondEnd { nth, .. } => line_of_request(&text, *nth),
            TraceError::Line { .. } => None,
        };
        let place = line.map_or_else(|| path.to_string(), |line| format!("{path}: line {line}"));
        anyhow::Error::new(error).context(place)
    })?;
    let took_ms: Vec<f64> = took.iter().map(|span| span.as_nanos() as f64 / 1e6).collect();
    let mean = match took_ms.len() {
        0 => 0.0,
        requests => took_ms.iter().sum::<f64>() / requests as f64,
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "requests": took_ms.len(), "mean_ms": mean, "response_ms": took_ms }))?;
        return Ok(());
    }
    if args.requests {
        took_ms.iter().try_for_each(|ms| writeln!(out, "{ms:.6}"))?;
    }
    writeln!(out, "{}\n{} requests, mean response {mean:.3} ms\n", drive.summary, took_ms.len())?;
    writeln!(out, "{}", distribution(&took_ms))?;
    Ok(())
}

fn named(name: &str) -> anyhow::Result<Drive> {
    DRIVES.into_iter().find(|drive| drive.name == name).ok_or_else(|| {
        let known = DRIVES.map(|drive| drive.name).join(", ");
        wrong_usage(format!("there is no disk '{name}'; there are {known}"))
    })
}

/// Response times that this many percent of the requests do not exceed.
fn distribution(took_ms: &[f64]) -> comfy_table::Table {
    let mut table = tables::plain(&["percent", "response_ms"]);
    for percent in [1, 10, 25, 50, 75, 90, 95, 99, 100] {
        if !took_ms.is_empty() {
            let ms = quantile(took_ms, f64::from(percent) / 100.0);
            table.add_row([percent.to_string(), format!("{ms:.3}")]);
        }
    }
    table
}
