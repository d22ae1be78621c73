//! The report's section about a scenario: its text, the paper's values beside the measured ones, and figures.
//!
//! The scenario determines the figures. A sweep over numbers is drawn as curves, a sweep over names as a
//! scatter of the mixes. A scenario with a small table has a timeline per policy, others the loads over time.

use std::collections::BTreeMap;

use crate::error::ReproError;
use crate::report::{Block, Section};
use crate::timeline;
use coscan_figure::axis::Axis;
use coscan_figure::bars::{Bar, BarSeries, GroupedBars};
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};
use coscan_figure::loads;
use coscan_figure::scatter::{Dot, Group, Scatter};
use coscan_figure::timeline::Timeline;
use coscan_sim::host::Observe;
use coscan_sim::outcome::{Measurement, Outcome, PointOutcome, PolicyOutcome, QUANTITIES};
use coscan_sim::run::ScenarioRunError;
use coscan_sim::scenario::{PaperValues, Scenario};
use coscan_sim::statistics::Quantity;

/// A table with at most this many chunks is shown with a lane per chunk.
const LANES_MAX: u32 = 64;

pub(crate) fn section(
    experiment: &str,
    scenario: &Scenario,
    outcome: &Outcome,
) -> Result<Section, ReproError> {
    let mut blocks = vec![Block::Text(scenario.source.clone())];
    blocks.extend(scenario.notes.split("\n\n").map(|text| Block::Text(text.trim().to_owned())));
    match outcome.points.as_slice() {
        [point] => {
            blocks.push(figures_table(scenario, point));
            blocks.extend(latencies(scenario, point)?);
            blocks.extend(runs(scenario)?);
        }
        points => blocks.extend(sweep(scenario, points)?),
    }
    Ok(Section { experiment: experiment.to_owned(), title: scenario.title.clone(), blocks })
}

/// The paper's values of a policy.
fn paper_values<'a>(scenario: &'a Scenario, policy: &PolicyOutcome) -> Option<&'a PaperValues> {
    scenario.paper.as_ref()?.policies.get(scenario.name_in_paper(policy.policy)?)
}

/// Every figure per policy, with the paper's value below if there is one.
fn figures_table(scenario: &Scenario, point: &PointOutcome) -> Block {
    let header =
        std::iter::once("figure".to_owned()).chain(point.policies.iter().map(|p| p.policy.to_string()));
    let line = |quantity: &Quantity<Measurement>| {
        let cell = |policy: &PolicyOutcome| {
            let summary = policy.summary(quantity.of);
            let own = number(summary.median);
            let given = paper_values(scenario, policy);
            match given.and_then(|values| super::judge::paper_value(values, quantity.key)) {
                Some(value) => format!("{own} (paper {})", number(value)),
                None => own,
            }
        };
        std::iter::once(quantity.title.to_owned()).chain(point.policies.iter().map(cell)).collect()
    };
    Block::Table {
        caption: "Medians over seeds".to_owned(),
        header: header.collect(),
        rows: QUANTITIES.iter().map(line).collect(),
    }
}

