//! PostgreSQL's code for an error of the query engine.
//!
//! Clients act on the first two letters. After 40 they retry, 53 and 58 are for the operator, and 22 and 42 for the
//! author of the statement. DataFusion has kinds of errors but no codes. If a kind is too broad, words of the
//! message select the code. If these words change, the code falls back to that of the kind.

use std::io;

use coscan_datafusion::engine_error;
use coscan_engine::{EngineError, ReadError};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;

/// A file was replaced while it was read. PostgreSQL uses this code for a query on a standby whose rows were
/// removed. The statement is correct, and clients that retry at all retry after this code.
pub(crate) const REPLACED: &str = "40001";

/// An error of the query engine without a better code: a bug, or an unknown message.
const INTERNAL: &str = "XX000";

/// Parts of planning errors, with their codes.
const PLANNING: [(&str, &str); 25] = [
    ("specified in USING clause does not exist", "42703"),
    ("appears more than once in", "42702"),
    ("columns available but", "42P10"),
    ("WITH query name", "42712"),
    ("specified more than once", "42701"),
    ("in non-recursive term but type", "42804"),
    ("malformed array literal", "22P02"),
    ("of JSON does not exist", "42883"),
    ("requires array on right side", "42809"),
    ("not found", "42P01"),
    ("Invalid function", "42883"),
    ("Failed to coerce arguments", "42883"),
    ("failed to match any signature", "42883"),
    ("Cannot coerce", "42883"),
    ("Cannot infer common", "42883"),
    ("must be in GROUP BY", "42803"),
    ("must appear in the GROUP BY", "42803"),
    ("Aggregate functions are not allowed", "42803"),
    ("non-boolean predicate", "42804"),
    ("Order by column out of bounds", "42P10"),
    ("different number of columns", "42601"),
    ("Inconsistent data length", "42601"),
    ("LIMIT must be", "2201W"),
    ("OFFSET must be", "2201X"),
    ("Placeholder", "42P02"),
];

/// Parts of execution errors, with their codes.
const RUNNING: [(&str, &str); 15] = [
    ("zero raised to a negative power", "2201F"),
    ("invalid argument for width_bucket", "2201G"),
    ("thresholds array must not contain NULLs", "22004"),
    ("invalid input syntax for type", "22P02"),
    ("unsupported Unicode escape sequence", "22P05"),
    ("cannot get array length", "22023"),
    ("Scalar subquery returned more than one row", "21000"),
    ("Placeholder", "42P02"),
    ("Prepared statement", "26000"),
    ("verflow", "22003"),
    ("Can't cast value", "22003"),
    ("field value out of range", "22008"),
    ("invalid regular expression", "2201B"),
    ("are corrupt", "XX001"),
    ("planning gave up", INTERNAL),
];

/// The code of an error with this text.
pub(crate) fn sqlstate(error: &DataFusionError, text: &str) -> &'static str {
    if let Some(error) = engine_error(error) {
        return of_engine(error);
    }
    match error.find_root() {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::SchemaError(error, _) => match **error {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42P10",
        },
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::ResourcesExhausted(_) => "53200",
        DataFusionError::Configuration(_) => "22023",
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::ObjectStore(error) => of_store(error),
        DataFusionError::IoError(error) if error.kind() == io::ErrorKind::NotFound => "58P01",
        DataFusionError::IoError(_) => "58030",
        DataFusionError::ParquetError(error) => of_parquet(error, text),
        DataFusionError::Plan(_) => with(&PLANNING, text, "42000"),
        // Functions return this for values that they cannot take.
        DataFusionError::Execution(_) => with(&RUNNING, text, "22000"),
        DataFusionError::External(_) if text.contains("Invalid regex") => "2201B",
        _ => INTERNAL,
    }
}

fn of_store(error: &object_store::Error) -> &'static str {
    match error {
        object_store::Error::NotFound { .. } => "58P01",
        _ => "58030",
    }
}

fn of_parquet(error: &ParquetError, text: &str) -> &'static str {
    match error {
        // Conditions are evaluated while pages are decoded.
        ParquetError::ArrowError(_) | ParquetError::External(_) if divides_by_zero(text) => "22012",
        ParquetError::External(source) if source.is::<ReadError>() => "58030",
        ParquetError::External(source) => {
            let of_store = source.downcast_ref::<object_store::Error>().map(of_store);
            of_store.unwrap_or_else(|| with(&RUNNING, text, "XX001"))
        }
        ParquetError::ArrowError(_) => with(&RUNNING, text, "XX001"),
        _ => "XX001",
    }
}

/// Returns whether the text is of a division by zero. DataFusion's reader shows the error of a condition in Rust's form.
fn divides_by_zero(text: &str) -> bool {
    text.contains("Divide by zero") || text.contains("DivideByZero")
}

fn of_engine(error: &EngineError) -> &'static str {
    match error {
        EngineError::FileReplaced { .. } => REPLACED,
        EngineError::Read { .. } | EngineError::Footer { .. } => "58030",
        EngineError::Corrupt { .. } | EngineError::Schema { .. } | EngineError::WrongSize { .. } => "XX001",
        EngineError::BufferTooSmall { .. } => "53200",
        EngineError::Config(_) | EngineError::Setting(_) | EngineError::DeviceProfile { .. } => "22023",
        EngineError::FixedSetting { .. } => "55P02",
        _ => INTERNAL,
    }
}

fn of_arrow(error: &ArrowError) -> &'static str {
    match error {
        ArrowError::DivideByZero => "22012",
        ArrowError::ArithmeticOverflow(_) => "22003",
        ArrowError::ComputeError(text) if text.contains("overflow") => "22003",
        ArrowError::CastError(text) if text.contains("string") => "22P02",
        ArrowError::CastError(text) if text.starts_with("Can't cast value") => "22003",
        ArrowError::CastError(text) if text.contains("is out of range") => "22003",
        ArrowError::InvalidArgumentError(text) if text.contains("is too large to store") => "22003",
        ArrowError::ParseError(text) if text.contains("interval") || text.contains("timestamp") => "22007",
        ArrowError::ParseError(_) => "22P02",
        ArrowError::OffsetOverflowError(_) | ArrowError::MemoryError(_) => "54000",
        ArrowError::NotYetImplemented(_) => "0A000",
        ArrowError::IoError(..) => "58030",
        ArrowError::ParquetError(_) => "XX001",
        _ => "22000",
    }
}

fn with(known: &[(&str, &'static str)], text: &str, otherwise: &'static str) -> &'static str {
    known.iter().find(|(words, _)| text.contains(words)).map_or(otherwise, |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_datafusion::from_engine;
    use std::sync::Arc;

    #[test]
    fn the_engines_errors_are_found_wherever_they_are() {
        let replaced = || {
            from_engine(EngineError::FileReplaced {
                file: "t.parquet".to_owned(),
                detail: "other bytes".to_owned(),
            })
        };
        let wrapped = [
            replaced(),
            replaced().context("while reading"),
            DataFusionError::Shared(Arc::new(replaced())),
            DataFusionError::External(Box::new(replaced())),
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(replaced()))), None),
        ];
        for error in wrapped {
            assert_eq!(sqlstate(&error, &error.to_string()), REPLACED, "{error:?}");
        }
        let broken = from_engine(EngineError::Broken("a bug".to_owned()));
        assert_eq!(sqlstate(&broken, &broken.to_string()), INTERNAL);
    }
}
