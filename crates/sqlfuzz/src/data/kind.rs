//! The types of columns in files, and their SQL types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use crate::dice::Dice;

/// A column's type in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Any type that Arrow has and Parquet can store.
    Arrow(DataType),
    /// A decimal of at most 18 digits, stored as bytes of fixed length instead of an integer.
    BytesDecimal(u8, i8),
    /// A timestamp in the deprecated form of 96 bits.
    Int96,
}

/// The class of a value, which decides its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Null,
    Bool,
    Int,
    Float,
    Decimal,
    Text,
    Binary,
    Date,
    Time,
    Timestamp,
    Interval,
    Duration,
    List,
    Struct,
    Map,
}

const UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
const ZONES: [&str; 4] = ["UTC", "+05:30", "America/New_York", "Europe/Berlin"];

impl Kind {
    /// Draws any kind, common ones more often.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(40) {
            0 => Kind::Int96,
            1 => {
                let precision = dice.between(1, 18) as u8;
                Kind::BytesDecimal(precision, dice.between(0, usize::from(precision)) as i8)
            }
            2..=32 => Kind::Arrow(flat(dice)),
            33..=35 => {
                const KEYS: [DataType; 4] =
                    [DataType::Int32, DataType::Int32, DataType::UInt16, DataType::Int64];
                const VALUES: [DataType; 6] = [
                    DataType::Utf8,
                    DataType::Utf8,
                    DataType::LargeUtf8,
                    DataType::Int64,
                    DataType::Binary,
                    DataType::Decimal128(9, 2),
                ];
                let (key, value) = (dice.pick(&KEYS).clone(), dice.pick(&VALUES).clone());
                Kind::Arrow(DataType::Dictionary(Box::new(key), Box::new(value)))
            }
            _ => Kind::Arrow(nested(dice)),
        }
    }

    /// Draws a type for a table's declaration.
    pub(crate) fn draw_declared(dice: &mut Dice) -> Self {
        loop {
            let kind = Kind::Arrow(flat(dice));
            if kind.declared_as().is_some() {
                return kind;
            }
        }
    }

    /// The type of the arrays that are written.
    pub(crate) fn arrow(&self) -> DataType {
        match self {
            Kind::Arrow(data_type) => data_type.clone(),
            Kind::BytesDecimal(precision, scale) => DataType::Decimal128(*precision, *scale),
            Kind::Int96 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }

    /// The type in a `CREATE EXTERNAL TABLE` that declares its columns, if SQL has one.
    pub(crate) fn declared_as(&self) -> Option<String> {
        Some(match self.arrow() {
            DataType::Boolean => "BOOLEAN".to_owned(),
            DataType::Int8 => "TINYINT".to_owned(),
            DataType::Int16 => "SMALLINT".to_owned(),
            DataType::Int32 => "INT".to_owned(),
            DataType::Int64 => "BIGINT".to_owned(),
            DataType::UInt8 => "TINYINT UNSIGNED".to_owned(),
            DataType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
            DataType::UInt32 => "INT UNSIGNED".to_owned(),
            DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
            DataType::Float32 => "REAL".to_owned(),
            DataType::Float64 => "DOUBLE".to_owned(),
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                format!("DECIMAL({precision}, {scale})")
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
            DataType::Binary => "BYTEA".to_owned(),
            DataType::Date32 => "DATE".to_owned(),
            DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP".to_owned(),
            _ => return None,
        })
    }

    /// Draws a type whose values all fit in this declared type, as an older file may have it.
    pub(crate) fn draw_narrower(&self, dice: &mut Dice) -> Self {
        let arrow = self.arrow();
        let choices: &[DataType] = match &arrow {
            DataType::Int64 => &[DataType::Int32, DataType::Int16, DataType::UInt32, DataType::Int8],
            DataType::Int32 => &[DataType::Int16, DataType::Int8, DataType::UInt8],
            DataType::Int16 => &[DataType::Int8],
            DataType::UInt64 => &[DataType::UInt32, DataType::UInt8],
            DataType::Float64 => &[DataType::Float32, DataType::Int32],
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                &[DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::Int32]
            }
            DataType::Timestamp(..) => &[DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Date32],
            DataType::Decimal128(precision, scale) if *precision > 4 && *scale < 4 => {
                return Kind::Arrow(DataType::Decimal128(precision - 3, *scale));
            }
            DataType::Decimal128(precision, scale) if *precision <= 18 => {
                return Kind::BytesDecimal(*precision, *scale);
            }
            _ => return self.clone(),
        };
        Kind::Arrow(dice.pick(choices).clone())
    }

    pub(crate) fn class(&self) -> Class {
        class(&self.arrow())
    }

    /// Returns whether rows can be sorted and grouped by it.
    pub(crate) fn sorts(&self) -> bool {
        !matches!(self.class(), Class::Map | Class::Interval)
    }
}