/// Mean latency per kind of query, as a table and as bars, if there are several kinds.
fn latencies(scenario: &Scenario, point: &PointOutcome) -> Result<Vec<Block>, ReproError> {
    let paper = scenario.paper.as_ref();
    let kinds: Vec<&String> = point.policies.first().map_or_else(Vec::new, |policy| kinds(policy));
    if kinds.len() < 2 {
        return Ok(Vec::new());
    }
    let given =
        |policy: &PolicyOutcome, kind: &str| paper_values(scenario, policy)?.latencies_s.get(kind).copied();
    let row = |kind: &&String| {
        let alone = point.policies[0].mean_alone_s(kind).unwrap_or(f64::NAN);
        let cell = |policy: &PolicyOutcome| {
            let own = policy.mean_latency_s(kind).map_or_else(|| "–".to_owned(), number);
            given(policy, kind).map_or(own.clone(), |paper| format!("{own} (paper {})", number(paper)))
        };
        let alone_paper = paper.and_then(|paper| paper.alone_s.get(*kind));
        let alone = match alone_paper {
            Some(paper) => format!("{} (paper {})", number(alone), number(*paper)),
            None => number(alone),
        };
        [(*kind).clone(), alone].into_iter().chain(point.policies.iter().map(cell)).collect()
    };
    let head = ["query".to_owned(), "alone".to_owned()].into_iter();
    let header = head.chain(point.policies.iter().map(|p| p.policy.to_string())).collect();
    let rows = kinds.iter().map(row).collect();
    let bar = |policy: &PolicyOutcome, kind: &str| {
        let value = policy.mean_latency_s(kind)?;
        Some(Bar { value, spread: (value, value), paper: given(policy, kind) })
    };
    let series = |policy: &PolicyOutcome| BarSeries {
        name: policy.policy.to_string(),
        bars: kinds.iter().map(|kind| bar(policy, kind)).collect(),
    };
    let bars = GroupedBars {
        title: "Mean latency per kind of query".to_owned(),
        description: "Seconds per kind of query and policy; the table above has the numbers.".to_owned(),
        y: Axis::log("seconds"),
        groups: kinds.iter().map(|kind| (*kind).clone()).collect(),
        series: point.policies.iter().map(series).collect(),
    };
    let caption = "Mean latency per kind of query, in seconds".to_owned();
    Ok(vec![
        Block::Table { caption: caption.clone(), header, rows },
        Block::Figure { caption, svg: bars.svg()? },
    ])
}

fn kinds(policy: &PolicyOutcome) -> Vec<&String> {
    let all: std::collections::BTreeSet<&String> =
        policy.runs.iter().flat_map(|run| run.latencies_s.keys()).collect();
    all.into_iter().collect()
}

/// The first seed's run under every policy.
fn runs(scenario: &Scenario) -> Result<Vec<Block>, ReproError> {
    let (point, seed) = (&scenario.points[0], scenario.seeds[0]);
    let workload = point.recipe.draw(seed);
    let mut timelines: Vec<Timeline> = Vec::new();
    for policy in &scenario.policies {
        let (_, timeline) = timeline::run(&point.world, &workload, *policy, Observe::default())
            .map_err(|error| ScenarioRunError::Run { scenario: scenario.name.clone(), seed, error })?;
        timelines.push(timeline);
    }
    let lanes = timelines.iter().all(|timeline| timeline.chunks <= LANES_MAX);
    if lanes {
        let figure = |timeline: &Timeline| {
            let caption = format!("{}: seed {seed}", timeline.policy);
            Ok(Block::Figure { caption, svg: timeline.svg()? })
        };
        return timelines.iter().map(figure).collect();
    }
    let description = "A dot per load of a chunk over time, a cross where it had been loaded before.";
    let svg = loads::svg("Chunks loaded over time", description, &timelines)?;
    Ok(vec![Block::Figure { caption: format!("What was loaded when; seed {seed}"), svg }])
}

/// The figures that are drawn for a sweep.
const SWEPT: [&str; 3] = ["stream_time_s", "normalised_latency", "loads"];

fn sweep(scenario: &Scenario, points: &[PointOutcome]) -> Result<Vec<Block>, ReproError> {
    let mut blocks = vec![sweep_table(points)];
    let numeric =
        points.iter().all(|point| point.at.last().is_some_and(|(_, v)| leading_number(v).is_some()));
    blocks.push(if numeric { curves(scenario, points)? } else { scatter(scenario, points)? });
    Ok(blocks)
}

fn sweep_table(points: &[PointOutcome]) -> Block {
    let header = ["at", "figure"].map(str::to_owned).into_iter();
    let header = header.chain(points[0].policies.iter().map(|p| p.policy.to_string())).collect();
    let line = |point: &PointOutcome, quantity: &Quantity<Measurement>| {
        let cells = point.policies.iter().map(|policy| number(policy.summary(quantity.of).median));
        [label(point), quantity.title.to_owned()].into_iter().chain(cells).collect()
    };
    let swept = || QUANTITIES.iter().filter(|quantity| SWEPT.contains(&quantity.key));
    let rows = points.iter().flat_map(|point| swept().map(move |quantity| line(point, quantity))).collect();
    Block::Table { caption: "Medians over seeds".to_owned(), header, rows }
}

