//! The shell's commands, which begin with a backslash. Commands that psql also has work as in psql.
//!
//! This file parses them; `shell.rs` carries them out.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::output::Format;
use crate::meant::nearest;

pub const HELP: &str = "\
\\d [NAME]       list the tables, or the columns of one
\\dt [PATTERN]   list the tables; * stands for anything
\\l              list databases
\\conninfo       say what this shell works with
\\e [FILE]       edit the statement, or a file, with $EDITOR
\\copy T TO F    write a table, or (SELECT ..), to a file
\\g, \\gx         run the statement, with \\gx one line per value
\\watch [SEC]    run the statement, or the last one, again every 2 or SEC seconds
\\x [on|off]     one line per value
\\timing         say how long statements take, or stop doing so
\\i FILE         run a file
\\o [FILE]       write results to a file, or to the terminal again
\\p, \\r          print or forget what was typed of a statement
\\pager [on|off] show what is larger than the terminal page by page
\\format NAME    table, expanded, csv, json or ndjson
\\echo TEXT      print a text
\\policy [NAME]  show or set the sharing policy (SET coscan.policy)
\\stats          what the engine has done so far
\\q              leave
Statements end with a semicolon. Tab completes names. Ctrl-C cancels, Ctrl-D leaves.";

/// The names, for completion and suggestions.
pub const NAMES: &[&str] = &[
    "\\?",
    "\\d",
    "\\dt",
    "\\l",
    "\\conninfo",
    "\\e",
    "\\copy",
    "\\g",
    "\\gx",
    "\\watch",
    "\\x",
    "\\timing",
    "\\i",
    "\\o",
    "\\p",
    "\\r",
    "\\pager",
    "\\format",
    "\\echo",
    "\\policy",
    "\\stats",
    "\\q",
];

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Quit,
    Help,
    /// A pattern with `*`.
    Tables(Option<String>),
    Databases,
    Connection,
    /// A file, or the current statement.
    Edit(Option<PathBuf>),
    Copy(Copy),
    Describe(String),
    Go {
        expanded: bool,
    },
    Watch(Duration),
    /// Without a value, inverts the setting.
    Expanded(Option<bool>),
    Timing(Option<bool>),
    Pager(Option<bool>),
    Include(PathBuf),
    Output(Option<PathBuf>),
    Print,
    Reset,
    Format(Format),
    Echo(String),
    Policy(Option<String>),
    Stats,
}

const WATCH_EVERY: Duration = Duration::from_secs(2);

/// Parses a command. Returns an error message if it is wrong.
pub fn parse(line: &str) -> Result<Command, String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    let switch = || match argument.as_deref() {
        None => Ok(None),
        Some("on" | "true" | "1") => Ok(Some(true)),
        Some("off" | "false" | "0") => Ok(Some(false)),
        Some(other) => Err(format!("{name} {other}: on or off")),
    };
    let needed = |what: &str| argument.clone().ok_or_else(|| format!("{name} needs {what}"));
    Ok(match name {
        "\\q" | "\\quit" => Command::Quit,
        "\\?" | "\\h" | "\\help" => Command::Help,
        "\\d" | "\\d+" if argument.is_some() => Command::Describe(needed("a table")?),
        "\\d" | "\\d+" | "\\dt" | "\\dt+" => Command::Tables(argument),
        "\\l" | "\\list" => Command::Databases,
        "\\conninfo" => Command::Connection,
        "\\e" | "\\edit" => Command::Edit(argument.map(PathBuf::from)),
        "\\copy" => Command::Copy(copy(&needed("what to copy, and where: \\copy TABLE TO FILE")?)?),
        "\\g" => Command::Go { expanded: false },
        "\\gx" => Command::Go { expanded: true },
        "\\watch" => Command::Watch(argument.as_deref().map_or(Ok(WATCH_EVERY), interval)?),
        "\\x" => Command::Expanded(switch()?),
        "\\timing" => Command::Timing(switch()?),
        "\\pager" => Command::Pager(switch()?),
        "\\i" | "\\include" => Command::Include(needed("a file")?.into()),
        "\\o" | "\\out" => Command::Output(argument.map(PathBuf::from)),
        "\\p" | "\\print" => Command::Print,
        "\\r" | "\\reset" => Command::Reset,
        "\\format" => Command::Format(format_of(&needed("a name")?)?),
        "\\echo" => Command::Echo(argument.unwrap_or_default()),
        "\\policy" => Command::Policy(argument),
        "\\stats" => Command::Stats,
        _ => return Err(unknown(name)),
    })
}

/// A statement whose rows go to a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub statement: String,
    pub path: PathBuf,
    pub format: Format,
}

