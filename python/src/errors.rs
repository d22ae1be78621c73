//! Exceptions. Their classes are in `lib/coscan/errors.py`; this module decides which one an error of the engine becomes.

use std::any::Any;
use std::error::Error;
use std::fmt;

use coscan_datafusion::engine_error;
use coscan_engine::EngineError;
use coscan_server::sql::QueryError;
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use pyo3::prelude::*;

/// An exception of a class of `coscan.errors`.
pub(crate) fn exception(class: &str, text: &str) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("coscan.errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| class.call1((text,)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// An error as the class and the text of its exception. A shared engine sends it so.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) class: String,
    pub(crate) text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}

/// The exception of an error of a statement.
pub(crate) fn raised(error: &DataFusionError) -> PyErr {
    let Failure { class, text } = failure(error);
    exception(&class, &text)
}

/// The class and the text of the exception of an error.
pub(crate) fn failure(error: &DataFusionError) -> Failure {
    if let DataFusionError::External(external) = error.find_root()
        && let Some(failure) = external.downcast_ref::<Failure>()
    {
        return failure.clone();
    }
    if let Some(error) = said(error) {
        return Failure { class: class_of_sqlstate(error.sqlstate()).to_owned(), text: error.to_string() };
    }
    Failure { class: class(error).to_owned(), text: text(error) }
}

/// The text of an error, on one line.
pub(crate) fn text(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Shared(error) => text(error),
        error => coscan_cli::error_text(error),
    }
}

/// An error that more memory, other files or another moment may avoid.
pub(crate) fn operational(text: &str) -> PyErr {
    exception("OperationalError", text)
}

pub(crate) fn data(text: &str) -> PyErr {
    exception("DataError", text)
}

pub(crate) fn programming(text: &str) -> PyErr {
    exception("ProgrammingError", text)
}

pub(crate) fn not_supported(text: &str) -> PyErr {
    exception("NotSupportedError", text)
}

pub(crate) fn closed() -> PyErr {
    exception("InterfaceError", "the connection is closed")
}

/// The text of the error of a statement that another thread has ended.
pub(crate) const CANCELLED: &str = "the statement was cancelled";

pub(crate) fn cancelled() -> PyErr {
    exception("OperationalError", CANCELLED)
}

pub(crate) fn forked() -> PyErr {
    exception(
        "ForkedError",
        "this process was forked from the one that opened the connection, and has none of its threads: open the first connection \
         after the fork, or start processes with 'spawn' or 'forkserver'",
    )
}

/// The error of a panic.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = coscan_cli::panic_text(panic);
    DataFusionError::Internal(format!("stopped by a bug or a broken file: {text}"))
}

fn class(error: &DataFusionError) -> &'static str {
    if let Some(error) = engine_error(error) {
        return class_of_engine(error);
    }
    match error.find_root() {
        DataFusionError::SQL(..) => "ParseError",
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) | DataFusionError::Diagnostic(..) => {
            "ProgrammingError"
        }
        DataFusionError::Configuration(_) => "SettingError",
        DataFusionError::NotImplemented(_) => "NotSupportedError",
        DataFusionError::ResourcesExhausted(_) => "MemoryLimitError",
        DataFusionError::Execution(_) => "DataError",
        DataFusionError::ArrowError(error, _) => class_of_arrow(error),
        DataFusionError::ParquetError(_) => "CorruptFileError",
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => "FileError",
        DataFusionError::Internal(_) => "InternalError",
        _ => "DatabaseError",
    }
}

/// The error with PostgreSQL's words that caused this one.
fn said(error: &DataFusionError) -> Option<&QueryError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(said) = error.downcast_ref() {
            return Some(said);
        }
        cause = error.source();
    }
    None
}

fn class_of_sqlstate(code: &str) -> &'static str {
    match (code, code.get(..2)) {
        ("42601", _) => "ParseError",
        ("53200", _) => "MemoryLimitError",
        (_, Some("0A")) => "NotSupportedError",
        (_, Some("22")) => "DataError",
        (_, Some("42")) => "ProgrammingError",
        (_, Some("53" | "54" | "57")) => "OperationalError",
        (_, Some("XX")) => "InternalError",
        _ => "DatabaseError",
    }
}

fn class_of_engine(error: &EngineError) -> &'static str {
    match error {
        EngineError::Config(_)
        | EngineError::Setting(_)
        | EngineError::FixedSetting { .. }
        | EngineError::DeviceProfile { .. } => "SettingError",
        EngineError::BufferTooSmall { .. } => "MemoryLimitError",
        EngineError::Corrupt { .. } | EngineError::Schema { .. } | EngineError::WrongSize { .. } => {
            "CorruptFileError"
        }
        EngineError::FileReplaced { .. } => "FileReplacedError",
        EngineError::Read { .. } | EngineError::Footer { .. } => "FileError",
        EngineError::InvalidRequest(_) | EngineError::Broken(_) => "InternalError",
        _ => "OperationalError",
    }
}

fn class_of_arrow(error: &ArrowError) -> &'static str {
    match error {
        ArrowError::NotYetImplemented(_) => "NotSupportedError",
        ArrowError::SchemaError(_) => "ProgrammingError",
        ArrowError::MemoryError(_) => "MemoryLimitError",
        ArrowError::IoError(..) => "FileError",
        ArrowError::ParquetError(_) => "CorruptFileError",
        ArrowError::ExternalError(_) => "DatabaseError",
        _ => "DataError",
    }
}
