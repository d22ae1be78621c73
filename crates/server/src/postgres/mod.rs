//! The PostgreSQL protocol, version 3: simple and extended queries, COPY to the client, cancel requests.
//!
//! Messages are read and written by `pgwire`, types are converted by `arrow-pg`, and `datafusion-pg-catalog` has the catalogs
//! that clients look into. What is here is what these leave to a server: who may connect, in which order messages are handled,
//! and that no result is ever gathered before it is sent.
//!
//! | module | question |
//! |---|---|
//! | `socket`, `bounded` | messages on a connection; is one too long? |
//! | `startup` | who is it? |
//! | `sessions`, `request` | whose statement is to be stopped, and what does it do? |
//! | `connection` | what comes next, and what holds between messages? |
//! | `simple`, `extended` | the two ways to run a statement |
//! | `prepared` | what does a prepared statement mean now? |
//! | `statement`, `catalog` | what does the text say; what if it is about PostgreSQL's catalogs? |
//! | `regclass` | which relation has this name? |
//! | `parameters`, `numeric` | values in |
//! | `rows`, `encode`, `copy` | rows out |
//! | `settings` | SET and SHOW |
//! | `error` | what went wrong, as the protocol says it |

mod bounded;
mod catalog;
mod connection;
mod copy;
mod encode;
mod error;
mod extended;
mod numeric;
mod parameters;
mod prepared;
mod regclass;
mod request;
mod rows;
mod sessions;
mod settings;
mod simple;
mod socket;
mod startup;
mod statement;

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use pgwire::api::{ClientInfo, DefaultClient, PgWireConnectionState};
use pgwire::tokio::server::PgWireMessageServerCodec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Framed;

use crate::listen::{Channel, Tls, Wire};
use crate::state::SharedState;
use bounded::Bounded;
pub(crate) use sessions::Sessions;
pub(crate) use socket::NOT_ENCRYPTED;
use socket::Socket;

/// Length and code of the first messages that have no type.
const FIRST_BYTES: usize = 8;
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// Finds out whether the client wants to encrypt, and does; returns whether it did. Nothing is read beyond the client's request,
/// so that nothing sent in the clear is taken for something encrypted.
pub(crate) async fn negotiate(mut wire: Wire, tls: Option<&Tls>) -> io::Result<(Channel, bool)> {
    // A client asks for either once.
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

/// Serves a client until it leaves or the server ends.
pub(crate) async fn serve(
    channel: Channel,
    wire: Wire,
    peer: SocketAddr,
    state: SharedState,
    refused: Option<String>,
) {
    let encrypted = channel.is_encrypted();
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(peer, encrypted));
    let mut socket = Framed::new(Bounded::new(channel), codec);
    socket.set_state(PgWireConnectionState::AwaitingStartup);
    // A message that is not what it says may make its reader panic: that ends this connection and nothing else.
    let served = AssertUnwindSafe(connected(&mut socket, wire, peer, state, refused)).catch_unwind().await;
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::info!(%peer, %error, "a connection of PostgreSQL ended"),
        Err(_) => tracing::warn!(%peer, "a connection of PostgreSQL was closed after a malformed message"),
    }
}

async fn connected(
    socket: &mut Socket,
    wire: Wire,
    peer: SocketAddr,
    state: SharedState,
    refused: Option<String>,
) -> io::Result<()> {
    let patience = state.config().handshake_timeout;
    let starting = startup::start(socket, peer, &state, refused);
    let Ok(started) = tokio::time::timeout(patience, starting).await else {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the login took too long"));
    };
    let Some(session) = started? else { return Ok(()) };
    socket.get_mut().allow(state.config().max_message_bytes);
    connection::run(socket, wire, Arc::new(session), &state).await
}
