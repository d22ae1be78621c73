//! Errors in a scenario: file, line, key, and the change to make.

use std::fmt;
use std::ops::Range;

use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// A scenario that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ScenarioError {
    /// The file, or another source of the text.
    pub origin: String,
    /// The line, counted from 1, if the error is at a place in the file.
    pub line: Option<usize>,
    /// The key as a path with dots, empty if there is none.
    pub key: String,
    /// The mistake and the change to make.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// An error in the value of a key whose place is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyError {
    pub key: String,
    pub message: String,
}

impl KeyError {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        KeyError { key: key.into(), message: message.into() }
    }
}

/// A text with the places of its keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub origin: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// The error of the TOML reader, with its key.
    pub fn toml_error(&self, error: &toml::de::Error) -> ScenarioError {
        let key = error.span().and_then(|span| {
            let document = DeTable::parse(self.text).ok()?;
            Some(key_at(document.get_ref(), &span))
        });
        ScenarioError {
            origin: self.origin.to_owned(),
            line: error.span().map(|span| self.line_of(span.start)),
            key: key.unwrap_or_default(),
            message: error.message().replace('\n', " "),
        }
    }

    /// The error with the line of its key, or of the nearest key above it that the text has.
    pub fn locate(&self, error: KeyError) -> ScenarioError {
        let document = DeTable::parse(self.text).ok();
        let place = document.and_then(|d| place_of(d.get_ref(), &error.key));
        ScenarioError {
            origin: self.origin.to_owned(),
            line: place.map(|at| self.line_of(at)),
            key: error.key,
            message: error.message,
        }
    }

    fn line_of(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }
}

/// The path of the innermost key whose name or value covers the span.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> String {
    let covers = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        if covers(key.span()) {
            return key.get_ref().to_string();
        }
        let inner = key_in(value.get_ref(), span);
        if !inner.is_empty() || covers(value.span()) {
            return join(key.get_ref(), &inner);
        }
    }
    String::new()
}

fn key_in(value: &DeValue<'_>, span: &Range<usize>) -> String {
    match value {
        DeValue::Table(table) => key_at(table, span),
        DeValue::Array(array) => {
            let inner = array.iter().enumerate().find_map(|(at, element)| {
                let inner = key_in(element.get_ref(), span);
                let covers = element.span().start <= span.start && span.end <= element.span().end;
                (covers || !inner.is_empty()).then(|| join(&at.to_string(), &inner))
            });
            inner.unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn join(key: &str, inner: &str) -> String {
    if inner.is_empty() { key.to_owned() } else { format!("{key}.{inner}") }
}

/// The start of the key, or of the nearest one above it.
fn place_of(table: &DeTable<'_>, path: &str) -> Option<usize> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    Some(place_in(value.get_ref(), rest).unwrap_or(key.span().start))
}

fn place_in(value: &DeValue<'_>, path: &str) -> Option<usize> {
    match value {
        DeValue::Table(table) => place_of(table, path),
        DeValue::Array(array) => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            let element = array.get(first.parse::<usize>().ok()?)?;
            Some(place_in(element.get_ref(), rest).unwrap_or(element.span().start))
        }
        _ => None,
    }
}
