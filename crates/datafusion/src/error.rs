//! Conversion of engine errors to external errors of DataFusion, which keep their source.

use std::any::Any;

use coscan_engine::EngineError;
use datafusion::common::DataFusionError;

/// Wraps an engine error for DataFusion. [`engine_error`] finds it again.
pub fn from_engine(error: EngineError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the engine's error at the bottom of `error`, if there is one.
pub fn engine_error(error: &DataFusionError) -> Option<&EngineError> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<EngineError>() {
            return Some(found);
        }
        if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>() {
            if let Some(found) = inner.downcast_ref::<EngineError>() {
                return Some(found);
            }
            next = Some(inner.as_ref());
            continue;
        }
        if let Some(DataFusionError::Shared(inner)) = error.downcast_ref::<DataFusionError>() {
            next = Some(inner.as_ref());
            continue;
        }
        next = error.source();
    }
    None
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
