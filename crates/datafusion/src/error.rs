//! Conversion of engine errors to external errors of DataFusion, which keep their source.

use std::any::Any;
use std::error::Error;
use std::io;

use coscan_engine::{EngineError, ReadError};
use datafusion::common::DataFusionError;

/// The statuses with which stores say that an object is gone.
const GONE: [u16; 2] = [404, 410];

/// Wraps an engine error for DataFusion. [`engine_error`] finds it again.
pub fn from_engine(error: EngineError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the engine's error at the bottom of `error`, if there is one.
pub fn engine_error(error: &DataFusionError) -> Option<&EngineError> {
    causes(error).find_map(|error| error.downcast_ref::<EngineError>())
}

/// Returns whether `error` says that a file is gone, or the version of a table whose files were to be read.
pub fn is_gone(error: &DataFusionError) -> bool {
    let of_store = |error: &object_store::Error| matches!(error, object_store::Error::NotFound { .. });
    let of_system = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    causes(error).any(|error| {
        let read = error.downcast_ref::<ReadError>().is_some_and(|error| match error {
            ReadError::Io(error) => of_system(error),
            ReadError::Store(error) => of_store(error),
            ReadError::Refused { status, .. } => GONE.contains(status),
            _ => false,
        });
        read || error.downcast_ref::<object_store::Error>().is_some_and(of_store)
            || error.downcast_ref::<io::Error>().is_some_and(of_system)
    })
}

/// An error or one of its sources.
type Cause<'a> = &'a (dyn Error + 'static);

/// The error and its sources, the outermost first.
fn causes(error: &DataFusionError) -> impl Iterator<Item = Cause<'_>> {
    let first: Cause<'_> = error;
    std::iter::successors(Some(first), |&error| {
        if let Some(error) = error.downcast_ref::<DataFusionError>() {
            return match error {
                DataFusionError::External(inner) => Some(inner.as_ref() as Cause<'_>),
                DataFusionError::Shared(inner) => Some(inner.as_ref() as Cause<'_>),
                other => other.source(),
            };
        }
        match error.downcast_ref::<EngineError>() {
            // A shared source passes over itself.
            Some(EngineError::Read { source, .. } | EngineError::Footer { source, .. }) => {
                Some(source.as_ref() as Cause<'_>)
            }
            _ => error.source(),
        }
    })
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::parquet::errors::ParquetError;

    use super::*;

    #[test]
    fn files_that_are_gone() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let not_found = || object_store::Error::NotFound { path: "a".to_owned(), source: "gone".into() };
        let read = |source: ReadError| {
            let (file, column) = ("a.parquet".to_owned(), "c".to_owned());
            from_engine(EngineError::Read { file, row_group: 0, column, source: Arc::new(source) })
        };
        let footer = EngineError::Footer { file: "a.parquet".to_owned(), source: Arc::new(missing()) };
        let parquet = ParquetError::External(Box::new(not_found()));
        for gone in [
            DataFusionError::IoError(missing()),
            DataFusionError::ObjectStore(Box::new(not_found())),
            DataFusionError::ParquetError(Box::new(parquet)),
            DataFusionError::Shared(Arc::new(read(ReadError::Io(missing())).context("a query"))),
            read(ReadError::Store(not_found())),
            read(ReadError::Refused { status: 404, retry_after: None, source: not_found() }),
            from_engine(footer),
        ] {
            assert!(is_gone(&gone), "{gone:?}");
        }
        let refused = ReadError::Refused {
            status: 403,
            retry_after: None,
            source: object_store::Error::Generic { store: "s", source: "no".into() },
        };
        for other in
            [read(refused), read(ReadError::Cancelled), DataFusionError::Plan("not found".to_owned())]
        {
            assert!(!is_gone(&other), "{other:?}");
        }
    }
}
