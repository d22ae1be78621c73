//! SET and SHOW of PostgreSQL's own variables, and of variables with a dot, which clients make.
//!
//! The variables for the format of values and the statement timeout have an effect. All others are only checked, stored
//! and shown, because many drivers set them. `known` has their names. The variables of the query engine are passed to it.

pub(crate) mod known;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use known::{KNOWN, Kind, Unit, WITHOUT_EFFECT};

use crate::sql::{QueryError, time_zone};

/// Variables whose changes are reported to the client, with the reported names.
const TOLD: [(&str, &str); 7] = [
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("timezone", "TimeZone"),
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("default_transaction_read_only", "default_transaction_read_only"),
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
    check_name(variable)?;
    if default {
        forget(variables, variable);
    } else {
        let value = canonical(variables, variable, value)?;
        variables.insert(variable.to_owned(), value);
    }
    Ok(TOLD.iter().find(|(name, _)| *name == variable).map(|(_, told)| *told))
}

/// Returns whether a variable belongs to the query engine.
pub(crate) fn is_of_engine(variable: &str) -> bool {
    variable.starts_with("coscan.") || variable.starts_with("datafusion.")
}

/// The name of a variable as PostgreSQL shows it.
pub(crate) fn shown_name(variable: &str) -> &str {
    TOLD.iter().find(|(name, _)| *name == variable).map_or(variable, |(_, told)| *told)
}

fn known(variable: &str) -> Option<&'static (&'static str, &'static str, Kind)> {
    KNOWN.iter().find(|(name, _, _)| *name == variable)
}

fn unrecognized(variable: &str) -> QueryError {
    QueryError::other("42704", format!("unrecognized configuration parameter \"{variable}\""))
}

/// Checks that there is a variable of this name that may be reset.
///
/// # Errors
///
/// If there is none.
pub(crate) fn check(variables: &HashMap<String, String>, variable: &str) -> Result<(), QueryError> {
    check_name(variable)?;
    let is_made = !variable.contains('.') || variables.contains_key(variable);
    if is_made { Ok(()) } else { Err(unrecognized(variable)) }
}

/// Checks that there may be a variable of this name.
fn check_name(variable: &str) -> Result<(), QueryError> {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    if variable.contains('.') {
        return match variable.split('.').all(is_part) {
            true => Ok(()),
            false => {
                let text = format!("invalid configuration parameter name \"{variable}\"");
                Err(QueryError::other("42602", text))
            }
        };
    }
    match known(variable) {
        Some((.., Kind::Fixed)) => {
            Err(QueryError::other("55P02", format!("parameter \"{variable}\" cannot be changed")))
        }
        Some(_) => Ok(()),
        None if WITHOUT_EFFECT.iter().any(|family| variable.starts_with(family)) => Ok(()),
        None => Err(unrecognized(variable)),
    }
}

/// The value in the form in which SHOW displays it.
fn canonical(variables: &HashMap<String, String>, variable: &str, value: &str) -> Result<String, QueryError> {
    let name = shown_name(variable);
    let wrong = || QueryError::other("22023", format!("invalid value for parameter \"{name}\": \"{value}\""));
    let kind = known(variable).map_or(Kind::Text, |(.., kind)| *kind);
    Ok(match (variable, kind) {
        ("timezone", _) => time_zone(value)?,
        ("datestyle", _) => date_style(&show(variables, variable)?, value).ok_or_else(wrong)?,
        ("client_encoding", _) => {
            let only = "the only encoding is UTF8";
            let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            match plain.to_ascii_lowercase().as_str() {
                "utf8" | "unicode" => "UTF8".to_owned(),
                _ => return Err(QueryError::other("22023", format!("{}: {only}", wrong()))),
            }
        }
        ("standard_conforming_strings", _) => match truth(value) {
            Some(true) => "on".to_owned(),
            _ => {
                let text = format!("{}: texts are always read as the standard says", wrong());
                return Err(QueryError::other("22023", text));
            }
        },
        (_, Kind::Truth) => on_or_off(truth(value).ok_or_else(wrong)?),
        (_, Kind::Word(words)) => match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
            Some(word) => (*word).to_owned(),
            None => {
                let other = truth(value).map(on_or_off).ok_or_else(wrong)?;
                words.contains(&other.as_str()).then_some(other).ok_or_else(wrong)?
            }
        },
        (_, Kind::Number) => {
            let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(wrong)?.to_string()
        }
        (_, Kind::Whole(least, most, units)) => {
            let number = whole(value, units).ok_or_else(wrong)?;
            if !(least..=most).contains(&number) {
                let text = format!(
                    "{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})"
                );
                return Err(QueryError::other("22023", text));
            }
            with_unit(number, units)
        }
        (_, Kind::Text | Kind::Fixed) => value.to_owned(),
    })
}

