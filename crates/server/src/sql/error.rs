//! Why a statement failed, in words and as PostgreSQL's five letters.

use std::time::Duration;

use datafusion::common::DataFusionError;

use super::Stop;
use super::sqlstate::{REPLACED, sqlstate};
use crate::access::where_set;

/// What the query engine says of a subquery that it cannot make a join of.
const NOT_JOINED: [&str; 7] = [
    "'decorrelate_lateral_join' failed",
    "subquery can only be used in",
    "does not support logical expression ScalarSubquery",
    "does not support logical expression OuterReferenceColumn",
    "does not support logical expression Exists",
    "does not support logical expression InSubquery",
    "does not support logical expression SetComparison",
];

/// The same for whoever wrote it.
const CORRELATED: &str = "this subquery is not supported: it refers to tables around it elsewhere than in comparisons of its WHERE, or has \
    LIMIT or is UNION; write a join, or a window function (row_number() OVER (PARTITION BY ... ORDER BY ...)) in a subquery of FROM";

/// A statement that failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// The user may not do that.
    #[error("{0}")]
    Denied(String),
    /// It was stopped.
    #[error("canceling statement due to {}", .0.reason())]
    Stopped(Stop),
    /// The result is larger than this user may have.
    #[error(
        "the result is larger than {limit} bytes: ask for fewer rows or columns, or raise {}",
        where_set("result")
    )]
    ResultTooLarge {
        /// Bytes that it may have.
        limit: u64,
    },
    /// It waited for its turn as long as a statement may.
    #[error("the statement waited {} s for its turn: run fewer queries at once, or raise {setting}", .waited.as_secs())]
    Busy {
        /// How long.
        waited: Duration,
        /// The setting that limits how many queries run at once, and where it is set.
        setting: String,
    },
    /// The query engine says so.
    #[error("{text}")]
    Engine {
        /// PostgreSQL's code.
        sqlstate: &'static str,
        /// What it says.
        text: String,
    },
}

impl QueryError {
    /// PostgreSQL's code for it.
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

    /// Whether a file was replaced while it was read: the same statement, asked again, reads the new one.
    pub fn met_a_replaced_file(&self) -> bool {
        self.sqlstate() == REPLACED
    }

    /// A panic of the query engine.
    pub(crate) fn panicked() -> Self {
        QueryError::Engine {
            sqlstate: "XX000",
            text: "the query engine failed with a bug: please report the statement; the server's log has the details".to_owned(),
        }
    }

    /// A form that is not there. The text says what to write instead.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        QueryError::other("0A000", text)
    }

    pub(crate) fn other(sqlstate: &'static str, text: impl Into<String>) -> Self {
        QueryError::Engine { sqlstate, text: text.into() }
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        // What a rule of the server's own says has its code.
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
