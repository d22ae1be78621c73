//! The report's part about the experiment: a figure and a table for each mix and degree of sharing.

use coscan_pool::allocation::load_control::LoadControlName;

use super::measured::Measured;
use crate::dbmin::workload::{Mix, Sharing};
use crate::dbmin::{Point, Policy};
use crate::report::Block;
use coscan_figure::FigureError;
use coscan_figure::axis::Axis;
use coscan_figure::line::{self, Draw, LineChart, LinePanel, Series};

const TEXT: &str = "Each terminal starts a query when its last one ends. Random, FIFO and CLOCK replace over all \
    frames and let everybody run; the working set, the hot set and DBMIN give queries frames and admit as many as \
    fit. M1 draws all six queries alike in 100 frames, M2 the two short ones half of the time in 80, M3 three \
    quarters of the time in 60. Bands are 90% confidence intervals; runs go on until they are within 5% of the mean. \
    As in the paper, the simple policies are measured up to 16 queries where they thrash.";

pub(crate) fn blocks(measured: &Measured) -> Result<Vec<Block>, FigureError> {
    let points = &measured.points;
    let mut blocks = vec![Block::Text(TEXT.to_owned())];
    for sharing in Sharing::ALL {
        let figure = if sharing == Sharing::None { "figure 2" } else { "figures 3 and 4" };
        let kept = |p: &&Point| p.sharing == sharing && !is_feedback(p);
        let chosen: Vec<&Point> = points.iter().filter(kept).collect();
        blocks.extend(part(&format!("Data sharing: {sharing} ({figure} of the paper)"), &chosen)?);
    }
    // The policies with predicted demand are shown beside those under feedback.
    let limited = |p: &&Point| p.sharing == Sharing::None && p.load_control != LoadControlName::Unlimited;
    let chosen: Vec<&Point> = points.iter().filter(limited).collect();
    blocks.extend(part("Load control by feedback for the simple policies (figure 5 of the paper)", &chosen)?);
    let first = |p: &&Point| p.sharing == Sharing::None && p.mix == Mix::M1 && !is_feedback(p);
    let chosen: Vec<&Point> = points.iter().filter(first).chain(&measured.others).collect();
    blocks.extend(part("All allocation policies, without sharing", &chosen)?);
    let chosen: Vec<&Point> = measured.windowed.iter().collect();
    let [short, long] = measured.windows.map(|window| window.as_nanos() / 1_000_000);
    blocks.extend(part(&format!("The working set with windows of {short} and {long} ms"), &chosen)?);
    Ok(blocks)
}

fn is_feedback(point: &Point) -> bool {
    matches!(point.load_control, LoadControlName::Feedback { .. })
}

/// A heading, a figure with a panel for each mix, and a table of all its points.
fn part(heading: &str, points: &[&Point]) -> Result<Vec<Block>, FigureError> {
    let mut policies = Vec::new();
    for point in points {
        let policy = Policy { allocation: point.policy, load_control: point.load_control };
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let mixes = Mix::ALL.into_iter().filter(|mix| points.iter().any(|p| p.mix == *mix));
    let panel = |mix: Mix| LinePanel {
        title: format!("{mix}, {} frames", mix.frames()),
        x: Axis::linear("concurrent queries"),
        y: Axis::linear("queries per second"),
        series: policies.iter().map(|policy| series(*policy, mix, points)).collect(),
    };
    let chart = LineChart {
        title: heading.to_owned(),
        description: "Throughput over the number of concurrent queries, for each policy and mix.".to_owned(),
        columns: mixes.clone().count().clamp(1, 2),
        panels: mixes.map(panel).collect(),
    };
    Ok(vec![
        Block::Heading(heading.to_owned()),
        Block::Figure { caption: "Throughput, with 90% confidence intervals".to_owned(), svg: chart.svg()? },
        table(points),
    ])
}

fn series(policy: Policy, mix: Mix, points: &[&Point]) -> Series {
    let own =
        |p: &&&Point| (p.policy, p.load_control, p.mix) == (policy.allocation, policy.load_control, mix);
    let point = |p: &&Point| line::Point {
        x: f64::from(p.concurrent),
        y: p.throughput_per_s,
        spread: (p.throughput_per_s - p.half_width, p.throughput_per_s + p.half_width),
    };
    let points = points.iter().filter(own).map(point).collect();
    Series { name: policy.allocation.to_string(), points, draw: Draw::Marked, look: None }
}

fn table(points: &[&Point]) -> Block {
    let header = [
        "mix, policy",
        "load control",
        "queries",
        "per second",
        "±",
        "processor",
        "disk",
        "reads",
        "writes",
        "deactivations",
    ];
    let row = |p: &&Point| {
        vec![
            format!("{} {}", p.mix, p.policy),
            p.load_control.to_string(),
            p.concurrent.to_string(),
            format!("{:.3}", p.throughput_per_s),
            format!("{:.1} %", 100.0 * p.half_width / p.throughput_per_s),
            format!("{:.2}", p.cpu_utilisation),
            format!("{:.2}", p.disk_utilisation),
            format!("{:.0}", p.reads_per_query),
            format!("{:.0}", p.writes_per_query),
            format!("{:.2}", p.deactivations_per_query),
        ]
    };
    Block::Table {
        caption: "All points; reads, writes and deactivations are per query".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: points.iter().map(row).collect(),
    }
}
