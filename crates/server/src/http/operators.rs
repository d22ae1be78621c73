//! The operators of a plan: what each did, as a list for the page, and which one works at the moment.

use std::sync::Arc;

use coscan_datafusion::scanned_files;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde_json::{Map, Value, json};

/// Longer descriptions are cut.
const DETAIL_LETTERS: usize = 4000;
/// Operators beyond these are left out.
const OPERATORS_MAX: usize = 500;

/// The operators, each before those below it, with their depths.
fn operators(plan: &Arc<dyn ExecutionPlan>) -> impl Iterator<Item = (usize, &Arc<dyn ExecutionPlan>)> {
    let mut left = vec![(0, plan)];
    let operators = std::iter::from_fn(move || {
        let (depth, plan) = left.pop()?;
        left.extend(plan.children().into_iter().rev().map(|child| (depth + 1, child)));
        Some((depth, plan))
    });
    operators.take(OPERATORS_MAX)
}

/// A list of the operators, each before those below it: depth, name, description, table, rows, time, bytes, and all
/// counters. `shown` hides what the user may not see, and `table_of` names the table of a file.
pub(crate) fn listed(
    plan: &Arc<dyn ExecutionPlan>,
    shown: impl Fn(&str) -> String,
    table_of: impl Fn(&str) -> String,
) -> Vec<Value> {
    let entry = |(depth, plan): (usize, &Arc<dyn ExecutionPlan>)| {
        let text = displayable(plan.as_ref()).one_line().to_string();
        let detail = text.trim_end().strip_prefix(plan.name()).unwrap_or(&text);
        let detail: String = detail.trim_start_matches(':').trim().chars().take(DETAIL_LETTERS).collect();
        let metrics = plan.metrics().unwrap_or_default().aggregate_by_name().timestamps_removed();
        let count = |name: &str| metrics.sum_by_name(name).map(|value| value.as_usize());
        let counters: Map<String, Value> = metrics
            .iter()
            .map(|metric| (metric.value().name().to_owned(), metric.value().to_string().into()))
            .collect();
        json!({
            "depth": depth,
            "name": plan.name(),
            "detail": shown(&detail),
            "table": file_of(plan).map(|file| table_of(&file)),
            "rows": metrics.output_rows(),
            "ms": work_of(&metrics) as f64 / 1e6,
            "read": count("bytes_loaded").or_else(|| count("bytes_scanned")),
            "spared": count("bytes_from_buffer"),
            "counters": counters,
        })
    };
    operators(plan).map(entry).collect()
}

/// The scans of a plan, each with the address of its first file.
pub(crate) fn scans(
    plan: &Arc<dyn ExecutionPlan>,
) -> impl Iterator<Item = (&Arc<dyn ExecutionPlan>, String)> {
    operators(plan).filter_map(|(_, plan)| Some((plan, file_of(plan)?)))
}

/// The address of a scan's first file.
fn file_of(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let config = scanned_files(plan)?;
    let file = config.file_groups.iter().find_map(|group| group.files().first())?;
    Some(format!("{}{}", config.object_store_url.as_str(), file.object_meta.location))
}

/// Bytes read by the scans of a plan without sharing.
pub(crate) fn scanned(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let of = |plan: &Arc<dyn ExecutionPlan>| Some(plan.metrics()?.sum_by_name("bytes_scanned")?.as_usize());
    operators(plan).filter_map(|(_, plan)| of(plan)).sum::<usize>() as u64
}

/// Nanoseconds of an operator's own work on all threads. A join that has not ended counts its parts only.
fn work_of(metrics: &MetricsSet) -> usize {
    let (mut whole, mut parts) = (0, 0);
    for metric in metrics.iter() {
        match metric.value() {
            MetricValue::ElapsedCompute(time) => whole += time.value(),
            MetricValue::Time { name, time } if name == "build_time" || name == "join_time" => {
                parts += time.value();
            }
            _ => {}
        }
    }
    whole.max(parts)
}

/// The operator of a running statement that worked most since the last look.
#[derive(Debug, Default)]
pub(crate) struct Working {
    seen: Vec<usize>,
    busiest: Option<usize>,
}

impl Working {
    /// Its name and the rows it has made. `None` while none works.
    pub(crate) fn look(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Option<(String, usize)> {
        let metrics: Vec<(&str, MetricsSet)> =
            operators(plan).map(|(_, plan)| (plan.name(), plan.metrics().unwrap_or_default())).collect();
        let work: Vec<usize> = metrics.iter().map(|(_, metrics)| work_of(metrics)).collect();
        let since = |at: usize| work[at] - self.seen.get(at).copied().unwrap_or_default().min(work[at]);
        let most = (0..work.len()).max_by_key(|&at| since(at)).filter(|&at| since(at) > 0);
        // A long computation counts at its end only.
        self.busiest = most.or(self.busiest);
        self.seen = work;
        let (name, metrics) = metrics.get(self.busiest?)?;
        Some(((*name).to_owned(), metrics.output_rows().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn the_operator_whose_work_grew_is_the_busiest() {
        let context = SessionContext::new();
        let sql = "SELECT a.value % 10, count(*) FROM generate_series(1, 2000) a, generate_series(1, 500) b \
                   WHERE a.value + b.value > 100 GROUP BY 1";
        let frame = coscan_datafusion::sql(&context, sql).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let mut working = Working::default();
        assert_eq!(working.look(&plan), None, "nothing ran yet");
        datafusion::physical_plan::collect(plan.clone(), context.task_ctx()).await.unwrap();
        let (name, _) = working.look(&plan).unwrap();
        let all = listed(&plan, str::to_owned, str::to_owned);
        let most = all.iter().max_by(|a, b| a["ms"].as_f64().unwrap().total_cmp(&b["ms"].as_f64().unwrap()));
        assert_eq!(most.unwrap()["name"], json!(name));
        assert!(all.iter().any(|operator| operator["depth"].as_u64().unwrap() > 2), "{all:?}");
        assert_eq!(working.look(&plan).map(|(name, _)| name), Some(name), "nothing new");
    }
}
