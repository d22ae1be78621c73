//! A connection as a stream of messages.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireFrontendMessage;
use pgwire::tokio::server::PgWireMessageServerCodec;
use tokio::io::AsyncReadExt;
use tokio_util::codec::{Decoder, Framed};

use super::bounded::Bounded;
use super::error::fatal;
use super::layout;
use crate::transport::Channel;

pub(crate) const NOT_ENCRYPTED: &str =
    "this server takes encrypted connections only: use TLS (sslmode=require)";
/// Minimum room for received bytes.
const READ_BYTES: usize = 8 << 10;

/// A connection as a stream of messages. `pgwire` would keep statements and portals in it; here they are in
/// `connection`.
pub(crate) type Socket = Framed<Bounded<Channel>, PgWireMessageServerCodec<()>>;

/// A message from the client.
pub(crate) enum Received {
    Message(PgWireFrontendMessage),
    /// A message of this type that is not read. The connection goes on with the next one.
    Refused {
        kind: u8,
        why: PgWireError,
    },
}

impl Received {
    /// The message.
    ///
    /// # Errors
    ///
    /// If it is refused.
    pub(crate) fn message(self) -> PgWireResult<PgWireFrontendMessage> {
        match self {
            Received::Message(message) => Ok(message),
            Received::Refused { why, .. } => Err(why),
        }
    }

    /// Returns true for messages of extended queries, after whose errors messages are skipped up to the next Sync.
    pub(crate) fn is_extended(&self) -> bool {
        match self {
            Received::Message(message) => message.is_extended_query(),
            Received::Refused { kind, .. } => b"PBCDEH".contains(kind),
        }
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(
            self,
            Received::Message(PgWireFrontendMessage::Sync(_)) | Received::Refused { kind: b'S', .. }
        )
    }
}

/// The next message. `None` at the end of the connection. Dropping the future loses no bytes.
pub(crate) async fn receive(socket: &mut Socket) -> Option<PgWireResult<Received>> {
    poll_fn(|cx| {
        let mut buffer = std::mem::take(socket.read_buffer_mut());
        let polled = poll_receive(socket, &mut buffer, cx);
        *socket.read_buffer_mut() = buffer;
        polled
    })
    .await
}

fn poll_receive(
    socket: &mut Socket,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<Option<PgWireResult<Received>>> {
    loop {
        if let Some(received) = first_of(socket, buffer).transpose() {
            return Poll::Ready(Some(received));
        }
        buffer.reserve(READ_BYTES);
        let read = {
            let reading = pin!(socket.get_mut().read_buf(buffer));
            ready!(reading.poll(cx))
        };
        match read {
            Ok(0) if buffer.is_empty() => return Poll::Ready(None),
            Ok(0) => {
                return Poll::Ready(Some(Err(PgWireError::IoError(io::ErrorKind::UnexpectedEof.into()))));
            }
            Ok(_) => {}
            Err(error) => return Poll::Ready(Some(Err(PgWireError::IoError(error)))),
        }
    }
}

/// The first message of the received bytes. `None` if it is not complete. `pgwire` gets one message at a time, after
/// its check.
fn first_of(socket: &mut Socket, buffer: &mut BytesMut) -> PgWireResult<Option<Received>> {
    let is_first = matches!(socket.state(), PgWireConnectionState::AwaitingStartup);
    let header = if is_first { 4 } else { 5 };
    let Some(length) = buffer.get(header - 4..).and_then(|bytes| bytes.first_chunk::<4>()) else {
        return Ok(None);
    };
    // `Bounded` has refused impossible lengths.
    let end = header - 4 + usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0).max(4);
    if buffer.len() < end {
        return Ok(None);
    }
    let mut message = buffer.split_to(end);
    let (begin, content) = message.split_at(header);
    match (is_first, begin.first()) {
        (false, Some(&kind)) => {
            layout::check_kind(kind)?;
            if let Err(why) = layout::check(kind, content) {
                return Ok(Some(Received::Refused { kind, why }));
            }
        }
        _ => layout::check_first(content)?,
    }
    let message = socket.codec_mut().decode(&mut message)?;
    message
        .map(|message| Some(Received::Message(message)))
        .ok_or_else(|| fatal("08P01", "a message of the protocol is not complete"))
}
