//! Arrow Flight SQL: ADBC and other clients that take columns as they are.
//!
//! Who calls says so with every call: a bearer token, or name and password. A token is given out by the handshake and ends.
//! What a client is to fetch or to execute later is kept here under a name that nobody can guess, for the user who asked and
//! nobody else, for a while; a result is fetched once.
//!
//! | module | question |
//! |---|---|
//! | `service` | what is asked, and who answers it? |
//! | `caller` | who calls? |
//! | `kept` | what was prepared, for whom, how long? |
//! | `listing` | which catalogs, schemas and tables are there; what can this server do? |
//! | `stream` | batches as messages |

mod caller;
mod kept;
mod listing;
mod service;
mod stream;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::state::SharedState;

/// What calls of Flight SQL go to.
pub(crate) fn router(state: SharedState) -> Router {
    let longest = state.config().max_message_bytes;
    let service = FlightServiceServer::new(service::FlightSql::new(state.clone()));
    let service = service.max_decoding_message_size(longest).max_encoding_message_size(usize::MAX);
    Router::new()
        .route_service("/arrow.flight.protocol.FlightService/{*method}", service)
        .layer(from_fn_with_state(state, caller::admit))
}
