//! The results: the paper's Table 2 as text, and JSON.

use comfy_table::{CellAlignment, Table};
use coscan_sim::statistics::Spread;
use serde_json::{Map, Value, json};

use super::mix::Kind;
use super::stats::{Base, QUANTITIES, Series};
use crate::tables;

/// The content of a report.
pub struct Report {
    /// The setup of the runs as text, one line per item.
    pub setting: Vec<String>,
    /// The setup as JSON.
    pub setting_json: Map<String, Value>,
    pub seeds: Vec<u64>,
    /// Base times: each kind of query alone and cold on coscan.
    pub base: Base,
    /// One series per policy.
    pub policies: Vec<Series>,
    /// A hash of the order of loads in the first run of each policy.
    pub trace_hashes: Vec<String>,
    /// The plain engine, and each kind of query alone on it.
    pub datafusion: Option<(Series, Base)>,
}

/// The policy that the ratios refer to.
const BASELINE: &str = "normal";

impl Report {
    fn all(&self) -> impl Iterator<Item = &Series> {
        self.policies.iter().chain(self.datafusion.as_ref().map(|(series, _)| series))
    }

    fn baseline(&self) -> Option<&Series> {
        self.policies.iter().find(|series| series.name == BASELINE)
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut text = self.setting.join("\n");
        text.push_str(&format!("\n\n{}\n", self.quantities()));
        if let Some(baseline) = self.baseline() {
            text.push_str(&format!("\nRelative to {BASELINE}\n{}\n", self.ratios(baseline)));
        }
        text.push_str(&format!("\nAverage latency of a query by kind (s)\n{}\n", self.latencies()));
        text
    }

    fn header(&self, first: &[&str]) -> Table {
        let names: Vec<&str> =
            first.iter().copied().chain(self.all().map(|series| series.name.as_str())).collect();
        let mut table = tables::plain(&names);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn quantities(&self) -> Table {
        let mut table = self.header(&[""]);
        for (quantity, show) in &QUANTITIES {
            let cells = self.all().map(|series| cell(series.spread(quantity), show));
            table.add_row(std::iter::once(quantity.title.to_owned()).chain(cells));
        }
        table
    }

    fn ratios(&self, baseline: &Series) -> Table {
        let mut table = self.header(&[""]);
        for (quantity, _) in &QUANTITIES {
            let cells =
                self.all().map(|series| cell(series.ratio(baseline, quantity), |v| format!("{v:.2}")));
            let title = quantity.title.split(" (").next().unwrap_or(quantity.title);
            table.add_row(std::iter::once(title.to_owned()).chain(cells));
        }
        table
    }

    fn latencies(&self) -> Table {
        let mut table = self.header(&["query", "count", "alone"]);
        for kind in Kind::ALL {
            let count = self.all().find_map(|series| series.latency_s(kind)).map_or(0, |(_, count)| count);
            if count == 0 {
                continue;
            }
            let alone = self.base.get(&kind.to_string()).map_or("-".to_owned(), |s| format!("{s:.2}"));
            let cells = self
                .all()
                .map(|s| s.latency_s(kind).map_or("-".to_owned(), |(mean, _)| format!("{mean:.2}")));
            table.add_row([kind.to_string(), count.to_string(), alone].into_iter().chain(cells));
        }
        table
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let mut report = self.setting_json.clone();
        report.insert("scenario".to_owned(), "bench-paper".into());
        report.insert("seeds".to_owned(), json!(self.seeds));
        report.insert("base_s".to_owned(), json!(self.base));
        let policies = self.policies.iter().zip(&self.trace_hashes).map(|(series, hash)| {
            let mut object = self.series_json(series);
            object.insert("trace_hash".to_owned(), json!(hash));
            (series.name.clone(), Value::Object(object))
        });
        report.insert("policies".to_owned(), Value::Object(policies.collect()));
        if let Some((series, base)) = &self.datafusion {
            let mut object = self.series_json(series);
            object.insert("base_s".to_owned(), json!(base));
            report.insert("datafusion".to_owned(), Value::Object(object));
        }
        Value::Object(report)
    }

    fn series_json(&self, series: &Series) -> Map<String, Value> {
        let mut object = Map::new();
        let (mut spreads, mut ratios) = (Map::new(), Map::new());
        for (quantity, _) in &QUANTITIES {
            let spread = series.spread(quantity);
            object.insert(quantity.key.to_owned(), json!(spread.map(|s| s.median)));
            spreads.insert(quantity.key.to_owned(), json!(spread.map(|s| [s.min, s.max])));
            if let Some(baseline) = self.baseline() {
                ratios.insert(
                    quantity.key.to_owned(),
                    json!(series.ratio(baseline, quantity).map(|s| s.median)),
                );
            }
        }
        let latencies = Kind::ALL.iter().filter_map(|&kind| {
            let (mean, _) = series.latency_s(kind)?;
            Some((kind.to_string(), json!(mean)))
        });
        object.insert("latency_s".to_owned(), Value::Object(latencies.collect()));
        object.insert("spread".to_owned(), Value::Object(spreads));
        object.insert("ratio_to_normal".to_owned(), Value::Object(ratios));
        object
    }
}

/// A median, and on the next line the range over the seeds.
fn cell(spread: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    match spread {
        None => "-".to_owned(),
        Some(s) if s.min == s.max => show(s.median),
        Some(s) => {
            let (low, high) = (show(s.min), show(s.max));
            if low == high { show(s.median) } else { format!("{}\n{low} - {high}", show(s.median)) }
        }
    }
}
