//! SET and SHOW of PostgreSQL's own variables.
//!
//! The variables for the format of values and the statement timeout have an effect. All others are only stored and
//! shown, because many drivers set them. Variables with a dot belong to the query engine and are passed to it.

use std::collections::HashMap;
use std::time::Duration;

use crate::sql::{POSTGRES_VERSION, QueryError, time_zone};

/// Default values of variables.
const DEFAULTS: [(&str, &str); 24] = [
    ("server_version", POSTGRES_VERSION),
    ("server_version_num", "160006"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("search_path", "\"$user\", public"),
    ("standard_conforming_strings", "on"),
    ("integer_datetimes", "on"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("application_name", ""),
    ("max_identifier_length", "63"),
    ("max_connections", "2000"),
    ("is_superuser", "off"),
    ("in_hot_standby", "off"),
];

/// Variables whose changes are reported to the client, with the reported names.
const TOLD: [(&str, &str); 6] = [
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("timezone", "TimeZone"),
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("standard_conforming_strings", "standard_conforming_strings"),
];

/// Maximum bytes of all variables of a session: their names and values.
const VARIABLES_BYTES_MAX: usize = 64 << 10;

/// Sets a variable. Returns its reported name, if its changes are reported.
pub(crate) fn set(
    variables: &mut HashMap<String, String>,
    variable: &str,
    value: &str,
) -> Result<Option<&'static str>, QueryError> {
    let wrong = |wanted: &str| {
        Err(QueryError::other(
            "22023",
            format!("invalid value for parameter \"{variable}\": '{value}' is not {wanted}"),
        ))
    };
    let default = value.eq_ignore_ascii_case("default");
    let others = variables.iter().filter(|(name, _)| *name != variable);
    let bytes =
        others.map(|(name, value)| name.len() + value.len()).sum::<usize>() + variable.len() + value.len();
    if !default && bytes > VARIABLES_BYTES_MAX {
        let text = format!(
            "the variables of the session would have {bytes} bytes; {VARIABLES_BYTES_MAX} are allowed, which is fixed: RESET some"
        );
        return Err(QueryError::other("53400", text));
    }
    match variable {
        _ if default => {
            variables.remove(variable);
        }
        "client_encoding" => {
            let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            if !matches!(plain.to_ascii_lowercase().as_str(), "utf8" | "unicode") {
                return wrong("UTF8, which is what is spoken here");
            }
        }
        "timezone" => {
            let zone = time_zone(value)?;
            variables.insert(variable.to_owned(), zone);
        }
        "standard_conforming_strings" if value != "on" && value != "true" => return wrong("on"),
        "statement_timeout" if milliseconds(value).is_none() => {
            return wrong("a time such as 5000, 5s or 1min");
        }
        _ => {
            variables.insert(variable.to_owned(), value.to_owned());
        }
    }
    Ok(TOLD.iter().find(|(name, _)| *name == variable).map(|(_, told)| *told))
}

/// Sets one variable or all to the values at the beginning of the connection. Returns the names and values to report
/// to the client.
pub(crate) fn reset(
    variables: &mut HashMap<String, String>,
    begun_with: &HashMap<String, String>,
    variable: Option<&str>,
) -> Vec<(&'static str, String)> {
    match variable {
        None => variables.clone_from(begun_with),
        Some(variable) => match begun_with.get(variable) {
            Some(value) => drop(variables.insert(variable.to_owned(), value.clone())),
            None => drop(variables.remove(variable)),
        },
    }
    let concerned = TOLD.iter().filter(|(name, _)| variable.is_none_or(|variable| variable == *name));
    concerned.filter_map(|(name, told)| Some((*told, show(variables, name).ok()?))).collect()
}

/// Replaces all variables. Returns the names and values to report to the client.
pub(crate) fn replace(
    variables: &mut HashMap<String, String>,
    with: &HashMap<String, String>,
) -> Vec<(&'static str, String)> {
    let changed = TOLD.iter().filter(|(name, _)| show(variables, name).ok() != show(with, name).ok());
    let changed = changed.filter_map(|(name, told)| Some((*told, show(with, name).ok()?))).collect();
    variables.clone_from(with);
    changed
}

/// The variables that a startup message sets: parameters other than those of the connection itself, and `-c
/// name=value` or `--name=value` in `options`. In `options`, a backslash escapes the next character.
pub(crate) fn of_startup<'a>(
    parameters: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<Vec<(String, String)>, QueryError> {
    let (mut set, mut options) = (Vec::new(), None);
    for (name, value) in parameters {
        match name.to_ascii_lowercase().as_str() {
            "user" | "database" | "replication" => {}
            "options" => options = Some(value),
            name if name.starts_with("_pq_.") => {}
            name => set.push((name.to_owned(), value.clone())),
        }
    }
    // A variable may be in `options` and be a parameter, too. The parameter takes precedence.
    let mut words = options.map(|text| words(text)).unwrap_or_default().into_iter();
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => None,
        };
        let assignment = assignment.as_deref().and_then(|assignment| assignment.split_once('='));
        let (name, value) = assignment.ok_or_else(|| {
            QueryError::other("42601", format!("options: '{word}' is not -c name=value or --name=value"))
        })?;
        given.push((name.trim().to_ascii_lowercase().replace('-', "_"), value.to_owned()));
    }
    given.extend(set);
    Ok(given)
}

