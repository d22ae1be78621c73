//! Arrow Flight SQL.

use axum::Router;

use crate::state::SharedState;

/// What calls of Flight SQL go to.
pub(crate) fn router(_state: SharedState) -> Router {
    Router::new()
}
