//! Health checks for load balancers: the process is alive, and it accepts work.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::Http;

/// The process answers.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// Returns 200 if the server accepts work.
pub(crate) async fn ready(State(http): State<Arc<Http>>) -> (StatusCode, &'static str) {
    if http.state.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down\n");
    }
    if http.state.engine().is_broken() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the engine is broken: restart the server\n");
    }
    (StatusCode::OK, "ok\n")
}
