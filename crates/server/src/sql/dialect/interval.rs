//! Intervals in PostgreSQL's input forms: with a clock (`1 day 02:30:00`), backwards (`1 day ago`), in ISO 8601
//! (`P1DT2H`).

use datafusion::sql::sqlparser::ast::{DateTimeField, Expr, Interval};

use crate::sql::ast::literal;

/// An interval from its text.
pub(super) fn interval(given: &str) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(literal(in_words(given).unwrap_or_else(|| given.to_owned()))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

/// The same interval in words that the query engine reads. `None` if the engine reads the text itself, or if the
/// text is invalid.
pub(crate) fn in_words(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('P') {
        return iso(rest);
    }
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let backwards = words.last().is_some_and(|last| last.eq_ignore_ascii_case("ago"));
    if backwards {
        words.pop();
    }
    let mut changed = backwards;
    if words.first().is_some_and(|first| first == "@") {
        words.remove(0);
        changed = true;
    }
    for word in &mut words {
        if let Some(number) = word.strip_prefix('+')
            && number.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        {
            *word = number.to_owned();
            changed = true;
        }
        if let Some(clock) = clock(word) {
            *word = clock;
            changed = true;
        }
    }
    // A fraction of a week is one of seven days.
    let has_days =
        words.iter().any(|word| matches!(word.to_ascii_lowercase().as_str(), "d" | "day" | "days"));
    for at in 1..words.len() {
        if !has_days
            && matches!(words[at].to_ascii_lowercase().as_str(), "w" | "week" | "weeks")
            && words[at - 1].contains('.')
            && let Ok(weeks) = words[at - 1].parse::<f64>()
        {
            (words[at - 1], words[at]) = ((weeks * 7.0).to_string(), "days".to_owned());
            changed = true;
        }
    }
    if !changed {
        return None;
    }
    let text = words.join(" ");
    Some(if backwards { turned(&text) } else { text })
}

/// An interval of the fields from a first one to a last one (`'1 02:30' DAY TO MINUTE`), with words or a clock. `None` for texts
/// with other fields.
pub(super) fn in_fields(text: &str, first: &DateTimeField, last: &DateTimeField) -> Option<String> {
    use DateTimeField::{Day, Hour, Minute, Second};
    let (day, rest) = match text.trim().split_once(' ') {
        Some((day, rest)) => (Some(day), rest.trim()),
        None => (None, text.trim()),
    };
    let is_number = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_digit()) && part.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let parts: Vec<&str> = rest.split(':').collect();
    if !day.into_iter().chain(parts.iter().copied()).all(is_number) {
        return None;
    }
    let clock = match (first, last, &parts[..]) {
        (Day, Hour, [hours]) => format!("{hours} hours"),
        (Minute, Second, [minutes, seconds])
            if day.is_none() && minutes.parse::<u8>().is_ok_and(|minutes| minutes < 60) =>
        {
            format!("{minutes} minutes {seconds} seconds")
        }
        (Day | Hour, Minute, [_, _]) | (Day | Hour, Second, [_, _] | [_, _, _]) => rest.to_owned(),
        _ => return None,
    };
    Some(day.map_or_else(|| clock.clone(), |day| format!("{day} days {clock}")))
}

/// Hours, minutes and seconds of `-02:30:00.5`.
fn clock(word: &str) -> Option<String> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (last, first) = parts.split_last()?;
    let seconds = last.split_once('.').map_or(whole(last), |(one, two)| whole(one) && whole(two));
    if !(2..=3).contains(&parts.len()) || !first.iter().all(|part| whole(part)) || !seconds {
        return None;
    }
    let units = ["hours", "minutes", "seconds"];
    let named = parts.iter().zip(units).map(|(part, unit)| format!("{sign}{part} {unit}"));
    Some(named.collect::<Vec<_>>().join(" "))
}

/// The text with the opposite sign of every number.
fn turned(text: &str) -> String {
    let turn = |word: &str| match word.strip_prefix('-') {
        Some(rest) => rest.to_owned(),
        None if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => format!("-{word}"),
        None => word.to_owned(),
    };
    text.split_whitespace().map(turn).collect::<Vec<_>>().join(" ")
}

/// The rest after the P of ISO 8601, with units in words.
fn iso(rest: &str) -> Option<String> {
    let (dates, times) = rest.split_once('T').unwrap_or((rest, ""));
    let mut words = Vec::new();
    for (part, units) in [
        (dates, &[('Y', "years"), ('M', "months"), ('W', "weeks"), ('D', "days")][..]),
        (times, &[('H', "hours"), ('M', "minutes"), ('S', "seconds")][..]),
    ] {
        let mut number = String::new();
        for c in part.chars() {
            match units.iter().find(|(letter, _)| *letter == c) {
                Some((_, unit)) if !number.is_empty() => {
                    words.push(format!("{} {unit}", std::mem::take(&mut number)));
                }
                None if c.is_ascii_digit() || matches!(c, '.' | '-') => number.push(c),
                _ => return None,
            }
        }
        if !number.is_empty() {
            return None;
        }
    }
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{DateTimeField, in_fields, in_words};

    #[test]
    fn fields_become_words() {
        use DateTimeField::{Day, Hour, Minute, Second};
        for (text, first, last, words) in [
            ("1:02:03", Hour, Second, Some("1:02:03")),
            ("1 2:03", Day, Minute, Some("1 days 2:03")),
            ("1 2", Day, Hour, Some("1 days 2 hours")),
            ("2:03", Minute, Second, Some("2 minutes 03 seconds")),
            ("100:00", Minute, Second, None),
            ("1:02:03", Hour, Minute, None),
            ("1 day", Day, Hour, None),
        ] {
            assert_eq!(in_fields(text, &first, &last).as_deref(), words, "{text}");
        }
    }

    #[test]
    fn intervals_become_words() {
        for (text, words) in [
            ("1 year 2 months 3 days 04:05:06", "1 year 2 months 3 days 04 hours 05 minutes 06 seconds"),
            ("01:30", "01 hours 30 minutes"),
            ("-00:00:01.5", "-00 hours -00 minutes -01.5 seconds"),
            ("1 day 2 hours ago", "-1 day -2 hours"),
            ("@ 1 minute", "1 minute"),
            ("-1 month +3 days +02:00", "-1 month 3 days 02 hours 00 minutes"),
            ("P1Y2M3DT4H5M6.5S", "1 years 2 months 3 days 4 hours 5 minutes 6.5 seconds"),
            ("PT1H", "1 hours"),
        ] {
            assert_eq!(in_words(text).as_deref(), Some(words), "{text}");
        }
        for own in ["1 day", "1.5 hours", "", "P", "P1", "PX", "1:x", "a:b:c:d"] {
            assert_eq!(in_words(own), None, "{own}");
        }
    }
}
