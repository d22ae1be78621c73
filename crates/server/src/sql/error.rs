//! Why a statement failed, in words and as PostgreSQL's five letters.

use std::time::Duration;

use datafusion::common::{DataFusionError, SchemaError};

use super::Stop;

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
        let text = error.strip_backtrace();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        QueryError::Engine { sqlstate: sqlstate(error.find_root(), &text), text }
    }
}

fn sqlstate(error: &DataFusionError, text: &str) -> &'static str {
    match error {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42P10",
        },
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::Configuration(_) => "22023",
        DataFusionError::ArrowError(..) if text.contains("Divide by zero") => "22012",
        DataFusionError::ArrowError(..) => "22000",
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) | DataFusionError::ParquetError(_) => {
            "58030"
        }
        DataFusionError::Plan(_) if text.contains("table '") && text.contains("not found") => "42P01",
        DataFusionError::Plan(_) if text.contains("Invalid function") => "42883",
        DataFusionError::Plan(_) => "42000",
        _ => "XX000",
    }
}
