//! The process of a shared engine: its socket, which connections it takes, and its end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use datafusion::common::{DataFusionError, Result};
use futures::Stream;
use pyo3::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::service::{Service, Shared, Slot};
use super::{FRAME_BYTES, WINDOW_BYTES};
use crate::core::{Core, Source};
use crate::errors;
use crate::session::Start;

/// Runs a shared engine until it has had no connection for `idle` seconds. `start` is a [`Start`] in JSON. Who holds the
/// file `lock` may take away the socket, or start an engine for it.
#[pyfunction]
pub(crate) fn host(py: Python<'_>, socket: PathBuf, lock: PathBuf, idle: f64, start: &str) -> PyResult<()> {
    let start: Start =
        serde_json::from_str(start).map_err(|error| errors::programming(&error.to_string()))?;
    let idle = Duration::try_from_secs_f64(idle).map_err(|error| errors::programming(&error.to_string()))?;
    let core = Core::start(start.threads(), || start.open().map(Source::Own))?;
    let shared = Arc::new(Shared { core: Arc::clone(&core), start });
    core.wait(py, async move { serve(shared, &socket, lock, idle).await })
}

async fn serve(shared: Arc<Shared>, socket: &Path, lock: PathBuf, idle: Duration) -> Result<()> {
    // Who starts the host has the lock. An engine that was killed leaves its socket.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    let door = Door { listener, socket: socket.to_owned(), lock, idle, open: Arc::default() };
    let service = FlightServiceServer::new(Service(shared))
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    let served = Server::builder()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .add_service(service)
        .serve_with_incoming(door.connections())
        .await;
    served.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The number of connections, and a call when one ends.
#[derive(Debug, Default)]
struct Open {
    count: AtomicUsize,
    ended: Notify,
}

struct Door {
    listener: UnixListener,
    socket: PathBuf,
    lock: PathBuf,
    idle: Duration,
    open: Arc<Open>,
}

impl Door {
    /// The connections of this user, until there has been none for a while.
    fn connections(self) -> impl Stream<Item = io::Result<Accepted>> + Send {
        futures::stream::unfold(self, async |door| {
            loop {
                let is_idle = door.open.count.load(Ordering::SeqCst) == 0;
                tokio::select! {
                    accepted = door.listener.accept() => {
                        match accepted.and_then(|(stream, _)| Accepted::new(stream, &door.open)) {
                            Ok(accepted) => return Some((Ok(accepted), door)),
                            Err(error) => tracing::warn!(%error, "a connection was refused"),
                        }
                    }
                    () = door.open.ended.notified() => {}
                    () = tokio::time::sleep(door.idle), if is_idle => {
                        if door.closed().unwrap_or_else(|error| {
                            tracing::warn!(%error, "the socket stays");
                            false
                        }) {
                            return None;
                        }
                    }
                }
            }
        })
    }

    /// Takes the socket away, unless another process is about to use it.
    fn closed(&self) -> io::Result<bool> {
        let lock = File::options().create(true).append(true).open(&self.lock)?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        std::fs::remove_file(&self.socket)?;
        Ok(true)
    }
}

/// A connection, with the slot of its session.
struct Accepted {
    stream: UnixStream,
    slot: Slot,
    open: Arc<Open>,
}

impl Accepted {
    /// # Errors
    /// If the other end is a process of another user.
    fn new(stream: UnixStream, open: &Arc<Open>) -> io::Result<Self> {
        let (user, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
        if user != own {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the process is of user {user}, and this engine is of user {own}"),
            ));
        }
        open.count.fetch_add(1, Ordering::SeqCst);
        Ok(Accepted { stream, slot: Slot::default(), open: Arc::clone(open) })
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.open.count.fetch_sub(1, Ordering::SeqCst);
        self.open.ended.notify_one();
    }
}

impl Connected for Accepted {
    type ConnectInfo = Slot;

    fn connect_info(&self) -> Slot {
        Arc::clone(&self.slot)
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
