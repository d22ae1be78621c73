//! Lists and structs: brackets, separators, quotes and headers.

use bytes::{BufMut, BytesMut};

use super::column::Column;
use super::error::Result;
use super::with_length;

/// A list in PostgreSQL's text form.
pub(super) fn list_text(elements: &Column, range: std::ops::Range<usize>, out: &mut BytesMut) -> Result<()> {
    let mut element = BytesMut::new();
    out.put_u8(b'{');
    for at in range.clone() {
        if at > range.start {
            out.put_u8(b',');
        }
        if elements.is_null(at) {
            out.put_slice(b"NULL");
            continue;
        }
        element.clear();
        elements.put(at, &mut element)?;
        put_element(&element, out);
    }
    out.put_u8(b'}');
    Ok(())
}

/// Writes an element, with quotes where it would be ambiguous. Quotes and backslashes get a backslash.
fn put_element(element: &[u8], out: &mut BytesMut) {
    let odd = |&byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(byte);
    if !element.is_empty() && !element.eq_ignore_ascii_case(b"null") && !element.iter().any(odd) {
        return out.put_slice(element);
    }
    put_quoted(element, |_| b'\\', out);
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Writes a list in binary form: one dimension with lower bound 1, or no dimension.
pub(super) fn list_binary(
    elements: &Column,
    range: std::ops::Range<usize>,
    out: &mut BytesMut,
) -> Result<()> {
    out.put_i32(i32::from(!range.is_empty()));
    out.put_i32(i32::from(range.clone().any(|at| elements.is_null(at))));
    out.put_u32(elements.told.oid());
    if !range.is_empty() {
        out.put_i32(range.len() as i32);
        out.put_i32(1);
    }
    range.into_iter().try_for_each(|at| elements.sized(at, out))
}

/// Writes a struct in PostgreSQL's text form. NULL is empty text between commas.
pub(super) fn struct_text(fields: &[Column], row: usize, out: &mut BytesMut) -> Result<()> {
    let mut value = BytesMut::new();
    out.put_u8(b'(');
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        if !field.is_null(row) {
            value.clear();
            field.put(row, &mut value)?;
            put_field(&value, out);
        }
    }
    out.put_u8(b')');
    Ok(())
}

/// Writes a field, with quotes where it would be ambiguous. Quotes and backslashes are doubled.
fn put_field(value: &[u8], out: &mut BytesMut) {
    let odd = |&byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || is_space(byte);
    if !value.is_empty() && !value.iter().any(odd) {
        return out.put_slice(value);
    }
    put_quoted(value, |byte| byte, out);
}

/// Writes a value in quotes. `before` returns the byte before each quote or backslash.
fn put_quoted(value: &[u8], before: fn(u8) -> u8, out: &mut BytesMut) {
    out.put_u8(b'"');
    for &byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(before(byte));
        }
        out.put_u8(byte);
    }
    out.put_u8(b'"');
}

/// Writes a struct in binary form: each value after the number of its type.
pub(super) fn struct_binary(fields: &[Column], row: usize, out: &mut BytesMut) -> Result<()> {
    out.put_i32(fields.len() as i32);
    fields.iter().try_for_each(|field| {
        out.put_u32(field.told.oid());
        field.sized(row, out)
    })
}

impl Column {
    /// Writes the value after its length. A NULL has only the length -1.
    pub(super) fn sized(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        with_length(out, |out| self.put(row, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(put: fn(&[u8], &mut BytesMut), value: &str) -> String {
        let mut out = BytesMut::new();
        put(value.as_bytes(), &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// The values are output of PostgreSQL 16.
    #[test]
    fn values_are_in_quotes_where_they_have_to_be() {
        for (value, element, field) in [
            ("x", "x", "x"),
            ("", r#""""#, r#""""#),
            ("null", r#""null""#, "null"),
            ("a b", r#""a b""#, r#""a b""#),
            ("a,b", r#""a,b""#, r#""a,b""#),
            (r#"a"b"#, r#""a\"b""#, r#""a""b""#),
            (r"a\b", r#""a\\b""#, r#""a\\b""#),
            ("(x)", "(x)", r#""(x)""#),
            ("{x}", r#""{x}""#, "{x}"),
            ("ä", "ä", "ä"),
        ] {
            assert_eq!(of(put_element, value), element);
            assert_eq!(of(put_field, value), field);
        }
    }
}
