//! The login of a connection that carries requests, as HTTP does.

use std::sync::Arc;

use super::Counted;
use crate::access::{AccessError, User};

/// The connection of an HTTP request. An extension of requests.
#[derive(Clone, Debug)]
pub(crate) struct Over(pub(crate) Arc<Counted>);

impl Over {
    /// Counts the connection for the user of this request. Returns true if it is the first login over the connection.
    ///
    /// # Errors
    ///
    /// If there are too many connections.
    pub(crate) fn log_in(request: &axum::extract::Request, user: &User) -> Result<bool, AccessError> {
        let Some(Over(connection)) = request.extensions().get() else { return Ok(false) };
        let first = !connection.is_logged_in();
        connection.log_in(user).map_err(AccessError::NoRoom)?;
        Ok(first)
    }
}
