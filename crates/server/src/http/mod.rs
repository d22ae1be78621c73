//! The live page, what it asks for, metrics and health, over HTTP.
//!
//! | module | what it has |
//! |---|---|
//! | `guard` | who asks, and whether a page of somebody else sent them |
//! | `assets` | the page itself: files that are part of the program |
//! | `watch` | looks at the engine ten times a second while somebody watches |
//! | `frame`, `estimate` | what was seen, and when a query will be done |
//! | `events` | sends what was seen to one browser, and no more than it takes |
//! | `api` | statements, the policy, the buffer, stopping a query |
//! | `metrics`, `health` | what Prometheus and load balancers ask |
//!
//! Nothing is scheduled here, and a browser that does not read holds up nobody.

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

/// What the endpoints have in hand.
pub(crate) struct Http {
    pub(crate) state: SharedState,
    pub(crate) watch: Watch,
    pub(crate) metrics: Metrics,
}

/// The endpoints over a server's state. The address of the client is taken from [`axum::extract::ConnectInfo`].
pub fn router(state: SharedState) -> Router {
    let http = Arc::new(Http { watch: Watch::new(state.clone()), metrics: Metrics::new(&state), state });
    let guarded = assets::routes()
        .route("/metrics", get(metrics::scrape))
        .route("/api/about", get(api::about))
        .route("/api/events", get(events::events))
        .route("/api/needed/{query}", get(api::needed))
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
