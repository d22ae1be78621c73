//! Quantities with a unit, in a readable form: "16MB", "200MB/s", "3s", "45 cycles/byte", "20%".
//!
//! Each is a separate type that is read from a string, so that a wrong unit is an error at its place in the
//! file. Decimal prefixes are powers of 1000, binary ones (KiB, MiB, GiB) of 1024.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use coscan_core::Span;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Text that is not a quantity of the kind wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

/// A quantity that is written as text.
trait Quantity: Sized {
    /// A description of the expected text, with an example.
    const WANTED: &'static str;

    /// Makes the quantity of a number and the unit behind it, without spaces around them.
    fn from_parts(number: f64, unit: &str) -> Option<Self>;

    /// Parses the text. Some quantities accept a number without a unit.
    fn parse(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.to_owned(), wanted: Self::WANTED };
        let trimmed = text.trim();
        let unit_at = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
        let (number, unit) = trimmed.split_at(unit_at.unwrap_or(trimmed.len()));
        let number: f64 = number.replace('_', "").parse().map_err(|_| error())?;
        Self::from_parts(number, unit.trim()).ok_or_else(error)
    }
}

/// Reads a quantity from a string, or from a bare number.
struct Reader<Q>(PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::WANTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Q, E> {
        Q::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Q, E> {
        Q::parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Q, E> {
        Q::parse(&number.to_string()).map_err(E::custom)
    }
}

macro_rules! quantity {
    ($name:ident, $wanted:literal, $from_parts:expr) => {
        impl Quantity for $name {
            const WANTED: &'static str = $wanted;

            fn from_parts(number: f64, unit: &str) -> Option<Self> {
                let from_parts: fn(f64, &str) -> Option<Self> = $from_parts;
                from_parts(number, unit)
            }
        }

        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                Quantity::parse(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Reader(PhantomData))
            }
        }
    };
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Span);

/// A share of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

/// Cycles per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency(pub f64);

/// A count of items, such as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

/// The processor time that a query spends on data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// For a full chunk; for a partial one in proportion to its rows.
    SecondsPerChunk(f64),
    /// For each byte of the chunk in the columns of the query.
    CyclesPerByte(f64),
    /// For each million rows.
    SecondsPerMillionRows(f64),
}

/// The size of the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BufferSize {
    /// This many bytes.
    Bytes(u64),
    /// This many times the largest chunk of the first table.
    Chunks(f64),
    /// This share of all tables, 0 to 1.
    Share(f64),
}

fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

fn time_scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

/// A span of `seconds` seconds, to the nearest nanosecond.
pub fn span(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9).round() as u64)
}

quantity!(Bytes, "a size such as \"16MB\" or \"64MiB\"", |number, unit| {
    Some(Bytes((number * scale(unit)?).round() as u64))
});
quantity!(Rate, "a bandwidth such as \"200MB/s\"", |number, unit| {
    Some(Rate(number * scale(unit.strip_suffix("/s")?)?))
});
quantity!(Time, "a time such as \"3s\", \"5ms\" or \"2min\"", |number, unit| {
    Some(Time(span(number * time_scale(unit)?)))
});
quantity!(Percent, "a percentage from 0% to 100% such as \"20%\"", |number, unit| {
    (unit == "%" && number <= 100.0).then_some(Percent(number / 100.0))
});
quantity!(Frequency, "a clock rate such as \"2GHz\"", |number, unit| {
    let scale = match unit {
        "Hz" => 1.0,
        "kHz" => 1e3,
        "MHz" => 1e6,
        "GHz" => 1e9,
        _ => return None,
    };
    (number > 0.0).then_some(Frequency(number * scale))
});
quantity!(Count, "a number such as 254 or \"60M\"", |number, unit| {
    let scale = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some(Count((number * scale).round() as u64))
});
quantity!(
    Cost,
    "a cost such as \"0.14 s/chunk\", \"20 ms/chunk\", \"45 cycles/byte\" or \"0.2 s/Mrow\"",
    |number, unit| {
        let (left, right) = unit.split_once('/')?;
        Some(match right.trim() {
            "chunk" => Cost::SecondsPerChunk(number * time_scale(left.trim())?),
            "Mrow" => Cost::SecondsPerMillionRows(number * time_scale(left.trim())?),
            "byte" if left.trim() == "cycles" => Cost::CyclesPerByte(number),
            _ => return None,
        })
    }
);
quantity!(BufferSize, "a buffer such as \"1GB\", \"64 chunks\" or \"12.5%\"", |number, unit| {
    match unit {
        "chunk" | "chunks" => Some(BufferSize::Chunks(number)),
        "%" => Some(BufferSize::Share(number / 100.0)),
        _ => Some(BufferSize::Bytes((number * scale(unit)?).round() as u64)),
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!("64MiB".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("1.5 GB".parse(), Ok(Bytes(1_500_000_000)));
        assert_eq!("200MB/s".parse(), Ok(Rate(200e6)));
        assert_eq!("2.5 ms".parse(), Ok(Time(Span::from_nanos(2_500_000))));
        assert_eq!("2min".parse(), Ok(Time(Span::from_nanos(120_000_000_000))));
        assert_eq!("12.5%".parse(), Ok(Percent(0.125)));
        assert_eq!("2GHz".parse(), Ok(Frequency(2e9)));
        assert_eq!("240M".parse(), Ok(Count(240_000_000)));
        assert_eq!("1_000".parse(), Ok(Count(1000)));
        assert_eq!("45 cycles/byte".parse(), Ok(Cost::CyclesPerByte(45.0)));
        assert_eq!("20 ms / chunk".parse(), Ok(Cost::SecondsPerChunk(0.02)));
        assert_eq!("0.2 s/Mrow".parse(), Ok(Cost::SecondsPerMillionRows(0.2)));
        assert_eq!("64 chunks".parse(), Ok(BufferSize::Chunks(64.0)));
        assert_eq!("12.5%".parse(), Ok(BufferSize::Share(0.125)));
    }

    #[test]
    fn wrong_units_are_refused_with_an_example() {
        let error = "16 parsecs".parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(error, "'16 parsecs' is not a size such as \"16MB\" or \"64MiB\"");
        assert!("".parse::<Bytes>().is_err());
        assert!("-3s".parse::<Time>().is_err());
        assert!("101%".parse::<Percent>().is_err());
        assert!("0Hz".parse::<Frequency>().is_err());
        assert!("3 cycles/chunk".parse::<Cost>().is_err());
    }
}
