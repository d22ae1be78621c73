//! Promotion: the type of a column that has several types in files is the smallest one that holds the values
//! of all.
//!
//! The rules are those of Arrow's permissive promotion and of DuckDB's `union_by_name`, with these
//! differences:
//!
//! - UINT64 with signed integers becomes DECIMAL(20, 0), which holds both.
//! - INT32 with FLOAT becomes DOUBLE, as in Arrow, because FLOAT does not hold every INT32.
//! - Times without a zone are taken for times in UTC if another file has a zone, as in a DuckDB session in
//!   UTC.
//! - Texts are promoted only to bytes, and only bytes are promoted to text, because other conversions would
//!   change the order of values.
//!
//! This module neither knows files nor converts values; [`super::widened`] does.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};

use DataType::{
    Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Duration,
    FixedSizeBinary, FixedSizeList, Float16, Float32, Float64, LargeBinary, LargeList, LargeUtf8, List, Map,
    Null, Struct, Time32, Time64, Timestamp, Utf8View,
};

/// The zone in which columns of instants are shown and compared.
pub(crate) const UTC: &str = "UTC";

/// Returns the type that holds the values of both, if there is one.
pub(crate) fn promoted(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (Dictionary(a_keys, a), Dictionary(b_keys, b)) if a_keys == b_keys => {
            Some(Dictionary(a_keys.clone(), Box::new(promoted(a, b)?)))
        }
        (Dictionary(_, a), b) => promoted(a, b),
        (a, Dictionary(_, b)) => promoted(a, b),
        _ if a.is_nested() || b.is_nested() => nested(a, b),
        _ => numbers(a, b).or_else(|| times(a, b)).or_else(|| texts(a, b)),
    }
}

