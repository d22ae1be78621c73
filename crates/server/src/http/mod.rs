//! HTTP: the live page and its requests, metrics and health.
//!
//! | module | contents |
//! |---|---|
//! | `guard` | authentication, and protection against pages of other sites |
//! | `assets` | the page: files that are compiled into the program |
//! | `watch` | snapshots of the engine ten times a second while browsers watch |
//! | `frame`, `estimate` | one snapshot, and the time left of a query |
//! | `events` | frames for one browser, at its speed |
//! | `api` | statements, the policy, the buffer, stopping a query |
//! | `metrics`, `health` | requests of Prometheus and load balancers |
//!
//! This module schedules nothing, and a browser that does not read delays no other client.

mod api;
mod assets;
mod estimate;
mod events;
mod frame;
mod guard;
mod health;
mod metrics;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{get, post};

use crate::state::SharedState;
use metrics::Metrics;
use watch::Watch;

/// The shared state of the endpoints.
pub(crate) struct Http {
    pub(crate) state: SharedState,
    pub(crate) watch: Watch,
    pub(crate) metrics: Metrics,
}

/// The endpoints over a server's state. The client's address comes from [`axum::extract::ConnectInfo`].
pub fn router(state: SharedState) -> Router {
    let http = Arc::new(Http { watch: Watch::new(state.clone()), metrics: Metrics::new(&state), state });
    let guarded = assets::routes()
        .route(guard::METRICS, get(metrics::scrape))
        .route("/api/about", get(api::about))
        .route("/api/events", get(events::events))
        .route("/api/needed/{query}", get(api::needed))
        .route("/api/workers", get(api::workers))
        .route("/api/sql", post(api::sql))
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
