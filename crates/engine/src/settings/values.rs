//! Values of settings as users write them: sizes, numbers, times, yes or no. This module names no setting.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The maximum number of bytes. Sums of a few of them do not overflow.
pub(super) const BYTES_MAX: u64 = 1 << 50;
/// A day.
const MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Reads `512MB`, `1.5 GiB` or a plain number of bytes.
///
/// # Errors
/// The possible values.
pub fn bytes(value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let wanted = || {
        format!(
            "a number of bytes such as 512MB, 2GiB or 1048576, from {} to {}",
            range.start(),
            bytesize::ByteSize(*range.end())
        )
    };
    let size: bytesize::ByteSize = value.parse().map_err(|_| wanted())?;
    if range.contains(&size.as_u64()) { Ok(size.as_u64()) } else { Err(wanted()) }
}

/// Reads a whole number in a range.
///
/// # Errors
/// The possible values.
pub fn number<T>(value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
}

/// Reads `true` or `false`.
///
/// # Errors
/// The possible values.
pub fn truth(value: &str) -> Result<bool, String> {
    value.to_lowercase().parse().map_err(|_| "true or false".to_owned())
}

pub(super) fn milliseconds(value: &str) -> Result<Duration, String> {
    number(value, 0..=MS_MAX).map(Duration::from_millis).map_err(|wanted| format!("{wanted} (milliseconds)"))
}
