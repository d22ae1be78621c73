//! Errors of statements, as text and with PostgreSQL's five-letter codes.

use std::time::Duration;

use datafusion::common::DataFusionError;

use super::sqlstate::{REPLACED, sqlstate};
use super::{Stop, Tables};
use crate::access::where_set;

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
    },
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
            QueryError::Engine { sqlstate, text } => {
                QueryError::Engine { sqlstate, text: tables.without_paths(&text) }
            }
            other => other,
        }
    }

    /// A panic of the query engine.
    pub(crate) fn panicked() -> Self {
        QueryError::Engine {
            sqlstate: "XX000",
            text: "the query engine failed with a bug: please report the statement; the server's log has the details".to_owned(),
        }
    }

    /// A form that is not supported. The text names an alternative.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        QueryError::other("0A000", text)
    }

    pub(crate) fn other(sqlstate: &'static str, text: impl Into<String>) -> Self {
        QueryError::Engine { sqlstate, text: text.into() }
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
        QueryError::Engine { sqlstate: sqlstate(&error, &text), text }
    }
}
