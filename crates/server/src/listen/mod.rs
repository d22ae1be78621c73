//! Listening sockets, and detection of the protocol.
//!
//! Every client speaks first, and its first byte shows its protocol. PostgreSQL begins with the length of a short
//! message, TLS with the type of a record, HTTP with a letter. One address therefore serves all of them. A
//! connection with a protocol that its address does not serve is closed. If TLS is configured, nothing is served
//! without it.
//!
//! Users are not known here.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::ServiceExt;

use crate::error::ServeError;
use crate::postgres;
use crate::state::SharedState;
use crate::transport::{Admission, Channel, Counted, Over, Tls, Wire};

/// The first byte of a TLS record that begins a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Maximum number of streams per HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Maximum bytes of requests that an HTTP/2 client may send before they are read.
const WINDOW_BYTES: u32 = 1 << 20;
/// Time that the requests in progress of an HTTP connection without a login have to end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Length of the system's queue of connections to accept.
const BACKLOG: u32 = 1024;

/// The protocols served at an address.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// Set if PostgreSQL's protocol is served.
    pub(crate) postgres: bool,
    /// The routes for HTTP requests.
    pub(crate) http: Router,
}

/// A listening socket.
pub(crate) struct Listener {
    socket: TcpListener,
    served: Served,
}

impl Listener {
    /// Binds the address.
    pub(crate) fn bind(address: SocketAddr, served: Served) -> Result<Self, ServeError> {
        let socket = bound(address).map_err(|source| ServeError::Listen { address, source })?;
        Ok(Listener { socket, served })
    }

    /// The bound address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Accepts connections until the server shuts down.
    pub(crate) async fn accept(self, state: SharedState, tls: Option<Arc<Tls>>) {
        loop {
            let accepted = tokio::select! {
                () = state.drained() => return,
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let (state, tls, served) = (state.clone(), tls.clone(), self.served.clone());
                    tokio::spawn(async move { admitted(socket, peer, state, tls, served).await });
                }
                Err(error) => {
                    // Usually there are too many open files. Connections that end make room.
                    tracing::error!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// A socket at this address with keep-alive probes on idle connections, as configured in the system. Resources of a
/// client that vanished are thus released.
fn bound(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves a connection if the limits allow it, and otherwise sends an error message.
async fn admitted(
    socket: TcpStream,
    peer: SocketAddr,
    state: SharedState,
    tls: Option<Arc<Tls>>,
    served: Served,
) {
    let (counted, refused) = match state.connections().admit(peer.ip(), Instant::now()) {
        Admission::Admitted(counted) => (counted, None),
        Admission::Refused(counted, why) => (counted, Some(why)),
        Admission::Dropped => {
            return tracing::warn!(%peer, "too many connections from this address: one was closed at once");
        }
    };
    let counted = Arc::new(counted);
    tokio::select! {
        () = serve(socket, peer, state.clone(), tls, served, refused, counted.clone()) => {}
        () = counted.ended() => tracing::info!(%peer, "a connection in login made room for another (max-logins)"),
    }
}

async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    state: SharedState,
    tls: Option<Arc<Tls>>,
    served: Served,
    refused: Option<String>,
    counted: Arc<Counted>,
) {
    // Answers are small and come in one piece, so waiting for more would only delay them.
    let _ = socket.set_nodelay(true);
    let wire = Wire::new(socket);
    let opening = open(wire.clone(), tls.as_deref(), &served);
    let opened = match tokio::time::timeout(state.config().handshake_timeout, opening).await {
        Ok(Ok(opened)) => {
            counted.spoke();
            opened
        }
        Ok(Err(error)) => return tracing::info!(%peer, %error, "a connection was closed before it began"),
        Err(_) => return tracing::info!(%peer, "a connection took too long to begin"),
    };
    match opened {
        Opened::Postgres(channel, encrypted) => {
            let refused =
                refused.or_else(|| (tls.is_some() && !encrypted).then(|| postgres::NOT_ENCRYPTED.to_owned()));
            postgres::serve(channel, wire, peer, state, refused, counted).await;
        }
        Opened::Http(channel) => http(channel, peer, state, served.http, refused, counted).await,
    }
}

enum Opened {
    /// The channel, and whether it is encrypted.
    Postgres(Channel, bool),
    Http(Channel),
}

/// Detects the protocol, and sets up encryption.
async fn open(wire: Wire, tls: Option<&Tls>, served: &Served) -> std::io::Result<Opened> {
    let refused = |why: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned()));
    let first = wire.first_byte().await?;
    let mut channel = match (first, tls) {
        (TLS_HANDSHAKE, Some(tls)) => tls.accept(wire).await?,
        (TLS_HANDSHAKE, None) => return refused("TLS is not set up"),
        (0, _) if served.postgres => {
            return postgres::negotiate(wire, tls).await.map(|(c, e)| Opened::Postgres(c, e));
        }
        (0, _) => return refused("PostgreSQL's protocol is not served at this address"),
        (_, Some(_)) => return refused("plain HTTP where TLS is wanted"),
        (_, None) => return Ok(Opened::Http(Channel::plain(wire))),
    };
    match channel.application_protocol().as_deref() {
        Some(b"postgresql") if served.postgres => Ok(Opened::Postgres(channel, true)),
        Some(b"postgresql") => refused("PostgreSQL's protocol is not served at this address"),
        Some(_) => Ok(Opened::Http(channel)),
        // The first byte shows the protocol of a client without ALPN.
        None if channel.first_byte().await? == 0 => refused("PostgreSQL's protocol over TLS without ALPN"),
        None => Ok(Opened::Http(channel)),
    }
}

/// Serves HTTP requests until the client leaves, no login succeeded for too long, or the server shuts down.
async fn http(
    channel: Channel,
    peer: SocketAddr,
    state: SharedState,
    router: Router,
    refused: Option<String>,
    counted: Arc<Counted>,
) {
    let answer = {
        let over = Over(counted.clone());
        service_fn(move |request: Request<Incoming>| {
            let (router, refused, over) = (router.clone(), refused.clone(), over.clone());
            async move {
                if let Some(why) = refused {
                    let response = axum::http::Response::builder().status(503).body(Body::from(why));
                    return Ok::<_, Infallible>(response.unwrap_or_default());
                }
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(ConnectInfo(peer));
                request.extensions_mut().insert(over);
                router.oneshot(request).await
            }
        })
    };
    let patience = state.config().handshake_timeout;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(20));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(channel), answer);
    tokio::pin!(connection);
    let nobody = async {
        tokio::time::sleep(patience).await;
        if counted.is_logged_in() {
            std::future::pending::<()>().await;
        }
    };
    let ends_within = tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "a connection of HTTP ended");
            }
            return;
        }
        () = nobody => {
            tracing::info!(%peer, "nobody was let in over a connection of HTTP");
            LAST_ANSWERS
        }
        () = state.drained() => state.config().drain_timeout,
    };
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(ends_within, connection).await;
}
