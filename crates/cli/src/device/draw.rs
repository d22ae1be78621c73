//! `coscan device draw`: a profile as a figure.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use coscan_device::probe::{Boundary, Estimate, Profile};
use coscan_figure::axis::Axis;
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};

/// Arguments of `coscan device draw`.
#[derive(Args, Debug)]
pub struct DrawArgs {
    /// A profile that `coscan device probe --out` wrote
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    /// The figure to write, as SVG
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
}

/// Draws and writes.
pub fn run(args: &DrawArgs) -> anyhow::Result<()> {
    let profile = super::read_profile(&args.profile)?;
    let svg = chart(&profile).svg()?;
    fs::write(&args.svg, svg).with_context(|| format!("cannot write the figure to {}", args.svg.display()))
}

fn chart(profile: &Profile) -> LineChart {
    let mut panels = Vec::new();
    if !profile.latencies.is_empty() {
        panels.push(time_by_size(profile));
    }
    if let Some(depth) = &profile.depth {
        let points = depth.throughput.iter().map(|t| point(t.requests as f64, t.bytes_per_s, 1e-6));
        panels.push(LinePanel {
            title: format!("Random reads of {} KiB", depth.request_bytes >> 10),
            x: Axis::log("reads in flight"),
            y: Axis::log("MB/s"),
            series: vec![series("measured", points.collect(), Draw::Marked)],
        });
    }
    if let Some(boundary) = profile.boundary.as_ref().filter(|boundary| !boundary.picture.is_empty()) {
        panels.push(boundary_scan(boundary));
    }
    LineChart {
        title: format!("Profile of {}", profile.device),
        description:
            "Time of a read against its size, throughput against reads in flight, and time of a read against \
                      where it begins between two boundaries."
                .to_owned(),
        columns: panels.len().max(1),
        panels,
    }
}

/// The measured times, and the line t0 + n / B through them.
fn time_by_size(profile: &Profile) -> LinePanel {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let measured = profile.latencies.iter().map(|l| point(kib(l.bytes), l.p50_s, 1e3)).collect();
    let mut all = vec![series("p50", measured, Draw::Marked)];
    let slowest = profile.latencies.iter().map(|l| Point::exact(kib(l.bytes), l.p99_s * 1e3)).collect();
    all.push(series("p99", slowest, Draw::Marked));
    if let (Some(t0), Some(rate)) = (profile.fixed_cost_s, profile.bytes_per_s) {
        let model = |bytes: u64| (t0.value + bytes as f64 / rate.value) * 1e3;
        let line = profile.latencies.iter().map(|l| Point::exact(kib(l.bytes), model(l.bytes))).collect();
        all.push(series("t0 + n / B", line, Draw::Line));
    }
    LinePanel {
        title: "Random reads, one at a time".to_owned(),
        x: Axis::log("KiB"),
        y: Axis::log("ms"),
        series: all,
    }
}

/// Times by the start of a read. Reads that start less than their size before a boundary cross it.
fn boundary_scan(boundary: &Boundary) -> LinePanel {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let points = boundary.picture.iter().map(|place| point(kib(place.behind_bytes), place.p50_s, 1e3));
    LinePanel {
        title: format!(
            "Reads of {} KiB between boundaries {} KiB apart",
            boundary.request_bytes >> 10,
            boundary.period_bytes >> 10
        ),
        x: Axis::linear("KiB behind a boundary"),
        y: Axis::linear("ms"),
        series: vec![series("p50", points.collect(), Draw::Marked)],
    }
}

fn point(x: f64, estimate: Estimate, scale: f64) -> Point {
    let Estimate { value, low, high } = estimate;
    Point { x, y: value * scale, spread: (low * scale, high * scale) }
}

fn series(name: &str, points: Vec<Point>, draw: Draw) -> Series {
    Series { name: name.to_owned(), points, draw, look: None }
}
