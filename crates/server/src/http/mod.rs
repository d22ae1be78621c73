//! HTTP: the live page, its endpoints, health and metrics.

use axum::Router;

use crate::state::SharedState;

/// What is answered over HTTP, whatever address it came by.
pub fn router(state: SharedState) -> Router {
    Router::new().with_state(state)
}
