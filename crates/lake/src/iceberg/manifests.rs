//! Manifests: the files of a snapshot, in Avro.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow_avro::compression::CompressionCodec;
use arrow_avro::reader::{ReaderBuilder, read_header_info};
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err};
use serde_json::Value;

/// A manifest in the list of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) path: String,
    /// The id of the partition specification of its files.
    pub(super) spec: i32,
    /// The number that its files have if they say none.
    pub(super) sequence: i64,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Rows,
    /// Positions of deleted rows.
    Positions,
    /// Values of deleted rows.
    Values,
}

/// A file in a manifest.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) content: Content,
    pub(super) path: String,
    /// The format of the file, in capitals.
    pub(super) format: String,
    pub(super) spec: i32,
    /// The values of the partition, in the order of its fields.
    pub(super) partition: Vec<ScalarValue>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Deletes apply to files of smaller numbers.
    pub(super) sequence: i64,
    /// By the id of the column, as are those below.
    pub(super) lower: HashMap<i32, Vec<u8>>,
    pub(super) upper: HashMap<i32, Vec<u8>>,
    pub(super) nulls: HashMap<i32, i64>,
    pub(super) nans: HashMap<i32, i64>,
    /// The columns whose values are deleted.
    pub(super) equality: Vec<i32>,
    /// The only file whose rows are deleted.
    pub(super) referenced: Option<String>,
    /// The place of a vector: offset and length.
    pub(super) part: Option<(u64, u64)>,
}

impl Entry {
    /// The memory that it takes, about.
    pub(super) fn memory(&self) -> usize {
        let bounds = self.lower.values().chain(self.upper.values());
        let counts = self.nulls.len() + self.nans.len();
        size_of::<Self>()
            + self.path.len()
            + bounds.map(|bound| size_of::<(i32, Vec<u8>)>() + bound.len()).sum::<usize>()
            + counts * size_of::<(i32, i64)>()
            + self.partition.iter().map(ScalarValue::size).sum::<usize>()
    }
}

/// Reads a list of manifests.
pub(super) fn list(bytes: &Bytes) -> Result<Vec<Manifest>> {
    let mut found = Vec::new();
    for batch in batches(bytes)? {
        let batch = Records::of(batch?);
        for row in 0..batch.rows() {
            found.push(Manifest {
                path: batch.text(&["manifest_path"], row)?.ok_or_else(|| lacks("manifest_path"))?,
                spec: batch.number(&["partition_spec_id"], row)?.unwrap_or(0) as i32,
                sequence: batch.number(&["sequence_number"], row)?.unwrap_or(0),
            });
        }
    }
    Ok(found)
}

/// Reads the files of a manifest that are not deleted ones.
pub(super) fn entries(bytes: &Bytes, manifest: &Manifest) -> Result<Vec<Entry>> {
    const DELETED: i64 = 2;
    let mut found = Vec::new();
    for batch in batches(bytes)? {
        let batch = Records::of(batch?);
        for row in 0..batch.rows() {
            if batch.number(&["status"], row)? != Some(DELETED) {
                found.push(batch.entry(row, manifest)?);
            }
        }
    }
    Ok(found)
}

fn batches(bytes: &Bytes) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let reader = ReaderBuilder::new().build(Cursor::new(readable(bytes)?))?;
    Ok(reader.map(|batch| Ok(batch?)))
}

/// The file with a schema that arrow-avro 59 reads: it fails on records without fields, such as the partition of a table without
/// one, and on names with escapes, such as those of Python for `ä`. Neither changes the bytes of rows.
fn readable(bytes: &Bytes) -> Result<Bytes> {
    let header = read_header_info(Cursor::new(bytes)).map_err(ArrowError::from)?;
    let written = header.writer_schema().map_err(ArrowError::from)?.json_string;
    let schema: Value =
        serde_json::from_str(&written).map_err(|error| DataFusionError::External(Box::new(error)))?;
    let read = plain(schema.clone());
    if read == schema && !written.contains('\\') {
        return Ok(bytes.clone());
    }
    let codec = match header.compression().map_err(ArrowError::from)? {
        None => "null",
        Some(CompressionCodec::Deflate) => "deflate",
        Some(CompressionCodec::Snappy) => "snappy",
        Some(CompressionCodec::ZStandard) => "zstandard",
        Some(CompressionCodec::Bzip2) => "bzip2",
        Some(CompressionCodec::Xz) => "xz",
    };
    let mut file = b"Obj\x01".to_vec();
    let entries = [("avro.codec", codec.to_owned()), ("avro.schema", read.to_string())];
    add_number(entries.len(), &mut file);
    for text in entries.iter().flat_map(|(key, value)| [*key, value.as_str()]) {
        add_number(text.len(), &mut file);
        file.extend_from_slice(text.as_bytes());
    }
    add_number(0, &mut file);
    file.extend_from_slice(&header.sync());
    let rows = usize::try_from(header.header_len()).ok().and_then(|header| bytes.get(header..));
    file.extend_from_slice(rows.unwrap_or_default());
    Ok(file.into())
}

