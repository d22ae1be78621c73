//! The fields of a footer's structures, and a rewriter that keeps the values that fit.
//!
//! Readers that Thrift generates skip fields whose type on the wire is not the declared one; the rewriter
//! leaves them out. All integers have the same encoding and are interchangeable. A list or a structure that
//! lacks a required field is left out as a whole. [`crate::schema`] handles the schema.

use crate::thrift::{Input, put_binary, put_field, put_int, put_list, wire};

/// The possible values of a field.
pub(crate) enum Shape {
    Bool,
    I32,
    I64,
    /// One of these integers.
    OneOf(&'static [i64]),
    Bytes,
    /// Bytes of UTF-8.
    Text,
    /// A structure that is copied as it is.
    Any,
    /// A list whose elements must all fit.
    List(&'static Shape),
    /// A list; elements that do not fit are left out.
    Some(&'static Shape),
    Fields(&'static [Field]),
}

/// A field of a structure: its number, and its possible values.
pub(crate) struct Field {
    id: i16,
    shape: Shape,
    need: Need,
}

/// The effect of a missing field on its structure.
enum Need {
    Optional,
    /// Optional, and also left out with [`Rewriter::without_hints`].
    Hint,
    Required,
    /// As if the field held this value.
    Default(i64),
    /// As if the field held an empty list.
    Empty,
}

const fn field(id: i16, shape: Shape, need: Need) -> Field {
    Field { id, shape, need }
}

use Need::{Default, Empty, Hint, Optional, Required};
use Shape::{Any, Bool, Bytes, Fields, I32, I64, List, OneOf, Text};

/// Encodings of values.
const ENCODING: Shape = OneOf(&[0, 2, 3, 4, 5, 6, 7, 8, 9]);

/// Types of pages.
const PAGE: Shape = OneOf(&[0, 1, 2, 3]);

pub(crate) static KEY_VALUES: Shape =
    Shape::Some(&Fields(&[field(1, Text, Required), field(2, Text, Optional)]));

pub(crate) static COLUMN_ORDERS: Shape = List(&Any);

const STATISTICS: Shape = Fields(&[
    field(1, Bytes, Optional),
    field(2, Bytes, Optional),
    field(3, I64, Optional),
    field(4, I64, Optional),
    field(5, Bytes, Optional),
    field(6, Bytes, Optional),
    field(7, Bool, Optional),
    field(8, Bool, Optional),
]);

const PAGE_ENCODINGS: Shape =
    List(&Fields(&[field(1, PAGE, Required), field(2, ENCODING, Required), field(3, I32, Required)]));

// Key-value metadata of the column (8), sizes of its values (16) and geospatial statistics (17) are left out.
const COLUMN: Shape = Fields(&[
    field(1, I32, Required),
    field(2, Shape::Some(&ENCODING), Empty),
    field(3, List(&Text), Empty),
    field(4, I32, Default(0)),
    field(5, I64, Required),
    field(6, I64, Default(0)),
    field(7, I64, Required),
    field(9, I64, Required),
    field(10, I64, Optional),
    field(11, I64, Optional),
    field(12, STATISTICS, Hint),
    field(13, PAGE_ENCODINGS, Hint),
    field(14, I64, Hint),
    field(15, I32, Hint),
]);

const COLUMN_CHUNK: Shape = Fields(&[
    field(1, Text, Optional),
    field(2, I64, Default(0)),
    field(3, COLUMN, Required),
    field(4, I64, Hint),
    field(5, I32, Hint),
    field(6, I64, Hint),
    field(7, I32, Hint),
]);

const SORTING: Shape =
    List(&Fields(&[field(1, I32, Required), field(2, Bool, Required), field(3, Bool, Required)]));

// The position of the row group (7) is left out: it has 16 bits, and some writers number only some of the
// groups.
pub(crate) static ROW_GROUP: Shape = Fields(&[
    field(1, List(&COLUMN_CHUNK), Required),
    field(2, I64, Default(0)),
    field(3, I64, Required),
    field(4, SORTING, Hint),
    field(5, I64, Optional),
    field(6, I64, Optional),
]);

/// Writes values in the shape of their fields.
#[derive(Clone, Copy)]
pub(crate) struct Rewriter {
    /// Leaves out all fields that a reader can do without: statistics, encodings of pages, positions of
    /// indexes and filters.
    pub(crate) without_hints: bool,
}

impl Rewriter {
    /// Reads a value of a type on the wire and writes it in its shape. Returns whether it fits; if not, the
    /// whole value is read and nothing is written. `None` if the bytes are malformed. Booleans are written
    /// like elements of lists.
    pub(crate) fn value(self, kind: u8, shape: &Shape, input: &mut Input, out: &mut Vec<u8>) -> Option<bool> {
        let start = out.len();
        let mut after = *input;
        after.skip(kind)?;
        let fits = self.write(kind, shape, &mut input.clone(), out)?;
        if !fits {
            out.truncate(start);
        }
        *input = after;
        Some(fits)
    }

    fn write(self, kind: u8, shape: &Shape, input: &mut Input, out: &mut Vec<u8>) -> Option<bool> {
        match (shape, kind) {
            (I32 | I64, wire::I16..=wire::I64) => put_int(input.int()?, out),
            (OneOf(known), wire::I16..=wire::I64) => {
                let value = input.int()?;
                put_int(value, out);
                return Some(known.contains(&value));
            }
            (Bytes, wire::BINARY) => put_binary(input.binary()?, out),
            (Text, wire::BINARY) => {
                let text = input.binary()?;
                put_binary(text, out);
                return Some(std::str::from_utf8(text).is_ok());
            }
            (Any, wire::STRUCT) => out.extend_from_slice(input.skip(kind)?),
            (List(of), wire::LIST | wire::SET) => return self.list(of, true, input, out),
            (Shape::Some(of), wire::LIST | wire::SET) => return self.list(of, false, input, out),
            (Fields(fields), wire::STRUCT) => return self.fields(fields, input, out),
            _ => return Some(false),
        }
        Some(true)
    }

    fn list(self, of: &Shape, all: bool, input: &mut Input, out: &mut Vec<u8>) -> Option<bool> {
        let (kind, count) = input.list()?;
        let (start, mut fitting) = (out.len(), 0);
        for _ in 0..count {
            match self.value(kind, of, input, out)? {
                true => fitting += 1,
                false if all => return Some(false),
                false => {}
            }
        }
        let mut head = Vec::new();
        put_list(of.wire(), fitting, &mut head);
        out.splice(start..start, head);
        Some(true)
    }

    fn fields(self, fields: &[Field], input: &mut Input, out: &mut Vec<u8>) -> Option<bool> {
        let (mut last_read, mut last) = (0, 0);
        let mut seen = 0u32;
        while let Some((id, kind)) = input.field(last_read)? {
            last_read = id;
            let known = fields.iter().position(|field| field.id == id);
            let known = known.filter(|at| seen & 1 << at == 0 && !self.leaves_out(&fields[*at]));
            let Some(at) = known else {
                input.skip(kind)?;
                continue;
            };
            let shape = &fields[at].shape;
            let start = out.len();
            let fits = if let Bool = shape {
                let fits = matches!(kind, wire::TRUE | wire::FALSE);
                if fits {
                    put_field(last, id, kind, out);
                } else {
                    input.skip(kind)?;
                }
                fits
            } else {
                put_field(last, id, shape.wire(), out);
                self.value(kind, shape, input, out)?
            };
            if fits {
                (last, seen) = (id, seen | 1 << at);
            } else {
                out.truncate(start);
            }
        }
        let missing = fields.iter().enumerate().filter(|(at, _)| seen & 1 << at == 0);
        for (_, field) in missing {
            match field.need {
                Optional | Hint => continue,
                Required => return Some(false),
                Default(value) => {
                    put_field(last, field.id, field.shape.wire(), out);
                    put_int(value, out);
                }
                Empty => {
                    put_field(last, field.id, wire::LIST, out);
                    put_list(wire::I32, 0, out);
                }
            }
            last = field.id;
        }
        out.push(0);
        Some(true)
    }

    fn leaves_out(self, field: &Field) -> bool {
        self.without_hints && matches!(field.need, Hint)
    }
}

impl Shape {
    fn wire(&self) -> u8 {
        match self {
            Bool => wire::TRUE,
            I32 | OneOf(_) => wire::I32,
            I64 => wire::I64,
            Bytes | Text => wire::BINARY,
            List(_) | Shape::Some(_) => wire::LIST,
            Any | Fields(_) => wire::STRUCT,
        }
    }
}
