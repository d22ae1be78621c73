//! A connection as a stream of messages.

use pgwire::tokio::server::PgWireMessageServerCodec;
use tokio_util::codec::Framed;

use super::bounded::Bounded;
use crate::transport::Channel;

pub(crate) const NOT_ENCRYPTED: &str =
    "this server takes encrypted connections only: use TLS (sslmode=require)";

/// A connection as a stream of messages. `pgwire` would keep statements and portals in it; here they are in
/// `connection`.
pub(crate) type Socket = Framed<Bounded<Channel>, PgWireMessageServerCodec<()>>;
