//! Who calls.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tonic::{Request, Status};

use crate::access::{AccessError, User};
use crate::sql::{QueryError, Stop};
use crate::state::State;

/// The user of clients that say nothing, where nobody is asked who they are.
const NOBODY: &str = "coscan";

/// The address a call came from.
pub(crate) fn peer<T>(request: &Request<T>) -> Result<SocketAddr, Status> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    peer.ok_or_else(|| Status::internal("the call has no address"))
}

/// Finds out who calls: by bearer token, by name and password, or not at all where nobody is asked.
pub(crate) async fn of<T>(state: &State, request: &Request<T>) -> Result<User, Status> {
    let peer = peer(request)?;
    let shown = match request.metadata().get("authorization") {
        None => return state.log_in_anonymous(NOBODY).map_err(refused),
        Some(shown) => {
            shown.to_str().map_err(|_| refused(AccessError::Malformed("authorization".to_owned())))?
        }
    };
    match shown.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            state.log_in_by_token(token.trim(), peer).map_err(refused)
        }
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
            // Clients in Go leave out the padding.
            let pair = STANDARD_NO_PAD
                .decode(pair.trim().trim_end_matches('='))
                .ok()
                .and_then(|pair| String::from_utf8(pair).ok());
            let malformed =
                || refused(AccessError::Malformed("authorization: Basic base64(name:password)".to_owned()));
            let pair = pair.ok_or_else(malformed)?;
            let (name, password) = pair.split_once(':').ok_or_else(malformed)?;
            state.log_in(name, Some(password), peer).await.map_err(refused)
        }
        _ => Err(refused(AccessError::Missing)),
    }
}

/// Why somebody was not let in, as a status.
pub(crate) fn refused(error: AccessError) -> Status {
    let text = error.to_string();
    match error {
        AccessError::TooManyConnections { .. } | AccessError::TooOften(_) => Status::resource_exhausted(text),
        AccessError::ShuttingDown => Status::unavailable(text),
        _ => Status::unauthenticated(text),
    }
}

/// Why a statement failed, as a status.
pub(crate) fn failed(error: QueryError) -> Status {
    let text = error.to_string();
    match &error {
        QueryError::Denied(_) => Status::permission_denied(text),
        QueryError::Stopped(Stop::Timeout) => Status::deadline_exceeded(text),
        QueryError::Stopped(Stop::ShuttingDown) => Status::unavailable(text),
        QueryError::Stopped(_) => Status::cancelled(text),
        QueryError::ResultTooLarge(_) | QueryError::Busy(_) => Status::resource_exhausted(text),
        QueryError::Engine { sqlstate: "0A000", .. } => Status::unimplemented(text),
        // Clients retry what was aborted.
        error if error.met_a_replaced_file() => Status::aborted(text),
        QueryError::Engine { sqlstate: "53200", .. } => Status::resource_exhausted(text),
        QueryError::Engine { sqlstate, .. } if sqlstate.starts_with("42") || sqlstate.starts_with("22") => {
            Status::invalid_argument(text)
        }
        QueryError::Engine { .. } => Status::internal(text),
    }
}