fn label(point: &PointOutcome) -> String {
    point.at.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}

/// The number at the beginning of a label such as `12.5%`.
fn leading_number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

/// A panel per figure and value of the outer key, a curve per policy over the inner one.
pub(crate) fn curves(scenario: &Scenario, points: &[PointOutcome]) -> Result<Block, ReproError> {
    let mut groups: BTreeMap<usize, (String, Vec<&PointOutcome>)> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for point in points {
        let outer: Vec<&str> = point.at.iter().rev().skip(1).rev().map(|(_, v)| v.as_str()).collect();
        let outer = outer.join(", ");
        let at = order.iter().position(|known| *known == outer).unwrap_or_else(|| {
            order.push(outer.clone());
            order.len() - 1
        });
        groups.entry(at).or_insert_with(|| (outer, Vec::new())).1.push(point);
    }
    let mut panels = Vec::new();
    for (outer, points) in groups.values() {
        let key = points[0].at.last().map_or("", |(key, _)| key.as_str());
        for quantity in QUANTITIES.iter().filter(|quantity| SWEPT.contains(&quantity.key)) {
            let series = points[0].policies.iter().enumerate().map(|(at, policy)| Series {
                name: policy.policy.to_string(),
                points: points.iter().filter_map(|point| swept_point(point, at, quantity)).collect(),
                draw: Draw::Marked,
                look: None,
            });
            panels.push(LinePanel {
                title: outer.clone(),
                x: Axis::linear(key),
                y: Axis::linear(quantity.title),
                series: series.collect(),
            });
        }
    }
    let chart = LineChart {
        title: scenario.title.clone(),
        description: "A curve per policy; the table above has the numbers.".to_owned(),
        panels,
        columns: SWEPT.len(),
    };
    Ok(Block::Figure {
        caption: "Medians over seeds; the band is the middle half".to_owned(),
        svg: chart.svg()?,
    })
}

fn swept_point(point: &PointOutcome, policy: usize, quantity: &Quantity<Measurement>) -> Option<Point> {
    let x = leading_number(&point.at.last()?.1)?;
    let summary = point.policies[policy].summary(quantity.of);
    Some(Point { x, y: summary.median, spread: summary.quartiles })
}

/// 2007, Fig. 5: stream time and normalised latency of every mix, relative to relevance.
fn scatter(scenario: &Scenario, points: &[PointOutcome]) -> Result<Block, ReproError> {
    let figure = |policy: &PolicyOutcome, of: fn(&Measurement) -> f64| policy.summary(of).median;
    let dot = |point: &PointOutcome, policy: &PolicyOutcome| {
        let base = point.policy("relevance")?;
        Some(Dot {
            name: label(point),
            x: figure(policy, |m| m.stream_time_s) / figure(base, |m| m.stream_time_s),
            y: figure(policy, |m| m.normalised_latency) / figure(base, |m| m.normalised_latency),
        })
    };
    let group = |(at, policy): (usize, &PolicyOutcome)| Group {
        name: policy.policy.to_string(),
        dots: points.iter().filter_map(|point| dot(point, &point.policies[at])).collect(),
    };
    let others = |(_, policy): &(usize, &PolicyOutcome)| policy.policy.as_str() != "relevance";
    let scatter = Scatter {
        title: scenario.title.clone(),
        description: "A dot per mix of queries; 1 is what relevance reaches on the same mix.".to_owned(),
        x: Axis::linear("stream time / relevance"),
        y: Axis::linear("normalised latency / relevance"),
        groups: points[0].policies.iter().enumerate().filter(others).map(group).collect(),
        baseline: Some("relevance".to_owned()),
    };
    Ok(Block::Figure { caption: "Medians over seeds, relative to relevance".to_owned(), svg: scatter.svg()? })
}

fn number(value: f64) -> String {
    coscan_figure::axis::number(value)
}
