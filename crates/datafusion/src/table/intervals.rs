//! Intervals of Parquet files: 12 bytes of months, days and milliseconds, marked by [`coscan_parquet`].
//! Tables show them as intervals of months, days and nanoseconds.

use std::sync::Arc;

use coscan_parquet::INTERVAL;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalMonthDayNano, IntervalUnit, Schema,
};
use datafusion::arrow::error::ArrowError;

/// The type of intervals in files.
pub(crate) const STORED: DataType = DataType::FixedSizeBinary(12);

/// The type of intervals in tables.
pub(crate) const SHOWN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Replaces marked bytes in the schema by intervals; `None` if there are none.
pub(crate) fn shown(schema: &Schema) -> Option<Schema> {
    let fields = fields(schema.fields());
    (fields != *schema.fields()).then(|| Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn fields(of: &Fields) -> Fields {
    of.iter().map(field).collect()
}

fn field(of: &FieldRef) -> FieldRef {
    let data_type = match of.data_type() {
        DataType::FixedSizeBinary(12) if of.metadata().contains_key(INTERVAL) => {
            let mut metadata = of.metadata().clone();
            metadata.remove(INTERVAL);
            return Arc::new(Field::clone(of).with_data_type(SHOWN).with_metadata(metadata));
        }
        DataType::Struct(children) => DataType::Struct(fields(children)),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::Map(entry, sorted) => DataType::Map(field(entry), *sorted),
        _ => return Arc::clone(of),
    };
    Arc::new(Field::clone(of).with_data_type(data_type))
}

/// Returns whether a column is an interval, or contains some.
pub(crate) fn has_intervals(of: &DataType) -> bool {
    match of {
        of if *of == SHOWN => true,
        DataType::Struct(children) => children.iter().any(|child| has_intervals(child.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
            has_intervals(item.data_type())
        }
        _ => false,
    }
}

/// Converts stored intervals to shown ones. Their parts are unsigned; more months or days than 31 bits hold
/// are an error.
pub(crate) fn converted(stored: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let one = |bytes: &[u8]| {
        let part =
            |at: usize| bytes[at..at + 4].iter().rev().fold(0u32, |part, byte| part << 8 | u32::from(*byte));
        let small = |part: u32| {
            i32::try_from(part)
                .map_err(|_| ArrowError::ComputeError(format!("an interval has {part} months or days")))
        };
        let nanos = i64::from(part(8)) * NANOS_PER_MILLI;
        Ok(IntervalMonthDayNano::new(small(part(0))?, small(part(4))?, nanos))
    };
    let values = stored.as_fixed_size_binary().iter().map(|value| value.map(one).transpose());
    Ok(Arc::new(values.collect::<Result<IntervalMonthDayNanoArray, ArrowError>>()?))
}