/// Parses `TABLE TO FILE` or `(STATEMENT) TO FILE`, with a format behind it. The format is otherwise that of the
/// file's name, and then CSV.
fn copy(text: &str) -> Result<Copy, String> {
    let wrong = || {
        format!(
            "\\copy {text}: write \\copy TABLE TO FILE, or \\copy (SELECT ..) TO FILE, and csv, json or ndjson"
        )
    };
    let is_to = |at: usize| text.get(at..at + 4).is_some_and(|word| word.eq_ignore_ascii_case(" to "));
    let at = (0..text.len()).rev().find(|&at| is_to(at));
    let Some(at) = at else {
        let from = text.to_lowercase().contains(" from ") && !text.starts_with('(');
        return Err(if from { "\\copy .. FROM: coscan writes no tables".to_owned() } else { wrong() });
    };
    let (source, target) = (text[..at].trim(), text[at + 4..].trim());
    let statement = match source.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')').ok_or_else(wrong)?.trim().to_owned(),
        None => format!("SELECT * FROM {source}"),
    };
    let (path, rest) = match target.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'').ok_or_else(wrong)?,
        None => target.split_once(char::is_whitespace).unwrap_or((target, "")),
    };
    let words = rest.to_lowercase();
    let mut words = words.split(|letter: char| !letter.is_alphanumeric());
    let named = words.find(|word| !matches!(*word, "" | "with" | "format" | "header"));
    let ending =
        path.rsplit_once('.').map(|(_, ending)| ending).filter(|ending| matches!(*ending, "json" | "ndjson"));
    let format = match named {
        Some(name) => format_of(name)?,
        None => ending.map_or(Ok(Format::Csv), format_of)?,
    };
    match path {
        "" => Err(wrong()),
        path => Ok(Copy { statement, path: path.into(), format }),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds =
        text.trim_start_matches("i=").parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("\\watch {text}: seconds, from 0.01 to a day"))
}

fn format_of(name: &str) -> Result<Format, String> {
    Format::from_str(name, true)
        .map_err(|_| format!("{name} is no format: table, expanded, csv, json or ndjson"))
}

fn unknown(name: &str) -> String {
    match nearest(name, NAMES.iter().copied().filter(|known| known.len() > 2)) {
        Some(meant) => format!("{name} is no command; did you mean {meant}? \\? lists them"),
        None => format!("{name} is no command; \\? lists them"),
    }
}

/// Returns true if a name matches a pattern, in any case. `*` and `%` stand for any text.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let pieces: Vec<&str> = pattern.split(['*', '%']).collect();
    let Some((first, rest)) = pieces.split_first() else { return false };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for piece in middle {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_psql() {
        assert_eq!(parse("\\q"), Ok(Command::Quit));
        assert_eq!(parse("\\d"), Ok(Command::Tables(None)));
        assert_eq!(parse("\\d Orders;"), Ok(Command::Describe("Orders".into())));
        assert_eq!(parse("\\dt l*"), Ok(Command::Tables(Some("l*".into()))));
        assert_eq!(parse("\\watch"), Ok(Command::Watch(Duration::from_secs(2))));
        assert_eq!(parse("\\watch 0.5"), Ok(Command::Watch(Duration::from_millis(500))));
        assert_eq!(parse("\\x on"), Ok(Command::Expanded(Some(true))));
        assert_eq!(parse("\\o my file.txt"), Ok(Command::Output(Some("my file.txt".into()))));
        assert_eq!(parse("\\format CSV"), Ok(Command::Format(Format::Csv)));
        let copy = |statement: &str, path: &str, format| {
            Ok(Command::Copy(Copy { statement: statement.to_owned(), path: path.into(), format }))
        };
        assert_eq!(parse("\\copy t to a.csv"), copy("SELECT * FROM t", "a.csv", Format::Csv));
        assert_eq!(
            parse("\\copy (SELECT 1 TO x) TO 'a b.json'"),
            copy("SELECT 1 TO x", "a b.json", Format::Json)
        );
        assert_eq!(parse("\\copy t TO f WITH (FORMAT ndjson)"), copy("SELECT * FROM t", "f", Format::Ndjson));
        for (wrong, says) in [
            ("\\watch no", "seconds"),
            ("\\watch -1", "seconds"),
            ("\\x maybe", "on or off"),
            ("\\i", "needs a file"),
            ("\\timng", "did you mean \\timing?"),
            ("\\copy t", "\\copy TABLE TO FILE"),
            ("\\copy t FROM a.csv", "writes no tables"),
            ("\\zzz", "is no command"),
        ] {
            let said = parse(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
        for name in NAMES {
            assert!(HELP.contains(name) || *name == "\\?", "{name} is not in the help");
        }
    }

    #[test]
    fn patterns() {
        let fitting =
            |pattern: &str| ["lineitem", "Orders"].into_iter().filter(|name| fits(pattern, name)).count();
        assert_eq!(
            (fitting("*"), fitting("l*"), fitting("*E*"), fitting("orders"), fitting("*x*")),
            (2, 1, 2, 1, 0)
        );
        assert!(fits("a*b*c", "aXbYc") && !fits("a*b*c", "acb") && !fits("", "a") && !fits("ab*b", "ab"));
    }
}
