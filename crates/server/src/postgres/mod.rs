//! The PostgreSQL protocol, version 3: simple and extended queries, COPY to the client, cancel requests.
//!
//! `pgwire` reads and writes messages, `arrow-pg` converts types, and `datafusion-pg-catalog` has the catalogs that
//! clients read. This module does the rest: logins, the order of messages, and results that are sent without being
//! collected first.
//!
//! | module | contents |
//! |---|---|
//! | `socket`, `bounded` | messages on a connection, with a maximum length |
//! | `layout` | the check of messages before they are decoded |
//! | `startup` | login |
//! | `sessions`, `request` | cancel requests; the current request of a session |
//! | `connection` | the message loop, and the state between messages |
//! | `simple`, `extended` | the two ways to run a statement |
//! | `prepared` | prepared statements, planned again after changes |
//! | `statement`, `catalog` | the statements of a text; those about PostgreSQL's catalogs |
//! | `regclass` | relations by name |
//! | `stated` | casts of parameters to types that the client has stated |
//! | `parameters` | decoding of parameters |
//! | `rows`, `copy` | encoding of rows; `crate::values` encodes their values |
//! | `block`, `transaction` | the state of transaction blocks; statements about them |
//! | `error` | errors in the protocol's form |

mod block;
mod bounded;
mod catalog;
mod connection;
mod copy;
mod error;
mod extended;
mod layout;
mod objects;
mod parameters;
mod prepared;
mod regclass;
mod request;
mod rows;
mod simple;
mod socket;
mod startup;
mod stated;
pub(crate) mod statement;
mod transaction;

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use pgwire::api::{ClientInfo, DefaultClient, PgWireConnectionState};
use pgwire::tokio::server::PgWireMessageServerCodec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Framed;

use crate::state::SharedState;
use crate::transport::{Channel, Counted, Tls, Wire};
use bounded::Bounded;
pub(crate) use socket::NOT_ENCRYPTED;
use socket::Socket;

/// Bytes of length and code of the first messages, which have no type.
const FIRST_BYTES: usize = 8;
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// Sets up encryption if the client asks for it, and returns whether it did. Reads no byte beyond the client's
/// request, so that plain text is never treated as encrypted.
pub(crate) async fn negotiate(mut wire: Wire, tls: Option<&Tls>) -> io::Result<(Channel, bool)> {
    // A client sends each of the two requests at most once.
    for _ in 0..3 {
        let mut first = [0; FIRST_BYTES];
        wire.read_exact(&mut first).await?;
        match (first, tls) {
            (SSL_REQUEST, Some(tls)) => {
                wire.write_all(b"S").await?;
                return Ok((tls.accept(wire).await?, true));
            }
            (SSL_REQUEST | GSS_REQUEST, _) => wire.write_all(b"N").await?,
            _ => return Ok((Channel::plain(wire).unread(&first), false)),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a client that asks for encryption again and again"))
}

/// Serves a client until it leaves or the server shuts down.
pub(crate) async fn serve(
    channel: Channel,
    wire: Wire,
    peer: SocketAddr,
    state: SharedState,
    refused: Option<String>,
    counted: Arc<Counted>,
) {
    let encrypted = channel.is_encrypted();
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(peer, encrypted));
    let mut socket = Framed::new(Bounded::new(channel), codec);
    socket.set_state(PgWireConnectionState::AwaitingStartup);
    // A panic ends only this connection.
    let served =
        AssertUnwindSafe(connected(&mut socket, wire, peer, state, refused, &counted)).catch_unwind().await;
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::info!(%peer, error = error.to_string(), "a connection of PostgreSQL ended")
        }
        Err(_) => {
            tracing::warn!(%peer, "a connection of PostgreSQL was closed after a panic: a bug of the server")
        }
    }
}

async fn connected(
    socket: &mut Socket,
    wire: Wire,
    peer: SocketAddr,
    state: SharedState,
    refused: Option<String>,
    counted: &Counted,
) -> io::Result<()> {
    let patience = state.config().handshake_timeout;
    let starting = startup::start(socket, peer, &state, refused, counted);
    let Ok(started) = tokio::time::timeout(patience, starting).await else {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the login took too long"));
    };
    let Some(session) = started? else { return Ok(()) };
    socket.get_mut().allow(state.config().max_message_bytes);
    connection::run(socket, wire, Arc::new(session), &state).await
}