/// Adds a number as Avro writes it: twice the number, in parts of seven bits.
fn add_number(number: usize, file: &mut Vec<u8>) {
    let mut rest = (number as u64) << 1;
    while rest > 0x7f {
        file.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    file.push(rest as u8);
}

/// The schema without fields that are records without fields. Fields whose names need escapes get others: partitions are read by
/// position.
fn plain(mut schema: Value) -> Value {
    let is_empty = |field: &Value| {
        let record = &field["type"];
        record["type"] == "record" && record["fields"].as_array().is_some_and(Vec::is_empty)
    };
    if let Some(fields) = schema.get_mut("fields").and_then(Value::as_array_mut) {
        fields.retain(|field| !is_empty(field));
        for (at, field) in fields.iter_mut().enumerate() {
            field["type"] = plain(field["type"].take());
            let has_escapes = |name: &str| name.contains(|c: char| c.is_control() || c == '"' || c == '\\');
            if field["name"].as_str().is_some_and(has_escapes) {
                field["name"] = format!("_{at}").into();
            }
        }
    }
    schema
}

fn lacks(field: &str) -> DataFusionError {
    exec_datafusion_err!("a manifest lacks {field}")
}

/// The value in the widest type of its kind: a column may have been narrower when a file was written.
fn widest(value: ScalarValue) -> Result<ScalarValue> {
    let of = match value.data_type() {
        DataType::Int32 => DataType::Int64,
        DataType::Float32 => DataType::Float64,
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
        _ => return Ok(value),
    };
    value.cast_to(&of)
}

/// Records of an Avro file.
struct Records(StructArray);

impl Records {
    fn of(batch: RecordBatch) -> Self {
        Records(batch.into())
    }

    fn rows(&self) -> usize {
        self.0.len()
    }

    /// The column of this path, if the writer has one.
    fn column(&self, path: &[&str]) -> Option<ArrayRef> {
        let (last, outer) = path.split_last()?;
        let mut at = self.0.clone();
        for name in outer {
            at = at.column_by_name(name)?.as_struct_opt()?.clone();
        }
        at.column_by_name(last).cloned()
    }

    fn number(&self, path: &[&str], row: usize) -> Result<Option<i64>> {
        let Some(column) = self.column(path).filter(|column| column.is_valid(row)) else { return Ok(None) };
        let value = cast(&column.slice(row, 1), &DataType::Int64)?;
        Ok(value.is_valid(0).then(|| value.as_primitive::<Int64Type>().value(0)))
    }

    fn text(&self, path: &[&str], row: usize) -> Result<Option<String>> {
        let Some(column) = self.column(path).filter(|column| column.is_valid(row)) else { return Ok(None) };
        let value = cast(&column.slice(row, 1), &DataType::Utf8)?;
        Ok(Some(value.as_string::<i32>().value(0).to_owned()))
    }

    fn list(&self, path: &[&str], row: usize) -> Option<ArrayRef> {
        let column = self.column(path).filter(|column| column.is_valid(row))?;
        if let Some(map) = column.as_map_opt() {
            return Some(Arc::new(map.value(row)));
        }
        Some(column.as_list_opt::<i32>()?.value(row))
    }

    /// Pairs of a column's id and a value.
    fn pairs<T>(
        &self,
        name: &str,
        row: usize,
        value: impl Fn(&ArrayRef, usize) -> Option<T>,
    ) -> Result<HashMap<i32, T>> {
        let Some(pairs) = self.list(&["data_file", name], row) else { return Ok(HashMap::new()) };
        let pairs =
            pairs.as_struct_opt().filter(|pairs| pairs.num_columns() == 2).ok_or_else(|| lacks(name))?;
        let keys = cast(pairs.column(0), &DataType::Int32)?;
        let keys = keys.as_primitive::<Int32Type>();
        let of = |at: usize| Some((keys.value(at), value(pairs.column(1), at)?));
        Ok((0..pairs.len()).filter_map(of).collect())
    }

    fn entry(&self, row: usize, manifest: &Manifest) -> Result<Entry> {
        let in_file = |name: &str| self.number(&["data_file", name], row);
        let unsigned = |name: &'static str| {
            let value = in_file(name)?.ok_or_else(|| lacks(name))?;
            u64::try_from(value).map_err(|_| exec_datafusion_err!("a manifest has {name} = {value}"))
        };
        let text = |name: &str| self.text(&["data_file", name], row);
        let content = match in_file("content")?.unwrap_or(0) {
            0 => Content::Rows,
            1 => Content::Positions,
            2 => Content::Values,
            other => return Err(exec_datafusion_err!("a manifest has files with content {other}")),
        };
        let partition = match self.column(&["data_file", "partition"]) {
            Some(values) => {
                let values = values.as_struct_opt().ok_or_else(|| lacks("partition"))?;
                let values = values.columns().iter();
                values
                    .map(|values| widest(ScalarValue::try_from_array(values, row)?))
                    .collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        let bytes = |values: &ArrayRef, at: usize| {
            let values = values.as_binary_opt::<i32>()?;
            values.is_valid(at).then(|| values.value(at).to_vec())
        };
        let count = |values: &ArrayRef, at: usize| {
            let values = values.as_primitive_opt::<Int64Type>()?;
            values.is_valid(at).then(|| values.value(at))
        };
        let equality = match self.list(&["data_file", "equality_ids"], row) {
            Some(ids) => cast(&ids, &DataType::Int32)?.as_primitive::<Int32Type>().values().to_vec(),
            None => Vec::new(),
        };
        let (offset, length) = (in_file("content_offset")?, in_file("content_size_in_bytes")?);
        let part = offset
            .zip(length)
            .and_then(|(offset, length)| Some((offset.try_into().ok()?, length.try_into().ok()?)));
        Ok(Entry {
            content,
            path: text("file_path")?.ok_or_else(|| lacks("file_path"))?,
            format: text("file_format")?.unwrap_or_default().to_uppercase(),
            spec: manifest.spec,
            partition,
            rows: unsigned("record_count")?,
            bytes: unsigned("file_size_in_bytes")?,
            sequence: self.number(&["sequence_number"], row)?.unwrap_or(manifest.sequence),
            lower: self.pairs("lower_bounds", row, bytes)?,
            upper: self.pairs("upper_bounds", row, bytes)?,
            nulls: self.pairs("null_value_counts", row, count)?,
            nans: self.pairs("nan_value_counts", row, count)?,
            equality,
            referenced: text("referenced_data_file")?,
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_that_arrow_does_not_read() {
        let schema = r#"{"type": "record", "name": "r", "fields": [
            {"name": "\u00e4", "type": "int"}, {"name": "a\"b", "type": "int"},
            {"name": "none", "type": {"type": "record", "name": "e", "fields": []}}
        ]}"#;
        let mut file = b"Obj\x01".to_vec();
        add_number(1, &mut file);
        for text in ["avro.schema", schema] {
            add_number(text.len(), &mut file);
            file.extend_from_slice(text.as_bytes());
        }
        add_number(0, &mut file);
        file.extend([9; 16]);
        // One row of three bytes, with 7 and 300.
        add_number(1, &mut file);
        add_number(3, &mut file);
        add_number(7, &mut file);
        add_number(300, &mut file);
        file.extend([9; 16]);
        let file = Bytes::from(file);
        let mut read = batches(&file).expect("a file");
        let batch = read.next().expect("a batch").expect("a row");
        assert!(read.next().is_none());
        let number = |at: usize| batch.column(at).as_primitive::<Int32Type>().value(0);
        assert_eq!((batch.num_rows(), batch.num_columns(), number(0), number(1)), (1, 2, 7, 300));
        assert_eq!(batch.schema().field(0).name(), "ä");
    }
}