/// The words of `options`.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut chars) = (Vec::new(), None::<String>, text.chars());
    while let Some(c) = chars.next() {
        match c {
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The value of a variable.
pub(crate) fn show(variables: &HashMap<String, String>, variable: &str) -> Result<String, QueryError> {
    let default =
        || DEFAULTS.iter().find(|(name, _)| *name == variable).map(|(_, value)| (*value).to_owned());
    let value = variables.get(variable).cloned().or_else(default);
    value.ok_or_else(|| {
        QueryError::other("42704", format!("unrecognized configuration parameter \"{variable}\""))
    })
}

/// The statement timeout that the client has set. `None`: no limit.
pub(crate) fn statement_timeout(variables: &HashMap<String, String>) -> Option<Duration> {
    let set = variables.get("statement_timeout")?;
    milliseconds(set).filter(|&ms| ms > 0).map(Duration::from_millis)
}

fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let unit = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    value[..digits].parse::<u64>().ok()?.checked_mul(unit).filter(|&ms| ms <= i32::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_shown_and_what_matters_is_checked() {
        let mut variables = HashMap::new();
        let mut put = |variable: &str, value: &str| set(&mut variables, variable, value);
        assert_eq!(put("datestyle", "ISO").unwrap(), Some("DateStyle"));
        assert_eq!(put("some_driver_thing", "7").unwrap(), None);
        assert!(put("client_encoding", "utf-8").is_ok() && put("client_encoding", "LATIN1").is_err());
        assert_eq!(put("long", &"x".repeat(VARIABLES_BYTES_MAX)).unwrap_err().sqlstate(), "53400");
        assert!(put("statement_timeout", "soon").is_err() && put("statement_timeout", "2min").is_ok());
        assert_eq!(statement_timeout(&variables), Some(Duration::from_secs(120)));
        assert_eq!(show(&variables, "datestyle").unwrap(), "ISO");
        assert_eq!(show(&variables, "server_version").unwrap(), POSTGRES_VERSION);
        assert_eq!(show(&variables, "nonsense").unwrap_err().sqlstate(), "42704");
        set(&mut variables, "statement_timeout", "default").unwrap();
        assert_eq!(statement_timeout(&variables), None);
    }

    #[test]
    fn a_startup_message_sets_what_its_options_say() {
        let of = |options: &str| {
            let parameters = [("user", "ann"), ("TimeZone", "UTC"), ("options", options)];
            of_startup(
                parameters
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .iter()
                    .map(|(n, v)| (n, v)),
            )
        };
        let said = of(r"-c statement_timeout=5s  --application-name=a\ b -csearch_path=x").unwrap();
        let said: Vec<(&str, &str)> =
            said.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let wanted = [
            ("statement_timeout", "5s"),
            ("application_name", "a b"),
            ("search_path", "x"),
            ("timezone", "UTC"),
        ];
        assert_eq!(said, wanted);
        for wrong in ["-c", "-c x", "--x", "x=1", "-B 7"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(of("").unwrap().len(), 1);
    }

    #[test]
    fn what_is_reset_is_as_at_the_beginning() {
        let begun_with = HashMap::from([("timezone".to_owned(), "Asia/Tokyo".to_owned())]);
        let mut variables = begun_with.clone();
        for (variable, value) in [("timezone", "UTC"), ("statement_timeout", "7")] {
            set(&mut variables, variable, value).unwrap();
        }
        let told = reset(&mut variables, &begun_with, Some("timezone"));
        assert_eq!(told, [("TimeZone", "Asia/Tokyo".to_owned())]);
        assert!(statement_timeout(&variables).is_some());
        assert!(reset(&mut variables, &begun_with, None).len() > 3);
        assert_eq!(variables, begun_with);
    }
}
