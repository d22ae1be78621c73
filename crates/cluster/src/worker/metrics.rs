//! Metrics of a worker for Prometheus.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::About;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers with the current counts.
pub(super) async fn metrics(axum::Extension(about): axum::Extension<About>) -> Response {
    let status = about.status();
    let mut registry = Registry::with_prefix("coscan_worker");
    let mut gauge = |name: &str, help: &str, value: u64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    gauge("tasks", "Parts of tasks that run", status.tasks);
    gauge("buffer_bytes", "Size of the buffer", status.buffer_bytes);
    gauge("query_memory_bytes", "Bytes that operators hold", status.query_memory_bytes);
    gauge("draining", "1 if the worker takes no new work", u64::from(status.draining));
    let mut counter = |name: &str, help: &str, value: u64| {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    counter("tasks_started", "Tasks since the start", status.tasks_started);
    counter("read_bytes", "Bytes read from files and stores", status.bytes_read);
    counter("parts_read", "Columns of row groups that were read", status.parts_read);
    counter(
        "parts_shared",
        "Columns of row groups that scans found in the buffer or got with another scan",
        status.parts_shared,
    );
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
