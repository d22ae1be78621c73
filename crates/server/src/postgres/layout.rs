//! The layout of messages from clients: lengths, counts, texts.
//!
//! `pgwire` decodes a message without a check of its length, and panics if the message is too short. So each message is
//! checked before it is decoded.

use pgwire::error::{PgWireError, PgWireResult};

use super::error::{error, fatal, violation};

/// The types of messages that a client may send after the first one.
const KINDS: &[u8] = b"QPBECDHSXFdcfp";

/// Checks the content of a message of this type.
///
/// # Errors
///
/// If it has another layout. The connection can go on with the next message.
pub(super) fn check(kind: u8, content: &[u8]) -> PgWireResult<()> {
    let mut rest = Rest(content);
    match kind {
        b'Q' => rest.text()?,
        b'P' => {
            rest.text()?;
            rest.text()?;
            let types = rest.count()?;
            rest.skip(4 * types)?;
        }
        b'B' => {
            rest.text()?;
            rest.text()?;
            let formats = rest.count()?;
            rest.skip(2 * formats)?;
            for _ in 0..rest.count()? {
                rest.value()?;
            }
            let formats = rest.count()?;
            rest.skip(2 * formats)?;
        }
        b'C' | b'D' => {
            rest.skip(1)?;
            rest.text()?;
        }
        b'E' => {
            rest.text()?;
            rest.skip(4)?;
        }
        b'H' | b'S' => {}
        b'F' => {
            let text = "function calls of the protocol are not supported: call the function in a query";
            return Err(error("0A000", text));
        }
        // The content of the others is only bytes, or is ignored.
        _ => return Ok(()),
    }
    rest.end()
}

/// Checks the type of a message.
///
/// # Errors
///
/// If there is no such type, so that the connection has to end.
pub(super) fn check_kind(kind: u8) -> PgWireResult<()> {
    match KINDS.contains(&kind) {
        true => Ok(()),
        false => Err(fatal("08P01", format!("invalid frontend message type {kind}"))),
    }
}

/// Checks the first message of a connection behind its length: a cancel request, or a startup message.
///
/// # Errors
///
/// If it is neither.
pub(super) fn check_first(content: &[u8]) -> PgWireResult<()> {
    const CANCEL: [u8; 4] = 80_877_102_u32.to_be_bytes();
    let wrong = |text: &str| fatal("08P01", format!("invalid startup packet layout: {text}"));
    match content.split_first_chunk::<4>() {
        Some((&CANCEL, rest)) if rest.len() >= 8 => Ok(()),
        Some((&[0, 3, _, _], rest)) => match rest.last() {
            Some(0) => Ok(()),
            _ => Err(wrong("expected terminator as last byte")),
        },
        Some((&[high, low, minor @ ..], _)) => {
            let (major, minor) = (u16::from_be_bytes([high, low]), u16::from_be_bytes(minor));
            let text =
                format!("unsupported frontend protocol {major}.{minor}: the server supports 3.0 to 3.2");
            Err(fatal("0A000", text))
        }
        None => Err(wrong("it is too short")),
    }
}

/// Checks the first answer of a client in SCRAM.
///
/// # Errors
///
/// If it has another layout.
pub(super) fn check_first_of_scram(content: &[u8]) -> PgWireResult<()> {
    let mut rest = Rest(content);
    rest.text()?;
    rest.value()?;
    rest.end()
}

/// The rest of a message.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn skip(&mut self, bytes: usize) -> PgWireResult<()> {
        self.0 = self.0.get(bytes..).ok_or_else(short)?;
        Ok(())
    }

    fn number<const N: usize>(&mut self) -> PgWireResult<[u8; N]> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*number)
    }

    fn count(&mut self) -> PgWireResult<usize> {
        self.number().map(|count| usize::from(u16::from_be_bytes(count)))
    }

    /// A value with its length. The length -1 stands for NULL.
    fn value(&mut self) -> PgWireResult<()> {
        match i32::from_be_bytes(self.number()?) {
            -1 => Ok(()),
            length => self.skip(usize::try_from(length).map_err(|_| short())?),
        }
    }

    /// A text with a zero byte at its end.
    fn text(&mut self) -> PgWireResult<()> {
        let end = self.0.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| violation("invalid string in message"))?;
        let (text, rest) = self.0.split_at(end);
        check_utf8(text)?;
        self.0 = rest;
        self.skip(1)
    }

    fn end(&self) -> PgWireResult<()> {
        if self.0.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

fn short() -> PgWireError {
    violation("insufficient data left in message")
}

/// Checks that a text is in UTF-8 and has no zero bytes.
///
/// # Errors
///
/// If it is another one.
pub(super) fn check_utf8(text: &[u8]) -> PgWireResult<()> {
    let at = match std::str::from_utf8(text) {
        Ok(text) => text.find('\0'),
        Err(wrong) => Some(wrong.valid_up_to()),
    };
    let Some(wrong) = at.and_then(|at| text.get(at..)) else { return Ok(()) };
    let length = match wrong.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let bytes: Vec<String> = wrong.iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
    Err(error("22021", format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::super::error::outcome;
    use super::*;

    fn code(kind: u8, content: &[u8]) -> String {
        outcome(&check(kind, content)).0.to_owned()
    }

    #[test]
    fn messages_are_as_long_as_their_content() {
        let bind = &b"\0\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0"[..];
        for (kind, content) in [
            (b'Q', &b"SELECT 1\0"[..]),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'B', bind),
            (b'D', b"Ss\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
        ] {
            assert_eq!(code(kind, content), "00000");
            for end in 0..content.len() {
                assert_eq!(code(kind, &content[..end]), "08P01", "{kind} {end}");
            }
            assert_eq!(code(kind, &[content, b"\0"].concat()), "08P01", "{kind}");
        }
        assert_eq!(code(b'B', b"\0\0\0\0\xff\xff\0\0"), "08P01", "65535 values");
        assert_eq!(code(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), "08P01", "a length of -2");
        assert_eq!(code(b'Q', b"SELECT '\xff'\0"), "22021");
        assert_eq!(code(b'F', b""), "0A000");
        assert!(check_kind(b'!').is_err() && check_kind(b'Q').is_ok());
    }

    #[test]
    fn first_messages_state_what_they_are() {
        assert!(check_first(b"\0\x03\0\0user\0ann\0\0").is_ok());
        assert!(check_first(b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02").is_ok());
        for wrong in [&b"\0\x03\0\0user\0ann"[..], b"\x04\xd2\x16\x2e\0\0\0\x01", b"\0\x02\0\0\0", b"\0\x03"]
        {
            assert!(check_first(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn wrong_bytes_are_shown() {
        for (text, bytes) in [
            (&b"a\xff\xfe"[..], "0xff"),
            (b"\xc3(", "0xc3 0x28"),
            (b"a\0b", "0x00"),
            (b"\xe2\x82", "0xe2 0x82"),
        ] {
            assert!(outcome(&check_utf8(text)).1.ends_with(&format!(": {bytes}")), "{text:?}");
        }
    }
}
