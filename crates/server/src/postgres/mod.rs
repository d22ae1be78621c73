//! The PostgreSQL protocol.

use std::io;
use std::net::SocketAddr;

use crate::listen::{Channel, Tls, Wire};
use crate::state::SharedState;

pub(crate) const NOT_ENCRYPTED: &str =
    "this server takes encrypted connections only: use TLS (sslmode=require)";

/// The sessions that can be stopped.
#[derive(Debug, Default)]
pub(crate) struct Sessions;

/// Finds out whether the client wants to encrypt, and does; returns whether it did.
pub(crate) async fn negotiate(wire: Wire, _tls: Option<&Tls>) -> io::Result<(Channel, bool)> {
    Ok((Channel::plain(wire).unread(&[]), false))
}

/// Serves a client until it leaves or the server ends.
pub(crate) async fn serve(
    channel: Channel,
    wire: Wire,
    _peer: SocketAddr,
    _state: SharedState,
    _refused: Option<String>,
) {
    drop(channel);
    wire.gone().await;
}
