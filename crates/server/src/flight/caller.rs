//! Authentication of calls by their headers, before any of the body is read. A refused caller therefore cannot make
//! the server collect messages.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State as Extract};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tonic::{Request, Status};

use crate::access::{AccessError, User};
use crate::sql::{Protocol, QueryError, Stop};
use crate::state::{SharedState, State};

/// The user of clients without a name, if clients are not authenticated.
const NOBODY: &str = "coscan";

/// The address of a call's client.
pub(crate) fn peer<T>(request: &Request<T>) -> Result<SocketAddr, Status> {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    peer.ok_or_else(no_address)
}

/// The client's span, if the call has one.
pub(crate) fn trace_parent<T>(request: &Request<T>) -> Option<String> {
    request.metadata().get("traceparent").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Admits a call, with its user as an extension.
pub(crate) async fn admit(
    Extract(state): Extract<SharedState>,
    mut request: axum::extract::Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    let user = match peer {
        Some(peer) => who(&state, request.headers(), peer).await.map(|user| (user, peer)),
        None => Err(no_address()),
    };
    match user {
        Ok((user, peer)) => {
            if let Err(error) = state.admitted(&request, &user, peer, Protocol::Flight) {
                return refused(error).into_http();
            }
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(status) => status.into_http(),
    }
}

fn no_address() -> Status {
    Status::internal("the call has no address")
}

/// The user of an admitted call.
pub(crate) fn of<T>(request: &Request<T>) -> Result<User, Status> {
    request.extensions().get::<User>().cloned().ok_or_else(|| refused(AccessError::Missing))
}

/// Finds the user by bearer token, or by name and password. Without authentication, calls need no credentials.
async fn who(state: &State, headers: &HeaderMap, peer: SocketAddr) -> Result<User, Status> {
    let shown = match headers.get("authorization") {
        None => return state.log_in_anonymous(NOBODY).map_err(refused),
        Some(shown) => shown.to_str().map_err(|_| {
            refused(AccessError::Malformed("the authorization header is not ASCII".to_owned()))
        })?,
    };
    match shown.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            state.log_in_by_token(token.trim(), peer).map_err(refused)
        }
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
            // Clients in Go omit the padding.
            let pair = STANDARD_NO_PAD
                .decode(pair.trim().trim_end_matches('='))
                .ok()
                .and_then(|pair| String::from_utf8(pair).ok());
            let malformed = || {
                refused(AccessError::Malformed(
                    "the authorization header must be: Basic base64(name:password)".to_owned(),
                ))
            };
            let pair = pair.ok_or_else(malformed)?;
            let (name, password) = pair.split_once(':').ok_or_else(malformed)?;
            state.log_in(name, Some(password), peer).await.map_err(refused)
        }
        _ => Err(refused(AccessError::Missing)),
    }
}

/// The status for a refused login.
pub(crate) fn refused(error: AccessError) -> Status {
    let text = error.to_string();
    match error {
        AccessError::TooManyConnections { .. } | AccessError::TooOften(_) | AccessError::NoRoom(_) => {
            Status::resource_exhausted(text)
        }
        AccessError::ShuttingDown | AccessError::NoAudit => Status::unavailable(text),
        _ => Status::unauthenticated(text),
    }
}

/// The status for a failed statement.
pub(crate) fn failed(error: QueryError) -> Status {
    let text = match error.hint() {
        Some(hint) => format!("{error}\nHINT:  {hint}"),
        None => error.to_string(),
    };
    match &error {
        QueryError::Denied(_) => Status::permission_denied(text),
        QueryError::Stopped(Stop::Timeout) => Status::deadline_exceeded(text),
        QueryError::Stopped(Stop::ShuttingDown) => Status::unavailable(text),
        QueryError::Stopped(_) => Status::cancelled(text),
        QueryError::ResultTooLarge { .. } | QueryError::Busy { .. } => Status::resource_exhausted(text),
        QueryError::Engine { sqlstate: "0A000", .. } => Status::unimplemented(text),
        // Clients retry after `aborted`.
        error if error.met_a_replaced_file() => Status::aborted(text),
        QueryError::Engine { sqlstate: "53200", .. } => Status::resource_exhausted(text),
        QueryError::Engine { sqlstate, .. } if sqlstate.starts_with("42") || sqlstate.starts_with("22") => {
            Status::invalid_argument(text)
        }
        QueryError::Engine { .. } => Status::internal(text),
    }
}
