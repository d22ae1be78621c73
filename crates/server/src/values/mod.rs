//! Values in PostgreSQL's text and binary formats, for every Arrow type with a PostgreSQL type: in messages to clients,
//! and in casts to text.
//!
//! The type of a batch's column is inspected once and selects one of a few writers. Digits below microseconds are
//! dropped in both formats.
//!
//! | module | values |
//! |---|---|
//! | `column` | all: the writer of a column, and numbers, texts and bytes |
//! | `decimal`, `float` | numbers with a point |
//! | `times`, `interval` | dates, times of day, timestamps; intervals |
//! | `error` | a value that cannot be written or read |
//! | `nested` | lists and structs |
//! | `numeric` | numbers with a point, from either format |

mod column;
mod decimal;
mod error;
mod float;
mod interval;
mod nested;
pub(crate) mod numeric;
mod times;

use std::str::FromStr;
use std::sync::Arc;

use arrow_pg::datatypes::field_into_pg_type;
use bytes::{BufMut, BytesMut};
use coscan_datafusion::is_uuid;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions as ArrowOptions};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};
use pgwire::messages::data::DataRow;
use pgwire::types::format::FormatOptions;

use column::Column;
pub(crate) use error::ValueError;
use error::{Result, error};
use interval::IntervalStyle;
use times::DateStyle;

/// The key in the metadata of a field whose texts have a type of their own in PostgreSQL. The value is the name of the
/// type.
pub(crate) const TYPE: &str = "coscan.type";

/// PostgreSQL's type of texts that are not of the type `text`.
pub(crate) fn type_of_texts(field: &Field) -> Option<Type> {
    match field.metadata().get(TYPE)?.as_str() {
        "json" => Some(Type::JSON),
        "jsonb" => Some(Type::JSONB),
        "uuid" => Some(Type::UUID),
        _ => None,
    }
}

/// Returns true for a column with JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    matches!(type_of_texts(field), Some(Type::JSON | Type::JSONB))
}

/// The type of a column that the client gets.
pub(crate) fn told_type(field: &Field) -> Result<Type> {
    if let Some(of) = type_of_texts(field).filter(|_| field.data_type().is_string()) {
        return Ok(of);
    }
    // A statement reads a text of these bytes.
    if is_uuid(field) {
        return Ok(Type::UUID);
    }
    Ok(match field.data_type() {
        // PostgreSQL resolves values of unknown type in the same way.
        DataType::Null => Type::TEXT,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Dictionary(_, of) => told_type(&field.clone().with_data_type(of.as_ref().clone()))?,
        DataType::RunEndEncoded(_, of) => told_type(of)?,
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::FixedSizeList(of, _)
        | DataType::ListView(of)
        | DataType::LargeListView(of) => array_of(&told_type(of)?, of)?,
        DataType::Struct(fields) => {
            // Types of fields are sent with each value. A field without a type is an error here.
            fields.iter().try_for_each(|field| told_type(field).map(drop))?;
            Type::RECORD
        }
        _ => field_into_pg_type(&Arc::new(field.clone()))
            .map_err(|failed| error("0A000", failed.to_string()))?,
    })
}

/// The type of arrays with elements of this one.
fn array_of(element: &Type, field: &Field) -> Result<Type> {
    Ok(match *element {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::NUMERIC => Type::NUMERIC_ARRAY,
        Type::TEXT => Type::TEXT_ARRAY,
        Type::BYTEA => Type::BYTEA_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIME => Type::TIME_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        Type::INTERVAL => Type::INTERVAL_ARRAY,
        Type::RECORD => Type::RECORD_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::CHAR => Type::CHAR_ARRAY,
        Type::JSON => Type::JSON_ARRAY,
        Type::JSONB => Type::JSONB_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        _ => {
            let of = field.data_type();
            return Err(error(
                "0A000",
                format!("lists of {of} are not supported: cast the elements, or unnest them"),
            ));
        }
    })
}

/// The connection's settings for the format of values.
#[derive(Clone, Copy)]
pub(super) struct Style {
    dates: DateStyle,
    intervals: IntervalStyle,
    escapes_bytes: bool,
    extra_float_digits: i8,
    zone: Option<Tz>,
}

impl Style {
    fn of(options: &FormatOptions) -> Self {
        Style {
            dates: DateStyle::of(&options.date_style),
            intervals: IntervalStyle::of(&options.interval_style),
            escapes_bytes: options.bytea_output.eq_ignore_ascii_case("escape"),
            extra_float_digits: options.extra_float_digits,
            zone: Tz::from_str(&options.time_zone).ok(),
        }
    }
}

/// The rows of a batch as messages.
pub(crate) fn encode(fields: &[FieldInfo], batch: &RecordBatch) -> Result<Vec<DataRow>> {
    let style = fields
        .first()
        .map_or_else(|| Style::of(&FormatOptions::default()), |of| Style::of(of.format_options()));
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields()).zip(fields).map(|((array, field), told)| {
        Column::of(array, field, told.datatype(), told.format() == FieldFormat::Binary, &style)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let count = i16::try_from(columns.len()).map_err(|_| error("54011", "a row has too many columns"))?;
    let mut rows = Vec::with_capacity(batch.num_rows());
    let mut data = BytesMut::with_capacity(batch.num_rows() * columns.len() * 12);
    for row in 0..batch.num_rows() {
        for column in &columns {
            column.sized(row, &mut data)?;
        }
        rows.push(DataRow::new(data.split(), count));
    }
    Ok(rows)
}

/// The values as texts, as a cast to text gives them: in ISO style, times with a zone in `zone`.
pub(crate) fn texts(array: &ArrayRef, zone: Option<Tz>) -> Result<StringArray> {
    let field = Field::new("", array.data_type().clone(), true);
    let style = Style { zone, ..Style::of(&FormatOptions::default()) };
    let column = Column::of(array, &field, &told_type(&field)?, false, &style)?;
    let (mut texts, mut text) =
        (StringBuilder::with_capacity(array.len(), 16 * array.len()), BytesMut::new());
    for row in 0..array.len() {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        column.put(row, &mut text)?;
        let written = std::str::from_utf8(&text).map_err(|_| error("22021", "a value is no UTF-8"))?;
        texts.append_value(written);
    }
    Ok(texts.finish())
}

/// Values as a person reads them: as PostgreSQL writes them, or as the query engine does where PostgreSQL has no such
/// type. `None` for null.
///
/// # Errors
///
/// If a value has no text, such as a time that is none.
pub fn shown_values(array: &ArrayRef) -> std::result::Result<Vec<Option<String>>, ArrowError> {
    if let Ok(texts) = texts(array, None) {
        return Ok(texts.iter().map(|text| text.map(str::to_owned)).collect());
    }
    let options = ArrowOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let nulls = array.logical_nulls();
    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let text = |row| match is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    };
    (0..array.len()).map(text).collect()
}

/// Writes a value after its length, which is known afterwards.
fn with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<()>) -> Result<()> {
    let at = out.len();
    out.put_i32(0);
    write(out)?;
    let length = i32::try_from(out.len() - at - 4);
    let length = length.map_err(|_| error("54000", "a value is longer than the protocol allows: 2 GB"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
