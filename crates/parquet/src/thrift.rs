//! Thrift's compact protocol: values as slices of bytes, and functions that write them.
//!
//! This module does not allocate more than the bytes it is given, and bounds nesting. It does not know the
//! meaning of fields.

/// Types of values on the wire.
pub(crate) mod wire {
    pub(crate) const TRUE: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const BYTE: u8 = 3;
    pub(crate) const I16: u8 = 4;
    pub(crate) const I32: u8 = 5;
    pub(crate) const I64: u8 = 6;
    pub(crate) const DOUBLE: u8 = 7;
    pub(crate) const BINARY: u8 = 8;
    pub(crate) const LIST: u8 = 9;
    pub(crate) const SET: u8 = 10;
    pub(crate) const MAP: u8 = 11;
    pub(crate) const STRUCT: u8 = 12;
    pub(crate) const UUID: u8 = 13;
}

/// The maximum nesting; deeper values are malformed.
const DEPTH_MAX: usize = 64;

/// The bytes left to read. Its functions return `None` if the bytes are malformed.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, at: 0 }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn int(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn binary(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    /// The number and type of the next field of a structure. `Some(None)` at the structure's end.
    pub(crate) fn field(&mut self, last: i16) -> Option<Option<(i16, u8)>> {
        let head = self.byte()?;
        if head & 0x0f == 0 {
            return Some(None);
        }
        let id = match head >> 4 {
            0 => i16::try_from(self.int()?).ok()?,
            delta => last.checked_add(i16::from(delta))?,
        };
        Some(Some((id, head & 0x0f)))
    }

    /// The type of a list's elements and their number. Each takes at least a byte, so the number cannot
    /// exceed the bytes left.
    pub(crate) fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        let count = usize::try_from(count).ok()?;
        (count <= self.remaining()).then_some((head & 0x0f, count))
    }

    /// Skips a value of this type, and returns its bytes. Booleans of structures have none.
    pub(crate) fn skip(&mut self, kind: u8) -> Option<&'a [u8]> {
        let start = self.at;
        self.pass(kind, false, DEPTH_MAX)?;
        Some(&self.bytes[start..self.at])
    }

    fn pass(&mut self, kind: u8, in_list: bool, depth: usize) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match kind {
            wire::TRUE | wire::FALSE if in_list => drop(self.byte()?),
            wire::TRUE | wire::FALSE => {}
            wire::BYTE => drop(self.byte()?),
            wire::I16 | wire::I32 | wire::I64 => drop(self.varint()?),
            wire::DOUBLE => drop(self.take(8)?),
            wire::UUID => drop(self.take(16)?),
            wire::BINARY => drop(self.binary()?),
            wire::LIST | wire::SET => {
                let (of, count) = self.list()?;
                (0..count).try_for_each(|_| self.pass(of, true, below))?;
            }
            wire::MAP => {
                let count = self.varint()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.pass(kinds >> 4, true, below)?;
                        self.pass(kinds & 0x0f, true, below)?;
                    }
                }
            }
            wire::STRUCT => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    self.pass(kind, false, below)?;
                    last = id;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_int(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

pub(crate) fn put_binary(value: &[u8], out: &mut Vec<u8>) {
    put_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Writes the head of a field after the field `last`.
pub(crate) fn put_field(last: i16, id: i16, kind: u8, out: &mut Vec<u8>) {
    match id.checked_sub(last) {
        Some(delta @ 1..=15) => out.push((delta as u8) << 4 | kind),
        _ => {
            out.push(kind);
            put_int(i64::from(id), out);
        }
    }
}

/// Writes the head of a list.
pub(crate) fn put_list(kind: u8, count: usize, out: &mut Vec<u8>) {
    if count < 15 {
        out.push((count as u8) << 4 | kind);
    } else {
        out.push(0xf0 | kind);
        put_varint(count as u64, out);
    }
}
