//! Bytes written as text: `\x00ff` in hexadecimal digits, or characters with escapes such as `a\\b\377`.

use crate::sql::QueryError;

/// The bytes that PostgreSQL's `bytea` reads from a text.
pub(crate) fn bytea(text: &str) -> Result<Vec<u8>, QueryError> {
    match text.strip_prefix("\\x") {
        Some(digits) => hex(digits),
        None => escaped(text),
    }
}

/// Pairs of hexadecimal digits, with optional spaces between pairs.
fn hex(digits: &str) -> Result<Vec<u8>, QueryError> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut rest = digits.chars();
    let value = |digit: char| {
        let wrong = || QueryError::other("22023", format!("invalid hexadecimal digit: \"{digit}\""));
        digit.to_digit(16).map(|digit| digit as u8).ok_or_else(wrong)
    };
    while let Some(first) = rest.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = value(first)?;
        let second = rest
            .next()
            .ok_or_else(|| QueryError::other("22023", "invalid hexadecimal data: odd number of digits"))?;
        bytes.push(high << 4 | value(second)?);
    }
    Ok(bytes)
}

/// Characters with escapes: a backslash before another one, or before three octal digits.
fn escaped(text: &str) -> Result<Vec<u8>, QueryError> {
    let wrong = || QueryError::other("22P02", "invalid input syntax for type bytea");
    let octal = |byte: &u8| (b'0'..=b'7').contains(byte).then(|| byte - b'0');
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        if let Some(behind) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = behind;
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<3>().ok_or_else(wrong)?;
        let digits: Option<Vec<u8>> = digits.iter().map(octal).collect();
        match digits.as_deref() {
            Some(&[high @ 0..=3, middle, low]) => bytes.push(high << 6 | middle << 3 | low),
            _ => return Err(wrong()),
        }
        rest = behind;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_postgres() {
        for (text, bytes) in [
            (r"\xfffe", &b"\xff\xfe"[..]),
            (r"\x DE ad", b"\xde\xad"),
            (r"\x", b""),
            ("", b""),
            ("abc", b"abc"),
            (r"a\\b\377\000", b"a\\b\xff\0"),
            ("ä", "ä".as_bytes()),
        ] {
            assert_eq!(bytea(text).unwrap(), bytes, "{text}");
        }
        for (text, code) in
            [(r"\xf", "22023"), (r"\xfg", "22023"), (r"a\", "22P02"), (r"\400", "22P02"), (r"\8", "22P02")]
        {
            assert_eq!(bytea(text).unwrap_err().sqlstate(), code, "{text}");
        }
    }
}