/// Returns the common field of both. It may be null if one of them may be.
pub(crate) fn promoted_field(a: &Field, b: &Field) -> Option<Field> {
    let data_type = promoted(a.data_type(), b.data_type())?;
    let mut metadata = a.metadata().clone();
    for (key, value) in b.metadata() {
        metadata.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let nullable = a.is_nullable() || b.is_nullable() || a.data_type() == &Null || b.data_type() == &Null;
    Some(Field::new(a.name(), data_type, nullable).with_metadata(metadata))
}

fn numbers(a: &DataType, b: &DataType) -> Option<DataType> {
    if let (Some(a), Some(b)) = (Integer::of(a), Integer::of(b)) {
        return Some(a.with(b));
    }
    if a.is_floating() || b.is_floating() {
        return [float_for(a)?, float_for(b)?].into_iter().max_by_key(float_bits);
    }
    let (a, b) = (Digits::of(a)?, Digits::of(b)?);
    Digits { before: a.before.max(b.before), behind: a.behind.max(b.behind) }.decimal()
}

/// A kind of integers.
#[derive(Clone, Copy)]
struct Integer {
    bits: u8,
    signed: bool,
}

impl Integer {
    fn of(data_type: &DataType) -> Option<Self> {
        let bits = data_type.is_integer().then(|| data_type.primitive_width()).flatten()? as u8 * 8;
        Some(Integer { bits, signed: data_type.is_signed_integer() })
    }

    fn with(self, other: Self) -> DataType {
        let signed = self.signed || other.signed;
        // A sign needs a bit.
        let bits = |of: Integer| if signed && !of.signed { of.bits as u16 * 2 } else { of.bits as u16 };
        match (bits(self).max(bits(other)), signed) {
            (8, true) => DataType::Int8,
            (16, true) => DataType::Int16,
            (32, true) => DataType::Int32,
            (64, true) => DataType::Int64,
            (8, false) => DataType::UInt8,
            (16, false) => DataType::UInt16,
            (32, false) => DataType::UInt32,
            (64, false) => DataType::UInt64,
            _ => Decimal128(20, 0),
        }
    }
}

/// Returns the smallest float to which numbers of this type are promoted. DECIMAL becomes DOUBLE, which
/// rounds it as any arithmetic with floats does.
fn float_for(data_type: &DataType) -> Option<DataType> {
    match data_type {
        Float16 | Float32 | Float64 => Some(data_type.clone()),
        DataType::Int8 | DataType::UInt8 => Some(Float16),
        DataType::Int16 | DataType::UInt16 => Some(Float32),
        of => (of.is_integer() || of.is_decimal()).then_some(Float64),
    }
}

fn float_bits(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width()
}

/// The digits of a decimal or an integer.
struct Digits {
    before: i16,
    behind: i16,
}

impl Digits {
    fn of(data_type: &DataType) -> Option<Self> {
        let (precision, scale) = match data_type {
            Decimal32(precision, scale)
            | Decimal64(precision, scale)
            | Decimal128(precision, scale)
            | Decimal256(precision, scale) => (*precision, *scale),
            DataType::Int8 | DataType::UInt8 => (3, 0),
            DataType::Int16 | DataType::UInt16 => (5, 0),
            DataType::Int32 | DataType::UInt32 => (10, 0),
            DataType::Int64 => (19, 0),
            DataType::UInt64 => (20, 0),
            _ => return None,
        };
        Some(Digits { before: i16::from(precision) - i16::from(scale), behind: i16::from(scale) })
    }

    fn decimal(self) -> Option<DataType> {
        let scale = i8::try_from(self.behind).ok()?;
        let precision = u8::try_from((self.before + self.behind).max(1)).ok()?;
        if precision <= DECIMAL128_MAX_PRECISION {
            return Some(Decimal128(precision, scale));
        }
        (precision <= DECIMAL256_MAX_PRECISION).then_some(Decimal256(precision, scale))
    }
}

fn times(a: &DataType, b: &DataType) -> Option<DataType> {
    Some(match (a, b) {
        (Timestamp(a_unit, a_zone), Timestamp(b_unit, b_zone)) => {
            let zone = match (a_zone, b_zone) {
                (None, None) => None,
                (Some(a), Some(b)) if a == b => Some(Arc::clone(a)),
                _ => Some(UTC.into()),
            };
            Timestamp(*finer(a_unit, b_unit), zone)
        }
        (Date32 | Date64, Date32 | Date64) => Date64,
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => Timestamp(*unit, zone.clone()),
        (Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date64) => {
            Timestamp(*finer(unit, &TimeUnit::Millisecond), zone.clone())
        }
        (Time32(a) | Time64(a), Time32(b) | Time64(b)) => match finer(a, b) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(*unit),
            unit => Time64(*unit),
        },
        (Duration(a), Duration(b)) => Duration(*finer(a, b)),
        _ => return None,
    })
}

fn finer<'a>(a: &'a TimeUnit, b: &'a TimeUnit) -> &'a TimeUnit {
    // Units are declared from the coarsest to the finest.
    a.max(b)
}

fn texts(a: &DataType, b: &DataType) -> Option<DataType> {
    let is_bytes =
        |of: &DataType| matches!(of, Binary | LargeBinary | BinaryView) || matches!(of, FixedSizeBinary(_));
    let is_view = matches!(a, Utf8View | BinaryView) || matches!(b, Utf8View | BinaryView);
    let is_large = matches!(a, LargeUtf8 | LargeBinary) || matches!(b, LargeUtf8 | LargeBinary);
    match (a.is_string(), b.is_string()) {
        (true, true) if is_view => Some(Utf8View),
        // The only two that differ in another way.
        (true, true) => Some(LargeUtf8),
        (a_text, b_text) if (a_text || is_bytes(a)) && (b_text || is_bytes(b)) => Some(match () {
            () if is_view => BinaryView,
            () if is_large => LargeBinary,
            () => Binary,
        }),
        _ => None,
    }
}

