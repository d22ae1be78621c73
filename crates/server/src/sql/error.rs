//! Errors of statements, as text and with PostgreSQL's five-letter codes.

use std::time::Duration;

use coscan_datafusion::engine_error;
use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::said::{Said, no_function, said, similar};
use super::sqlstate::{REPLACED, sqlstate};
use super::text::{Place, syntax_error};
use super::visible::PUBLIC;
use super::{Stop, Tables};
use crate::access::where_set;
use crate::values::ValueError;

/// The query engine's messages about a subquery that it cannot rewrite to a join.
const NOT_JOINED: [&str; 7] = [
    "'decorrelate_lateral_join' failed",
    "subquery can only be used in",
    "does not support logical expression ScalarSubquery",
    "does not support logical expression OuterReferenceColumn",
    "does not support logical expression Exists",
    "does not support logical expression InSubquery",
    "does not support logical expression SetComparison",
];

/// The message for the author of the statement.
const CORRELATED: &str = "this subquery is not supported: it refers to tables around it elsewhere than in comparisons of its WHERE, or has \
    LIMIT or is UNION; write a join, or a window function (row_number() OVER (PARTITION BY ... ORDER BY ...)) in a subquery of FROM";

/// A statement that failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// The user has no permission.
    #[error("{0}")]
    Denied(String),
    /// The statement was stopped.
    #[error("canceling statement due to {}", .0.reason())]
    Stopped(Stop),
    /// The result is larger than the user's limit.
    #[error(
        "the result is larger than {limit} bytes: ask for fewer rows or columns, or raise {}",
        where_set("result")
    )]
    ResultTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The statement waited too long for its turn.
    #[error("the statement waited {} s for its turn: run fewer queries at once, or raise {setting}", .waited.as_secs())]
    Busy {
        /// The time waited.
        waited: Duration,
        /// The setting that limits concurrent queries, and the place where it is set.
        setting: String,
    },
    /// An error of the query engine.
    #[error("{text}")]
    Engine {
        /// PostgreSQL's code.
        sqlstate: &'static str,
        /// The message.
        text: String,
        /// The hint, and the place in the statement.
        more: Box<More>,
    },
}

/// Further parts of an error.
#[derive(Clone, Debug, Default)]
pub struct More {
    pub(crate) hint: Option<String>,
    pub(crate) place: Option<Place>,
}

impl QueryError {
    /// PostgreSQL's code for the error.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            QueryError::Denied(_) => "42501",
            QueryError::Stopped(Stop::ShuttingDown) => "57P01",
            QueryError::Stopped(_) => "57014",
            QueryError::ResultTooLarge { .. } => "54000",
            QueryError::Busy { .. } => "53300",
            QueryError::Engine { sqlstate, .. } => sqlstate,
        }
    }

    /// Returns true if a file was replaced while it was read. The same statement, run again, reads the new file.
    pub fn met_a_replaced_file(&self) -> bool {
        self.sqlstate() == REPLACED
    }

    /// The error without paths of tables.
    pub(crate) fn without_paths(self, tables: &Tables) -> Self {
        match self {
            QueryError::Engine { sqlstate, text, more } => {
                QueryError::Engine { sqlstate, text: tables.without_paths(&text), more }
            }
            other => other,
        }
    }

    /// A panic of the query engine.
    pub(crate) fn panicked() -> Self {
        let text = "the query engine failed with a bug: please report the statement; the server's log has the details";
        QueryError::other("XX000", text)
    }

    /// A form that is not supported. The text names an alternative.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        QueryError::other("0A000", text)
    }

    pub(crate) fn other(sqlstate: &'static str, text: impl Into<String>) -> Self {
        QueryError::Engine { sqlstate, text: text.into(), more: Box::default() }
    }

    fn of(said: Said, otherwise: &'static str) -> Self {
        let more = Box::new(More { hint: said.hint, place: said.place });
        QueryError::Engine { sqlstate: said.sqlstate.unwrap_or(otherwise), text: said.text, more }
    }

    /// A syntax error of this text.
    pub(crate) fn syntax(sql: &str, error: &ParserError) -> Self {
        if matches!(error, ParserError::RecursionLimitExceeded) {
            let text =
                "the statement is nested too deeply: 200 levels of parentheses and subqueries are allowed";
            return QueryError::other("54001", text);
        }
        match syntax_error(sql, error) {
            Some((text, place)) if text.to_ascii_uppercase().ends_with("\"EXCLUDE\"") => {
                let text = "EXCLUDE in the frame of a window is not supported: take the row's own value off the result";
                QueryError::of(Said { text: text.to_owned(), place: Some(place), ..Said::default() }, "0A000")
            }
            Some((text, place)) => {
                QueryError::of(Said { text, place: Some(place), ..Said::default() }, "42601")
            }
            None => QueryError::from(DataFusionError::SQL(Box::new(error.clone()), None)),
        }
    }

    /// A missing function, with the types of its arguments.
    pub(crate) fn no_function(name: &str, types: Vec<String>) -> Self {
        QueryError::of(no_function(name, Some(types)), "42883")
    }

    /// A window function without OVER.
    pub(crate) fn no_window(name: &str) -> Self {
        let text = format!("window function {name} requires an OVER clause");
        let place = Some(Place::Call(name.to_owned()));
        QueryError::of(Said { text, place, ..Said::default() }, "42809")
    }

    /// The hint.
    pub fn hint(&self) -> Option<&str> {
        match self {
            QueryError::Engine { more, .. } => more.hint.as_deref(),
            _ => None,
        }
    }

    /// The place of the error in the statement's text: a character, from 1.
    pub fn position(&self, sql: &str) -> Option<usize> {
        match self {
            QueryError::Engine { more, .. } => more.place.as_ref()?.position(sql),
            _ => None,
        }
    }

    /// The function that does not exist with the types of its arguments.
    pub(crate) fn missing_function(&self) -> Option<&str> {
        match self {
            QueryError::Engine { sqlstate: "42883", more, .. } => match &more.place {
                Some(Place::Call(name)) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error with a similar table as a hint.
    pub(crate) fn with_similar_table(mut self, tables: &[String]) -> Self {
        if let QueryError::Engine { more, .. } = &mut self
            && let Some(Place::Relation(path)) = &more.place
            && let [schema, name] = &path[..]
            && schema == PUBLIC
            && let Some(similar) = similar(name, tables)
        {
            more.hint = Some(format!("Perhaps you meant to reference the table \"{similar}\"."));
        }
        self
    }
}

impl From<ValueError> for QueryError {
    fn from(error: ValueError) -> Self {
        QueryError::other(error.sqlstate, error.text)
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        // Errors of the server's own rules have a code.
        if let DataFusionError::External(own) = error.find_root()
            && let Some(own) = own.downcast_ref::<QueryError>()
        {
            return own.clone();
        }
        let text = match &error {
            DataFusionError::SQL(error, _) => error.to_string(),
            error => error.strip_backtrace(),
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if NOT_JOINED.iter().any(|words| text.contains(words)) {
            return QueryError::unsupported(CORRELATED);
        }
        let otherwise = sqlstate(&error, &text);
        match engine_error(&error) {
            Some(engine) => QueryError::other(otherwise, engine.to_string()),
            None => QueryError::of(said(&error), otherwise),
        }
    }
}
