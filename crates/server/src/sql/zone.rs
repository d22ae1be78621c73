//! Time zones as clients write them.

use std::str::FromStr;

use datafusion::arrow::array::timezone::Tz;

use super::QueryError;

/// Parses a time zone. It is a name of the tz database in any case, an offset in hours (`-7`, `5.5`), an offset as a
/// clock (`+05:30`), or `UTC+2` as in POSIX. Offsets are positive to the east, and those of POSIX to the west.
/// Returns the name, or the offset as a clock.
pub(crate) fn time_zone(value: &str) -> Result<String, QueryError> {
    let value = value.trim();
    let clock = |hours: f64| {
        let minutes = (hours * 60.0).round() as i32;
        let sign = if minutes < 0 { '-' } else { '+' };
        (hours.abs() < 24.0).then(|| format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60))
    };
    let posix = || {
        let offset = ["UTC", "GMT"].iter().find_map(|name| value.strip_prefix(name))?;
        let (west, offset) = match offset.split_at_checked(1)? {
            ("+", offset) => (-1.0, offset),
            ("-", offset) => (1.0, offset),
            _ => return None,
        };
        let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "0"));
        let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok().filter(|of| *of < 60)?);
        clock(west * (f64::from(hours) + f64::from(minutes) / 60.0))
    };
    let in_capitals = || {
        let mut begins = true;
        let letter = |c: char| {
            let letter = if begins { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            begins = !c.is_ascii_alphabetic();
            letter
        };
        value.chars().map(letter).collect::<String>()
    };
    let is_known = |zone: &String| Tz::from_str(zone).is_ok();
    let number = value.parse::<f64>().ok().filter(|hours| hours.is_finite());
    let zone = match number {
        Some(hours) => clock(hours),
        None => [value.to_owned(), value.to_ascii_uppercase(), in_capitals()]
            .into_iter()
            .find(is_known)
            .or_else(posix)
            .filter(is_known),
    };
    zone.ok_or_else(|| {
        QueryError::other("22023", format!("invalid value for parameter \"TimeZone\": \"{value}\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones_are_names_and_offsets() {
        for (value, zone) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("america/new_york", "America/New_York"),
            ("utc", "UTC"),
            ("-7", "-07:00"),
            ("5.5", "+05:30"),
            ("+02:00", "+02:00"),
            ("UTC+2", "-02:00"),
            ("GMT-05:30", "+05:30"),
            ("Etc/UTC", "Etc/UTC"),
        ] {
            assert_eq!(time_zone(value).unwrap(), zone, "{value}");
        }
        for wrong in ["nonsense", "", "25", "UTC+99", "Europe/Nowhere", "inf", "UTC+1:70"] {
            assert_eq!(time_zone(wrong).unwrap_err().sqlstate(), "22023", "{wrong}");
        }
    }
}
