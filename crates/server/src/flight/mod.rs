//! Arrow Flight SQL, for ADBC and other columnar clients.
//!
//! Each call is authenticated by a bearer token, or by name and password. The handshake issues a token, which
//! expires. Results to fetch and statements to execute later are kept for a while under random names, each for one
//! user. A result is fetched once.
//!
//! | module | contents |
//! |---|---|
//! | `service` | the calls |
//! | `caller` | authentication |
//! | `kept` | prepared statements and results, their users and expiry |
//! | `listing` | catalogs, schemas and tables; the server's capabilities |
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

/// The route for calls of Flight SQL.
pub(crate) fn router(state: SharedState) -> Router {
    let longest = state.config().max_message_bytes;
    let service = FlightServiceServer::new(service::FlightSql::new(state.clone()));
    let service = service.max_decoding_message_size(longest).max_encoding_message_size(usize::MAX);
    Router::new()
        .route_service("/arrow.flight.protocol.FlightService/{*method}", service)
        .layer(from_fn_with_state(state, caller::admit))
}
