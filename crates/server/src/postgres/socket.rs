//! A connection as messages.

use pgwire::tokio::server::PgWireMessageServerCodec;
use tokio_util::codec::Framed;

use super::bounded::Bounded;
use crate::listen::Channel;

pub(crate) const NOT_ENCRYPTED: &str =
    "this server takes encrypted connections only: use TLS (sslmode=require)";

/// A connection as messages. `pgwire` would keep statements and portals in it; they are in `connection` instead.
pub(crate) type Socket = Framed<Bounded<Channel>, PgWireMessageServerCodec<()>>;
