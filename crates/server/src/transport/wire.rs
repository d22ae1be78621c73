//! A connection as bytes, encrypted or not.
//!
//! [`Wire`] is a socket with several holders. A statement can thus be stopped when its client leaves, while the
//! protocol's loop waits for the statement. [`Channel`] is the stream that a protocol reads and writes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Interval of checks for a closed connection whose client has sent data.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A socket. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<TcpStream>);

impl Wire {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Wire(Arc::new(socket))
    }

    /// The client's first byte, which stays unread.
    pub(crate) async fn first_byte(&self) -> io::Result<u8> {
        let mut byte = [0];
        match self.0.peek(&mut byte).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(byte[0]),
        }
    }

    /// Waits until the client has closed the connection, even if data before that is still unread.
    pub(crate) async fn gone(&self) {
        while let Ok(ready) = self.0.ready(Interest::READABLE).await {
            if ready.is_read_closed() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(n) => {
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is closed with its last holder.
        Poll::Ready(Ok(()))
    }
}

/// The hash of the server's certificate: `tls-server-end-point` of RFC 5929.
pub(crate) type EndPoint = Arc<[u8]>;

/// The stream that a protocol reads and writes.
pub(crate) struct Channel {
    io: Io,
    /// Bytes that were read to detect the protocol.
    read_before: Vec<u8>,
}

enum Io {
    Plain(Wire),
    Encrypted(Box<TlsStream<Wire>>, Option<EndPoint>),
}

impl Channel {
    pub(crate) fn plain(wire: Wire) -> Self {
        Channel { io: Io::Plain(wire), read_before: Vec::new() }
    }

    pub(crate) fn encrypted(stream: TlsStream<Wire>, end_point: Option<EndPoint>) -> Self {
        Channel { io: Io::Encrypted(Box::new(stream), end_point), read_before: Vec::new() }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.io, Io::Encrypted(..))
    }

    /// The hash that a login over this connection can be bound to.
    pub(crate) fn end_point(&self) -> Option<EndPoint> {
        match &self.io {
            Io::Plain(_) => None,
            Io::Encrypted(_, end_point) => end_point.clone(),
        }
    }

    /// Puts bytes back.
    pub(crate) fn unread(mut self, bytes: &[u8]) -> Self {
        self.read_before.splice(0..0, bytes.iter().copied());
        self
    }

    /// The protocol that the client named in the TLS handshake.
    pub(crate) fn application_protocol(&self) -> Option<Vec<u8>> {
        match &self.io {
            Io::Plain(_) => None,
            Io::Encrypted(stream, _) => stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        }
    }

    /// The first byte, which stays unread.
    pub(crate) async fn first_byte(&mut self) -> io::Result<u8> {
        if self.read_before.is_empty() {
            let byte = self.read_u8().await?;
            self.read_before.push(byte);
        }
        Ok(self.read_before[0])
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read_before.is_empty() {
            let n = self.read_before.len().min(buffer.remaining());
            let bytes: Vec<u8> = self.read_before.drain(..n).collect();
            buffer.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_read(cx, buffer),
            Io::Encrypted(io, _) => Pin::new(io).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write(cx, bytes),
            Io::Encrypted(io, _) => Pin::new(io).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_flush(cx),
            Io::Encrypted(io, _) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Io::Encrypted(io, _) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