/// Returns the class of a type.
pub(crate) fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Null => Class::Null,
        DataType::Boolean => Class::Bool,
        t if t.is_integer() => Class::Int,
        t if t.is_floating() => Class::Float,
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Class::Decimal,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        DataType::Date32 | DataType::Date64 => Class::Date,
        DataType::Time32(_) | DataType::Time64(_) => Class::Time,
        DataType::Timestamp(..) => Class::Timestamp,
        DataType::Interval(_) => Class::Interval,
        DataType::Duration(_) => Class::Duration,
        DataType::Dictionary(_, value) => class(value),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Class::List,
        DataType::Struct(_) => Class::Struct,
        DataType::Map(..) => Class::Map,
        _ => Class::Binary,
    }
}

/// Draws a type that is not nested.
fn flat(dice: &mut Dice) -> DataType {
    match dice.below(48) {
        0..=1 => DataType::Boolean,
        2 => DataType::Int8,
        3 => DataType::Int16,
        4..=7 => DataType::Int32,
        8..=12 => DataType::Int64,
        13 => DataType::UInt8,
        14 => DataType::UInt16,
        15 => DataType::UInt32,
        16 => DataType::UInt64,
        17 => DataType::Float16,
        18 => DataType::Float32,
        19..=21 => DataType::Float64,
        22..=25 => {
            let precision = dice.between(1, 18) as u8;
            DataType::Decimal128(precision, dice.between(0, usize::from(precision.min(8))) as i8)
        }
        26 => match dice.below(4) {
            0 => DataType::Decimal32(dice.between(2, 9) as u8, 2),
            1 => DataType::Decimal64(dice.between(4, 18) as u8, 4),
            _ => DataType::Decimal128(dice.between(19, 38) as u8, dice.between(0, 12) as i8),
        },
        27 => {
            let precision = dice.between(1, 76) as u8;
            DataType::Decimal256(precision, dice.between(0, usize::from(precision.min(12))) as i8)
        }
        28..=31 => DataType::Utf8,
        32 => DataType::LargeUtf8,
        33 => DataType::Utf8View,
        34 => dice
            .pick(&[
                DataType::Binary,
                DataType::LargeBinary,
                DataType::BinaryView,
                DataType::FixedSizeBinary(3),
            ])
            .clone(),
        35..=36 => DataType::Date32,
        37 => DataType::Date64,
        38 => dice
            .pick(&[
                DataType::Time32(TimeUnit::Second),
                DataType::Time32(TimeUnit::Millisecond),
                DataType::Time64(TimeUnit::Microsecond),
                DataType::Time64(TimeUnit::Nanosecond),
            ])
            .clone(),
        39..=40 => DataType::Timestamp(*dice.pick(&UNITS), None),
        41 => DataType::Timestamp(*dice.pick(&UNITS), Some(Arc::from(*dice.pick(&ZONES)))),
        42 => dice
            .pick(&[
                DataType::Interval(IntervalUnit::YearMonth),
                DataType::Interval(IntervalUnit::DayTime),
                DataType::Duration(TimeUnit::Second),
                DataType::Duration(TimeUnit::Nanosecond),
            ])
            .clone(),
        _ => DataType::Null,
    }
}

fn nested(dice: &mut Dice) -> DataType {
    let mut part = || dice.pick(&[DataType::Int64, DataType::Utf8, DataType::Decimal128(7, 2)]).clone();
    let (first, second) = (part(), part());
    let inner = match dice.below(4) {
        0 => DataType::Struct(vec![Field::new("x", first.clone(), true)].into()),
        _ => first.clone(),
    };
    let item = Arc::new(Field::new_list_field(inner, true));
    let fields: Fields = vec![Field::new("x", first, true), Field::new("y", second, true)].into();
    match dice.below(6) {
        0..=1 => DataType::List(item),
        2 => DataType::LargeList(item),
        3 => DataType::FixedSizeList(item, 2),
        4 => DataType::Struct(fields),
        _ => {
            let entries: Fields =
                vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)]
                    .into();
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
        }
    }
}
