//! Points as a table for a terminal: a row for each size and a column of miss ratios for each policy. The
//! last row has the speed of each simulation.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::Point;

/// The table, at most `columns` characters wide, with a dash where a policy has no point.
pub fn table(points: &[Point], columns: u16) -> String {
    let policies = policies(points);
    let sizes: BTreeSet<usize> = points.iter().map(|point| point.size).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    table.set_header(std::iter::once("pages").chain(policies.iter().copied()));
    for size in sizes {
        let ratio = |policy: &&str| {
            let point = points.iter().find(|point| point.policy == **policy && point.size == size);
            point.map_or_else(|| "–".to_owned(), |point| format!("{:.4}", point.miss_ratio()))
        };
        table.add_row(std::iter::once(size.to_string()).chain(policies.iter().map(ratio)));
    }
    let speed = |policy: &&str| format!("{:.1}", requests_per_second(points, policy) / 1e6);
    table.add_row(std::iter::once("M requests/s".to_owned()).chain(policies.iter().map(speed)));
    for column in 0..=policies.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let requests = points.first().map_or(0, |point| point.requests);
    format!("{table}\nmiss ratio of {requests} requests\n")
}

/// The policies in the order of their first points.
pub(crate) fn policies(points: &[Point]) -> Vec<&str> {
    let mut policies: Vec<&str> = Vec::new();
    for point in points {
        if !policies.contains(&point.policy.as_str()) {
            policies.push(&point.policy);
        }
    }
    policies
}

/// The requests that a policy processed per second of one core; points of one pass count as one.
fn requests_per_second(points: &[Point], policy: &str) -> f64 {
    let (mut requests, mut seconds, mut last) = (0, 0.0, None);
    for point in points.iter().filter(|point| point.policy == policy) {
        if last.replace(point.seconds) != Some(point.seconds) {
            requests += point.requests;
            seconds += point.seconds;
        }
    }
    requests as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_stand_beside_each_other() {
        let point = |policy: &str, size, misses| Point {
            policy: policy.to_owned(),
            size,
            requests: 1000,
            misses,
            seconds: 0.001,
        };
        let points = [point("lru", 10, 500), point("lru", 20, 250), point("opt", 10, 125)];
        let text = table(&points, 100);
        let cells = |start: &str| -> Vec<String> {
            let line =
                text.lines().find(|line| line.trim_start_matches(['│', ' ']).starts_with(start)).unwrap();
            line.split([' ', '│']).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(cells("pages"), ["pages", "lru", "opt"]);
        assert_eq!(cells("10"), ["10", "0.5000", "0.1250"]);
        assert_eq!(cells("20"), ["20", "0.2500", "–"]);
        assert_eq!(cells("M"), ["M", "requests/s", "1.0", "1.0"]);
        assert!(text.ends_with("miss ratio of 1000 requests\n"));
        assert!(table(&[], 80).contains("of 0 requests"));
    }
}
