//! Values of results in JSON, and as text in CSV.
//!
//! The forms are those of PostgreSQL and DuckDB. Nulls are `null`, also in columns, structs, lists and maps. Keys of
//! maps are texts for every type. NaN and infinities, which JSON lacks, are the texts `"NaN"`, `"Infinity"` and
//! `"-Infinity"`. Values of nested types are JSON in CSV, too.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, MapArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{LineDelimited, NullableEncoder, WriterBuilder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use arrow::util::display::{ArrayFormatter, FormatOptions};

static OPTIONS: LazyLock<EncoderOptions> = LazyLock::new(|| {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(Encoders))
});

/// Arrow's own encoding, for values for which it is right.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// Prefix of the text that Arrow prints for a value that cannot be shown.
const ERROR: &str = "ERROR: ";

/// One JSON object per row; there is no line break inside an object.
pub fn as_lines(batch: &RecordBatch) -> anyhow::Result<Vec<u8>> {
    let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(Encoders));
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(batch)?;
    writer.finish()?;
    let lines = writer.into_inner();
    check(&lines, std::slice::from_ref(batch))?;
    Ok(lines)
}

/// The batch with nested values as texts.
pub fn without_nested(batch: &RecordBatch) -> anyhow::Result<RecordBatch> {
    let schema = batch.schema_ref();
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let (mut fields, mut columns) = (schema.fields().to_vec(), batch.columns().to_vec());
    for (field, column) in fields.iter_mut().zip(&mut columns) {
        if field.data_type().is_nested() {
            *column = texts(field, column)?;
            *field = Arc::new(Field::new(field.name(), DataType::Utf8, true));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

fn texts(field: &FieldRef, column: &ArrayRef) -> anyhow::Result<ArrayRef> {
    let mut encoder = make_encoder(field, column, &OPTIONS)?;
    let mut text = |row: usize| -> anyhow::Result<Option<String>> {
        if encoder.is_null(row) {
            return Ok(None);
        }
        let mut out = Vec::new();
        encoder.encode(row, &mut out);
        Ok(Some(String::from_utf8(out)?))
    };
    let texts = (0..column.len()).map(&mut text).collect::<anyhow::Result<StringArray>>()?;
    let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
    check(texts.value_data(), &[RecordBatch::try_new(schema, vec![Arc::clone(column)])?])?;
    Ok(Arc::new(texts))
}

/// Fails if a value of the batches cannot be shown. Only printed text with an error mark is searched in detail.
fn check(printed: &[u8], batches: &[RecordBatch]) -> anyhow::Result<()> {
    if !printed.windows(ERROR.len()).any(|text| text == ERROR.as_bytes()) {
        return Ok(());
    }
    explain(batches)
}

/// Fails if a value of the batches cannot be shown.
pub fn explain(batches: &[RecordBatch]) -> anyhow::Result<()> {
    let options = FormatOptions::default();
    let mut text = String::new();
    for batch in batches {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let formatter = ArrayFormatter::try_new(column, &options)?;
            for row in 0..column.len() {
                text.clear();
                if let Err(error) = formatter.value(row).write(&mut text) {
                    anyhow::bail!(
                        "a value of column {} ({}) cannot be shown: {error}; cast the column to another type, such as \
                         BIGINT, or leave it out",
                        field.name(),
                        field.data_type()
                    );
                }
            }
        }
    }
    Ok(())
}

/// Encoders of types for which Arrow's own encoding is not used.
#[derive(Debug)]
struct Encoders;

impl EncoderFactory for Encoders {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float16 => Floats::<Float16Type>::boxed(field, array)?,
            DataType::Float32 => Floats::<Float32Type>::boxed(field, array)?,
            DataType::Float64 => Floats::<Float64Type>::boxed(field, array)?,
            DataType::Map(..) => Maps::boxed(array.as_map())?,
            DataType::Union(..) => Box::new(Texts(ArrayFormatter::try_new(array, &SHOWN)?)),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

/// Options for texts of values, with errors in place of values that cannot be shown.
static SHOWN: FormatOptions<'static> = FormatOptions::new().with_display_error(true);

/// Floating-point numbers.
struct Floats<'a, T: ArrowPrimitiveType> {
    array: &'a PrimitiveArray<T>,
    finite: NullableEncoder<'a>,
}

impl<'a, T: ArrowPrimitiveType<Native: Into<f64>>> Floats<'a, T> {
    fn boxed(field: &'a FieldRef, array: &'a dyn Array) -> Result<Box<dyn Encoder + 'a>, ArrowError> {
        let finite = make_encoder(field, array, &PLAIN)?;
        Ok(Box::new(Floats::<T> { array: array.as_primitive(), finite }))
    }
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> Encoder for Floats<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value: f64 = self.array.value(row).into();
        let text: &[u8] = match value {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            value if value.is_nan() => b"\"NaN\"",
            _ => return self.finite.encode(row, out),
        };
        out.extend_from_slice(text);
    }
}