fn on_or_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

/// A truth value. Words may be shortened.
fn truth(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        return Some(true);
    }
    (value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)).then_some(false)
}

/// A number with a unit, in the setting's own unit.
fn whole(value: &str, units: &[Unit]) -> Option<i64> {
    let value = value.trim();
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = value.find(|c: char| !is_digit(c)).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let number = number.parse::<f64>().ok()?;
    let (times, parts) = match unit.trim() {
        "" => (1, 1),
        unit => units.iter().find(|(name, ..)| *name == unit).map(|(_, times, parts)| (*times, *parts))?,
    };
    let number = (number * times as f64 / parts as f64).round_ties_even();
    (number.abs() < 9e15).then_some(number as i64)
}

/// A number with the largest unit in which it is whole.
fn with_unit(number: i64, units: &[Unit]) -> String {
    let fits = |(_, times, parts): &&Unit| number > 0 && (number * parts) % times == 0;
    match units.iter().find(fits) {
        Some((unit, times, parts)) => format!("{}{unit}", number * parts / times),
        None => number.to_string(),
    }
}

/// A style of dates and the order of their parts. What a value leaves open stays as before.
fn date_style(before: &str, value: &str) -> Option<String> {
    let (style, order) = before.split_once(", ")?;
    let (mut style, mut order) = (style.to_owned(), order.to_owned());
    for word in value.split(',') {
        let word = word.trim().to_ascii_lowercase();
        match word.as_str() {
            "iso" => "ISO".clone_into(&mut style),
            "sql" => "SQL".clone_into(&mut style),
            word if word.starts_with("postgres") => "Postgres".clone_into(&mut style),
            "german" => {
                "German".clone_into(&mut style);
                if !value.contains(',') {
                    "DMY".clone_into(&mut order);
                }
            }
            "ymd" => "YMD".clone_into(&mut order),
            "dmy" => "DMY".clone_into(&mut order),
            word if word.starts_with("euro") => "DMY".clone_into(&mut order),
            "mdy" | "us" => "MDY".clone_into(&mut order),
            word if word.starts_with("noneuro") => "MDY".clone_into(&mut order),
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}

/// Sets a variable to its default. Variables that clients make stay, as empty texts.
pub(crate) fn forget(variables: &mut HashMap<String, String>, variable: &str) {
    match variable.contains('.') {
        true => drop(variables.insert(variable.to_owned(), String::new())),
        false => drop(variables.remove(variable)),
    }
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
            None => forget(variables, variable),
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
    // The variables contain the user and the database of the connection, too.
    let known = known(variable);
    let stored = match variable {
        // A block that states no mode has that of the session.
        "transaction_isolation" if !variables.contains_key(variable) => "default_transaction_isolation",
        "transaction_read_only" if !variables.contains_key(variable) => "default_transaction_read_only",
        variable => variable,
    };
    let set = variables.get(stored).filter(|_| known.is_some() || check_name(variable).is_ok());
    let default = || known.map(|(_, default, _)| (*default).to_owned());
    set.cloned().or_else(default).ok_or_else(|| unrecognized(variable))
}

/// The variables of a session for its functions, which know no connection.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    variables: HashMap<String, String>,
    asked: Vec<Asked>,
}

/// A SET for which a function asks. It takes effect after the statement.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) variable: String,
    pub(crate) value: String,
    pub(crate) local: bool,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Seen) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the variables, and drops what functions have asked for.
    pub(crate) fn put(&self, variables: &HashMap<String, String>) {
        self.with(|seen| {
            seen.variables.clone_from(variables);
            seen.asked.clear();
        });
    }

    /// The value of a variable.
    pub(crate) fn show(&self, variable: &str) -> Result<String, QueryError> {
        self.with(|seen| show(&seen.variables, variable))
    }

    /// Asks for a SET. Returns the new value. The default if there is no value.
    pub(crate) fn ask(
        &self,
        variable: String,
        value: Option<&str>,
        local: bool,
    ) -> Result<String, QueryError> {
        if is_of_engine(&variable) {
            let text = format!("set_config() cannot set {variable}: use SET {variable} = ...");
            return Err(QueryError::unsupported(text));
        }
        let value = value.unwrap_or("default").to_owned();
        self.with(|seen| {
            set(&mut seen.variables, &variable, &value)?;
            let shown = show(&seen.variables, &variable)?;
            seen.asked.push(Asked { variable, value, local });
            Ok(shown)
        })
    }

    /// Takes what functions have asked for.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.with(|seen| std::mem::take(&mut seen.asked))
    }
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
        assert_eq!(put("app.user", "7").unwrap(), None);
        assert!(put("client_encoding", "utf-8").is_ok() && put("client_encoding", "LATIN1").is_err());
        assert_eq!(put("app.long", &"x".repeat(VARIABLES_BYTES_MAX)).unwrap_err().sqlstate(), "53400");
        assert!(put("statement_timeout", "soon").is_err() && put("statement_timeout", "2min").is_ok());
        assert_eq!(statement_timeout(&variables), Some(Duration::from_secs(120)));
        assert_eq!(show(&variables, "datestyle").unwrap(), "ISO, MDY");
        assert_eq!(show(&variables, "app.user").unwrap(), "7");
        assert_eq!(show(&variables, "nonsense").unwrap_err().sqlstate(), "42704");
        set(&mut variables, "default_transaction_isolation", "serializable").unwrap();
        assert_eq!(show(&variables, "transaction_isolation").unwrap(), "serializable");
        set(&mut variables, "statement_timeout", "default").unwrap();
        assert_eq!(statement_timeout(&variables), None);
    }

    #[test]
    fn values_have_the_form_of_their_setting() {
        for (variable, value, shown) in [
            ("statement_timeout", "5000", "5s"),
            ("statement_timeout", "1500us", "2ms"),
            ("statement_timeout", "0", "0"),
            ("work_mem", "4096", "4MB"),
            ("temp_buffers", "1000", "8000kB"),
            ("enable_seqscan", "OF", "off"),
            ("synchronous_commit", "yes", "on"),
            ("bytea_output", "Escape", "escape"),
            ("random_page_cost", "1.10", "1.1"),
            ("datestyle", "german", "German, DMY"),
            ("datestyle", "SQL, us", "SQL, MDY"),
            ("log_statement", "all", "all"),
            ("app.x", "a b", "a b"),
        ] {
            let mut variables = HashMap::new();
            set(&mut variables, variable, value).unwrap();
            assert_eq!(show(&variables, variable).unwrap(), shown, "{variable}");
        }
        for (variable, value, code) in [
            ("statment_timeout", "5", "42704"),
            ("server_version", "9", "55P02"),
            ("app.1", "x", "42602"),
            ("work_mem", "4 elephants", "22023"),
            ("extra_float_digits", "9", "22023"),
            ("datestyle", "foo", "22023"),
            ("client_min_messages", "foo", "22023"),
            ("jit", "perhaps", "22023"),
        ] {
            assert_eq!(set(&mut HashMap::new(), variable, value).unwrap_err().sqlstate(), code, "{variable}");
        }
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
