//! Why a statement failed, in words and as PostgreSQL's five letters.

use std::time::Duration;

use datafusion::common::DataFusionError;

use super::Stop;
use super::sqlstate::{REPLACED, sqlstate};

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
    #[error("the result is larger than {0} bytes, the limit for this user: ask for fewer rows or columns")]
    ResultTooLarge(u64),
    /// It waited for its turn as long as it may take.
    #[error("the statement waited {0:?} for its turn: too many queries are running")]
    Busy(Duration),
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
            QueryError::ResultTooLarge(_) => "54000",
            QueryError::Busy(_) => "53300",
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
            text: "the statement met a bug in the query engine".to_owned(),
        }
    }

    pub(crate) fn other(sqlstate: &'static str, text: impl Into<String>) -> Self {
        QueryError::Engine { sqlstate, text: text.into() }
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let text = match &error {
            DataFusionError::SQL(error, _) => error.to_string(),
            error => error.strip_backtrace(),
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        QueryError::Engine { sqlstate: sqlstate(&error, &text), text }
    }
}
