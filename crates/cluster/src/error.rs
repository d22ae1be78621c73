//! Errors, and their way from workers to the coordinator.
//!
//! Errors of the query engine keep their kind between processes. Those of the scan engine would arrive as text, so a
//! worker sends them as [`SentError`], and the coordinator makes the error again. Then a statement over a replaced file runs
//! again, and clients get the code of the error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coscan_datafusion::{engine_error, from_engine};
use coscan_engine::EngineError;
use datafusion::common::DataFusionError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An error of a cluster's settings or its start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A setting cannot have its value.
    #[error("{setting}: {wanted}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The fault and the remedy.
        wanted: String,
    },
    /// A file cannot be used.
    #[error("cannot use {what} {}: {reason}", path.display())]
    File {
        /// The purpose of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A worker cannot listen.
    #[error("cannot listen at {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// The fault.
        reason: String,
    },
}

impl ClusterError {
    pub(crate) fn setting(setting: &'static str, wanted: impl Into<String>) -> Self {
        ClusterError::Setting { setting, wanted: wanted.into() }
    }

    pub(crate) fn file(what: &'static str, path: &Path, reason: impl ToString) -> Self {
        ClusterError::File { what, path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Begins the text of an error that a worker sends.
const MARK: &str = "coscan worker error: ";

/// An error of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SentError {
    /// [`EngineError::FileReplaced`]
    Replaced { file: String, detail: String },
    /// [`EngineError::Read`]
    Read { file: String, row_group: usize, column: String, source: String },
    /// [`EngineError::Corrupt`]
    Corrupt { file: String, row_group: usize, column: String, source: String },
    /// [`EngineError::Footer`]
    Footer { file: String, source: String },
    /// [`EngineError::WrongSize`]
    WrongSize { file: String, found: u64, stated: u64 },
    /// [`EngineError::Schema`]
    Schema { file: String, source: String },
    /// [`EngineError::BufferTooSmall`]
    Buffer { needed: u64, budget: u64, what: String },
    /// Another worker did not answer this one.
    Gone { worker: String, reason: String },
}

impl SentError {
    /// Returns the form of an engine's error.
    fn of(error: &EngineError) -> Option<Self> {
        let text = |source: &Arc<dyn std::error::Error + Send + Sync>| source.to_string();
        Some(match error {
            EngineError::FileReplaced { file, detail } => {
                SentError::Replaced { file: file.clone(), detail: detail.clone() }
            }
            EngineError::Read { file, row_group, column, source } => SentError::Read {
                file: file.clone(),
                row_group: *row_group,
                column: column.clone(),
                source: text(source),
            },
            EngineError::Corrupt { file, row_group, column, source } => SentError::Corrupt {
                file: file.clone(),
                row_group: *row_group,
                column: column.clone(),
                source: text(source),
            },
            EngineError::Footer { file, source } => {
                SentError::Footer { file: file.clone(), source: text(source) }
            }
            EngineError::WrongSize { file, found, stated } => {
                SentError::WrongSize { file: file.clone(), found: *found, stated: *stated }
            }
            EngineError::Schema { file, source } => {
                SentError::Schema { file: file.clone(), source: text(source) }
            }
            EngineError::BufferTooSmall { needed, budget, what } => {
                SentError::Buffer { needed: *needed, budget: *budget, what: what.clone() }
            }
            _ => return None,
        })
    }

    /// Returns the engine's error. `None` if another worker is gone.
    fn to_engine(&self) -> Option<EngineError> {
        let error = |text: &String| Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text.clone()));
        Some(match self {
            SentError::Replaced { file, detail } => {
                EngineError::FileReplaced { file: file.clone(), detail: detail.clone() }
            }
            SentError::Read { file, row_group, column, source } => EngineError::Read {
                file: file.clone(),
                row_group: *row_group,
                column: column.clone(),
                source: error(source),
            },
            SentError::Corrupt { file, row_group, column, source } => EngineError::Corrupt {
                file: file.clone(),
                row_group: *row_group,
                column: column.clone(),
                source: error(source),
            },
            SentError::Footer { file, source } => {
                EngineError::Footer { file: file.clone(), source: error(source) }
            }
            SentError::WrongSize { file, found, stated } => {
                EngineError::WrongSize { file: file.clone(), found: *found, stated: *stated }
            }
            SentError::Schema { file, source } => {
                EngineError::Schema { file: file.clone(), source: error(source) }
            }
            SentError::Buffer { needed, budget, what } => {
                EngineError::BufferTooSmall { needed: *needed, budget: *budget, what: what.clone() }
            }
            SentError::Gone { .. } => return None,
        })
    }

    /// Returns the error that carries this one to the coordinator.
    pub(crate) fn to_error(&self) -> DataFusionError {
        let json = serde_json::to_string(self).unwrap_or_default();
        DataFusionError::Execution(format!("{MARK}{json}"))
    }

    /// Returns the error of a worker that another error carries.
    pub(crate) fn in_error(error: &DataFusionError) -> Option<Self> {
        let text = error.to_string();
        let json = &text[text.find(MARK)? + MARK.len()..];
        // Other text may follow the value.
        serde_json::Deserializer::from_str(json).into_iter().next()?.ok()
    }
}

/// Returns the form of an error that leaves a worker.
pub(crate) fn leaving(error: DataFusionError) -> DataFusionError {
    match engine_error(&error).and_then(SentError::of) {
        Some(sent) => sent.to_error(),
        None => error,
    }
}

/// Returns the error of a worker as it was there.
pub(crate) fn arrived(error: DataFusionError) -> DataFusionError {
    match SentError::in_error(&error) {
        Some(SentError::Gone { worker, reason }) => gone(&worker, &reason),
        Some(sent) => sent.to_engine().map_or(error, from_engine),
        None => error,
    }
}

/// The error of a worker that does not answer.
pub(crate) fn gone(worker: &str, reason: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "the worker {worker} does not answer ({reason}): run the statement again, or look at coscan_workers"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_errors_keep_their_kind() {
        let replaced =
            EngineError::FileReplaced { file: "s3://b/\"a\".parquet".into(), detail: "size 3".into() };
        let text = replaced.to_string();
        let carried = leaving(from_engine(replaced)).context("task 3");
        // As a status from another process.
        let received = DataFusionError::Execution(format!("{carried}\nin stage 2"));
        let back = arrived(received);
        assert!(matches!(engine_error(&back), Some(EngineError::FileReplaced { .. })), "{back}");
        assert_eq!(engine_error(&back).map(ToString::to_string), Some(text));
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error = DataFusionError::ResourcesExhausted("no memory".into());
        assert!(matches!(arrived(leaving(error)), DataFusionError::ResourcesExhausted(_)));
    }
}
