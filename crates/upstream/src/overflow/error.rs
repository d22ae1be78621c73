//! The error of a number that is out of range.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, exec_datafusion_err};

/// Builds the error of a value that its type does not hold. The first words are those of PostgreSQL.
pub(crate) fn out_of_range(of: &DataType, what: &str) -> DataFusionError {
    let advice = match of {
        DataType::Decimal32(..) | DataType::Decimal64(..) => "cast to a DECIMAL of more digits",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "cast to DOUBLE",
        of if of.is_integer() => "cast an argument to DECIMAL(38, 0)",
        _ => "use smaller values",
    };
    exec_datafusion_err!("{} out of range: {what} overflows; {advice}", name_of(of))
}

/// Returns the name of a type in SQL.
pub(crate) fn name_of(of: &DataType) -> &'static str {
    match of {
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "integer unsigned",
        DataType::UInt64 => "bigint unsigned",
        of if of.is_decimal() => "numeric",
        DataType::Duration(_) | DataType::Interval(_) => "interval",
        _ => "value",
    }
}
