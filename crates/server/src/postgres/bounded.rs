//! A channel that checks the stated length of a message before the message is read. Too long and impossibly short
//! messages are refused.
//!
//! Messages before the login are short. Without this check, the message reader would collect a gigabyte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum length of a message during login.
const LOGIN_BYTES: usize = 10_000;
/// Minimum stated lengths. The first message has a length and a code, but no type. Other messages have a type and a
/// length.
const FIRST_LENGTH_MIN: usize = 8;
const LENGTH_MIN: usize = 4;

/// A channel whose incoming messages are bounded.
pub(crate) struct Bounded<C> {
    channel: C,
    longest: usize,
    frames: Frames,
}

/// The position in the current message at the end of the bytes read so far.
#[derive(Default)]
struct Frames {
    /// Set after the first message, which has no type.
    begun: bool,
    /// The received bytes of type and length, and their number.
    header: [u8; 5],
    has: usize,
    /// Bytes of the message that are still to come.
    rest: usize,
}

impl<C> Bounded<C> {
    pub(crate) fn new(channel: C) -> Self {
        Bounded { channel, longest: LOGIN_BYTES, frames: Frames::default() }
    }

    /// The channel underneath.
    pub(crate) fn channel(&self) -> &C {
        &self.channel
    }

    /// Sets the maximum length of later messages.
    pub(crate) fn allow(&mut self, longest: usize) {
        self.longest = longest;
    }
}

impl Frames {
    fn follow(&mut self, mut bytes: &[u8], longest: usize) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let passed = self.rest.min(bytes.len());
                self.rest -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            self.header[self.has] = bytes[0];
            self.has += 1;
            bytes = &bytes[1..];
            let typed = usize::from(self.begun);
            if self.has < typed + 4 {
                continue;
            }
            let mut length = [0; 4];
            length.copy_from_slice(&self.header[typed..typed + 4]);
            let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
            let least = if self.begun { LENGTH_MIN } else { FIRST_LENGTH_MIN };
            if length < least || length > longest {
                let problem = format!(
                    "a message of {length} bytes; the server takes {least} to {longest} here (max-message, a setting of the server, after login)"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            (self.begun, self.has, self.rest) = (true, 0, length - 4);
        }
        Ok(())
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Bounded<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.channel).poll_read(cx, buffer))?;
        Poll::Ready(this.frames.follow(&buffer.filled()[before..], this.longest))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Bounded<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.channel).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.channel).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.channel).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(bytes: &[u8], piece: usize, longest: usize) -> io::Result<()> {
        let mut frames = Frames::default();
        bytes.chunks(piece).try_for_each(|piece| frames.follow(piece, longest))
    }

    #[test]
    fn messages_are_followed_in_any_pieces() {
        let first = [&[0, 0, 0, 12][..], &[1; 8]].concat();
        let query = [&[b'Q', 0, 0, 0, 7][..], b"a;\0"].concat();
        let sync = [b'S', 0, 0, 0, 4];
        let all = [&first[..], &query, &sync, &query].concat();
        let long = [&all[..], &[b'Q', 0, 0, 0, 13]].concat();
        let short = [&all[..], &[b'Q', 0, 0, 0, 3]].concat();
        let negative = [&all[..], &[b'p', 255, 255, 255, 255]].concat();
        for piece in 1..all.len() {
            assert!(follow(&all, piece, 12).is_ok());
            assert!([&long, &short, &negative].iter().all(|bytes| follow(bytes, piece, 12).is_err()));
        }
        assert!(follow(&[0, 0, 0, 7, 0, 0, 0], 7, 12).is_err(), "the first message has a code");
    }
}
