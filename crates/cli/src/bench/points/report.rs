//! The results as a table and as JSON. Quantities are medians over the seeds, and ratios are computed seed by seed.

use coscan_sim::statistics::{Quantity, Spread, quantile};
use serde_json::{Value, json};

use crate::tables;

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Seconds from arrival to the last row.
    pub latencies_s: Vec<f64>,
    /// Seconds until the last scan is done.
    pub total_s: f64,
    /// Mean seconds of the streams of scans.
    pub stream_s: f64,
    pub bytes_read: u64,
}

const QUANTITIES: [Quantity<Run>; 6] = [
    Quantity { key: "p50_ms", title: "point p50 (ms)", of: |run| run.quantile(0.5) * 1e3 },
    Quantity { key: "p99_ms", title: "point p99 (ms)", of: |run| run.quantile(0.99) * 1e3 },
    Quantity { key: "points", title: "point queries", of: |run| run.latencies_s.len() as f64 },
    Quantity { key: "total_s", title: "scans, total (s)", of: |run| run.total_s },
    Quantity { key: "stream_s", title: "scans, mean stream (s)", of: |run| run.stream_s },
    Quantity { key: "mb_read", title: "read (MB)", of: |run| run.bytes_read as f64 / 1e6 },
];

impl Run {
    /// The latency that this share of the point queries does not exceed. Zero if there are no point queries.
    pub fn quantile(&self, share: f64) -> f64 {
        if self.latencies_s.is_empty() { 0.0 } else { quantile(&self.latencies_s, share) }
    }
}

/// All runs under one setting, one per seed.
pub struct Series {
    pub name: &'static str,
    pub runs: Vec<Run>,
}

/// The content of a report.
pub struct Report {
    pub setting: Vec<String>,
    pub setting_json: Value,
    pub seeds: Vec<u64>,
    /// The first series is the reference.
    pub series: Vec<Series>,
}

impl Report {
    fn spread(&self, series: &Series, of: fn(&Run) -> f64) -> Option<Spread> {
        Spread::of(series.runs.iter().map(of))
    }

    fn ratio(&self, series: &Series, of: fn(&Run) -> f64) -> Option<Spread> {
        let pairs = series.runs.iter().zip(&self.series[0].runs);
        Spread::of(pairs.map(|(run, base)| of(run) / of(base)).filter(|ratio| ratio.is_finite()))
    }

    /// The ratio of scans per second: the inverse ratio of total times.
    fn throughput(&self, series: &Series) -> Option<Spread> {
        let pairs = series.runs.iter().zip(&self.series[0].runs);
        Spread::of(pairs.map(|(run, base)| base.total_s / run.total_s).filter(|ratio| ratio.is_finite()))
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut header = vec![""];
        header.extend(self.series.iter().map(|series| series.name));
        let show = |spread: Option<Spread>, digits: usize| {
            spread.map_or("-".to_owned(), |s| {
                format!("{:.digits$} ({:.digits$} to {:.digits$})", s.median, s.min, s.max)
            })
        };
        let mut figures = tables::plain(&header);
        for quantity in &QUANTITIES {
            let mut row = vec![quantity.title.to_owned()];
            row.extend(self.series.iter().map(|series| show(self.spread(series, quantity.of), 1)));
            figures.add_row(row);
        }
        let mut ratios = tables::plain(&header);
        for quantity in &QUANTITIES[..2] {
            let mut row = vec![quantity.title.to_owned()];
            row.extend(self.series.iter().map(|series| show(self.ratio(series, quantity.of), 2)));
            ratios.add_row(row);
        }
        let mut row = vec!["scan throughput".to_owned()];
        row.extend(self.series.iter().map(|series| show(self.throughput(series), 2)));
        ratios.add_row(row);
        let setting = self.setting.join("\n");
        format!("{setting}\n\n{figures}\n\nRelative to '{}', seed by seed\n{ratios}\n", self.series[0].name)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let spread = |s: Option<Spread>| s.map(|s| json!({"median": s.median, "min": s.min, "max": s.max}));
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                let mut of = serde_json::Map::new();
                of.insert("name".to_owned(), json!(series.name));
                for quantity in &QUANTITIES {
                    of.insert(quantity.key.to_owned(), json!(spread(self.spread(series, quantity.of))));
                }
                of.insert(
                    "ratios".to_owned(),
                    json!({
                        "p50": spread(self.ratio(series, QUANTITIES[0].of)),
                        "p99": spread(self.ratio(series, QUANTITIES[1].of)),
                        "scan_throughput": spread(self.throughput(series)),
                    }),
                );
                Value::Object(of)
            })
            .collect();
        json!({"setting": self.setting_json, "seeds": self.seeds, "series": series})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let run = Run { latencies_s: (1..=200).map(f64::from).collect(), ..Run::default() };
        assert_eq!((run.quantile(0.5), run.quantile(0.99), run.quantile(1.0)), (100.0, 198.0, 200.0));
        assert_eq!(Run::default().quantile(0.99), 0.0);
    }

    #[test]
    fn ratios_are_of_runs_with_the_same_seed() {
        let run = |latency: f64, total_s: f64| Run {
            latencies_s: vec![latency],
            total_s,
            stream_s: total_s,
            bytes_read: 1,
        };
        let report = Report {
            setting: Vec::new(),
            setting_json: json!({}),
            seeds: vec![1, 2],
            series: vec![
                Series { name: "a", runs: vec![run(0.4, 10.0), run(0.9, 20.0)] },
                Series { name: "b", runs: vec![run(0.1, 20.0), run(0.3, 20.0)] },
            ],
        };
        let json = report.to_json();
        assert_eq!(json["series"][1]["ratios"]["scan_throughput"]["median"], 0.75);
        let p99 = json["series"][1]["ratios"]["p99"]["max"].as_f64().unwrap();
        assert!((p99 - 1.0 / 3.0).abs() < 1e-9);
        assert!(report.to_text().contains("0.75 (0.50 to 1.00)"), "{}", report.to_text());
    }
}
