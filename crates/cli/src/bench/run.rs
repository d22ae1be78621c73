//! Runs the streams of a workload on a session and measures the times.
//!
//! This module knows no policies, and does not judge results.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use futures::FutureExt;
use indicatif::ProgressBar;

use super::workload::{Outcome, Query, Stream, Workload};
use crate::failure::{one_line, panic_text, squeeze};
use crate::rows::{Row, rows_of};
use crate::session::Session;

/// Runs all streams at the same time. `t0` is the start of their clocks. A failed query has an error in its outcome,
/// and its stream continues. Outcomes come in the order of the workload.
pub async fn run_streams(
    session: &Arc<Session>,
    workload: &Workload,
    t0: Instant,
    bar: &ProgressBar,
) -> Vec<Outcome> {
    let tasks: Vec<_> = workload
        .streams
        .iter()
        .map(|stream| tokio::spawn(run_stream(session.clone(), stream.clone(), t0, bar.clone())))
        .collect();
    let mut outcomes = Vec::new();
    for (task, stream) in tasks.into_iter().zip(&workload.streams) {
        match task.await {
            Ok(of_stream) => outcomes.extend(of_stream),
            Err(error) => outcomes.extend(stream.queries.iter().map(|query| lost(query, &error.to_string()))),
        }
    }
    outcomes
}

async fn run_stream(session: Arc<Session>, stream: Stream, t0: Instant, bar: ProgressBar) -> Vec<Outcome> {
    tokio::time::sleep_until((t0 + Duration::from_secs_f64(stream.start_s)).into()).await;
    let mut outcomes = Vec::with_capacity(stream.queries.len());
    for query in &stream.queries {
        outcomes.push(run_query(&session, query, t0).await);
        bar.inc(1);
    }
    outcomes
}

async fn run_query(session: &Session, query: &Query, t0: Instant) -> Outcome {
    let start_s = t0.elapsed().as_secs_f64();
    // A panic in one query's expression is an error of that query.
    let result = AssertUnwindSafe(collect(session, &query.sql)).catch_unwind().await;
    let end_s = t0.elapsed().as_secs_f64();
    let rows: Result<Vec<Row>, String> = match result {
        Ok(Ok(batches)) => rows_of(&batches).map_err(|error| squeeze(&error.to_string())),
        Ok(Err(error)) => Err(one_line(&error)),
        Err(panic) => Err(format!("the query panicked: {}", panic_text(&*panic))),
    };
    let (rows, error) = match rows {
        Ok(rows) => (Some(rows), None),
        Err(error) => (None, Some(error)),
    };
    Outcome { id: query.id.clone(), start_s, end_s, rows, error }
}

async fn collect(session: &Session, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
    let mut rows = session.sql(sql).await?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

fn lost(query: &Query, why: &str) -> Outcome {
    Outcome { id: query.id.clone(), start_s: 0.0, end_s: 0.0, rows: None, error: Some(squeeze(why)) }
}
