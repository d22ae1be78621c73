//! The options of `CREATE EXTERNAL TABLE` for tables of lake formats.

use std::path::Path;
use std::time::Duration;

use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;

/// The age at which a snapshot is looked up again. Dashboards send bursts of queries: one of them looks.
const REFRESH: Duration = Duration::from_secs(1);

/// The end of a location, and the version of a name, that mean the history.
pub(crate) const HISTORY: &str = "history";

/// The words of a format.
#[derive(Debug)]
pub(crate) struct Words {
    /// The name of the format for people.
    pub(crate) name: &'static str,
    /// The beginning of its options.
    pub(crate) prefix: &'static str,
    /// The option with the number of a version.
    pub(crate) version: &'static str,
    /// The option with the name of a version, if versions have names.
    pub(crate) reference: Option<&'static str>,
}

/// The version of a table to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The newest one.
    Newest,
    /// The one with this number.
    Version(u64),
    /// The last one that was written at this time or before, in milliseconds since 1970.
    Time(i64),
    /// The one with this name.
    Reference(String),
}

/// What a command says about a table.
#[derive(Debug)]
pub(crate) struct Options {
    /// The location without a version.
    pub(crate) location: String,
    pub(crate) wanted: Wanted,
    /// The age at which a snapshot is looked up again, unless it stays the same.
    pub(crate) refresh: Option<Duration>,
    /// Whether the versions are wanted in place of the rows.
    pub(crate) history: bool,
}

impl Options {
    /// Reads the options of a command.
    ///
    /// # Errors
    /// If one is unknown or has no sense, or the command describes columns or order.
    pub(crate) fn of(command: &CreateExternalTable, words: &Words) -> Result<Self> {
        let Words { name, prefix, version, reference } = words;
        let [location] = &command.locations[..] else {
            return plan_err!("the {name} table {} has one location", command.name);
        };
        if !command.schema.fields().is_empty() || !command.table_partition_cols.is_empty() {
            return plan_err!(
                "the columns of {} are those of the {name} table: leave them out",
                command.name
            );
        }
        if !command.order_exprs.is_empty() || command.unbounded {
            return plan_err!("a table of {name} is neither ordered nor unbounded: leave WITH ORDER out");
        }
        let of_history = location.strip_suffix(HISTORY).and_then(|rest| rest.strip_suffix('@'));
        let of_history = of_history.filter(|_| !Path::new(location).exists());
        let (location, number) = split_version(of_history.unwrap_or(location));
        let mut wanted: Vec<Wanted> = number.map(Wanted::Version).into_iter().collect();
        let mut refresh = REFRESH;
        let mut keys: Vec<_> = command.options.iter().collect();
        keys.sort();
        for (key, value) in keys {
            let option = key.trim_start_matches("format.");
            let option =
                option.strip_prefix(prefix).and_then(|option| option.strip_prefix('.')).unwrap_or(option);
            match option {
                _ if option == *version => match value.parse() {
                    Ok(number) => wanted.push(Wanted::Version(number)),
                    Err(_) => return plan_err!("{prefix}.{version} is a number such as 7, not '{value}'"),
                },
                _ if Some(option) == *reference => wanted.push(Wanted::Reference(value.clone())),
                "timestamp" => match time(value) {
                    Some(at) => wanted.push(Wanted::Time(at)),
                    None => {
                        return plan_err!(
                            "{prefix}.timestamp is a time such as '2026-11-29 12:00:00Z', not '{value}'"
                        );
                    }
                },
                "refresh" => match value.parse() {
                    Ok(seconds) => refresh = Duration::from_secs(seconds),
                    Err(_) => return plan_err!("{prefix}.refresh is a number of seconds, not '{value}'"),
                },
                _ => {
                    let known = [Some(*version), *reference, Some("timestamp"), Some("refresh")];
                    let known: Vec<String> =
                        known.iter().flatten().map(|known| format!("{prefix}.{known}")).collect();
                    return plan_err!("a table of {name} has the options {}, not '{key}'", known.join(", "));
                }
            }
        }
        if wanted.len() > 1 {
            return plan_err!("a table of {name} is read at one version or at one time");
        }
        let wanted = wanted.pop().unwrap_or(Wanted::Newest);
        let moves = matches!(wanted, Wanted::Newest | Wanted::Reference(_));
        let history = of_history.is_some();
        Ok(Options { location: location.to_owned(), wanted, refresh: moves.then_some(refresh), history })
    }
}

/// The milliseconds since 1970 of a time such as `2026-11-29 12:00:00Z`.
pub(crate) fn time(text: &str) -> Option<i64> {
    Some(string_to_timestamp_nanos(text).ok()?.div_euclid(1_000_000))
}

/// Splits a location such as `data/t@v7`, as Spark writes it, unless there is a folder of that name.
fn split_version(location: &str) -> (&str, Option<u64>) {
    let split = location.rsplit_once("@v").filter(|_| !Path::new(location).exists());
    match split.and_then(|(folder, version)| Some((folder, version.parse().ok()?))) {
        Some((folder, version)) => (folder, Some(version)),
        None => (location, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_may_name_a_version() {
        assert_eq!(split_version("s3://b/t@v12"), ("s3://b/t", Some(12)));
        for location in ["s3://b/t@home", "s3://b/t@v", "s3://b/t@v1/x", "t"] {
            assert_eq!(split_version(location), (location, None));
        }
    }
}