fn nested(a: &DataType, b: &DataType) -> Option<DataType> {
    Some(match (a, b) {
        (Struct(a), Struct(b)) => Struct(promoted_children(a, b)?),
        (FixedSizeList(a, a_len), FixedSizeList(b, b_len)) if a_len == b_len => {
            FixedSizeList(Arc::new(promoted_field(a, b)?), *a_len)
        }
        (Map(a, a_sorted), Map(b, b_sorted)) => {
            let (Struct(a_entry), Struct(b_entry)) = (a.data_type(), b.data_type()) else { return None };
            let ([a_key, a_value], [b_key, b_value]) = (&a_entry[..], &b_entry[..]) else { return None };
            let entry = [promoted_field(a_key, b_key)?, promoted_field(a_value, b_value)?];
            let entry = Field::new(a.name(), Struct(entry.into_iter().collect()), false);
            Map(Arc::new(entry), *a_sorted && *b_sorted)
        }
        _ => {
            let item = Arc::new(promoted_field(item(a)?, item(b)?)?);
            if matches!(a, LargeList(_)) || matches!(b, LargeList(_)) { LargeList(item) } else { List(item) }
        }
    })
}

fn item(list: &DataType) -> Option<&FieldRef> {
    match list {
        List(item) | LargeList(item) | FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// Merges the children of both by name, those of `a` first. `None` if names are not unique.
fn promoted_children(a: &Fields, b: &Fields) -> Option<Fields> {
    if first_twice(a).is_some() || first_twice(b).is_some() {
        return None;
    }
    let optional = |field: &FieldRef| Some(field.as_ref().clone().with_nullable(true));
    let both = a.iter().map(|field| match b.find(field.name()) {
        Some((_, other)) => promoted_field(field, other),
        None => optional(field),
    });
    let only_b = b.iter().filter(|field| a.find(field.name()).is_none()).map(optional);
    both.chain(only_b).collect::<Option<Vec<Field>>>().map(Fields::from)
}

/// Returns the first name that two fields have.
pub(crate) fn first_twice(fields: &Fields) -> Option<&str> {
    let mut names = HashSet::with_capacity(fields.len());
    fields.iter().map(|field| field.name().as_str()).find(|name| !names.insert(*name))
}

/// Returns the type with all zoned times in UTC.
pub(crate) fn in_utc(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| field_in_utc(field);
    match data_type {
        Timestamp(unit, Some(_)) => Timestamp(*unit, Some(UTC.into())),
        Struct(fields) => Struct(fields.iter().map(field).collect()),
        List(item) => List(field(item)),
        LargeList(item) => LargeList(field(item)),
        FixedSizeList(item, length) => FixedSizeList(field(item), *length),
        Map(entry, sorted) => Map(field(entry), *sorted),
        Dictionary(keys, values) => Dictionary(keys.clone(), Box::new(in_utc(values))),
        other => other.clone(),
    }
}

/// Does the same for a field.
pub(crate) fn field_in_utc(field: &FieldRef) -> FieldRef {
    let data_type = in_utc(field.data_type());
    if &data_type == field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::Utf8;
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt32, UInt64};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    fn dictionary(keys: DataType, values: DataType) -> DataType {
        Dictionary(Box::new(keys), Box::new(values))
    }

    fn list(of: DataType) -> DataType {
        DataType::new_list(of, true)
    }

    fn structure(children: &[(&str, DataType, bool)]) -> DataType {
        let field = |(name, of, nullable): &(&str, DataType, bool)| Field::new(*name, of.clone(), *nullable);
        Struct(children.iter().map(field).collect())
    }

    #[test]
    fn types_are_promoted_whichever_comes_first() {
        for (a, b, both) in [
            (Int8, Int64, Int64),
            (UInt8, UInt32, UInt32),
            (Int8, UInt8, Int16),
            (Int32, UInt32, Int64),
            (UInt32, Int8, Int64),
            (Int8, UInt64, Decimal128(20, 0)),
            (Int8, Float32, Float32),
            (Int16, Float16, Float32),
            (Int32, Float32, Float64),
            (UInt64, Float32, Float64),
            (Float16, Float64, Float64),
            (Decimal128(5, 1), Float32, Float64),
            (Decimal128(5, 1), Decimal128(10, 4), Decimal128(10, 4)),
            (Decimal128(9, 0), Decimal128(10, 4), Decimal128(13, 4)),
            (Decimal128(38, 0), Decimal128(38, 10), Decimal256(48, 10)),
            (Decimal32(5, 1), Decimal64(12, 1), Decimal128(12, 1)),
            (Int32, Decimal128(5, 1), Decimal128(11, 1)),
            (UInt64, Decimal128(5, 1), Decimal128(21, 1)),
            (Timestamp(Millisecond, None), Timestamp(Microsecond, None), Timestamp(Microsecond, None)),
            (
                Timestamp(Nanosecond, None),
                Timestamp(Second, Some("UTC".into())),
                Timestamp(Nanosecond, Some("UTC".into())),
            ),
            (Date32, Timestamp(Second, None), Timestamp(Second, None)),
            (Date64, Timestamp(Second, None), Timestamp(Millisecond, None)),
            (Date32, Date64, Date64),
            (Time32(Second), Time32(Millisecond), Time32(Millisecond)),
            (Time32(Millisecond), Time64(Microsecond), Time64(Microsecond)),
            (Utf8, LargeUtf8, LargeUtf8),
            (Utf8View, LargeUtf8, Utf8View),
            (Utf8, Binary, Binary),
            (Utf8View, Binary, BinaryView),
            (FixedSizeBinary(2), FixedSizeBinary(3), Binary),
            (dictionary(Int32, Utf8), Utf8View, Utf8View),
            (dictionary(Int32, Utf8), dictionary(Int8, Utf8), Utf8),
            (dictionary(Int8, Int32), dictionary(Int8, Int64), dictionary(Int8, Int64)),
            (Null, Int32, Int32),
            (Null, list(Int32), list(Int32)),
            (list(Int32), list(Int64), list(Int64)),
            (
                list(Int32),
                LargeList(Arc::new(Field::new_list_field(Int64, true))),
                LargeList(Arc::new(Field::new_list_field(Int64, true))),
            ),
            (
                structure(&[("a", Int32, false), ("b", Utf8, false)]),
                structure(&[("b", Utf8, false), ("a", Int64, false)]),
                structure(&[("a", Int64, false), ("b", Utf8, false)]),
            ),
        ] {
            assert_eq!(promoted(&a, &b).as_ref(), Some(&both), "{a} and {b}");
            let other_way = promoted(&b, &a).unwrap_or_else(|| panic!("{b} and {a}"));
            if !matches!(both, Struct(_)) {
                assert_eq!(other_way, both, "{b} and {a}");
            }
        }
    }

    #[test]
    fn children_that_one_lacks_may_be_null() {
        let both = promoted(&structure(&[("a", Int32, false)]), &structure(&[("b", Utf8, false)]));
        assert_eq!(both, Some(structure(&[("a", Int32, true), ("b", Utf8, true)])));
    }

    #[test]
    fn other_types_are_not_promoted() {
        for (a, b) in [
            (Int32, Utf8),
            (DataType::Boolean, Int8),
            (Date32, Int32),
            (Date32, Time32(Second)),
            (Timestamp(Second, None), Time32(Second)),
            (Int32, list(Int32)),
            (list(Int32), structure(&[("a", Int32, true)])),
            (list(Int32), list(Utf8)),
            (Decimal256(76, 0), Decimal128(38, 38)),
            (structure(&[("a", Int32, true), ("a", Int32, true)]), structure(&[("a", Int64, true)])),
        ] {
            assert_eq!(promoted(&a, &b), None, "{a} and {b}");
            assert_eq!(promoted(&b, &a), None, "{b} and {a}");
        }
    }
}
