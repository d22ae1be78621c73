//! HTTP: the live page and its requests, metrics and health.
//!
//! | module | contents |
//! |---|---|
//! | `guard` | authentication, and protection against pages of other sites |
//! | `assets` | the page: files that are compiled into the program |
//! | `watch` | snapshots of the engine ten times a second while browsers watch |
//! | `frame`, `estimate` | one snapshot, and the time left of a query |
//! | `events` | frames for one browser, at its speed |
//! | `api` | the user, the policy, the buffer, the workers, stopping a query |
//! | `tables` | the tables with their columns, rows and bytes |
//! | `ask`, `samples` | statements of the page; eight samples that run together |
//! | `operators` | what the operators of a plan did, and which one works |
//! | `history` | what sharing saved since the start |
//! | `metrics`, `health` | requests of Prometheus and load balancers |
//!
//! This module schedules nothing, and a browser that does not read delays no other client.

mod api;
mod ask;
mod assets;
mod estimate;
mod events;
mod frame;
mod guard;
mod health;
mod history;
mod metrics;
mod operators;
mod samples;
mod tables;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{get, post};

use crate::state::SharedState;
use history::History;
use metrics::Metrics;
pub(crate) use operators::scans;
pub(crate) use watch::Names;
use watch::Watch;

/// The shared state of the endpoints.
pub(crate) struct Http {
    pub(crate) state: SharedState,
    pub(crate) watch: Watch,
    pub(crate) metrics: Metrics,
    pub(crate) history: History,
}

/// The endpoints over a server's state, which run in the current runtime. The client's address comes from
/// [`axum::extract::ConnectInfo`].
pub fn router(state: SharedState) -> Router {
    let (watch, metrics, history) = (Watch::new(state.clone()), Metrics::new(&state), History::of(&state));
    let http = Arc::new(Http { state, watch, metrics, history });
    let guarded = assets::routes()
        .route(guard::METRICS, get(metrics::scrape))
        .route("/api/about", get(api::about))
        .route("/api/events", get(events::events))
        .route("/api/needed/{query}", get(api::needed))
        .route("/api/workers", get(api::workers))
        .route("/api/tables", get(tables::tables))
        .route("/api/history", get(history::history))
        .route("/api/sql", post(ask::sql))
        .route("/api/plan", post(ask::plan))
        .route("/api/samples", post(ask::run_samples))
        .route("/api/queries/{query}/stop", post(api::stop))
        .route("/api/policy", post(api::policy))
        .route("/api/buffer", post(api::buffer))
        .layer(from_fn_with_state(http.clone(), guard::admit));
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .merge(guarded)
        .layer(map_response(guard::harden))
        .with_state(http)
}
