//! Time zones as clients write them.

use std::str::FromStr;

use datafusion::arrow::array::timezone::Tz;

use super::QueryError;

/// PostgreSQL's abbreviations of zones whose offset never changed, by the minutes to the east.
const ABBREVIATIONS: [(i32, &str); 36] = [
    (-600, "HST TAHT"),
    (-570, "MART"),
    (-540, "AKST GAMT"),
    (-480, "AKDT PST"),
    (-420, "MST PDT"),
    (-360, "CST GALT MDT"),
    (-300, "ACT CDT COT EST PET"),
    (-240, "AMT AST BOT EDT"),
    (-210, "NFT NST"),
    (-180, "ADT BRA BRT CLST GFT PMST PYST UYT WGT"),
    (-150, "NDT"),
    (-120, "BRST FNT PMDT UYST WGST"),
    (-60, "AZOT EGT FNST"),
    (0, "AZOST EGST GMT UCT UT UTC WET Z ZULU"),
    (60, "BST CET MET MEZ WAT WETDST"),
    (120, "BDST CEST CETDST EET IST MEST MESZ METDST SAST"),
    (180, "EAT EEST EETDST FET IDT"),
    (210, "IRT"),
    (240, "MSD MUT RET SCT"),
    (270, "AFT"),
    (300, "MUST MVT PKT TFT TJT UZT"),
    (345, "NPT"),
    (360, "ALMT BDT BTT KGST PKST UZST XJT YEKST"),
    (390, "MMT"),
    (420, "ALMST CXT ICT WAST"),
    (480, "AWST BNT BORT CCT HKT MYT PHT WADT"),
    (525, "ACWST"),
    (540, "AWSST JAYT JST KST PWT ULAST WDT"),
    (570, "ACST CAST"),
    (600, "AEST CHUT DDUT KDT LIGT MPT PGT TRUT YAPT"),
    (630, "ACDT ACSST CADT LHST SADT"),
    (660, "AEDT AESST PONT VUT"),
    (720, "FJT GILT MHT NZST NZT TVT WAKT WFT"),
    (765, "CHAST"),
    (780, "FJST NZDT TOT"),
    (825, "CHADT"),
];

/// Parses a time zone. It is a name of the tz database in any case, an offset in hours (`-7`, `5.5`), an offset as a
/// clock (`+05:30`), or `UTC+2` as in POSIX. Offsets are positive to the east, and those of POSIX to the west.
/// Returns the name, or the offset as a clock.
pub(crate) fn time_zone(value: &str) -> Result<String, QueryError> {
    let value = value.trim();
    let posix =
        || ["UTC", "GMT"].iter().find_map(|name| value.strip_prefix(name)).and_then(west).map(zone_clock);
    let number = value.parse::<f64>().ok().filter(|hours| hours.is_finite());
    let zone = match number {
        Some(hours) => (hours.abs() < 24.0).then(|| zone_clock((hours * 60.0).round() as i32)),
        None => known(value).or_else(posix),
    };
    zone.ok_or_else(|| {
        QueryError::other("22023", format!("invalid value for parameter \"TimeZone\": \"{value}\""))
    })
}

/// Parses the zone of `AT TIME ZONE`: an abbreviation or a name of the tz database in any case, or an offset as in
/// POSIX, which is positive to the west and may have a name before it (`+02:00`, `UTC+2`, `<+03>-3`). Returns the
/// name, or the offset as a clock, positive to the east. `None` if there is no such zone.
pub(crate) fn zone_at(value: &str) -> Option<String> {
    let named = || known(value).filter(|zone| zone.starts_with(|c: char| c.is_ascii_alphabetic()));
    abbreviated(value).or_else(|| posix(value)).map(zone_clock).or_else(named)
}

/// The minutes to the east of an abbreviation in any case.
pub(crate) fn abbreviated(value: &str) -> Option<i32> {
    let is_it = |names: &str| names.split(' ').any(|name| name.eq_ignore_ascii_case(value));
    ABBREVIATIONS.iter().find(|(_, names)| is_it(names)).map(|(minutes, _)| *minutes)
}

/// The name of a zone in the tz database, or an offset as a clock.
fn known(value: &str) -> Option<String> {
    let in_capitals = || {
        let mut begins = true;
        let letter = |c: char| {
            let letter = if begins { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            begins = !c.is_ascii_alphabetic();
            letter
        };
        value.chars().map(letter).collect::<String>()
    };
    [value.to_owned(), value.to_ascii_uppercase(), in_capitals()]
        .into_iter()
        .find(|zone| Tz::from_str(zone).is_ok())
}

/// The minutes to the east of a zone of POSIX without summer time.
fn posix(value: &str) -> Option<i32> {
    let quoted = value.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let (name, offset) = match quoted {
        Some(parts) => parts,
        None => value.split_at(value.find(|c: char| !c.is_ascii_alphabetic())?),
    };
    (quoted.is_some() || name.is_empty() || name.len() >= 3).then(|| west(offset))?
}

/// The minutes to the east of an offset in hours, which is positive to the west.
fn west(offset: &str) -> Option<i32> {
    let (sign, clock) = match offset.strip_prefix('-') {
        Some(clock) => (1, clock),
        None => (-1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let number = |digits: &str, most: i32| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i32>().ok().filter(|of| is_number && *of <= most)
    };
    let (hours, minutes) = clock.split_once(':').unwrap_or((clock, "0"));
    Some(sign * (number(hours, 23)? * 60 + number(minutes, 59)?))
}

/// An offset as a clock.
pub(crate) fn zone_clock(minutes: i32) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
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

    #[test]
    fn zones_of_times_are_those_of_postgres() {
        for (value, zone) in [
            ("europe/berlin", Some("Europe/Berlin")),
            ("est", Some("-05:00")),
            ("CET", Some("+01:00")),
            ("EST5EDT", Some("EST5EDT")),
            ("+02:00", Some("-02:00")),
            ("-05", Some("+05:00")),
            ("2", Some("-02:00")),
            ("UTC+2", Some("-02:00")),
            ("FOO8", Some("-08:00")),
            ("<+03>-3", Some("+03:00")),
            ("Etc/GMT+5", Some("Etc/GMT+5")),
            ("+0530", None),
            ("5.5", None),
            ("FOO8BAR", None),
            ("", None),
        ] {
            assert_eq!(zone_at(value).as_deref(), zone, "{value}");
        }
    }
}