/// Maps as objects.
struct Maps<'a> {
    map: &'a MapArray,
    keys: ArrayFormatter<'a>,
    values: NullableEncoder<'a>,
}

impl<'a> Maps<'a> {
    fn boxed(map: &'a MapArray) -> Result<Box<dyn Encoder + 'a>, ArrowError> {
        let DataType::Map(entries, _) = map.data_type() else {
            return Err(ArrowError::JsonError(format!("a map of type {}", map.data_type())));
        };
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(ArrowError::JsonError(format!(
                "a map whose entries are of type {}",
                entries.data_type()
            )));
        };
        let value = &fields[1];
        let keys = ArrayFormatter::try_new(map.keys().as_ref(), &SHOWN)?;
        let values = make_encoder(value, map.values().as_ref(), &OPTIONS)?;
        Ok(Box::new(Maps { map, keys, values }))
    }
}

impl Encoder for Maps<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let offsets = self.map.value_offsets();
        out.push(b'{');
        for entry in offsets[row] as usize..offsets[row + 1] as usize {
            if entry > offsets[row] as usize {
                out.push(b',');
            }
            push_text(&self.keys.value(entry).to_string(), out);
            out.push(b':');
            match self.values.is_null(entry) {
                true => out.extend_from_slice(b"null"),
                false => self.values.encode(entry, out),
            }
        }
        out.push(b'}');
    }
}

/// Values as texts.
struct Texts<'a>(ArrayFormatter<'a>);

impl Encoder for Texts<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        push_text(&self.0.value(row).to_string(), out);
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::builder::{Float64Builder, Int32Builder, MapBuilder, StringBuilder};
    use arrow::array::{Float64Array, Int64Array, StructArray, Time64MicrosecondArray};

    fn lines(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)));
        String::from_utf8(as_lines(&batch.unwrap()).unwrap()).unwrap()
    }

    fn map() -> ArrayRef {
        let mut maps = MapBuilder::new(None, Int32Builder::new(), Float64Builder::new());
        maps.keys().append_value(1);
        maps.values().append_null();
        maps.keys().append_value(-2);
        maps.values().append_value(f64::NAN);
        maps.append(true).unwrap();
        maps.append(false).unwrap();
        maps.append(true).unwrap();
        Arc::new(maps.finish())
    }

    #[test]
    fn maps_keep_all_entries_and_have_keys_of_any_type() {
        let expected = "{\"m\":{\"1\":null,\"-2\":\"NaN\"}}\n{\"m\":null}\n{\"m\":{}}\n";
        assert_eq!(lines(vec![("m", map())]), expected);
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        maps.keys().append_value("a \"b\"");
        maps.values().append_null();
        maps.append(true).unwrap();
        let maps: ArrayRef = Arc::new(maps.finish());
        // A part of an array gives the same.
        assert_eq!(lines(vec![("m", maps)]), "{\"m\":{\"a \\\"b\\\"\":null}}\n");
        assert_eq!(lines(vec![("m", map().slice(2, 1))]), "{\"m\":{}}\n");
    }

    #[test]
    fn numbers_that_json_does_not_have_are_texts() {
        let values = [Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY), None, Some(1.5)];
        let expected =
            "{\"f\":\"NaN\"}\n{\"f\":\"Infinity\"}\n{\"f\":\"-Infinity\"}\n{\"f\":null}\n{\"f\":1.5}\n";
        assert_eq!(lines(vec![("f", Arc::new(Float64Array::from(values.to_vec())))]), expected);
    }

    #[test]
    fn nested_values_are_json_in_csv() {
        let fields = vec![
            (
                Arc::new(Field::new("a", DataType::Int64, true)),
                Arc::new(Int64Array::from(vec![Some(1), None, None])) as ArrayRef,
            ),
            (Arc::new(Field::new("m", map().data_type().clone(), true)), map()),
        ];
        let batch =
            RecordBatch::try_from_iter(vec![("s", Arc::new(StructArray::from(fields)) as ArrayRef)]).unwrap();
        let texts = without_nested(&batch).unwrap();
        let texts: Vec<_> = texts.column(0).as_string::<i32>().iter().flatten().collect();
        let expected = [
            "{\"a\":1,\"m\":{\"1\":null,\"-2\":\"NaN\"}}",
            "{\"a\":null,\"m\":null}",
            "{\"a\":null,\"m\":{}}",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_cannot_be_shown_is_an_error() {
        let times: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![0, -1]));
        let batch = RecordBatch::try_from_iter(vec![("t", times)]).unwrap();
        let error = as_lines(&batch).unwrap_err().to_string();
        assert!(error.starts_with("a value of column t (Time64(µs)) cannot be shown"), "{error}");
        // A text that looks like an error mark is only a text.
        let text: ArrayRef = Arc::new(StringArray::from(vec!["ERROR: Cast error"]));
        assert_eq!(lines(vec![("s", text)]), "{\"s\":\"ERROR: Cast error\"}\n");
    }
}
